"""A recorded run as it is played again: what comes next, and whether the loop makes the same of it."""

import difflib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from sagent.codec import encode_message
from sagent.context.truncation import MOST_OUTPUT
from sagent.engine.dispatch import INTERRUPTED
from sagent.errors import SagentError
from sagent.lab.rebuild import Preparing, Rebuilder, RebuiltRequest
from sagent.lab.recording import Answer, Sent, Turn
from sagent.lib.dataclass import dataclass
from sagent.lib.json import canonical_bytes, json_dump, json_thaw, sha256_hex
from sagent.messages import Message
from sagent.model import Request, RequestDigest
from sagent.peer import Action, Inject, Stop, Switch
from sagent.session.contents import SwitchedEntry

_REFUSED = ("Invalid arguments for ", "The arguments of ")  # how a result begins where a call was not made for them
_MOST_DIFF = 60  # lines
_CAPPED = "output limits as they were sent: the cap or the listing that they come from is not in the log"
_SCHEMAS = (b'"json_schema"', b'"responseJsonSchema"', b'"json_object"')


class Ended(SagentError):
    """The recording has no more of this run: not the loop's doing."""

    kind = "ended"


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where a replay and its recording part: `what` it is about, what the log has and what came instead, as lines of a
    unified diff where there are both."""

    turn: int
    entry: str
    what: str
    expected: str
    came: str
    diff: tuple[str, ...] = ()
    hint: str = ""


class Diverged(SagentError):
    """The replay is no longer what was recorded."""

    kind = "diverged"

    def __init__(self, divergence: Divergence) -> None:
        super().__init__(f"turn {divergence.turn}: {divergence.what}")
        self.divergence = divergence


@dataclass(slots=True)
class Score:
    """What a replay has come to so far: requests whose bytes agree, messages and results that the loop made alike; what
    could not be compared, and what was taken from the log, each with how often."""

    requests: int = 0
    messages: int = 0
    results: int = 0
    unchecked: Counter[str] = field(default_factory=Counter[str])
    taken: Counter[str] = field(default_factory=Counter[str])


class _Expected(NamedTuple):
    message: Message
    turn: int
    entry: str
    what: str


class Player:
    """Plays a run of turns that belong together: gives the loop what was recorded, and compares what it
    makes with the recording.

    `base` is the conversation before it; when `resumed`, with what came in before its first turn. `interrupt` stops the
    run in progress.
    """

    def __init__(
        self,
        turns: Sequence[Turn],
        base: Sequence[Message],
        score: Score,
        rebuilder: Rebuilder,
        *,
        resumed: bool = False,
    ) -> None:
        self._resumed = resumed
        self.interrupt: Callable[[], None] = lambda: None
        self.played = 0  # turns
        self.returned: set[str] = set()  # calls of the last turn that their tools have answered
        self.rebuilder = rebuilder
        self._turns, self._score = turns, score
        self._tools = {tool.name for tool in turns[0].prompt.tools} if turns[0].prompt is not None else set[str]()
        self._begun = 0  # turns that were played when the run in progress began
        self._expected = [_Expected(message, 0, "", "the conversation before it") for message in base]
        self._checked = len(base)
        self._proven = (0, 0)  # messages of the last request whose bytes agree, and its turn

    @property
    def next(self) -> Turn | None:
        return self._turns[self.played] if self.played < len(self._turns) else None

    @property
    def last(self) -> Turn | None:
        return self._turns[self.played - 1] if self.played else None

    def begin(self) -> None:
        self._begun = self.played

    def switches(self, turn: Turn) -> list[Action]:
        """The changes that somebody asked for before a turn."""
        found: list[Action] = []
        for step in turn.before:
            if isinstance(step, SwitchedEntry) and step.model and not step.reason:
                self._score.taken["switches: when they were asked for"] += 1
                found.append(Switch(model=step.model, effort=step.effort or None))
        return found

    def on_request(self, name: str, model: Preparing | str, request: Request) -> Turn:
        """The loop asks the model: the turn that answers. Raises Ended and Diverged."""
        turn, last = self.next, self.last
        if self.played > self._begun and last is not None and last.failed is not None:
            raise Ended(last.failed.kind)
        if turn is None:
            raise Ended("the recording ends here")
        if turn.prompted and self.played > self._begun:
            ended = "the run had ended, and another prompt came"
            raise Diverged(Divergence(turn.number, turn.entry, "the loop asks the model once more", ended, "a request"))
        self._expect(turn)
        self.check(request.messages)
        wanted = turn.reply.model if turn.reply is not None else ""
        if wanted and wanted != name:
            raise Diverged(Divergence(turn.number, turn.entry, "another model is asked", wanted, name))
        if turn.sent is not None:
            self._check_request(turn, turn.sent, model, request)
        self.played += 1
        self.returned.clear()
        if turn.reply is not None:
            what = "the partial reply" if turn.sent is None else "the reply"
            self._expected.append(_Expected(turn.reply, turn.number, turn.said, what))
        return turn

    def after(self) -> Sequence[Action]:
        """What came in after the turn that was played last, and is read before the next one of the same run."""
        last, turn = self.last, self.next
        if last is None or turn is None or last.failed is not None:
            return ()
        if turn.prompted:
            goes_on = last.reply is not None and (bool(last.reply.calls) or last.reply.stop == "pause")
            return (Stop("stopped"),) if goes_on else ()
        return (*self.switches(turn), *(Inject(came.message, "next") for came in turn.came))

    def answer(self, call_id: str) -> Answer | None:
        """The recorded result of a call of the turn that was played last."""
        answers = self.last.answers if self.last is not None else ()
        return next((each for each in answers if each.result.call_id == call_id), None)

    @property
    def waits(self) -> bool:
        """Whether a tool has still to answer a call of the last turn, which was answered before it was interrupted."""
        reply = self.last.reply if self.last is not None else None
        made = [call.id for call in reply.calls if call.name in self._tools] if reply is not None else []
        answers = (self.answer(call) for call in made if call not in self.returned)
        return any(
            each and not each.result.denied and not each.result.text.startswith((INTERRUPTED, *_REFUSED))
            for each in answers
        )

    def refused(self, name: str) -> bool:
        """Whether a call of this tool was not made, in the turn that was played last, for what it said."""
        last = self.last
        calls = [call.id for call in last.reply.calls if call.name == name] if last and last.reply else []
        found = (self.answer(call) for call in calls)
        return any(each is not None and each.result.text.startswith(_REFUSED) for each in found)

    def check_end(self) -> None:
        """A run has ended: that is where it ended in the recording too. Raises Diverged."""
        last, turn = self.last, self.next
        if self.played == self._begun:
            if turn is not None and turn.failed is not None:  # it failed before its call
                self._expect(turn)
                self.played += 1
                return
            entry = turn.entry if turn else ""
            raise Diverged(
                Divergence(turn.number if turn else 0, entry, "the loop ends without a request", "a request", "nothing")
            )
        goes_on = last is not None and last.failed is None and last.reply is not None and bool(last.reply.calls)
        if turn is not None and not turn.prompted and goes_on:
            raise Diverged(
                Divergence(turn.number, turn.entry, "the loop ends", "one more request", "the end of the run")
            )

    def check_all(self, messages: Sequence[Message]) -> None:
        """The conversation at the end of the stretch. Raises Diverged."""
        last = self.last
        if last is None:
            return
        if last.open_calls:
            self._score.taken["turns cut off by the end of their process"] += 1
        elif is_long(last):
            self._score.taken["turns with a result so long that it would be cut a second time"] += 1
        else:
            self._expect_results(last)
            self.check(messages)

    def check(self, messages: Sequence[Message]) -> None:
        """The messages that are new, one by one. Raises Diverged."""
        for place in range(self._checked, max(len(messages), len(self._expected))):
            wanted = self._expected[place] if place < len(self._expected) else None
            came = messages[place] if place < len(messages) else None
            if wanted is None or came is None or wanted.message != came:
                raise Diverged(self._differing(wanted, came))
            self._score.messages += 1
            self._score.results += len(came.results)
        self._checked = len(self._expected)

    def _expect(self, turn: Turn) -> None:
        """What the conversation holds when a turn's request is made."""
        if self.last is not None:
            self._expect_results(self.last)
        for came in () if self._resumed and not self.played else turn.came:
            self._expected.append(_Expected(came.message, turn.number, came.entry, "a message that came in"))

    def _expect_results(self, turn: Turn) -> None:
        if turn.results is not None:
            entry = turn.answers[-1].entry
            self._expected.append(_Expected(turn.results, turn.number, entry, "the results"))

    def _differing(self, wanted: _Expected | None, came: Message | None) -> Divergence:
        turn = self.next
        number, entry = (turn.number, turn.entry) if turn else (0, "")
        if wanted is not None:
            number, entry = wanted.turn or number, wanted.entry or entry
        what = wanted.what if wanted is not None else "a message that is not in the recording"
        expected, found = "" if wanted is None else _shown(wanted.message), "" if came is None else _shown(came)
        return Divergence(number, entry, what, _gist(expected), _gist(found), _diff(expected, found))

    # -- requests ------------------------------------------------------------------------------------------------------

    def _check_request(self, turn: Turn, sent: Sent, model: Preparing | str, request: Request) -> None:
        """Its bytes against those that were sent. Raises Diverged."""
        if isinstance(model, str):
            self._score.unchecked[f"requests whose bytes cannot be built: {model}"] += 1
            return
        found = self.rebuilder.compare(model, request, sent)
        if found.outcome == "same":
            self._check_digest(turn, sent, found.ours)
            self._score.requests += 1
            self._proven = (len(self._expected), turn.number)
            if found.limit_taken:
                self._score.taken[_CAPPED] += 1
        elif why := self._excused(sent, found):
            self._score.unchecked[why] += 1
        else:
            raise Diverged(self._other_request(turn, sent, found))

    def _check_digest(self, turn: Turn, sent: Sent, ours: RequestDigest) -> None:
        """What the log says of a body that is the one that was sent. Raises Diverged."""
        logged = {"model": sent.model, "size": sent.size, "parameters": json_thaw(sent.parameters)}
        came = {"model": ours.model, "size": ours.size, "parameters": json_thaw(ours.parameters)}
        if logged != came:
            what = "what the log says of a request, whose body is the one that was sent"
            diff = _diff(_pretty(logged), _pretty(came))
            raise Diverged(
                Divergence(turn.number, sent.entry, what, _gist(json_dump(logged)), _gist(json_dump(came)), diff)
            )

    def _excused(self, sent: Sent, found: RebuiltRequest) -> str:
        """Why a request that is not the same proves nothing, or ""."""
        recorded = canonical_bytes(sent.parameters)
        if found.outcome == "parameters":
            data = any(word in recorded for word in _SCHEMAS)
            return "requests for an answer as data: the log has the schema with its keys sorted" if data else ""
        unordered = () if self.rebuilder.knows_order else self.rebuilder.unordered
        if found.outcome == "bytes" and unordered:
            named = ", ".join(unordered)
            return f"requests of the right size, but the log has sorted the keys of the schema of {named}"
        unknown = not self.rebuilder.knows_options and self.rebuilder.may_be_advised(sent.model)
        if found.outcome == "size" and unknown:
            return "requests that may have named an advisor to the provider, which the log does not"
        return ""

    def _other_request(self, turn: Turn, sent: Sent, found: RebuiltRequest) -> Divergence:
        ours = found.ours
        if found.outcome == "parameters":
            diff = _diff(_pretty(json_thaw(sent.parameters)), _pretty(json_thaw(ours.parameters)))
            return Divergence(
                turn.number, sent.entry, "the parameters of the request", *_both(sent.parameters, ours), diff
            )
        recorded, came = (f"{each.size} bytes, sha256 {each.sha256}" for each in (sent, ours))
        count, agreed = self._proven
        new = [f"{each.what} of turn {each.turn} (entry {each.entry[:12]})" for each in self._expected[count:]]
        where = ", or ".join(new if agreed else ["the system prompt", "the tools", *new])
        before = f"The request of turn {agreed} agrees, and so do the parameters" if agreed else "The parameters agree"
        hint = f"{before}: what differs is in {where}."
        what = "the request's body: what the log has is not what was sent, or this version writes it otherwise"
        return Divergence(turn.number, sent.entry, what, recorded, came, hint=hint)


def is_long(turn: Turn) -> bool:
    """Whether a result of a turn is cut when it comes back from a tool, although it had been cut before."""
    return any(len(answer.result.text) > MOST_OUTPUT for answer in turn.answers)


# -- differences in words ----------------------------------------------------------------------------------------------


def _both(recorded: Mapping[str, object], ours: RequestDigest) -> tuple[str, str]:
    return _gist(json_dump(recorded)), _gist(json_dump(ours.parameters))


def _shown(message: Message) -> str:
    """A message as canonical JSON, a member a line; media by their sha256."""
    return _pretty(encode_message(message, sha256_hex))


def _pretty(value: object) -> str:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False)


def _gist(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else f"{line[:199]}…"


def _diff(recorded: str, came: str) -> tuple[str, ...]:
    lines = difflib.unified_diff(recorded.splitlines(), came.splitlines(), "recorded", "replayed", lineterm="", n=2)
    found = [line if len(line) <= 300 else f"{line[:299]}…" for line in lines]
    more = [f"... {len(found) - _MOST_DIFF} lines more"] if len(found) > _MOST_DIFF else []
    return (*found[:_MOST_DIFF], *more)
