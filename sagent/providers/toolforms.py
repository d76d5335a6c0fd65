"""The form in which each provider accepts tools: names, names of properties, and supported parts of JSON Schema.

Most tools already have that form, which a quick check finds. Others are rewritten (`fitting.py`), depending on the
tools alone, so that requests begin with the same bytes; changed names are changed back in calls.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from sagent.lib.dataclass import dataclass
from sagent.lib.json import Json, JsonObject
from sagent.messages import Message, Part, ToolCall
from sagent.model import ToolSpec

LEFT_OUT = "left_out"
"""The option of requests, and parameter of logged ones, for refused parts (`leftout.py`)."""
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_PLAIN = frozenset({"type", "description", "properties", "required", "items", "enum", "additionalProperties", "title"})
_VALUES = frozenset({"default", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"})
_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
MAX_NUMBER = 2**53
_MAX_PLAIN_DEPTH = 20


@dataclass(frozen=True, slots=True)
class ToolForm:
    """The form in which a provider accepts tools. `keys` is the pattern of a property's name."""

    keys: str = r"[A-Za-z0-9_.-]{1,64}"
    refs: bool = True  # $ref to $defs may be used
    unions: bool = True  # a list of types, const, and enum of any values may be used
    patterns: bool = True  # any regular expression may be used
    formats: frozenset[str] | None = None  # of strings; None for any
    listed: bool = True  # a tool without arguments has an empty list of properties


ANTHROPIC = ToolForm()  # by its error messages: "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"
OPENAI = ToolForm(keys=r"[\w.-]{1,64}")
# llama.cpp refuses patterns without ^ and $, and what looks around (json-schema-to-grammar)
CHAT = ToolForm(keys=r"[\w.-]{1,64}", patterns=False)
GOOGLE = ToolForm(  # ai.google.dev, FunctionDeclaration; parametersJsonSchema
    keys=r"[A-Za-z_][A-Za-z0-9_.-]{0,63}",
    unions=False,
    formats=frozenset({"date-time", "date", "time", "enum"}),
    listed=False,
)


@dataclass(frozen=True, slots=True)
class Naming:
    """Changed names: `tools` by their own names, and `keys` of a tool's arguments."""

    tools: Mapping[str, str]
    keys: Mapping[str, Mapping[str, str]]

    def sent(self, call: ToolCall) -> ToolCall:
        """Return a call with the provider's names."""
        keys, name = self.keys.get(call.name), self.tools.get(call.name, call.name)
        if keys is None and name == call.name:
            return call
        return replace(call, name=name, arguments=_renamed(call.arguments, keys or {}))

    def original(self, message: Message) -> Message:
        """Return a reply with the tools' own names in its calls."""
        own = {wire: name for name, wire in self.tools.items()}
        parts = tuple(self._original(part, own) for part in message.parts)
        return message if parts == message.parts else replace(message, parts=parts)

    def _original(self, part: Part, names: Mapping[str, str]) -> Part:
        if not isinstance(part, ToolCall):
            return part
        name = names.get(part.name, part.name)
        keys = {wire: key for key, wire in self.keys.get(name, {}).items()}
        return replace(part, name=name, arguments=_renamed(part.arguments, keys))


def _renamed(value: JsonObject, names: Mapping[str, str]) -> JsonObject:
    def walk(value: Json) -> Json:
        match value:
            case JsonObject():
                return JsonObject({names.get(name, name): walk(each) for name, each in value.items()})
            case tuple():
                return tuple(map(walk, value))
            case _:
                return value

    return JsonObject({names.get(name, name): walk(each) for name, each in value.items()}) if names else value


@dataclass(frozen=True, slots=True)
class Fitted:
    """Tools as sent; `naming` is None if no name was changed."""

    tools: tuple[ToolSpec, ...]
    naming: Naming | None = None


def are_plain(tools: tuple[ToolSpec, ...], form: ToolForm) -> bool:
    """Return True if a provider accepts the tools unchanged, by a quick check."""
    key = re.compile(form.keys)
    return len({tool.name for tool in tools}) == len(tools) and all(
        is_plain(tool, form, key.fullmatch) for tool in tools
    )


def is_plain(tool: ToolSpec, form: ToolForm, is_key: Callable[[str], object]) -> bool:
    """Return True if a tool can be sent unchanged; `is_key` accepts names of properties."""
    schema = tool.parameters
    return (
        NAME.fullmatch(tool.name) is not None
        and bool(tool.description.strip())
        and schema.get("type") == "object"
        and "enum" not in schema
        and ("properties" in schema or not form.listed)
        and _is_plain(schema, is_key, 0)
    )


def _is_plain(schema: JsonObject, is_key: Callable[[str], object], depth: int) -> bool:
    """Return True if a schema only has keywords that every provider accepts."""
    if not _PLAIN.issuperset(schema):
        values = [schema[name] for name in schema if name not in _PLAIN]
        if not _VALUES.issuperset(name for name in schema if name not in _PLAIN):
            return False
        if any(isinstance(value, int | float) and abs(value) > MAX_NUMBER for value in values):
            return False
    kind, held = schema.get("type"), schema.get("properties")
    if kind not in _TYPES or depth > _MAX_PLAIN_DEPTH or (kind == "array" and "items" not in schema):
        return False
    values = schema.get("enum", ())
    if not isinstance(values, tuple) or not all(isinstance(value, str) for value in values):
        return False
    if ("enum" in schema and (kind != "string" or not values)) or not isinstance(
        schema.get("additionalProperties", False), bool
    ):
        return False
    if (items := schema.get("items")) is not None and not (
        kind == "array" and isinstance(items, JsonObject) and _is_plain(items, is_key, depth + 1)
    ):
        return False
    needed = schema.get("required", ())
    if held is None:
        return "properties" not in schema and not needed
    return (
        isinstance(held, JsonObject)
        and isinstance(needed, tuple)
        and all(isinstance(name, str) and name in held for name in needed)
        and all(
            is_key(name) and isinstance(each, JsonObject) and _is_plain(each, is_key, depth + 1)
            for name, each in held.items()
        )
    )
