"""Builds a recorded request again, offline, and compares its bytes with those sent.

A log keeps a request's sha256 and not its body. Facts missing from the log (the initial effort, the order of keys in a
tool's schema) are guessed; a matching hash proves the guess, and nothing else counts as equal.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from typing import Literal, NamedTuple, Protocol, TypeAlias, cast, runtime_checkable

from sagent import tools
from sagent.agent.options import INNER, SAMPLING, output_limit
from sagent.codec import Fetch
from sagent.context.compaction import instruction
from sagent.cost.prices import CACHES, MAX_CALLS
from sagent.engine.context import specs_of
from sagent.errors import SagentError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import (
    Json,
    JsonObject,
    as_array,
    as_object,
    canonical_bytes,
    json_freeze,
    json_freeze_object,
    json_load,
)
from sagent.messages import Message, assistant, user
from sagent.model import EFFORTS, Effort, Model, Request, RequestDigest, ToolSpec
from sagent.plugins.lab.recording import Prompt, read_prompt
from sagent.plugins.textcalls.model import TextModel, text_model
from sagent.providers.families.endpoint import Endpoint
from sagent.providers.registry import provider_named, row_named
from sagent.providers.rows import Row
from sagent.providers.toolforms import LEFT_OUT
from sagent.providers.wire.transport import Answer
from sagent.session import contents
from sagent.session.entries import Entry
from sagent.session.folds import history

NOWHERE = "http://127.0.0.1:9/v1"  # an address for providers without one; nothing is ever sent
_ASIDE = ("background", "delay")  # added by our engine at the end of a tool's parameters
_ORDER = ("$schema", "type", "title", "description", "properties", "required")  # as people write schemas


class Prepared(Protocol):
    """A request as it would go out."""

    @property
    def digest(self) -> RequestDigest: ...


@runtime_checkable
class Preparing(Model, Protocol):
    """A model that can build its request offline, as that of every wire family can."""

    def prepare(self, request: Request) -> Prepared: ...


Find: TypeAlias = Callable[[str], "Preparing | str"]
"""The model of a name, "provider/id"; or why its requests cannot be built here."""


class Unplugged:
    """A transport without a connection, for models that only build requests."""

    async def post(self, url: str, headers: Mapping[str, str], body: Sequence[bytes]) -> Answer:
        del headers, body
        raise AssertionError(f"a replay sends nothing, but this was to be sent to {url}")

    async def get(self, url: str, headers: Mapping[str, str]) -> Answer:
        del headers
        raise AssertionError(f"a replay requests nothing, but this was to come from {url}")

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""


def adapters(rows: Mapping[str, Row] | None = None) -> Find:
    """Models by name, of installed providers and of a person's own `rows`; no key is needed."""
    providers: dict[str, object] = {}

    def find(name: str) -> Preparing | str:
        provider, _, model = name.partition("/")
        try:
            if provider not in providers:
                row = row_named(provider, rows)
                address = None if row.base_url else NOWHERE
                providers[provider] = provider_named(
                    provider, key="replay", base_url=address, rows=rows, transport=Unplugged()
                )
                if isinstance(made := providers[provider], Endpoint):
                    made.searches = False  # the record says whether tools could be searched
            found: object = providers[provider].model(model)  # pyright: ignore[reportAttributeAccessIssue,reportUnknownMemberType,reportUnknownVariableType] -- a Provider
        except (SagentError, ImportError) as error:
            return f"there is no adapter for {provider} here ({error})"
        return found if isinstance(found, Preparing) else f"{provider} does not say what it sends"

    return find


Outcome: TypeAlias = Literal["same", "parameters", "size", "bytes"]
"""How a rebuilt request compares with the recorded one: the same, or the first difference."""


@dataclass(frozen=True, slots=True)
class RebuiltRequest:
    """A rebuilt request compared with the recorded one. `ours` is the present form."""

    outcome: Outcome
    ours: RequestDigest
    limit_taken: bool = False  # the output limit comes from the record


@dataclass(frozen=True, slots=True)
class _Guess:
    """A guess at the parts of a request that the log does not have."""

    effort: Effort | None = None
    session: str = ""
    order: int = 0  # of the keys in tools' schemas
    options: JsonObject = field(default_factory=JsonObject)


class Rebuilder:
    """Rebuilds the requests of one agent's recording in order.

    `sessions` are ids that the session may have had (copies have others), `options` members that a provider's own
    advisor may have added.
    """

    def __init__(self, agent: str, prompt: Prompt, sessions: Sequence[str], options: Sequence[JsonObject] = ()) -> None:
        self._agent = agent
        self._sessions = tuple(dict.fromkeys(sessions)) or ("",)
        # possible forms of the tools, likeliest first: schemas differ in the order of their keys
        self.orders = tuple(_orders(prompt))
        self._options = (JsonObject(), *options)
        self.guess = _Guess(session=self._sessions[0])
        self.knows_order = False  # whether a request with these tools matched
        self._text: TextModel | None = None  # the model of the last request in the text protocol
        self.proven: tuple[JsonObject, ...] = ()  # options of matching requests, and none
        # the provider may have run an advisor itself, by a tool that no entry names
        self.is_advised = any(tool.name == "advisor" for tool in prompt.tools)
        self.unordered = tuple(tool.name for tool in prompt.tools if tool.name not in prompt.ordered)

    def schema(self, name: str) -> JsonObject:
        """Return a tool's parameters in their likeliest form."""
        return next((spec.parameters for spec in self.orders[self.guess.order] if spec.name == name), JsonObject())

    def effort_of(self, model: Preparing, request: Request, sent: contents.RequestSent) -> Effort | None:
        """Return the effort that gives a request the recorded parameters; None if none does."""
        model = self._spoken(model, sent)
        self.compare(model, request, sent)
        request = _capped(request, sent)
        wanted = canonical_bytes(sent.parameters)
        limit = output_limit(sent.parameters)
        for guess in self._guesses(request, sent):
            if canonical_bytes(model.prepare(self._made(request, guess, limit)).digest.parameters) == wanted:
                return guess.effort
        return None

    def sent_as(self, request: Request) -> Request:
        """Return the request for the adapter, in its likeliest form."""
        return self._made(request, self.guess, request.max_output)

    def compare(self, model: Preparing, request: Request, sent: contents.RequestSent) -> RebuiltRequest:
        """Build a request and compare it. Matching guesses are kept for the next one."""
        model = self._spoken(model, sent)
        request, wanted = _capped(request, sent), canonical_bytes(sent.parameters)
        nearest: RebuiltRequest | None = None
        for limit in dict.fromkeys((request.max_output, output_limit(sent.parameters))):
            taken = limit != request.max_output
            for guess in self._guesses(request, sent):
                ours = model.prepare(self._made(request, guess, limit)).digest
                if canonical_bytes(ours.parameters) != wanted and ours.sha256 != sent.sha256:
                    nearest = nearest or RebuiltRequest("parameters", ours, taken)
                    continue
                for made in (guess, *(replace(guess, order=order) for order in range(len(self.orders)))):
                    found = ours if made is guess else model.prepare(self._made(request, made, limit)).digest
                    if found.sha256 == sent.sha256:  # a guess matched
                        self.guess, self.knows_order = made, True
                        self.proven = tuple(dict.fromkeys((made.options, *self.proven, JsonObject())))
                        return RebuiltRequest("same", found, taken)
                if nearest is None or nearest.outcome == "parameters":
                    nearest = RebuiltRequest("size" if ours.size != sent.size else "bytes", ours, taken)
        return nearest or RebuiltRequest("parameters", RequestDigest("", 0, model.id))

    def _spoken(self, model: Preparing, sent: contents.RequestSent) -> Preparing:
        """Return the model as it was spoken to: natively, or in the text protocol."""
        made = None if isinstance(model, TextModel) else text_model(model, sent.parameters)
        if made is None:
            return model
        if self._text is None or not self._text.is_like(made):
            self._text = made
        return cast("Preparing", self._text)

    def _guesses(self, request: Request, sent: contents.RequestSent) -> Iterator[_Guess]:
        """Yield guesses, first the one that was right for the last request."""
        yield self.guess
        asked = sampling_of(sent.parameters)
        for options in self.proven or tuple(_joined(asked, option) for option in self._options):
            for session in self._sessions:
                for effort in dict.fromkeys((self.guess.effort, request.effort, None, *EFFORTS)):
                    guess = _Guess(effort, session, self.guess.order, options)
                    if guess != self.guess:
                        yield guess

    def follow(self, before: "Rebuilder") -> None:
        """Take over what was found out of the same tools."""
        self.guess, self.knows_order = replace(self.guess, order=before.guess.order), before.knows_order

    def _made(self, request: Request, guess: _Guess, limit: int | None) -> Request:
        specs = self.orders[guess.order]
        brought = {as_object(tool).get("name") for tool in as_array(guess.options.get("tools"))}
        # the session's id comes first, because it names caches. The rest restores objects that were encoded separately.
        return replace(
            request,
            conversation=f"{guess.session}:{self._agent}:{guess.order}:{len(brought)}",
            tools=tuple(spec for spec in specs if spec.name not in brought) if brought else specs,
            max_output=limit,
            effort=guess.effort,
            options=guess.options,
        )


def _capped(request: Request, sent: contents.RequestSent) -> Request:
    """Return the request under a budget if the sent one names the standard tier, which shows that."""
    return replace(request, capped=sent.parameters.get("service_tier") == "default")


def sampling_of(parameters: Mapping[str, object]) -> JsonObject:
    """Return the options that a request had, by the names that most providers give them."""
    found = {name: json_freeze(parameters[name]) for name in (CACHES, MAX_CALLS) if name in parameters}
    for left in as_object(parameters.get(LEFT_OUT)).values():
        found[LEFT_OUT] = json_freeze(left)
    if isinstance(tools := parameters.get("tools"), str):
        found["tools"] = json_load(tools)
    inner = {name: value for place in INNER for name, value in as_object(parameters.get(place)).items()}
    for name, value in {**parameters, **inner}.items():
        plain = re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)
        if name in SAMPLING and name not in INNER:
            found[plain if plain in SAMPLING else name] = json_freeze(value)
    return JsonObject(found)


def _joined(options: JsonObject, advised: JsonObject) -> JsonObject:
    """Return a person's options, then those by which the provider runs the advisor, with its tool after theirs."""
    tools = (*as_array(options.get("tools")), *as_array(advised.get("tools")))
    return json_freeze_object({**options, **advised, **({"tools": tools} if tools else {})})


# -- the keys of schemas -----------------------------------------------------------------------------------------------


def _orders(prompt: Prompt) -> Iterator[tuple[ToolSpec, ...]]:
    """Yield the tools with possible orders of their schemas' keys: the known ones, then pydantic's, people's, and the
    log's."""
    for first in ((), _ORDER, None):
        yield tuple(tool if tool.name in prompt.ordered else _as_sent(tool, first) for tool in prompt.tools)


def _as_sent(tool: ToolSpec, first: Sequence[str] | None) -> ToolSpec:
    parameters: Json = _as_ours(tool)
    if parameters is None and first is not None:
        parameters = _ordered(tool.parameters, first)
    return replace(tool, parameters=parameters) if isinstance(parameters, JsonObject) else tool


@cache
def _schemas() -> Mapping[str, JsonObject]:
    """Return the schemas of our own tools, with the additions for background jobs."""
    from sagent.advisor.tool import AdvisorTool
    from sagent.tools.ask import AskUser
    from sagent.tools.plan import ExitPlan
    from sagent.tools.todo import TodoWrite

    every = (*tools.coding_tools(), *tools.agent_tools(), AdvisorTool(("advisor",)), AskUser(), TodoWrite(), ExitPlan())
    return {spec.name: spec.parameters for spec in specs_of(every)}


def _as_ours(tool: ToolSpec) -> Json:
    """Return the schema of one of our tools, perhaps reworded, with its keys in our order; None for other tools."""
    ours, names = _schemas().get(tool.name), as_object(tool.parameters.get("properties"))
    if ours is None or not names.keys() <= as_object(ours.get("properties")).keys():
        return None
    return _in_order(tool.parameters, ours)


def _in_order(value: Json, ours: Json) -> Json:
    if isinstance(value, tuple) and isinstance(ours, tuple) and len(value) == len(ours):
        return tuple(_in_order(item, own) for item, own in zip(value, ours, strict=True))
    if not isinstance(value, JsonObject) or not isinstance(ours, JsonObject):
        return value
    names = dict.fromkeys((*(name for name in ours if name in value), *value))
    return JsonObject({name: _in_order(value[name], ours.get(name)) for name in names})


def _ordered(value: Json, first: Sequence[str]) -> Json:
    """Order keys: some first, the rest sorted; among properties, the required ones come first, as listed."""
    if isinstance(value, tuple):
        return tuple(_ordered(item, first) for item in value)
    if not isinstance(value, JsonObject):
        return value
    made: dict[str, Json] = {}
    for name in dict.fromkeys((*(name for name in first if name in value), *sorted(value))):
        inner = value[name]
        if name == "properties" and isinstance(inner, JsonObject):
            required = [str(key) for key in as_array(value.get("required")) if key in inner]
            keys = dict.fromkeys((*required, *(key for key in inner if key not in _ASIDE), *_ASIDE))
            made[name] = JsonObject({key: _ordered(inner[key], first) for key in keys if key in inner})
        else:
            made[name] = _ordered(inner, first)
    return JsonObject(made)


# -- requests outside the conversation, of advisors and compactors -----------------------------------------------------

ADVISOR, COMPACTOR = "advisor:", "compactor"
_KINDS = ("prompt", "forked", "request", "spent", "advice", "compacted")
_ANSWERS = ("answered", "cut")  # outcomes that the advisor is reminded of the next time


class _SideCall(NamedTuple):
    """A request of another role than the executor; `provider` was paid for it."""

    place: int
    role: str
    sent: contents.RequestSent
    provider: str = ""


@dataclass(frozen=True, slots=True)
class SideCalls:
    """The number of such requests, and of those with the sent bytes."""

    recorded: int = 0
    same: int = 0


def check_side_calls(
    agent: str, entries: Sequence[Entry], fetch: Fetch, find: Find, sessions: Sequence[str]
) -> SideCalls:
    """Rebuild these requests. A difference proves nothing, because a person's request to the compactor is in no log."""
    reader = _SideCallReader(agent, entries, fetch, find, sessions)
    for place, entry in enumerate(entries):
        reader.read(place, entry)
    return SideCalls(reader.recorded, reader.same)


class _SideCallReader:
    def __init__(self, agent: str, entries: Sequence[Entry], fetch: Fetch, find: Find, sessions: Sequence[str]) -> None:
        self.recorded = self.same = 0
        self._agent, self._entries, self._fetch, self._find, self._sessions = agent, entries, fetch, find, sessions
        # what each advisor was sent and has answered in an epoch, since it was last sent everything
        self._talks: dict[str, tuple[int, tuple[Message, ...]]] = {}
        self._open: list[_SideCall] = []
        self._prompt: Prompt | None = None

    def read(self, place: int, entry: Entry) -> None:
        if entry.kind not in _KINDS:
            return
        match entry.content:
            case contents.PromptEntry() as prompt:
                self._prompt = read_prompt(prompt)
            case contents.Forked():
                self._talks.clear()
            case contents.RequestSent(role=role) as request if role:
                self.recorded += 1
                self._open.append(_SideCall(place, role, request))
            case contents.ChargeEntry(bill) if self._open and bill.role == self._open[-1].role:
                self._open[-1] = self._open[-1]._replace(provider=bill.provider)
            case contents.ConsultationEntry() as consultation if self._open:
                self._advised(consultation)
            case contents.AdviceOutcome(advisor) | contents.AdviceRated(advisor) if self._open:
                self._take(f"{ADVISOR}{advisor}")
            case contents.Compacted() as compacted if self._open:
                self._compacted(compacted)
            case _:
                pass

    def _advised(self, entry: contents.ConsultationEntry) -> None:
        name = entry.advice.advisor
        calls = self._take(f"{ADVISOR}{name}")
        if not calls:
            return
        epoch, before = self._talks.get(name, (0, ()))
        before = before if epoch == entry.epoch else ()
        self._talks[name] = entry.epoch, before
        said, role = self._text(entry.said), self._text(entry.system)
        if said is None or role is None:
            return
        messages = (*before, user(said))
        for call in calls:
            self.same += self._is_same(call, Prompt(role, ()), [messages])
        if entry.advice.status in _ANSWERS:
            self._talks[name] = entry.epoch, (*messages, assistant(entry.advice.text))

    def _compacted(self, entry: contents.Compacted) -> None:
        calls = self._take(COMPACTOR)
        if not calls or self._prompt is None:
            return
        before = history(self._entries[: calls[0].place], self._fetch)
        asked = user(instruction(""), sender="sagent")
        first = len(before)  # it may have been cut: later parts were kept whole
        while first - 1 in (entry.kept or ()):
            first -= 1
        cuts = [(*before[:place], asked) for place in range(first, len(before) + 1)]
        for call in calls:
            self.same += self._is_same(call, self._prompt, cuts)

    def _take(self, role: str) -> list[_SideCall]:
        found = [call for call in self._open if call.role == role]
        self._open = [call for call in self._open if call.role != role]
        return found

    def _text(self, name: str) -> str | None:
        try:
            data = self._fetch(name)
        except (SagentError, OSError):
            return None
        return None if data is None else data.decode("utf-8", "replace")

    def _is_same(self, call: _SideCall, prompt: Prompt, candidates: Sequence[Sequence[Message]]) -> bool:
        model = self._find(f"{call.provider}/{call.sent.model}")
        if isinstance(model, str):
            return False
        rebuilders = (Rebuilder(f"{self._agent}:{call.role}", prompt, self._sessions) for _ in candidates)
        return any(
            rebuilder.compare(model, Request("", messages, prompt.system), call.sent).outcome == "same"
            for messages, rebuilder in zip(candidates, rebuilders, strict=True)
        )
