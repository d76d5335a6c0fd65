"""ScriptedModel: a model that answers from a test's script, and checks the caller by the rules of real providers."""

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import field, replace
from typing import TypeAlias, get_args

from sagent.errors import ModelError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import canonical_bytes, json_freeze, sha256_hex
from sagent.messages import Message, Part, StopReason, Text, Thinking, ToolCall
from sagent.model import Billed, Delta, ModelLimits, Reply, Request, RequestDigest, TextPart, ThinkingPart
from sagent.usage import Charge, Usage

Spoken: TypeAlias = str | Part | Message | Billed | Usage | Reply | Exception | float
Line: TypeAlias = Spoken | tuple["Line", ...] | Callable[[Request], "Line | Awaitable[Line]"]
"""What one request is answered with. A tuple is said item by item: `("Hel", 0.1, "lo", ToolCall("a", "Read"))`.

- `str`: one delta of text; neighbours join into one part. `Text`, `Thinking`: a part of its own, in one delta.
- any other part: into the reply, unannounced. `Message`: its parts and its stop reason.
- `Billed`: passed on as it is. `Usage`: what the reply will bill instead of an estimate.
- a number: seconds of silence, `math.inf` for ever; the end of a line that said nothing else is a cut stream.
- an exception: raised there. `Reply`: the reply, as it is.
- a function, sync or async, of the request: its result.
"""

_PARTS: tuple[type, ...] = get_args(get_args(Part)[0])


class ScriptedModel:
    """Answers the i-th request with the i-th line of its script, and remembers every request.

    Raises AssertionError for a request whose calls and results do not pair up, where a real provider would answer 400,
    and for a request beyond the script.
    """

    def __init__(
        self,
        *script: Line,
        provider: str = "scripted",
        model_id: str = "scripted",
        limits: ModelLimits = ModelLimits(window=200_000, max_output=8_000),  # noqa: B008 -- frozen
    ) -> None:
        self._script = script
        self.provider = provider
        self.id = model_id
        self.limits = limits
        self.requests: list[Request] = []

    def max_input_tokens(self, request: Request) -> int:
        """Return the bytes of everything in it."""
        return len(_body(request))

    async def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        check_pairing(request.messages)
        request = replace(request, messages=tuple(request.messages))  # as it is now: histories grow
        self.requests.append(request)
        if len(self.requests) > len(self._script):
            asked = " ".join(request.messages[-1].content.split()) if request.messages else ""
            after = f", after {asked!r:.100}" if asked else ""
            words = f"the script has {len(self._script)} lines, and this is request {len(self.requests)}{after}"
            raise AssertionError(f"{words}: give a line for each call of a model")
        said = _Said()
        items: deque[Line] = deque([self._script[len(self.requests) - 1]])
        while items:
            item = items.popleft()
            if callable(item):
                result = item(request)
                items.appendleft(await result if inspect.isawaitable(result) else result)
            elif isinstance(item, tuple):
                items.extendleft(reversed(item))
            elif isinstance(item, Exception):
                raise item
            elif isinstance(item, int | float):
                await asyncio.sleep(item)
            elif isinstance(item, Reply):
                yield item
                return
            else:
                for delta in said.add(item):
                    yield delta
        if said.nothing:
            raise ModelError("cut", "the script fell silent here", provider=self.provider, model=self.id)
        yield self._reply(request, said)

    def _reply(self, request: Request, scripted: "_Said") -> Reply:
        stop = scripted.stop
        if stop in (None, "end"):
            stop = "tool_use" if scripted.message.calls else "end"
        message = replace(scripted.message, model=f"{self.provider}/{self.id}", stop=stop)
        body = _body(request)
        usage = scripted.usage or Usage(input=len(body) // 4, output=max(1, len(repr(message.parts)) // 4))
        return Reply(message, usage, (Charge(self.id, usage),), RequestDigest(sha256_hex(body), len(body), self.id))


@dataclass(slots=True)
class _Said:
    parts: list[Part] = field(default_factory=list[Part])
    stop: StopReason | None = None
    usage: Usage | None = None
    nothing: bool = True
    _open: bool = False  # the last part is text, and the next string is added to it

    @property
    def message(self) -> Message:
        return Message("assistant", tuple(self.parts))

    def add(self, item: str | Part | Message | Billed | Usage) -> Sequence[Delta]:
        """Add an item, and return the deltas for it."""
        match item:
            case Billed():
                return (item,)
            case Usage():
                self.usage = item
                return ()
            case Message():
                self.nothing, self._open = False, False
                self.parts += map(_frozen, item.parts)
                self.stop = item.stop
                return [delta for part in item.parts for delta in _announce(part)]
            case str():
                self.nothing = False
                if not item:
                    return ()
                last = self.parts[-1] if self._open else None
                if isinstance(last, Text):
                    self.parts[-1] = Text(last.text + item)
                else:
                    self.parts.append(Text(item))
                self._open = True
                return (TextPart(item),)
            case _:
                if not isinstance(item, _PARTS):
                    how = "give lines one by one, as in ScriptedModel(*lines)"
                    raise TypeError(f"{item!r:.100} is no line of a script: {how}")
                self.parts.append(_frozen(item))
                self.nothing, self._open = False, False
                return _announce(item)


def _frozen(part: Part) -> Part:
    """Return a call with arguments that a test wrote as a dict, as a provider's adapter gives them."""
    return replace(part, arguments=json_freeze(part.arguments)) if isinstance(part, ToolCall) else part


def _announce(part: Part) -> Sequence[Delta]:
    match part:
        case Text(text):
            return (TextPart(text),)
        case Thinking(text):
            return (ThinkingPart(text),)
        case _:
            return ()


def _body(request: Request) -> bytes:
    """Return a byte form of a request: equal requests have equal bodies, and a longer history a longer one."""
    return canonical_bytes([request.system, repr(request.tools), *(repr(message) for message in request.messages)])


def check_pairing(messages: Sequence[Message]) -> None:
    """Check that every call is answered once, in the very next message, and that every result answers a call. Raises
    AssertionError."""
    open_calls: set[str] = set()
    for index, message in enumerate(messages):
        answered = [result.call_id for result in message.results]
        if open_calls != set(answered) or len(answered) != len(set(answered)):
            raise AssertionError(f"message {index} answers {answered}; open calls are {sorted(open_calls)}")
        open_calls = {call.id for call in message.calls}
        if len(open_calls) != len(message.calls):
            raise AssertionError(f"message {index} has two calls of one id")
    if open_calls:
        raise AssertionError(f"the history ends with open calls {sorted(open_calls)}")
