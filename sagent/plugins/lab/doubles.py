"""The doubles of a replay: a model, tools and a policy that play a recorded run again, and check that the loop behaves
the same."""

import asyncio
import difflib
import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import field
from typing import NamedTuple, NoReturn

from sagent.codec import encode_message
from sagent.context.calls import MAX_OUTPUT_CHARS
from sagent.engine.dispatch import INTERRUPTED
from sagent.errors import ModelError, SagentError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import JsonObject, canonical_bytes, json_dump, sha256_hex
from sagent.lib.text import one_line
from sagent.messages import DENIED, Message, ToolCall, ToolResult
from sagent.model import Delta, ModelLimits, Reply, Request, RequestDigest, TextPart
from sagent.peer import Action, Inject, Stop, Switch
from sagent.plugins.lab.rebuild import Preparing, Rebuilder, RebuiltRequest, SideCalls
from sagent.plugins.lab.recording import Turn
from sagent.policy import Allow, Deny, Verdict
from sagent.policy import Turn as Judged
from sagent.session.contents import RequestSent, SwitchedEntry
from sagent.tool import Effect, Harmless, RunContext, ToolOutput, Workspace
from sagent.usage import Charge, Usage

_MAX_ROUNDS = 10_000  # rounds of the event loop
_SHOWN = "\nThe end of what it had shown:\n"
_REFUSED = ("Invalid arguments for ", "The arguments of ")  # starts of results of calls rejected for their arguments
_MAX_DIFF_LINES = 60
_CAPPED = "output limits as they were sent: the budget or the listing that they come from is not in the log"
_UNSAID = "requests whose reply was cut because it repeated itself: their bytes are not in the log"
_SCHEMAS = (b'"json_schema"', b'"responseJsonSchema"', b'"json_object"')


class RecordingEnded(SagentError):
    """The recording has no more of this run; the loop is not at fault."""

    kind = "ended"


class Divergence(SagentError):
    """The replay differs from the recording: `what` is concerned, and the logged and the actual text, as lines of a
    unified diff if both exist."""

    kind = "diverged"

    def __init__(
        self, turn: int, entry: str, what: str, expected: str, came: str, diff: tuple[str, ...] = (), hint: str = ""
    ) -> None:
        super().__init__(f"turn {turn}: {what}")
        self.turn, self.entry, self.what, self.expected, self.came = turn, entry, what, expected, came
        self.diff, self.hint = diff, hint


@dataclass(slots=True)
class Replayed:
    """The progress of one agent's replay. `requests` counts those with the recorded bytes, of `recorded` requests,
    `messages` and `results` those that the loop made the same; `unchecked` explains what could not be compared by
    bytes, and `taken` what came from the log without being run, each with its count."""

    agent: str
    turns: int = 0
    recorded: int = 0
    requests: int = 0
    messages: int = 0
    results: int = 0
    side_calls: SideCalls = SideCalls()
    unchecked: Counter[str] = field(default_factory=Counter[str])
    taken: Counter[str] = field(default_factory=Counter[str])
    divergence: Divergence | None = None

    @property
    def is_exact(self) -> bool:
        """True if every request was compared by bytes and nothing differs."""
        return self.divergence is None and self.requests == self.recorded and not self.unchecked


class _Expected(NamedTuple):
    message: Message
    turn: int
    entry: str
    what: str


@dataclass(slots=True)
class Player:
    """Plays turns that belong to one run: gives the loop the recorded input, and compares its output with the
    recording.

    `base` is the earlier conversation; when `resumed`, it includes messages from before the first turn. `interrupt`
    stops the current run. `returned` are the calls of the last turn that their tools have answered.
    """

    turns: Sequence[Turn]
    base: Sequence[Message]
    score: Replayed
    rebuilder: Rebuilder
    resumed: bool
    interrupt: Callable[[], None] = lambda: None
    returned: set[str] = field(default_factory=set[str])
    played: int = 0  # turns
    _begun: int = 0  # those when the current run began
    _checked: int = 0
    _expected: list[_Expected] = field(default_factory=list[_Expected])
    _proven: tuple[int, int] = (0, 0)  # messages of the last request with equal bytes, and its turn

    def __post_init__(self) -> None:
        self._expected = [_Expected(message, 0, "", "the conversation before it") for message in self.base]
        self._checked = len(self.base)

    @property
    def next(self) -> Turn | None:
        return self.turns[self.played] if self.played < len(self.turns) else None

    @property
    def last(self) -> Turn | None:
        return self.turns[self.played - 1] if self.played else None

    def begin(self) -> None:
        self._begun = self.played

    def switches(self, turn: Turn) -> list[Action]:
        """Return the switches requested before a turn."""
        found: list[Action] = []
        for step in turn.before:
            if isinstance(step, SwitchedEntry) and step.model and not step.reason:
                self.score.taken["switches: when they were asked for"] += 1
                found.append(Switch(model=step.model, effort=step.effort or None))
        return found

    def on_request(self, name: str, model: Preparing | str, request: Request) -> Turn:
        """Return the recorded turn that answers a request. Raises RecordingEnded and Divergence."""
        turn, last = self.next, self.last
        if self.played > self._begun and last is not None and last.failed is not None:
            raise RecordingEnded(last.failed.kind)
        if turn is None:
            raise RecordingEnded("the recording ends here")
        if turn.prompted and self.played > self._begun:
            ended = "the run had ended, and another prompt came"
            raise Divergence(turn.number, turn.entry, "the loop asks the model once more", ended, "a request")
        self._expect(turn)
        self.check(request.messages)
        wanted = turn.reply.model if turn.reply is not None else ""
        if wanted and wanted != name:
            raise Divergence(turn.number, turn.entry, "another model is asked", wanted, name)
        if turn.sent is not None:
            self._check_request(turn, turn.sent, model, request)
        self.played += 1
        self.returned.clear()
        if turn.reply is not None:
            what = "the partial reply" if turn.sent is None else "the reply"
            self._expected.append(_Expected(turn.reply, turn.number, turn.said, what))
        return turn

    def after(self) -> Sequence[Action]:
        """Return the messages that came in after the last played turn and are read before the next one of the run."""
        last, turn = self.last, self.next
        if last is None or turn is None or last.failed is not None:
            return ()
        if turn.prompted:
            goes_on = last.reply is not None and (bool(last.reply.calls) or last.reply.stop == "pause")
            return (Stop("stopped"),) if goes_on else ()
        return (*self.switches(turn), *(Inject(came.message, "next") for came in turn.came))

    def answer(self, call_id: str) -> ToolResult | None:
        """Return the recorded result of a call of the turn that was played last."""
        answers = self.last.answers if self.last is not None else ()
        return next((each for each in answers if each.call_id == call_id), None)

    def _answers(self, names: set[str], passed: set[str]) -> list[ToolResult]:
        """Return the recorded results of its calls of these tools, except calls in `passed`."""
        reply = self.last.reply if self.last is not None else None
        calls = [call.id for call in reply.whole_calls if call.name in names and call.id not in passed] if reply else []
        return [found for found in map(self.answer, calls) if found is not None]

    @property
    def waits(self) -> bool:
        """True if a tool still has to answer a call of the last turn that was answered before an interruption."""
        prompt = self.turns[0].prompt
        answers = self._answers({tool.name for tool in prompt.tools} if prompt else set(), self.returned)
        return any(not answer.denied and not answer.text.startswith((INTERRUPTED, *_REFUSED)) for answer in answers)

    def refused(self, name: str, reason: str = "") -> bool:
        """Return True if a call of this tool was rejected in the last played turn for its arguments."""
        return any(each.text.startswith(_REFUSED) and reason in each.text for each in self._answers({name}, set()))

    def check_end(self) -> None:
        """Check that the recording's run ends here too. Raises Divergence."""
        last, turn = self.last, self.next
        if self.played == self._begun:
            if turn is not None and turn.failed is not None:  # it failed before its call
                self._expect(turn)
                self.played += 1
                return
            number, entry = (turn.number, turn.entry) if turn else (0, "")
            raise Divergence(number, entry, "the loop ends without a request", "a request", "nothing")
        goes_on = last is not None and last.failed is None and last.reply is not None and bool(last.reply.calls)
        if turn is not None and not turn.prompted and goes_on:
            raise Divergence(turn.number, turn.entry, "the loop ends", "one more request", "the end of the run")

    def check_all(self, messages: Sequence[Message]) -> None:
        """Check the conversation at the end of the segment. Raises Divergence."""
        last = self.last
        if last is None:
            return
        if last.open_calls:
            self.score.taken["turns cut off by the end of their process"] += 1
        elif is_long(last):
            self.score.taken["turns with a result so long that it would be cut a second time"] += 1
        else:
            self._expect_results(last)
            self.check(messages)

    def check(self, messages: Sequence[Message]) -> None:
        """Check the new messages, one by one. Raises Divergence."""
        for place in range(self._checked, max(len(messages), len(self._expected))):
            wanted = self._expected[place] if place < len(self._expected) else None
            came = messages[place] if place < len(messages) else None
            if wanted is None or came is None or wanted.message != came:
                raise self._differing(wanted, came)
            self.score.messages += 1
            self.score.results += len(came.results)
        self._checked = len(self._expected)

    def _expect(self, turn: Turn) -> None:
        """Queue the messages that the conversation has at a turn's request."""
        if self.last is not None:
            self._expect_results(self.last)
        for came in () if self.resumed and not self.played else turn.came:
            self._expected.append(_Expected(came.message, turn.number, came.entry, "a message that came in"))

    def _expect_results(self, turn: Turn) -> None:
        if turn.results is not None:
            self._expected.append(_Expected(turn.results, turn.number, turn.answered, "the results"))

    def _differing(self, wanted: _Expected | None, came: Message | None) -> Divergence:
        turn = self.next
        number, entry = (turn.number, turn.entry) if turn else (0, "")
        if wanted is not None:
            number, entry = wanted.turn or number, wanted.entry or entry
        what = wanted.what if wanted is not None else "a message that is not in the recording"
        expected, found = "" if wanted is None else _shown(wanted.message), "" if came is None else _shown(came)
        return Divergence(number, entry, what, _gist(expected), _gist(found), _diff(expected, found))

    # -- requests ------------------------------------------------------------------------------------------------------

    def _check_request(self, turn: Turn, sent: RequestSent, model: Preparing | str, request: Request) -> None:
        """Compare a request's bytes with the recorded ones. Raises Divergence."""
        if isinstance(model, str):
            self.score.unchecked[f"requests whose bytes cannot be built: {model}"] += 1
            return
        found = self.rebuilder.compare(model, request, sent)
        if found.outcome == "same":
            logged, came = _said(sent), _said(found.ours)
            if _pretty(logged) != _pretty(came):
                what = "what the log says of a request, whose body is the one that was sent"
                raise Divergence(turn.number, turn.entry, what, *_both(logged, came))
            self.score.requests += 1
            self._proven = (len(self._expected), turn.number)
            if found.limit_taken:
                self.score.taken[_CAPPED] += 1
        elif why := self._excused(sent, found):
            self.score.unchecked[why] += 1
        elif found.outcome == "parameters":
            differing = _both(sent.parameters, found.ours.parameters)
            raise Divergence(turn.number, turn.entry, "the parameters of the request", *differing)
        else:
            raise self._other_body(turn, sent, found.ours)

    def _excused(self, sent: RequestSent, rebuilt: RebuiltRequest) -> str:
        """Return the reason why a differing request proves nothing, or ""."""
        if not sent.sha256:
            return _UNSAID
        recorded = canonical_bytes(sent.parameters)
        if rebuilt.outcome == "parameters":
            data = any(word in recorded for word in _SCHEMAS)
            return "requests for an answer as data: the log has the schema with its keys sorted" if data else ""
        unordered = () if self.rebuilder.knows_order else self.rebuilder.unordered
        if rebuilt.outcome == "bytes" and unordered:
            named = ", ".join(unordered)
            return f"requests of the right size, but the log has sorted the keys of the schema of {named}"
        unknown = not self.rebuilder.proven and self.rebuilder.is_advised and sent.model.startswith("claude")
        if rebuilt.outcome == "size" and unknown:
            return "requests that may have named an advisor to the provider, which the log does not"
        return ""

    def _other_body(self, turn: Turn, sent: RequestSent, ours: RequestDigest) -> Divergence:
        recorded, came = (f"{each.size} bytes, sha256 {each.sha256}" for each in (sent, ours))
        count, agreed = self._proven
        new = [f"{each.what} of turn {each.turn} (entry {each.entry[:12]})" for each in self._expected[count:]]
        where = ", or ".join(new if agreed else ["the system prompt", "the tools", *new])
        before = f"The request of turn {agreed} agrees, and so do the parameters" if agreed else "The parameters agree"
        hint = f"{before}: what differs is in {where}."
        what = "the request's body: what the log has is not what was sent, or this version writes it otherwise"
        return Divergence(turn.number, turn.entry, what, recorded, came, hint=hint)


def is_long(turn: Turn) -> bool:
    """Return True if a turn's result, cut once, would be cut again when a tool returns it."""
    return any(len(result.text) > MAX_OUTPUT_CHARS for result in turn.answers)


@dataclass(frozen=True, slots=True)
class RecordedModel:
    """Answers from a recording. `adapter` builds its requests, or explains why there is none."""

    player: Player
    name: str  # "provider/id"
    adapter: Preparing | str

    @property
    def provider(self) -> str:
        return self.name.partition("/")[0]

    @property
    def id(self) -> str:
        return self.name.partition("/")[2]

    @property
    def limits(self) -> ModelLimits:
        return ModelLimits() if isinstance(self.adapter, str) else self.adapter.limits

    def max_input_tokens(self, request: Request) -> int:
        """Return the adapter's bound; 1 without an adapter, when nothing depends on it."""
        if isinstance(self.adapter, str):
            return 1
        return self.adapter.max_input_tokens(self.player.rebuilder.sent_as(request))

    async def stream(self, request: Request) -> AsyncGenerator[Delta | Reply]:
        """Yield the recorded reply; its beginning if it was cut off. Raises RecordingEnded and Divergence."""
        try:
            turn = self.player.on_request(self.name, self.adapter, request)
        except RecordingEnded as ended:
            if str(ended) == "interrupted":
                await self._be_interrupted()
            raise
        reply = turn.reply
        if turn.sent is not None and reply is not None:
            own = (bill.usage for bill in turn.bills if bill.role.partition(":")[0] not in ("advisor", "compactor"))
            usage = sum(own, Usage())
            digest = RequestDigest(turn.sent.sha256, turn.sent.size, self.id)
            yield Reply(reply, usage, (Charge(self.id, usage),), digest)
            return
        if reply is not None and reply.content:
            yield TextPart(reply.content)
        if turn.was_interrupted:
            await self._be_interrupted()
        if reply is None:
            raise RecordingEnded("it had failed here")
        reason = turn.failed.message if turn.failed is not None else "it was cut off"
        raise ModelError("overloaded", reason, provider=self.provider, model=self.id)

    async def _be_interrupted(self) -> NoReturn:
        self.player.interrupt()
        await asyncio.Event().wait()
        raise AssertionError("an interrupted call does not go on")


@dataclass(frozen=True, slots=True)
class RecordedTool(Harmless):
    """A tool that answers from a recording. Its schema is as sent, with nothing added."""

    player: Player
    name: str
    description: str
    quick: bool = True

    @property
    def parameters(self) -> JsonObject:
        """The tool's schema with the engine's additions; closed (which is never sent) if that was observed."""
        schema = self.player.rebuilder.schema(self.name)
        if self.player.refused(self.name, "is not a parameter; accepted"):
            schema = JsonObject({"additionalProperties": False, **schema})
        return schema

    @property
    def lenient(self) -> bool:
        """True if arguments are passed unchanged, unless the recording shows otherwise."""
        return not self.player.refused(self.name)

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Return the recorded result. An interrupted call is interrupted again."""
        del arguments
        result = self.player.answer(run.call_id)
        was_stopped = self.player.last is not None and self.player.last.was_interrupted
        text = "" if result is None else result.text
        if result is None or (was_stopped and result.is_error and text.startswith(INTERRUPTED)):
            if shown := text.partition(_SHOWN)[2]:
                run.progress(shown)
            for _ in range(_MAX_ROUNDS):  # other calls of its turn had ended before
                await asyncio.sleep(0)
                if not self.player.waits:
                    break
            for _ in range(10):  # and their results were known
                await asyncio.sleep(0)
            self.player.interrupt()
            await asyncio.Event().wait()
        assert result is not None
        self.player.returned.add(run.call_id)
        return ToolOutput(result.content, result.is_error)


@dataclass(frozen=True, slots=True)
class RecordedPolicy:
    """Denies recorded denials, and sends in messages that came in."""

    player: Player
    watched = False  # whether the watch's messages came in too

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        del effect, workspace
        result = self.player.answer(call.id)
        if result is not None and result.denied:
            return Deny(result.text.removeprefix(DENIED))
        return Allow()

    async def after_turn(self, turn: Judged) -> Sequence[Action]:
        del turn
        return self.player.after()


# -- differences in words ----------------------------------------------------------------------------------------------


def _said(of: RequestSent | RequestDigest) -> dict[str, object]:
    return {"model": of.model, "size": of.size, "parameters": of.parameters}


def _both(recorded: object, came: object) -> tuple[str, str, tuple[str, ...]]:
    """Two values, each on a line, and their difference."""
    return _gist(json_dump(recorded)), _gist(json_dump(came)), _diff(_pretty(recorded), _pretty(came))


def _shown(message: Message) -> str:
    """Return a message as canonical JSON, a member a line; media by their sha256."""
    return _pretty(encode_message(message, sha256_hex))


def _pretty(value: object) -> str:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, default=dict)


def _gist(text: str) -> str:
    return one_line(text, 200)


def _diff(recorded: str, came: str) -> tuple[str, ...]:
    lines = difflib.unified_diff(recorded.splitlines(), came.splitlines(), "recorded", "replayed", lineterm="", n=2)
    found = [line if len(line) <= 300 else f"{line[:299]}…" for line in lines]
    more = [f"... {len(found) - _MAX_DIFF_LINES} lines more"] if len(found) > _MAX_DIFF_LINES else []
    return (*found[:_MAX_DIFF_LINES], *more)
