"""A model of your own, made from a function."""

import inspect
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from typing import cast

from sagent.errors import ModelError, UsageError
from sagent.lib.json import canonical_bytes, json_freeze, sha256_hex
from sagent.lib.raised import reason
from sagent.messages import Message, Part, Text, ToolCall
from sagent.model import Delta, ModelLimits, Reply, Request, RequestDigest, TextPart
from sagent.usage import Charge, Usage

_NO_LIMITS = ModelLimits()


class FunctionModel:
    """A model made from a function of the request, sync or async: it returns a text, a ToolCall or a Message, or yields
    texts, calls and, if it knows its tokens, a Usage, which are estimated otherwise.

    `name` is "provider/id". Its price comes from the settings or the PriceBook; without one no budget is possible. A
    call whose tokens are estimated counts under a budget at the most that it may have cost. An exception of the
    function is a ModelError that is not retried; raise one yourself to choose its kind.
    """

    def __init__(self, name: str, function: Callable[[Request], object], *, limits: ModelLimits = _NO_LIMITS) -> None:
        self.provider, _, self.id = name.partition("/")
        if not (self.provider and self.id and callable(function)):
            raise UsageError(f'FunctionModel({name!r:.60}, {function!r:.60}): give "provider/id" and a function')
        self.limits, self._function = limits, function

    def max_input_tokens(self, request: Request) -> int:
        """Return the bytes of the request."""
        return len(_body(request))

    async def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        """Call the function."""
        parts, usage = list[Part](), None
        async for piece in self._pieces(request):
            match piece.text if isinstance(piece, Text) else piece:
                case Usage() as usage:
                    pass
                case "":
                    pass
                case str(text):
                    if parts and isinstance(last := parts[-1], Text):
                        parts[-1] = Text(last.text + text)
                    else:
                        parts.append(Text(text))
                    yield TextPart(text)
                case ToolCall(arguments=arguments) as call:
                    parts.append(replace(call, arguments=json_freeze(arguments)))
                case _:
                    words = f"its function gave {piece!r:.60}: give a text, a ToolCall, a Message or a Usage"
                    raise ModelError("protocol", words, provider=self.provider, model=self.id, final=True)
        message = Message("assistant", tuple(parts), model=f"{self.provider}/{self.id}")
        message, body = replace(message, stop="tool_use" if message.calls else "end"), _body(request)
        charge = Charge(self.id, usage or Usage(len(body) // 4, output=len(repr(parts)) // 4), estimated=usage is None)
        yield Reply(message, charge.usage, (charge,), RequestDigest(sha256_hex(body), len(body), self.id))

    async def _pieces(self, request: Request) -> AsyncIterator[object]:
        """Yield what the function gives, piece by piece."""
        try:
            given = self._function(request)
            given = await given if inspect.isawaitable(given) else given
            if isinstance(given, AsyncIterator):
                async for piece in cast("AsyncIterator[object]", given):
                    yield piece
                return
            found: object = given.parts if isinstance(given, Message) else given
            if isinstance(found, str) or not isinstance(found, Iterable):
                yield cast("object", found)
                return
            for piece in cast("Iterable[object]", found):
                yield piece
        except ModelError:
            raise
        except Exception as error:
            words = f"its function failed: {reason(error)}"
            raise ModelError("server", words, provider=self.provider, model=self.id, final=True) from error


def _body(request: Request) -> bytes:
    """Return a byte form of a request: equal requests have equal ones."""
    return canonical_bytes([request.system, repr(request.tools), *(repr(message) for message in request.messages)])
