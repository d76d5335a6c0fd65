"""Markers for `Annotated` that tell pydantic how to read and write our types (`TypeAdapter(Result)`). pydantic is only
imported when it calls them."""

import re
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Protocol, TypeAlias, cast, get_args

if TYPE_CHECKING:
    from pydantic_core import CoreSchema
    from pydantic_core.core_schema import WhenUsed


class Core(Protocol):
    """Pydantic's handler for the schema of a marked type, and of other types."""

    def __call__(self, source: object, /) -> "CoreSchema": ...

    def generate_schema(self, source: object, /) -> "CoreSchema": ...


class JsonSchema(Protocol):
    """Pydantic's handler for JSON Schema; it resolves a reference to the schema that may be changed."""

    def __call__(self, core: "CoreSchema", /) -> dict[str, object]: ...

    def resolve_ref_schema(self, schema: dict[str, object], /) -> dict[str, object]: ...


class Adapted:
    """Values that `read` converts from input, or raises ValueError for; `write` converts them to output, to JSON where
    `used` says so. `schema` is its JSON Schema."""

    def __init__(
        self,
        read: Callable[[object], object],
        write: Callable[..., object],
        schema: Mapping[str, object],
        used: "WhenUsed" = "always",
    ) -> None:
        self._read = read
        self._write = write
        self._schema = schema
        self._used: WhenUsed = used

    def __get_pydantic_core_schema__(self, source: object, handler: Core) -> "CoreSchema":
        from pydantic_core import core_schema

        written = core_schema.plain_serializer_function_ser_schema(self._write, when_used=self._used)
        return core_schema.no_info_plain_validator_function(self._read, serialization=written)

    def __get_pydantic_json_schema__(self, core: "CoreSchema", handler: JsonSchema) -> dict[str, object]:
        return {**self._schema}


class Tagged:
    """Marker of a union of classes that the member "type" tells apart: `ToolCall` is "tool_call", as in a log."""

    def __get_pydantic_core_schema__(self, source: object, handler: Core) -> "CoreSchema":
        from pydantic_core import core_schema

        choices = {_tag(cls): handler.generate_schema(Annotated[cls, _Named(_tag(cls))]) for cls in get_args(source)}
        return core_schema.tagged_union_schema(choices, _tag_of)


class _Named:
    def __init__(self, tag: str) -> None:
        self._tag = tag

    def __get_pydantic_core_schema__(self, source: object, handler: Core) -> "CoreSchema":
        from pydantic_core import core_schema

        written = core_schema.wrap_serializer_function_ser_schema(partial(_with_tag, self._tag))
        return core_schema.no_info_before_validator_function(
            lambda value: value, handler(source), serialization=written
        )

    def __get_pydantic_json_schema__(self, core: "CoreSchema", handler: JsonSchema) -> dict[str, object]:
        schema = handler(core)
        meant = handler.resolve_ref_schema(schema)
        members = cast("dict[str, object]", meant["properties"])
        required = cast("list[str]", meant.get("required", []))
        meant["properties"] = {"type": {"const": self._tag, "type": "string"}, **members}
        meant["required"] = ["type", *(name for name in required if name != "type")]
        return schema


def _tag(cls: type) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


def _tag_of(value: object) -> object:
    return cast("Mapping[str, object]", value).get("type") if isinstance(value, Mapping) else _tag(type(value))


def _with_tag(tag: str, value: object, write: Callable[[object], dict[str, object]]) -> dict[str, object]:
    return {"type": tag, **write(value)}


def _read_base64(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise ValueError(f"bytes, or text in base64, not {type(value).__name__}")  # noqa: TRY004 -- pydantic takes these
    return a2b_base64(value, strict_mode=True)


def _write_base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode()


_BASE64 = {"type": "string", "contentEncoding": "base64"}
Base64: TypeAlias = Annotated[bytes, Adapted(_read_base64, _write_base64, _BASE64, "json")]
"""Bytes, encoded as base64 in JSON."""
