"""JSON Schema for tool arguments: descriptions of violations, and lenient conversion of unambiguous values.

Keywords not listed here are ignored: a tool's own code finally judges its arguments.
"""

import json
import operator
import re
from collections.abc import Callable, Container, Iterator, Mapping
from typing import TypeGuard

from sagent.lib.json import (
    EMPTY,
    Json,
    JsonObject,
    join_pairs,
    json_dump,
    json_freeze,
    json_freeze_object,
    json_load,
    json_thaw,
    valid_text,
)

_BOUNDS = (
    ("minimum", operator.ge, "at least"),
    ("maximum", operator.le, "at most"),
    ("exclusiveMinimum", operator.gt, "more than"),
    ("exclusiveMaximum", operator.lt, "less than"),
)
_EMPTY: tuple[Json, ...] = (None, "", (), EMPTY)
_NESTING = 60  # schemas refer to themselves; no sane argument is deeper
_MAX_STEPS = 100_000  # checks of a schema against a value: self-referring alternatives double at each level


def violations(schema: Mapping[str, object], value: Json) -> list[str]:
    """List the violations of a schema: one sentence each, with place, value and accepted values."""
    frozen = json_freeze_object(schema)
    return _Check(frozen).value(frozen, value, "", 0)


def coerce(schema: Mapping[str, object], value: Json) -> Json:
    """Return the value with unambiguous mistakes of models corrected; everything else is unchanged.

    "5" and 5.0 become 5 and "true" true if a string is not accepted, a number or an object becomes a requested string,
    JSON text becomes its array or object, a single item becomes an array of it, a word of a list gets its spelling
    there, and null or an empty value for an optional property that does not accept it is dropped.
    """
    frozen = json_freeze_object(schema)
    return _Mend(frozen).value(frozen, value, 0)


def strange_type(schema: Json, known: Container[Json] = ("object",)) -> str:
    """Return an invalid type in the schema of a tool's arguments, for which providers refuse each request, or ""."""
    within: list[Json] = []
    for key, value in schema.items() if isinstance(schema, JsonObject) else ():
        if key == "type":
            if wrong := [name for name in (value if isinstance(value, tuple) else (value,)) if name not in known]:
                return _quote(wrong[0])
        elif key in ("properties", "$defs", "definitions"):
            within += value.values() if isinstance(value, JsonObject) else ()
        elif key in ("items", "additionalProperties", "anyOf", "oneOf", "allOf", "prefixItems"):
            within += value if isinstance(value, tuple) else (value,)
    return next(filter(None, (strange_type(each, _TYPES) for each in within)), "")


class _Schema:
    """A schema with its local definitions."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._left = _MAX_STEPS

    def ends(self, depth: int) -> bool:
        """Count a step; return True if it is one too many."""
        self._left -= 1
        return depth > _NESTING or self._left < 0

    def resolve(self, schema: Json) -> JsonObject:
        """Return the schema of a local `$ref` with its other keywords; an empty one if it leads nowhere."""
        for _ in range(_NESTING):
            if not isinstance(schema, JsonObject):
                return EMPTY
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                return schema
            target: Json = self._root
            for step in reference.removeprefix("#").strip("/").split("/") if reference != "#" else ():
                name = step.replace("~1", "/").replace("~0", "~")
                target = target.get(name) if isinstance(target, JsonObject) else None
            others = {key: item for key, item in schema.items() if key != "$ref"}
            schema = JsonObject({**target, **others}) if isinstance(target, JsonObject) else EMPTY
        return EMPTY


class _Check(_Schema):
    """Collects violations; `path` is "" for the arguments as a whole."""

    def value(self, schema: Json, value: Json, path: str, depth: int) -> list[str]:
        if schema is False:
            return [f"{_at(path)} is not accepted"]
        if self.ends(depth):
            return [f"{_at(path)} is nested too deeply"]
        schema = self.resolve(schema)
        types = _types(schema)
        if types and not any(_TYPES[name](value) for name in types):
            return [f"{_at(path)} must be {_either(types)}, not {_quote(value)}"]
        wrong = _constants(schema, value, path)
        if isinstance(value, JsonObject):
            wrong += self._object(schema, value, path, depth)
        elif isinstance(value, tuple):
            wrong += _size(schema, len(value), path, ("minItems", "maxItems"), "items")
            items = schema.get("items")
            for index, item in enumerate(value if items is not None else ()):
                wrong += self.value(items, item, f"{path}[{index}]", depth + 1)
        elif isinstance(value, str):
            wrong += _string(schema, value, path)
        elif _is_number(value):
            wrong += _range(schema, value, path)
        return wrong + self._combined(schema, value, path, depth)

    def _object(self, schema: JsonObject, value: JsonObject, path: str, depth: int) -> list[str]:
        properties = _object_at(schema, "properties")
        wrong = [f"{_join(path, name)} is required" for name in _required(schema) if name not in value]
        others = schema.get("additionalProperties", True)
        for name, item in value.items():
            place = _join(path, name)
            if name in properties:
                wrong += self.value(properties[name], item, place, depth + 1)
            elif others is False:
                meant = next((f", but {_join(path, home)}.{name} is" for home in _homes(properties, name)), "")
                wrong.append(f"{place} is not a parameter{meant}; accepted: {', '.join(properties) or 'none'}")
            elif isinstance(others, JsonObject):
                wrong += self.value(others, item, place, depth + 1)
        return wrong

    def _combined(self, schema: JsonObject, value: Json, path: str, depth: int) -> list[str]:
        wrong: list[str] = []
        for part in _array_at(schema, "allOf"):
            wrong += self.value(part, value, path, depth + 1)
        for keyword in ("anyOf", "oneOf"):
            parts = _array_at(schema, keyword)
            results = [self.value(part, value, path, depth + 1) for part in parts]
            fits = sum(not result for result in results)
            if parts and not fits:
                wrong += self._nearest(parts, results, value, path)
            elif keyword == "oneOf" and fits > 1:
                wrong.append(f"{_at(path)} must fit exactly one alternative and fits {fits}: {_quote(value)}")
        return wrong

    def _nearest(self, parts: tuple[Json, ...], results: list[list[str]], value: Json, path: str) -> list[str]:
        """Report why no alternative matches: violations for the value's own type, else the accepted types."""
        resolved = [self.resolve(part) for part in parts]
        same = [
            result
            for part, result in zip(resolved, results, strict=True)
            if any(_TYPES[name](value) for name in _types(part)) or not _types(part)
        ]
        if same:
            return min(same, key=len)
        types = tuple(dict.fromkeys(name for part in resolved for name in _types(part)))
        return [f"{_at(path)} must be {_either(types)}, not {_quote(value)}"]


def _homes(properties: JsonObject, name: str) -> Iterator[str]:
    """Yield the parameters that are objects with such a member, by their schema or their description: {name?}."""
    described = re.compile(rf"\b{re.escape(name)}\?")
    for each, part in properties.items():
        if not isinstance(part, JsonObject) or part.get("type") != "object":
            continue
        if name in _object_at(part, "properties") or described.search(str(part.get("description", ""))):
            yield each


class _Mend(_Schema):
    """Rewrites a value towards its schema."""

    def __init__(self, root: JsonObject) -> None:
        super().__init__(root)
        self._check = _Check(root)

    def value(self, schema: Json, value: Json, depth: int) -> Json:
        if self.ends(depth):
            return value
        schema = self.resolve(schema)
        for part in _array_at(schema, "allOf"):
            value = self.value(part, value, depth + 1)
        value = self._alternative(schema, value, depth)
        types = _types(schema)
        if types and not any(_TYPES[name](value) for name in types):
            value = self._convert(schema, types, value, depth)
        if isinstance(value, str) and value not in (words := _array_at(schema, "enum")):
            alike = [word for word in words if isinstance(word, str) and word.lower() == value.lower()]
            return alike[0] if len(alike) == 1 else value
        if isinstance(value, JsonObject):
            return self._object(schema, value, depth)
        if isinstance(value, tuple):
            items = schema.get("items")
            return tuple(self.value(items, item, depth + 1) for item in value) if items is not None else value
        if isinstance(value, float) and "integer" in types and "number" not in types and _TYPES["integer"](value):
            return int(value)
        return value

    def _object(self, schema: JsonObject, value: JsonObject, depth: int) -> JsonObject:
        properties = _object_at(schema, "properties")
        required = _required(schema)
        fixed: dict[str, Json] = {}
        others = schema.get("additionalProperties")
        for name, item in value.items():
            if name not in properties:
                fixed[name] = self.value(others, item, depth + 1) if isinstance(others, JsonObject) else item
                continue
            new = self.value(properties[name], item, depth + 1)
            if new in _EMPTY and name not in required and self._check.value(properties[name], new, "", 0):
                continue
            fixed[name] = new
        return JsonObject(fixed)

    def _convert(self, schema: JsonObject, types: tuple[str, ...], value: Json, depth: int) -> Json:
        """Return the value converted to one of the types if that is unambiguous, else unchanged."""
        if isinstance(value, str) and (read := _from_text(types, value)) != value:
            return read
        if "string" in types and _is_number(value):
            return repr(value)
        if "string" in types and isinstance(value, JsonObject):
            return json.dumps(json_thaw(value), indent=2, ensure_ascii=False)
        several = isinstance(value, str) and not set(value).isdisjoint("[,\n")
        if "array" in types and "items" in schema and value not in _EMPTY and not several:
            item = self.value(schema["items"], value, depth + 1)
            return value if self._check.value(schema["items"], item, "", depth) else (item,)
        return value

    def _alternative(self, schema: JsonObject, value: Json, depth: int) -> Json:
        for keyword in ("anyOf", "oneOf"):
            parts = _array_at(schema, keyword)
            if not parts or any(not self._check.value(part, value, "", depth) for part in parts):
                continue
            for part in parts:
                fixed = self.value(part, value, depth + 1)
                if not self._check.value(part, fixed, "", depth):
                    return fixed
        return value


def _from_text(types: tuple[str, ...], text: str) -> Json:
    word = text.strip()
    if "boolean" in types and word.lower() in {"true", "false"}:
        return word.lower() == "true"
    try:
        meant = json_load(word)
    except (ValueError, RecursionError):
        return text
    if isinstance(meant, bool | str) or meant is None:
        return text
    fits = [name for name in types if _TYPES[name](meant)]
    return (int(meant) if fits == ["integer"] and isinstance(meant, float) else meant) if fits else text


def _is_number(value: Json) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: Mapping[str, Callable[[Json], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),
    "number": _is_number,
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, tuple),
    "object": lambda value: isinstance(value, JsonObject),
}
"""Tests of types."""


def _constants(schema: JsonObject, value: Json, path: str) -> list[str]:
    allowed = _array_at(schema, "enum")
    if "const" in schema:
        allowed = (schema["const"],)
    if not allowed or any(value == item and isinstance(value, bool) == isinstance(item, bool) for item in allowed):
        return []
    return [f"{_at(path)} must be {_either(tuple(_quote(item) for item in allowed))}, not {_quote(value)}"]


def _string(schema: JsonObject, value: str, path: str) -> list[str]:
    wrong = _size(schema, len(value), path, ("minLength", "maxLength"), "characters")
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        try:
            fits = re.search(pattern, value) is not None
        except re.error:  # another dialect: not ours to judge
            fits = True
        if not fits:
            wrong.append(f"{_at(path)} must match {pattern!r}, not {_quote(value)}")
    return wrong


def _range(schema: JsonObject, value: float, path: str) -> list[str]:
    return [
        f"{_at(path)} must be {words} {_quote(limit)}, not {_quote(value)}"
        for keyword, fits, words in _BOUNDS
        if _is_number(limit := schema.get(keyword)) and not fits(value, limit)
    ]


def _size(schema: JsonObject, size: int, path: str, keywords: tuple[str, str], unit: str) -> list[str]:
    for keyword, (_, fits, words) in zip(keywords, _BOUNDS, strict=False):
        if _is_number(limit := schema.get(keyword)) and not fits(size, limit):
            return [f"{_at(path)} must have {words} {_quote(limit)} {unit}, not {size}"]
    return []


def _types(schema: JsonObject) -> tuple[str, ...]:
    kind = schema.get("type")
    names = kind if isinstance(kind, tuple) else (kind,)
    return tuple(name for name in names if isinstance(name, str) and name in _TYPES)


def _required(schema: JsonObject) -> tuple[str, ...]:
    return tuple(name for name in _array_at(schema, "required") if isinstance(name, str))


def _object_at(schema: JsonObject, key: str) -> JsonObject:
    value = schema.get(key)
    return value if isinstance(value, JsonObject) else EMPTY


def _array_at(schema: JsonObject, key: str) -> tuple[Json, ...]:
    value = schema.get(key)
    return value if isinstance(value, tuple) else ()


def _at(path: str) -> str:
    return path or "the value"


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _either(words: tuple[str, ...]) -> str:
    return " or ".join(words) if len(words) < 3 else f"one of {', '.join(words)}"


def _quote(value: Json) -> str:
    try:
        text = json_dump(value)
    except ValueError:  # a number beyond what JSON can write
        text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text)} characters)"


def parse_arguments(raw: str) -> tuple[JsonObject, str | None]:
    """Parse a call's arguments; for anything but a JSON object, return none and the text itself (`null` is none)."""
    arguments, malformed, _ = mend_arguments(raw)
    return arguments, malformed


def mend_arguments(raw: str) -> tuple[JsonObject, str | None, tuple[str, ...]]:
    """Parse them the same way, and return the repairs too (`sagent.lib.nearjson`)."""
    from sagent.lib.nearjson import TEXT, read_near  # for few runs

    raw = join_pairs(raw)
    try:
        read = read_near(raw)
        value, mends = json_freeze(read.value), read.mends
        if isinstance(value, str):  # the object as a text, as some models write it
            inner = read_near(value)
            value, mends = json_freeze(inner.value), (*mends, TEXT, *inner.mends)
    except (ValueError, RecursionError):
        return EMPTY, valid_text(raw), ()
    if isinstance(value, JsonObject):
        return value, None, mends
    return EMPTY, None if value is None else valid_text(raw), ()
