"""Tools that a model is not shown at first: it finds them by `find_tools`, and calls them through `call_tool`.

Only the wire knows `call_tool`: a reply that uses it becomes a call of the tool that is meant, before anybody sees it,
and goes out again as the model wrote it. Where a provider has a search of its own, that takes the place of both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, Json, JsonObject, as_object, as_str, json_freeze_object, json_load
from sagent.messages import Message, Part, Private, ToolCall
from sagent.model import ToolSpec

FIND_TOOLS, CALL_TOOL = "find_tools", "call_tool"
THROUGH = "through"  # in what is private to a provider of a call: the model wrote it by CALL_TOOL


@dataclass(frozen=True, slots=True)
class Deferral:
    """The tools that are called through `call_tool`. `native`: there are none, for the provider searches by itself."""

    names: frozenset[str] = frozenset()
    native: bool = False

    def sent(self, call: ToolCall) -> ToolCall:
        """A call as it goes out: where its provider has signed it, as that wrote it, whatever is deferred now."""
        data = as_object(call.private.data) if call.private else EMPTY
        if call.private is None and call.name in self.names:
            return _through(call, None)
        if call.private is not None and THROUGH in data:
            data = json_freeze_object({name: value for name, value in data.items() if name != THROUGH})
            return _through(call, replace(call.private, data=data) if data else None)
        return call

    def meant(self, message: Message) -> Message:
        """A reply with the calls that the model means. What names no such tool stays: `call_tool` says so."""
        parts = tuple(self._meant(part) for part in message.parts)
        return message if parts == message.parts else replace(message, parts=parts)

    def _meant(self, part: Part) -> Part:
        if not isinstance(part, ToolCall) or part.name != CALL_TOOL:
            return part
        name, given = part.arguments.get("name"), part.arguments.get("arguments", EMPTY)
        if name not in self.names:
            return part
        flat = {key: value for key, value in part.arguments.items() if key not in ("name", "arguments")}
        private = part.private
        if private is not None:
            private = replace(private, data=json_freeze_object({**as_object(private.data), THROUGH: CALL_TOOL}))
        return replace(part, name=str(name), arguments=JsonObject({**flat, **_read(given)}), private=private)

    def forgets(self, block: Mapping[str, object]) -> bool:
        """Whether a block of a provider's own is of its search for tools, and not asked for any more. Anthropic's name
        tools, and are refused where these are not there any more; OpenAI's hold what was found."""
        said = as_str(block.get("type")), as_str(block.get("name"))
        start = "tool_search_" if self.names else "tool_search_tool"
        return not self.native and any(word.startswith(start) for word in said)


NONE = Deferral()


def _through(call: ToolCall, private: Private | None) -> ToolCall:
    arguments = JsonObject({"name": call.name, "arguments": call.arguments})
    return replace(call, name=CALL_TOOL, arguments=arguments, private=private)


def _read(given: Json) -> JsonObject:
    """A call's arguments, which some models write as a text of JSON."""
    if isinstance(given, str):
        try:
            given = json_load(given)
        except (ValueError, RecursionError):
            return JsonObject({"arguments": given})  # which its tool refuses, in words
    return given if isinstance(given, JsonObject) else EMPTY


def deferral_of(tools: Sequence[ToolSpec]) -> Deferral:
    """What of a request's tools is deferred, and how."""
    names = frozenset(tool.name for tool in tools if tool.deferred)
    called = any(tool.name == CALL_TOOL for tool in tools)
    return Deferral(names if called else frozenset(), native=bool(names) and not called)


def shown(tools: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
    """The tools that a model reads of."""
    deferral = deferral_of(tools)
    return tuple(tool for tool in tools if tool.name not in deferral.names)


def searched(tools: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
    """The tools for a provider that searches by itself."""
    return tuple(tool for tool in tools if tool.name not in (FIND_TOOLS, CALL_TOOL))


def undeferred(tools: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
    """All tools at once, for a program that has no use of a search."""
    return tuple(replace(tool, deferred=False) for tool in searched(tools))
