"""Base of the models of every family: a name, sizes, and calls that are prepared without a network."""

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import field, replace
from operator import is_not
from typing import TYPE_CHECKING, ClassVar, Generic, Self, TypeAlias, TypeVar

from sagent.context.prompt import split_place
from sagent.cost.prices import CACHES, is_advisor, keeps_an_hour
from sagent.errors import ModelError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, JsonObject, as_array, as_int, as_object, as_str, json_freeze, wire_bytes
from sagent.messages import Document, Message, Text
from sagent.model import EFFORTS, Delta, Effort, ModelLimits, Reply, Request, RequestDigest
from sagent.providers.access import check_text
from sagent.providers.families.endpoint import Endpoint
from sagent.providers.families.media import AUDIO, media_in, stand_in, without_images
from sagent.providers.limits import limits_like, limits_of
from sagent.providers.rows import Abilities
from sagent.providers.wire.encoding import Body, Dialect, EncodedConversation, schema_tokens
from sagent.providers.wire.exchange import Call, Timeouts, exchange, fetch
from sagent.providers.wire.refusals import Refusals, Trial
from sagent.providers.wire.reply import ReplyReader, count_of

Counted: TypeAlias = tuple[str, Mapping[str, str], Sequence[bytes], str]
"""A URL, headers beyond the provider's, a body, and the answer's member with the count."""
_COUNTING = Timeouts(stall=5.0)
_BY_NAME = Abilities()
_IN_CONVERSATION = re.compile(r"\b(messages|contents|input)(\.\d|\[\d)")  # a place that a provider names
_COMPACT = "If that is a part of the conversation, sagent sessions compact makes a summary that does without it."
_OF_SEARCH = re.compile("defer_loading|tool[_ ](search|reference)", re.IGNORECASE)  # in an error message
E_co = TypeVar("E_co", bound=Endpoint, covariant=True)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """An encoded request: its URL, and its body's end, with `max_output` as the output limit, if any. `headers` are
    added to the provider's; `parameters` are elsewhere in the body, and recorded too."""

    url: str
    members: Mapping[str, object]
    notes: tuple[str, ...]
    max_output: object
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    parameters: Mapping[str, object] = EMPTY


@dataclass(slots=True)
class _Fitting:
    """A request without unsupported parts, made once for all uses: the size bound, the call, a count. `key` is what it
    depends on, except the output limit, which each call sets."""

    key: tuple[object, ...]
    request: Request
    notes: tuple[str, ...]
    conversation: EncodedConversation | None = None
    max_input: int | None = None

    def limited(self, request: Request) -> Request:
        """Return it with the limits of the request that it was made from."""
        same = (self.request.max_output, self.request.capped) == (request.max_output, request.capped)
        return self.request if same else replace(self.request, max_output=request.max_output, capped=request.capped)


class WireModel(ABC, Generic[E_co]):
    """One model of one provider. `listed_as` and `known_as` name the rows of limits.json, and the one among them."""

    overhead: ClassVar[int]
    """Tokens of what frames messages and tools, and of what follows them."""
    unrecorded: ClassVar[tuple[str, ...]] = ("model", "stream")
    """Members of a body that are not parameters of the answer."""
    reader: ClassVar[type[ReplyReader]]
    search: ClassVar[Mapping[str, str]] = {}
    """The provider's own tool for finding deferred tools, if any."""

    if not TYPE_CHECKING:  # defined here because families' constructors read the name before calling this one

        def __new__(cls, _provider: object, model_id: object) -> Self:
            check_text("model_id", model_id)
            return super().__new__(cls)

    def __init__(self, provider: E_co, model_id: str, *, listed_as: str = "", known_as: str = "") -> None:
        self._provider = provider
        self.provider, self.id = provider.name, model_id
        self._able = able = provider.row.able(model_id)
        self._known = able.like or model_id  # the name by which its abilities are known
        own = limits_of(listed_as or provider.name, known_as or model_id)
        self._limits = limits_like(able.like) if able.like else own
        self._joined: tuple[JsonObject, JsonObject] | None = None  # options as they came, and with what its row says
        self._worded: dict[int, tuple[Message, Message]] = {}  # messages with unsupported parts, and their replacements
        self._placed: dict[tuple[int, str], tuple[Message, Message]] = {}  # first messages, with directory and date
        self._last: _Fitting | None = None
        self._refusals = Refusals(self.provider, self.id, provider.refused_parts[self.id])

    @property
    def source(self) -> object:
        """Its address and key; the provider object if an SDK finds them."""
        access = self._provider.access
        return self._provider if access.delegated else access

    @property
    def limits(self) -> ModelLimits:
        """Known sizes."""
        return self._limits

    @property
    def max_silence(self) -> float:
        """Seconds without a sign of life after which a call is ended."""
        return self._provider.timeouts.reasoning_stall

    def resize(self, limits: ModelLimits) -> None:
        """Use other sizes: those of a provider's own list."""
        self._limits = replace(limits, least_output=self._limits.least_output)

    def max_input_tokens(self, request: Request) -> int:
        """Return an upper bound of the input's tokens: its bytes, with the maximum for each image and PDF page."""
        fitting = self._fitting(request)
        if fitting.max_input is None:
            conversation = self._conversation(fitting.request)
            fitting.max_input = self._overhead(fitting.request) + conversation.max_input_tokens()
        return fitting.max_input

    def prepare(self, request: Request) -> Call:
        """Return the request as it goes out, and what will read its answer. No network."""
        if not self._able.audio and (name := _to_hear(request)):
            raise self._provider.origin(self.id).error(
                "invalid_request",
                f"{name} was not sent: {self.id} is not known to accept recordings. Use a model that does, such as"
                f" google/gemini-3.8-flash; or, if this one does, set abilities = [{{ audio = true }}] in"
                f" [providers.{self.provider}].",
            )
        fitting = self._fitting(request)
        request = fitting.limited(request)
        outgoing = self._prepare(request)
        notes = (*self._provider.keys.notes(), *fitting.notes, *outgoing.notes)
        return self._call(request, replace(outgoing, notes=notes))

    @abstractmethod
    def _prepare(self, request: Request) -> Outgoing:
        """Encode a request without unsupported parts."""

    def structures(self, request: Request) -> bool:
        """Return True if the answer will be held to the schema: if model and API support it."""
        return self._format(self._fitting(request).request) is not None

    def _format(self, request: Request) -> Mapping[str, object] | None:
        """Return the schema in the API's form; None if the answer is not held to it."""
        return None

    def _fitting(self, request: Request) -> _Fitting:
        """Return the fitted request; the last one is cached."""
        provider, parts = self._provider, dict(self._refusals.parts)
        own = (request.conversation, request.system, request.tools, request.effort, request.options)
        key = (*own, request.output_schema, provider.lessons, provider.searches, parts, *request.messages)
        if self._last is None or self._last.key != key:
            fitting, notes = self._fit(replace(request, messages=tuple(request.messages)))  # a history grows
            self._last = _Fitting(key, fitting, notes)
        return self._last

    def _fit(self, request: Request) -> tuple[Request, tuple[str, ...]]:
        """Return the request without unsupported parts, and notes on these."""
        able, body = self._able, self._provider.row.quirks.body
        if self._provider.row.quirks.place_in_message:
            request = self._move_place(request)
        request, left = self._refusals.mend(request)
        notes = [*left]
        if body:
            request = replace(request, options=self._merged(body, request.options))
        request = self._searching(request)
        if CACHES in request.options and not self._marks(request):
            notes.append(
                f"{self.provider} is not asked by {CACHES} to keep what {self.id} reads: the option was left out"
            )
            others = {name: value for name, value in request.options.items() if name != CACHES}
            request = replace(request, options=JsonObject(others))
        if able == _BY_NAME:
            return request, tuple(notes)
        if able.efforts is not None and request.effort is not None:
            effort = None
            if able.efforts:
                effort, clamped = nearest(self.id, request.effort, able.efforts)
                notes += clamped
            elif request.effort != "none":
                notes.append(f"{self.id} does not reason: effort {request.effort} was left out")
            request = replace(request, effort=effort)
        if able.tools is False and request.tools:
            notes.append(f"{self.id} does not support tools: none are offered to it")
            request = replace(request, tools=())
        if able.structured is False and request.output_schema is not None:
            request = replace(request, output_schema=None)
        if able.images is False:
            messages = [self._in_words(message) for message in request.messages]
            if any(map(is_not, messages, request.messages)):
                notes.append(f"{self.id} does not accept images: each is replaced by a line of text")
                request = replace(request, messages=messages)
        return request, tuple(notes)

    def _find_refused(self, error: ModelError, request: Request) -> Mapping[str, str]:
        """Return the parts of the request that an error is about."""
        if error.kind != "invalid_request":
            return {}
        from sagent.providers.leftout import find_refused

        fitting = self._fitting(request).request
        naming = self._conversation(fitting).naming
        return find_refused(error, self.prepare(request).body.data, fitting, naming, self._refusals.parts)

    def _searching(self, request: Request) -> Request:
        """Return the request for a provider that finds deferred tools itself: with its own search tool."""
        asked = as_array(request.options.get("tools"))
        search = next((each for each in asked if as_str(as_object(each).get("type")).startswith("tool_search")), None)
        if search is None and not (self._able.tool_search and self._provider.searches and self.search):
            return request
        if not any(tool.deferred for tool in request.tools):
            return request
        from sagent.providers.deferral import FIND_TOOLS, searchable_tools

        if all(tool.name != FIND_TOOLS for tool in request.tools):  # nothing could be searched when the session began
            return request
        if search is None:
            own = (*as_array(request.options.get("tools")), self.search)
            request = replace(request, options=json_freeze({**request.options, "tools": own}))
        return replace(request, tools=searchable_tools(request.tools))

    def _refuses_search(self, error: ModelError, request: Request) -> bool:
        """Return True if the provider refused its own tool search, so that the call may succeed without it."""
        asked = self._provider.searches and self._searching(request) is not request
        if not (asked and error.kind == "invalid_request" and _OF_SEARCH.search(str(error.args[0]))):
            return False
        self._provider.searches = False
        return True

    def _merged(self, body: JsonObject, options: JsonObject) -> JsonObject:
        """Merge the body members of every request with this request's options: lists of tools and of features are
        joined, objects merged, and otherwise the request's own value wins."""
        if self._joined is None or self._joined[0] is not options:
            both: dict[str, object] = {**body, **options}
            for name in {*body} & {*options}:
                if as_array(body[name]) and as_array(options[name]):
                    both[name] = tuple(dict.fromkeys((*as_array(body[name]), *as_array(options[name]))))
                elif as_object(body[name]) and as_object(options[name]):
                    both[name] = {**as_object(body[name]), **as_object(options[name])}
            self._joined = options, json_freeze(both)
        return self._joined[1]

    def _marks(self, request: Request) -> bool:
        """Return True if caching is requested by marks in the content."""
        return False

    def _move_place(self, request: Request) -> Request:
        """Return the request with directory, date and instructions, which differ by project, in its first message.
        Templates of local models put tools after the system prompt: a server reads all after the first change anew."""
        system, *rest = split_place(request.system)
        place = "".join(rest)
        first = request.messages[0] if request.messages else None
        if not place or first is None or first.role != "user":
            return request
        key = (id(first), place)
        if key not in self._placed:
            self._placed[key] = first, replace(first, parts=(Text(place), *first.parts))
        return replace(request, system=system, messages=[self._placed[key][1], *request.messages[1:]])

    def _in_words(self, message: Message) -> Message:
        """Return a message without images, always the same object, which caches of encodings rely on."""
        if id(message) not in self._worded:
            worded = without_images(message)
            if worded is message:
                return message
            self._worded[id(message)] = message, worded
        return self._worded[id(message)][1]

    async def stream(self, request: Request) -> AsyncGenerator[Delta | Reply]:
        """Make the call; repeat it if the provider refuses a part that can be left out, or if there is another key."""
        keys, trial = self._provider.keys, Trial(self._refusals)
        others = keys.others
        while True:
            heard, key = False, keys.current
            try:
                async with aclosing(exchange(self._provider.transport, lambda: self.prepare(request))) as items:
                    async for item in items:
                        if not heard:
                            heard = True
                            self._heard()
                        yield item
            except ModelError as error:
                self._provider.lessons += 1
                if heard or error.sent:
                    raise
                if keys.pass_on(key, error) and others:
                    others -= 1
                elif self._refuses_search(error, request) or self._learn(error, request):
                    continue
                elif not await trial.goes_on(self._find_refused(error, request), self._fitting(request).request):
                    if error.kind == "invalid_request" and _IN_CONVERSATION.search(str(error.args[0])):
                        error.advise(_COMPACT)
                    raise
            else:
                return

    async def count_tokens(self, request: Request) -> int | None:
        """Return the provider's own count plus a margin: Anthropic calls its own an estimate, and counts without
        sampling, reasoning and identifiers. A provider that gives none is not asked again, unless the failure may be
        temporary."""
        provider, asked = (
            self._provider,
            self._counting(self._fitting(request).limited(request)) if self._provider.counts else None,
        )
        if asked is None:
            return None
        url, headers, body, name = asked
        origin, sent = provider.origin(self.id), {**provider.headers(), "content-type": "application/json", **headers}
        try:
            found = count_of(as_object(await fetch(provider.transport, url, sent, origin, _COUNTING, body)).get(name))
        except ModelError as error:
            passing = error.kind in ("rate_limit", "overloaded", "server")
            provider.counts = passing or bool(self._find_refused(error, request))
            return None
        provider.counts = found > 0
        return found + found // 50 + 256 if found else None

    def _counting(self, request: Request) -> Counted | None:
        """Return the request that asks the provider to count tokens; None if it cannot."""
        return None

    def _heard(self) -> None:
        """Record that the provider has begun to answer."""

    def _learn(self, error: ModelError, request: Request) -> bool:
        """Return True if an error names a part to leave out, so that a retry may succeed. May raise a better error."""
        return False

    @abstractmethod
    def _dialect(self, request: Request) -> Dialect:
        """Return the encoding for the request's conversation, with the parts this model may read."""

    def _conversation(self, request: Request) -> EncodedConversation:
        fitting = self._last
        known = None if fitting is None else fitting.conversation
        if known is None or not known.is_of(request):
            known = self._provider.encodings(self._dialect(request)).conversation(request)
            if fitting is not None and fitting.request.messages is request.messages:
                fitting.conversation = known
        return known

    def _overhead(self, request: Request) -> int:
        return self.overhead + schema_tokens(request)

    def _call(self, request: Request, outgoing: Outgoing) -> Call:
        conversation = self._conversation(request)
        body = conversation.write(outgoing.members, self._overhead(request))
        known = self._provider.origin(self.id)
        origin = replace(known, window=self._limits.window, most_input=body.max_input_tokens)
        reader = self.reader(origin, conversation.family)
        reader.hourly = keeps_an_hour(request.options)
        reader.deferral, reader.naming = conversation.deferral, conversation.naming
        said = {name: value for name, value in outgoing.members.items() if name not in self.unrecorded}
        if own := [tool for tool in as_array(request.options.get("tools")) if not is_advisor(tool)]:
            said["tools"] = wire_bytes(own).decode()  # in the written order, because a log has none
        said.update(self._refusals.logged)
        accepted = {"content-type": "application/json", "accept": "text/event-stream"}
        return Call(
            outgoing.url,
            {**self._provider.headers(), **accepted, **outgoing.headers},
            body,
            RequestDigest(body.sha256, body.size, self.id, json_freeze({**said, **outgoing.parameters})),
            reader,
            origin,
            self._provider.timeouts,
            (*outgoing.notes, *_unshown(request, body, self.id)),
            as_int(outgoing.max_output),
        )


def _unshown(request: Request, body: Body, model: str) -> list[str]:
    """Return a note on each document since the last reply that the model reads only the name of."""
    new = list[Message]()
    for message in reversed(request.messages):
        if message.role == "assistant":
            break
        new.insert(0, message)
    documents = [part for part in media_in(new) if isinstance(part, Document)]
    return [
        f"{part.name or 'A document'} ({part.media_type}) cannot be shown to {model}: a line of text names it"
        for part in documents
        if any(wire_bytes(stand_in(part))[1:-1] in piece for piece in body.parts)
    ]


def _to_hear(request: Request) -> str:
    """Return the name of a recording in a person's last, unanswered message; "" if there is none. Older ones may have
    been for another model, and advisors get a note instead."""
    if request.conversation.count(":") > 1:
        return ""
    for message in reversed(request.messages):
        if message.role == "assistant":
            break
        if not (message.sender or message.results):
            heard = (part for part in message.parts if isinstance(part, Document) and part.media_type in AUDIO)
            return next((part.name or "the recording" for part in heard), "")
    return ""


def nearest(model: str, effort: Effort, accepted: Sequence[Effort]) -> tuple[Effort, tuple[str, ...]]:
    """Return the accepted effort nearest to the wanted one, and a note if it differs."""
    best = min(accepted, key=lambda level: abs(EFFORTS.index(level) - EFFORTS.index(effort)))
    return best, (f"{model} has no effort {effort}: {best} is used",) if best != effort else ()
