"""Values of our classes as JSON, validated when they are read."""

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import TypeAdapter


@cache
def adapter(of: type[object]) -> "TypeAdapter[object]":
    from pydantic import TypeAdapter

    return TypeAdapter(of)


def encode(value: object) -> bytes:
    return adapter(type(value)).dump_json(value)
