"""Tools that a model is not shown at first: it finds them by `find_tools`, and calls them through `call_tool`.

Only the wire knows `call_tool`: a reply that uses it becomes a call of the intended tool before anybody sees it, and is
sent again as the model wrote it. A provider's own search replaces both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, Json, JsonObject, as_object, as_str, json_freeze, json_freeze_object
from sagent.lib.nearjson import read_near
from sagent.messages import Message, Part, Private, ToolCall
from sagent.model import ToolSpec

FIND_TOOLS, CALL_TOOL = "find_tools", "call_tool"
THROUGH = "through"
"""Private member of a call that the model made by CALL_TOOL, with its original arguments if they have another form."""


@dataclass(frozen=True, slots=True)
class Deferral:
    """The tools that are called through `call_tool`. `native`: none, because the provider searches itself."""

    names: frozenset[str] = frozenset()
    native: bool = False

    def sent(self, call: ToolCall) -> ToolCall:
        """Return a call as it is sent: if its provider has signed it, in its original form, always."""
        if call.private is None:
            return _through(call, _arguments(call), None) if call.name in self.names else call
        data = as_object(call.private.data)
        if THROUGH not in data:
            return call
        written = data[THROUGH]
        arguments = written if isinstance(written, JsonObject) else _arguments(call)
        rest = json_freeze_object({name: value for name, value in data.items() if name != THROUGH})
        return _through(call, arguments, replace(call.private, data=rest) if rest else None)

    def original(self, message: Message) -> Message:
        """Return a reply with the calls that the model intends. A call that names no such tool stays: `call_tool`
        reports it."""
        parts = tuple(self._meant(part) for part in message.parts)
        return message if parts == message.parts else replace(message, parts=parts)

    def _meant(self, part: Part) -> Part:
        if not isinstance(part, ToolCall) or part.name != CALL_TOOL:
            return part
        name, given = part.arguments.get("name"), part.arguments.get("arguments", EMPTY)
        if name not in self.names:
            return part
        flat = {key: value for key, value in part.arguments.items() if key not in ("name", "arguments")}
        meant = replace(part, name=str(name), arguments=JsonObject({**flat, **_read(given)}))
        if part.private is None:
            return meant
        written = True if part.arguments == _arguments(meant) else part.arguments
        data = json_freeze_object({**as_object(part.private.data), THROUGH: written})
        return replace(meant, private=replace(part.private, data=data))

    def forgets(self, block: Mapping[str, object]) -> bool:
        """Return True if a block of a provider's tool search that this request does not use has to be left out.
        Anthropic's blocks name tools, and are refused if those are gone; OpenAI's contain the found tools."""
        said = as_str(block.get("type")), as_str(block.get("name"))
        start = "tool_search_" if self.names else "tool_search_tool"
        return not self.native and any(word.startswith(start) for word in said)


NONE = Deferral()


def _arguments(call: ToolCall) -> JsonObject:
    """Return the arguments for calling a deferred tool through the call tool."""
    return JsonObject({"name": call.name, "arguments": call.arguments})


def _through(call: ToolCall, arguments: JsonObject, private: Private | None) -> ToolCall:
    return replace(call, name=CALL_TOOL, arguments=arguments, private=private)


def _read(raw: Json) -> JsonObject:
    """Return a call's arguments, which some models write as a string of JSON."""
    if isinstance(raw, str):
        try:
            raw = json_freeze(read_near(raw).value)
        except (ValueError, RecursionError):
            return JsonObject({"arguments": raw})  # its tool rejects that with a message
    return raw if isinstance(raw, JsonObject) else EMPTY


def deferral_of(tools: Sequence[ToolSpec]) -> Deferral:
    """Return which of a request's tools are deferred, and whose search finds them."""
    names = frozenset(tool.name for tool in tools if tool.deferred)
    called = any(tool.name == CALL_TOOL for tool in tools)
    return Deferral(names if called else frozenset(), native=bool(names) and not called)


def shown(tools: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
    """Return the tools that a model reads of."""
    deferral = deferral_of(tools)
    return tuple(tool for tool in tools if tool.name not in deferral.names)


def searchable_tools(tools: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
    """Return the tools for a provider with its own search."""
    return tuple(tool for tool in tools if tool.name not in (FIND_TOOLS, CALL_TOOL))
