"""The form of an answer, from types, functions or a JSON Schema: its schema, and how to read data from an answer."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial, wraps
from inspect import Signature, isroutine
from typing import Annotated, Union, cast

from sagent.agent.structured import Output
from sagent.errors import UsageError
from sagent.lib.json import EMPTY, JsonObject, as_array, json_dump, json_freeze, json_freeze_object, json_thaw
from sagent.lib.nearjson import fences, read_near, values_among
from sagent.lib.schema import coerce, violations

_WRAP = "value"  # name of an answer that is not an object, in the object that providers require
_MAX_TRIES = 100  # positions in an answer to try
_MAX_NAMED_FAULTS = 10


def output_of(form: object) -> Output:
    """Return the form of a JSON Schema, a type that pydantic knows, a function of such types, or a list of these to
    choose from. Raises UsageError for anything else."""
    if isinstance(form, Mapping):
        try:
            schema = json_freeze_object(form)  # pyright: ignore[reportUnknownArgumentType] -- checked there
        except TypeError as error:
            raise UsageError(f"output: not a JSON Schema: {error}") from error
        return _in_object(schema, lambda value: _read_by_schema(schema, value))
    from pydantic import PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter

    try:
        forms = tuple(map(_wanted, as_array(form) or (form,)))
        adapter = TypeAdapter[object](cast("type[object]", Union[forms]))  # noqa: UP007 -- of any number
        schema = json_freeze_object({**adapter.json_schema()})
    except (PydanticUserError, PydanticUndefinedAnnotation, TypeError, AttributeError) as error:
        unknown = isinstance(error, PydanticSchemaGenerationError | AttributeError)  # texts about pydantic's internals
        why = "pydantic has no schema for it." if unknown else str(error).splitlines()[0]
        raise UsageError(
            f"output: {form!r:.100} cannot be asked for: {why} Give a pydantic model, a dataclass, a TypedDict "
            "(before Python 3.12 of typing_extensions), another type that pydantic knows, a function whose parameters "
            "are such types, a list of these, or a JSON Schema."
        ) from error
    return _in_object(schema, lambda value: _read_by_type(adapter.validate_json, value))


def _wanted(form: object) -> object:
    """Return a type as it is, and for a function one that returns the call to make, without making it."""
    if not (isroutine(form) or isinstance(form, partial)):
        return form
    from pydantic import Field

    from sagent.tools.signature import name_of, parameters_of, text_of

    function = cast("Callable[..., object]", form)
    inner = cast("Callable[..., object]", form.func) if isinstance(form, partial) else function

    @wraps(inner)
    def call_of(*args: object, **given: object) -> object:
        return partial(function, *args, **given)

    vars(call_of)["__signature__"] = Signature(parameters_of(function, name_of(function, "")))  # without bound ones
    return Annotated[call_of, Field(description=text_of(function, ())[0] or None)]


def _find(text: str, read: Callable[[object], object], *, wrapped: bool) -> object:
    """Return the data in an answer, which may be inside text or a code fence. Raises ValueError.

    `read` converts a parsed value, or raises ValueError that says what is wrong. If `wrapped`, the schema is that of an
    object whose only member `value` is the requested one. The last of several matching values counts, because models
    think aloud before they answer.
    """
    wrong: list[str] = []
    for value in _values(text):
        try:
            if wrapped and isinstance(value, dict) and set(value) == {_WRAP}:  # pyright: ignore[reportUnknownArgumentType] -- parsed JSON
                return read(value[_WRAP])  # pyright: ignore[reportUnknownArgumentType] -- parsed JSON
            return read(value)  # pyright: ignore[reportUnknownArgumentType] -- parsed JSON
        except ValueError as error:
            wrong.append(str(error))
    if wrapped and text.strip():  # a single word needs no JSON
        try:
            return read(text.strip())
        except ValueError as error:
            wrong.append(str(error))
    raise ValueError(wrong[0] if wrong else "it has no JSON." if text.strip() else "it is empty.")


# ---------------------------------------------------------------------------------------------------------------------
# Schemas


def _in_object(schema: JsonObject, read: Callable[[object], object]) -> Output:
    """Return an output whose schema is an object: expand a reference at the top, wrap anything else in an object."""
    definitions = {name: schema[name] for name in ("$defs", "definitions") if name in schema}
    target = schema.get("$ref")
    if isinstance(target, str):
        place, _, name = target.removeprefix("#/").partition("/")
        found = definitions.get(place, EMPTY)
        named = found.get(name) if isinstance(found, JsonObject) else None
        if isinstance(named, JsonObject):
            schema = JsonObject({**named, **definitions})
    if schema.get("type") == "object":
        return Output(schema, partial(_find, read=read, wrapped=False))
    inner = JsonObject({name: value for name, value in schema.items() if name not in definitions})
    members = {"type": "object", "properties": {_WRAP: inner}, "required": [_WRAP], "additionalProperties": False}
    return Output(json_freeze_object({**members, **definitions}), partial(_find, read=read, wrapped=True))


def _read_by_schema(schema: JsonObject, value: object) -> object:
    try:
        read = coerce(schema, json_freeze(value))
        wrong = violations(schema, read)
        data = json_thaw(read)
    except RecursionError as error:
        raise ValueError("it is nested too deeply.") from error
    if wrong:
        raise ValueError(_listed(wrong))
    return data


def _read_by_type(validate: Callable[[str], object], value: object) -> object:
    from pydantic import ValidationError

    try:
        return validate(json_dump(value))
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        wrong = [": ".join(filter(None, (".".join(map(str, each["loc"])), each["msg"]))) for each in found]
        raise ValueError(_listed(wrong)) from error
    except Exception as error:  # a person's own validator may raise anything; keep the paid answer
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _listed(wrong: list[str]) -> str:
    more = f"; and {len(wrong) - _MAX_NAMED_FAULTS} more" if len(wrong) > _MAX_NAMED_FAULTS else ""
    return "; ".join(wrong[:_MAX_NAMED_FAULTS]) + more + "."


# JSON inside text


def _values(text: str) -> Iterator[object]:
    """Yield the JSON values in a text, likeliest first: the whole text, contents of fences, values inside text."""
    pieces = (text, *reversed(fences(text)))
    for piece in dict.fromkeys(piece.strip() for piece in pieces):
        with suppress(ValueError):
            yield read_near(piece).value
    yield from reversed(list(values_among(text, _MAX_TRIES)))
