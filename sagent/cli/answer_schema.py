"""The JSON Schema of an answer, from a file: rejected if it has keywords that cannot be checked here."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from sagent.errors import UsageError
from sagent.events import Result
from sagent.lib.json import as_array, as_object, as_str
from sagent.lib.regular import read_given
from sagent.lib.text import why_unread

_ONE = ("items", "additionalProperties")  # keywords with a schema as their value,
_MANY = ("allOf", "anyOf", "oneOf")  # a list of them,
_NAMED = ("properties", "$defs", "definitions")  # or a table
_CHECKED = {
    *("type", "enum", "const", "required", "minLength", "maxLength", "pattern", "minItems", "maxItems"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "$ref", *_ONE, *_MANY, *_NAMED),
}
_SAYS_NOTHING = {  # of what conforms
    *("$schema", "$id", "$comment", "$anchor", "title", "description", "default", "examples", "example", "format"),
    *("deprecated", "readOnly", "writeOnly", "contentMediaType", "contentEncoding"),
}
_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")


def read_schema(file: Path) -> Mapping[str, object]:
    """Read the schema in a file. Raises UsageError if it cannot be read, is no schema, or has uncheckable keywords."""
    try:
        found: object = json.loads(read_given(file))  # also detects UTF-16 and Windows's byte order mark
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--output-schema {file}: {why_unread(error)}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--output-schema {file}: that is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise UsageError(f'--output-schema {file}: a JSON Schema is needed, as in {{"type": "object", ...}}')
    schema = as_object(found)  # pyright: ignore[reportUnknownArgumentType] -- parsed JSON
    if wrong := next(_faults(schema, ""), ""):
        raise UsageError(f"--output-schema {file}: {wrong}")
    return schema


def with_data(result: Result) -> Result:
    """Return a result whose text is its data alone, without the model's words around them."""
    return result if result.data is None else replace(result, content=json.dumps(result.data, ensure_ascii=False))


def _faults(schema: Mapping[str, object], place: str) -> Iterator[str]:
    """Yield what cannot be checked in an answer, with its place."""
    at = f" (at {place})" if place else ""
    for keyword in schema:
        if keyword not in _CHECKED | _SAYS_NOTHING:
            yield f"{keyword!r}{at} is not supported, so answers could not be checked against it: leave it out"
    for kind in [schema["type"]] if isinstance(schema.get("type"), str) else as_array(schema.get("type")):
        if kind not in _TYPES:
            yield f"unknown type {kind!r}{at}; the types are {', '.join(_TYPES)}"
    if not as_str(schema.get("$ref"), "#").startswith("#"):
        yield f"$ref {schema['$ref']!r}{at} refers to another document: put what it refers to under $defs"
    try:
        re.compile(as_str(schema.get("pattern")))
    except re.error as error:
        yield f"pattern {schema['pattern']!r}{at}: {error}"
    for inside, part in _parts(schema):
        if isinstance(part, Mapping):
            yield from _faults(as_object(part), f"{place}.{inside}".strip("."))  # pyright: ignore[reportUnknownArgumentType] -- parsed JSON
        elif not isinstance(part, bool):
            yield f"{inside}{at} is not a schema"


def _parts(schema: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield the schemas in a schema."""
    yield from ((keyword, schema[keyword]) for keyword in _ONE if keyword in schema)
    for keyword in _MANY:
        yield from ((f"{keyword}.{number}", part) for number, part in enumerate(as_array(schema.get(keyword))))
    for keyword in _NAMED:
        yield from ((f"{keyword}.{name}", part) for name, part in as_object(schema.get(keyword)).items())
