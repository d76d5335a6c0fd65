"""The reading of requests, checked by the OpenAPI document."""

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from starlette.requests import Request

from sagent.errors import UsageError
from sagent.lib.json import JsonObject, as_object, as_str, json_freeze
from sagent.lib.schema import violations
from sagent.plugins.serve.repeats import read_body

DOCUMENT = Path(__file__).with_name("openapi.json")


@cache
def document() -> Mapping[str, object]:
    """Return the OpenAPI document."""
    return as_object(json.loads(DOCUMENT.read_text("utf-8")))


async def read_object(request: Request, schema: str = "") -> Mapping[str, object]:
    """Return the object in a request. Raises UsageError for anything else, or if it does not match its schema."""
    data = await read_body(request)
    try:
        value = json_freeze(json.loads(data or b"{}"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"The request is not JSON: {error}.") from error
    if not isinstance(value, JsonObject):
        raise UsageError("The request is not a JSON object.")
    if schema and (wrong := violations(_schema(schema), value)):
        raise UsageError(" ".join(wrong))
    return value


@cache
def _schema(name: str) -> JsonObject:
    schemas = as_object(as_object(document()["components"])["schemas"])
    return json_freeze(as_object(schemas[name]))


def number_of(request: Request, name: str, default: int | None) -> int | None:
    """Return a number above 0 in the query. Raises UsageError."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"\d{1,9}", text) or not int(text):
        raise UsageError(f"{name}={text}: give a number above 0.")
    return int(text)


def flag_of(request: Request, name: str) -> bool:
    """Return True if a query flag is set."""
    return request.query_params.get(name, "").lower() in ("1", "true", "yes")


def text_of(body: Mapping[str, object], name: str) -> str | None:
    """Return a member that may be left out."""
    return as_str(body[name]) if name in body else None
