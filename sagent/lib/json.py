"""JSON values: frozen in memory, canonical as bytes."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Annotated, TypeAlias, cast, overload

from sagent.lib.adapted import Adapted

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

    from sagent.lib.adapted import Core, JsonSchema


def _read(value: object) -> "Json":
    return json_freeze(value)


def _write(value: object) -> object:
    return json_thaw(cast("Json", value))


Json: TypeAlias = Annotated[
    "str | int | float | bool | tuple[Json, ...] | JsonObject | None", Adapted(_read, _write, {})
]
Thawed: TypeAlias = "str | int | float | bool | list[Thawed] | dict[str, Thawed] | None"


class JsonObject(Mapping[str, Json]):
    """An immutable JSON object that keeps the order of its keys; hashable; equal to any mapping with the same items. It
    is made of any mapping, whose values are frozen. Raises NotJsonError, as `json_freeze`."""

    __slots__ = ("_hash", "_items")

    def __init__(self, items: Mapping[str, object] | None = None) -> None:
        self._items: dict[str, Json] = dict(json_freeze_object(items) if items else {})
        self._hash: int | None = None

    def __getitem__(self, key: str) -> Json:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._items.items()))
        return self._hash

    def __repr__(self) -> str:
        return f"JsonObject({self._items!r})"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: "Core") -> "CoreSchema":
        return _OBJECT.__get_pydantic_core_schema__(source, handler)

    @classmethod
    def __get_pydantic_json_schema__(cls, core: "CoreSchema", handler: "JsonSchema") -> dict[str, object]:
        return _OBJECT.__get_pydantic_json_schema__(core, handler)


EMPTY = JsonObject()
LONE = "\ufffd"  # replaces half a surrogate pair without its other half

if TYPE_CHECKING:

    class GivenObject:
        """A field of a dataclass that is given as any mapping and read as a JsonObject."""

        def __get__(self, instance: object, owner: object = None) -> JsonObject: ...
        def __set__(self, instance: object, value: Mapping[str, object]) -> None: ...

    class GivenObjectOrNone:
        """A field of a dataclass that is given as any mapping or None, and read as a JsonObject or None."""

        def __get__(self, instance: object, owner: object = None) -> JsonObject | None: ...
        def __set__(self, instance: object, value: Mapping[str, object] | None) -> None: ...

    class GivenJson:
        """A field of a dataclass that is given as any JSON value, and read frozen."""

        def __get__(self, instance: object, owner: object = None) -> Json: ...
        def __set__(self, instance: object, value: object) -> None: ...
else:  # `sagent.lib.dataclass` freezes values of such fields
    GivenObject, GivenObjectOrNone, GivenJson = JsonObject, JsonObject | None, Json
GIVEN_EMPTY = cast("GivenObject", EMPTY)
GIVEN_NONE = cast("GivenObjectOrNone", None)
"""Defaults of such fields."""


@overload
def json_freeze(value: Mapping[str, object], at: str = "") -> JsonObject: ...
@overload
def json_freeze(value: object, at: str = "") -> Json: ...
def json_freeze(value: object, at: str = "") -> Json:
    """Copy a JSON-like value into its frozen form: lists and tuples to tuples, mappings to JsonObject.

    Raises NotJsonError for anything JSON cannot express (sets, bytes, NaN, keys that are not strings), with its path
    within the value, whose name is `at`.
    """
    if type(value) is JsonObject or type(value) is str or value is None:
        return value
    try:
        return _freeze(value)
    except _PartError as error:
        path = f"{at}{''.join(reversed(error.path))}" if at else "".join(reversed(error.path)).removeprefix(".")
        raise NotJsonError(f"{path}: {error}" if path else str(error)) from None
    except RecursionError:
        raise NotJsonError(f"{at}: nested too deeply, or it contains itself".removeprefix(": ")) from None


def json_freeze_object(value: Mapping[str, object], at: str = "") -> JsonObject:
    """Freeze a mapping whose keys must be strings. Raises NotJsonError, as `json_freeze`."""
    frozen: object = json_freeze(value, at)
    if not isinstance(frozen, JsonObject):  # pyright: ignore[reportUnnecessaryIsInstance] -- callers are not all typed
        raise NotJsonError(f"{at}: a JSON object is needed, not {type(value).__name__}".removeprefix(": "))
    return frozen


class NotJsonError(TypeError, ValueError):
    """A value that JSON cannot express; the message begins with its path."""


class _PartError(Exception):
    """A part that JSON cannot express, with its path reversed."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.path = list[str]()


def _freeze(value: object) -> Json:
    if value is None or isinstance(value, bool | JsonObject):
        return value
    if isinstance(value, str):  # members of enums, and other subclasses of strings and numbers, become plain
        return value if type(value) is str else str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        if not isfinite(value):
            raise _PartError(f"not a JSON value: {value}")
        return float.__float__(value)
    if isinstance(value, list | tuple):
        return _freeze_items(cast("Sequence[object]", value))
    if isinstance(value, Mapping):
        return _freeze_members(cast("Mapping[object, object]", value))
    hint = _HINTS.get(type(value), "")
    raise _PartError(f"not a JSON value: {type(value).__name__}{hint}")


def _freeze_items(items: Sequence[object]) -> Json:
    frozen: list[Json] = []
    try:
        for item in items:
            frozen.append(_freeze(item))  # noqa: PERF401 -- its length is the place of the one that fails
    except _PartError as error:
        error.path.append(f"[{len(frozen)}]")
        raise
    return tuple(frozen)


def _freeze_members(members: Mapping[object, object]) -> JsonObject:
    frozen: dict[str, Json] = {}
    key: object = None
    try:
        for key, item in members.items():
            if not isinstance(key, str):
                raise _PartError(f"a JSON object's key must be a string, not {type(key).__name__}")
            frozen[str.__str__(key)] = _freeze(item)
    except _PartError as error:
        error.path.append(f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r:.80}]")
        raise
    made = JsonObject.__new__(JsonObject)
    made._items, made._hash = frozen, None  # noqa: SLF001 -- made frozen
    return made


def json_thaw(value: Json) -> Thawed:
    """Copy a frozen value into plain lists and dicts that the caller may change."""
    if isinstance(value, JsonObject):
        return {key: json_thaw(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [json_thaw(item) for item in value]
    return value


def json_load(data: str | bytes) -> Json:
    """Parse JSON text into frozen values. Raises ValueError; NaN, infinities and bottomless nesting are refused."""
    try:
        text = data if isinstance(data, str) else data.decode(json.detect_encoding(data), "surrogatepass")
        return _freeze(json_parse(text))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def json_parse(text: str) -> object:
    """Parse JSON text into plain values. Raises ValueError, for NaN and infinities too, and RecursionError."""
    return _STRICT.decode(text)


def json_dump(value: object) -> str:
    """Compact JSON text in the order given; frozen values are welcome anywhere inside."""
    return _WIRE.encode(value)


def wire_bytes(value: object) -> bytes:
    """Return compact JSON bytes, with lone surrogates, which UTF-8 cannot express, as U+FFFD."""
    return _utf8(_WIRE.encode(value))


def canonical_bytes(value: object) -> bytes:
    """Encode a value in its only canonical form: sorted keys, no spaces, UTF-8. Equal values have equal bytes."""
    return _utf8(_CANONICAL.encode(value))


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return valid_text(text).encode()


def sha256_hex(data: bytes) -> str:
    """Return the sha256 of bytes, as 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def valid_text(text: str) -> str:
    """Join surrogate pairs that arrived split, and replace lone surrogates, so that the text is valid Unicode."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def join_pairs(text: str) -> str:
    """Join surrogate pairs that arrived split; lone surrogates stay."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def whole_text(text: str) -> tuple[str, str]:
    """Split a piece of text into valid Unicode, and half of a surrogate pair at its end, which waits for the next
    piece. Earlier lone halves are replaced."""
    half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
    text = text.removesuffix(half)
    return valid_text(text), half


def as_object(value: object) -> Mapping[str, object]:
    """Return the value when it is a JSON object, else an empty one: lenient reading of data from outside."""
    return value if isinstance(value, Mapping) else EMPTY  # pyright: ignore[reportUnknownVariableType]


def as_array(value: object) -> Sequence[object]:
    """Return the value when it is a JSON array, else an empty one."""
    return value if isinstance(value, list | tuple) else ()  # pyright: ignore[reportUnknownVariableType]


def as_str(value: object, default: str = "") -> str:
    """Return the value when it is a string, else the default."""
    return value if isinstance(value, str) else default


def as_int(value: object, default: int = 0) -> int:
    """Return the value when it is a finite number, as an integer, else the default (booleans are not numbers)."""
    if isinstance(value, float):
        return int(value) if isfinite(value) else default
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def as_number(value: object) -> float:
    """Return a number, 0 for anything else, and for one out of a float's range."""
    try:
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
    except OverflowError:
        return 0.0


def _read_object(value: object) -> JsonObject:
    read = _read(value)
    if not isinstance(read, JsonObject):
        raise ValueError(f"a JSON object, not {type(value).__name__}")  # noqa: TRY004 -- pydantic takes these
    return read


_OBJECT = Adapted(_read_object, _write, {"type": "object"})


_HINTS: Mapping[type, str] = {set: "; give a list", frozenset: "; give a list", bytes: "; give text, such as base64"}


def _thaw_mapping(value: object) -> object:
    if isinstance(value, JsonObject):
        return value._items  # noqa: SLF001 -- the encoder only reads it
    raise TypeError(f"not a JSON value: {type(value).__name__}")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is too large a number")
    return number


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


_STRICT = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
_WIRE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_thaw_mapping)
_CANONICAL = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False, default=_thaw_mapping
)
