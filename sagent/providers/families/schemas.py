"""The schema of an answer in each provider's form: each supports a different part of JSON Schema.

Keywords that a provider lacks go into the description, where the model reads them; the caller checks the answer in any
case. A schema that a provider cannot express is None here, and is then described to the model.
"""

import re
from collections.abc import Mapping, Sequence

from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, Json, JsonObject, as_array, as_object, as_str, json_dump, json_freeze_object
from sagent.model import Request
from sagent.providers.families.openai_models import gpt_version, plain_name

NAME = "answer"
"""Name of a schema for providers that require one."""

_NESTING = 60  # of a schema that is written out
_LIMITS = (
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "pattern", "format", "minItems", "maxItems", "uniqueItems"),
)
_TYPES: Mapping[type, str] = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


@dataclass(frozen=True, slots=True)
class Form:
    """Features of JSON Schema that a provider accepts: limits, formats of strings, and how it wants objects."""

    limits: frozenset[str] = frozenset()
    formats: frozenset[str] = frozenset()
    all_required: bool = False
    closed: bool = True  # additionalProperties must be false
    recursive: bool = True
    few_items: bool = False  # minItems may be 0 or 1
    tuples: bool = False  # prefixItems are supported


_USUAL_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})

OPENAI = Form(  # developers.openai.com, structured outputs, supported schemas
    limits=frozenset(_LIMITS) - {"minLength", "maxLength", "uniqueItems"}, formats=_USUAL_FORMATS, all_required=True
)
CHAT = Form(all_required=True)  # what OpenAI's models on Azure and imitations of its strict mode have in common
ANTHROPIC = Form(  # platform.claude.com, structured outputs, JSON Schema limitations
    limits=frozenset({"format", "minItems"}), formats=_USUAL_FORMATS | {"uri"}, recursive=False, few_items=True
)
GOOGLE = Form(  # ai.google.dev, GenerationConfig, responseJsonSchema
    limits=frozenset({"minimum", "maximum", "minItems", "maxItems", "format"}),
    formats=frozenset({"date-time", "date", "time"}),
    closed=False,
    tuples=True,
)


def fit_schema(schema: JsonObject, form: Form) -> JsonObject | None:
    """Return the schema in a provider's form; None if it cannot be expressed, or is not an object's."""
    writer = _Writer(schema, form)
    try:
        root = writer.node(schema, 0)
        if root.get("type") != "object":
            return None
        while missing := [name for name in writer.used if name not in writer.written]:
            for name in missing:
                writer.written[name] = writer.node(writer.definition(name), 0)
    except _NotExpressible:
        return None
    return json_freeze_object({**root, **({"$defs": writer.written} if writer.written else {})})


def openai_form(schema: JsonObject, form: Form) -> Mapping[str, object] | None:
    """Return the schema with its name, as in both of OpenAI's APIs; None if strict mode cannot express it."""
    strict = fit_schema(schema, form)
    return None if strict is None else {"name": NAME, "schema": strict, "strict": True}


def response_format(request: Request, kind: str, *, with_tools: bool) -> Mapping[str, object]:
    """Return `response_format` of Chat Completions for a provider that supports `kind`; {} if it does not apply.
    `with_tools` is False if the provider does not accept it together with tools."""
    schema = request.output_schema
    if schema is None or ((request.tools or request.options.get("tools")) and not with_tools):
        return {}
    if kind == "json_object" and schema.get("type") == "object":
        return {"response_format": {"type": "json_object"}}
    if kind == "json_schema" and (named := openai_form(schema, CHAT)):
        return {"response_format": {"type": "json_schema", "json_schema": named}}
    return {}


def openai_holds(model: str) -> bool:
    """Return True if an OpenAI model holds its answer to a schema: from GPT-4o of 2024-08-06 on, and o1.
    (developers.openai.com, structured outputs, supported models, as of 2026-11)"""
    name = plain_name(model)
    words = set(name.split("-"))
    if words & {"audio", "realtime", "search", "transcribe", "tts", "image", "research", "instruct"}:
        return False
    if name.startswith(("gpt-4o", "codex-")):
        return name != "gpt-4o-2024-05-13"
    if re.match(r"o\d", name):
        return not name.startswith(("o1-mini", "o1-preview"))
    return gpt_version(name) >= (4, 1)


class _NotExpressible(Exception):
    """The provider cannot express this."""


class _Writer:
    """Writes one schema in one form. `used` are the definitions referred to so far, `written` the finished ones."""

    def __init__(self, root: JsonObject, form: Form) -> None:
        self._root, self._form = root, form
        self.used: dict[str, None] = {}
        self.written: dict[str, Mapping[str, object]] = {}

    def definition(self, name: str) -> Json:
        """Return the schema under a name in `$defs` (`definitions` in older drafts)."""
        for place in ("$defs", "definitions"):
            found = self._root.get(place)
            if isinstance(found, JsonObject) and name in found:
                return found[name]
        raise _NotExpressible

    def node(self, schema: Json, depth: int) -> Mapping[str, object]:
        """One schema inside the schema."""
        if not isinstance(schema, JsonObject) or depth > _NESTING:
            raise _NotExpressible
        if "$ref" in schema:
            return self._reference(schema, depth)
        whole = schema.get("allOf")
        if isinstance(whole, tuple):
            if len(whole) != 1 or not isinstance(whole[0], JsonObject):
                raise _NotExpressible
            rest = {key: value for key, value in schema.items() if key != "allOf"}
            return self.node(JsonObject({**whole[0], **rest}), depth + 1)
        alternatives = _alternatives(schema)
        if alternatives is not None:
            nodes: list[Mapping[str, object]] = []
            for node in [self.node(alternative, depth + 1) for alternative in alternatives]:
                nodes += map(as_object, as_array(node["anyOf"])) if set(node) == {"anyOf"} else [node]
            if not nodes:
                raise _NotExpressible
            return self._described(nodes[0] if len(nodes) == 1 else {"anyOf": nodes}, schema)
        match schema.get("type"):
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, depth)
            case "string" | "number" | "integer" | "boolean" | "null" as kind:
                enum = schema.get("enum")
                return self._limited({"type": kind, **({"enum": enum} if isinstance(enum, tuple) else {})}, schema)
            case _:
                raise _NotExpressible

    def _reference(self, schema: JsonObject, depth: int) -> Mapping[str, object]:
        """Return a reference alone. One with a description is written out, unless it leads back to itself."""
        target = as_str(schema["$ref"])
        name = target.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
        if target not in (f"#/$defs/{name}", f"#/definitions/{name}"):
            raise _NotExpressible
        definition = self.definition(name)
        circular = name in _reached(self, definition)
        if circular and not self._form.recursive:
            raise _NotExpressible
        if "description" in schema and not circular and isinstance(definition, JsonObject):
            return self.node(JsonObject({**definition, "description": schema["description"]}), depth + 1)
        self.used[name] = None
        return {"$ref": f"#/$defs/{name}"}

    def _object(self, schema: JsonObject, depth: int) -> Mapping[str, object]:
        listed = schema.get("properties")
        properties = listed if isinstance(listed, JsonObject) else EMPTY
        others = schema.get("additionalProperties", True)
        if self._form.closed and others is not False and (not properties or isinstance(others, JsonObject)):
            raise _NotExpressible  # names are unknown in advance
        held: dict[str, object] = {"type": "object"}
        held["properties"] = {name: self.node(each, depth + 1) for name, each in properties.items()}
        needed = schema.get("required")
        named = [name for name in properties if isinstance(needed, tuple) and name in needed]
        held["required"] = list(properties) if self._form.all_required else named
        if self._form.closed or others is False:
            held["additionalProperties"] = False
        elif isinstance(others, JsonObject):
            held["additionalProperties"] = self.node(others, depth + 1)
        return self._described(held, schema)

    def _array(self, schema: JsonObject, depth: int) -> Mapping[str, object]:
        held: dict[str, object] = {"type": "array"}
        first = schema.get("prefixItems")
        if isinstance(first, tuple):
            if not self._form.tuples:
                raise _NotExpressible
            held["prefixItems"] = [self.node(each, depth + 1) for each in first]
        elif "items" in schema or self._form.closed:
            held["items"] = self.node(schema.get("items"), depth + 1)
        return self._limited(held, schema)

    def _limited(self, limits: Mapping[str, object], schema: JsonObject) -> Mapping[str, object]:
        """Add the limits that the provider enforces; describe the others in text."""
        held, words = dict(limits), list[str]()
        for name in _LIMITS:
            if name not in schema:
                continue
            if self._keeps(name, schema[name]):
                held[name] = schema[name]
            else:
                words.append(f"{name}: {json_dump(schema[name])}")
        return self._described(held, schema, f"({', '.join(words)})" if words else "")

    def _keeps(self, name: str, value: Json) -> bool:
        if name not in self._form.limits:
            return False
        match name:
            case "format":
                return value in self._form.formats
            case "pattern":
                return "(?" not in as_str(value)  # no looking around
            case "minItems":
                return not self._form.few_items or value in (0, 1)
            case _:
                return True

    def _described(self, keywords: Mapping[str, object], schema: JsonObject, more: str = "") -> Mapping[str, object]:
        words = " ".join(word for word in (as_str(schema.get("description")), more) if word)
        return {**keywords, **({"description": words} if words else {})}


def _alternatives(schema: JsonObject) -> Sequence[Json] | None:
    """Return the alternatives of a schema: its `anyOf`, its types, or constants of several types."""
    for name in ("anyOf", "oneOf"):
        found = schema.get(name)
        if isinstance(found, tuple):
            return found
    kinds = schema.get("type")
    values = (schema["const"],) if "const" in schema else schema.get("enum")
    if isinstance(values, tuple):
        by_type: dict[str, list[Json]] = {}
        for value in values:
            if type(value) not in _TYPES:
                raise _NotExpressible
            by_type.setdefault(_TYPES[type(value)], []).append(value)
        if isinstance(kinds, str) and "const" not in schema and len(by_type) == 1:
            return None
        return [JsonObject({"type": kind, "enum": tuple(held)}) for kind, held in by_type.items()]
    if isinstance(kinds, tuple):
        rest = {key: value for key, value in schema.items() if key not in ("type", "description")}
        return [JsonObject({**(rest if kind != "null" else {}), "type": kind}) for kind in kinds]
    return None


def _reached(writer: _Writer, schema: Json) -> set[str]:
    """Return the names of all definitions that a schema leads to."""
    seen: set[str] = set()
    waiting: list[Json] = [schema]
    while waiting:
        at = waiting.pop()
        if isinstance(at, tuple):
            waiting += at
        elif isinstance(at, JsonObject):
            waiting += at.values()
            target = at.get("$ref")
            name = target.rpartition("/")[2] if isinstance(target, str) else ""
            if name and name not in seen:
                seen.add(name)
                waiting.append(writer.definition(name))
    return seen
