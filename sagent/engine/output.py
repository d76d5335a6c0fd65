"""Answers as data: the schema of a type, its words for a model, and one chance to repair an answer that does not fit.

Where the provider shows the schema to its model and holds it to it, nothing is said; elsewhere the schema is told in a
message after the prompt, for the system prompt is fixed. Either way the answer is checked here.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NoReturn, cast

from sagent.engine.inbox import Arrived
from sagent.engine.loop import take_turn
from sagent.engine.state import AgentState
from sagent.errors import ModelError, UsageError
from sagent.events import Failure, Notice
from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, JsonObject, json_dump, json_freeze, json_freeze_object, json_thaw
from sagent.lib.schema import coerce, violations
from sagent.messages import user
from sagent.model import Structuring

_WRAP = "value"  # what an answer that is no object is called in the object that providers want
_MOST_TRIES = 100  # places in an answer where a value may begin
_MOST_WRONG = 10  # faults that are told
_FENCE = re.compile(r"```[a-zA-Z0-9]*[ \t]*\n(.*?)\n?```", re.DOTALL)
_SCHEMA_REFUSED = re.compile(
    r"schema|response_?format|responsemime|output_config|text\.format|structured|json|grammar", re.IGNORECASE
)

TOLD = """\
Answer the request above with one JSON value that fits the schema below, and with nothing else: no words around it and \
no code fence. You may use tools before. This holds for this request only.

{schema}"""
REPAIR = """\
That answer cannot be used: {wrong}

Give the whole answer again, as one JSON value{schema}, with nothing around it."""


@dataclass(frozen=True, slots=True)
class Output:
    """What an answer is to be. `schema` is always an object's: anything else is its one member `value`.

    `read` makes data of a parsed value; it raises ValueError saying what is wrong.
    """

    schema: JsonObject
    read: Callable[[object], object]
    wrapped: bool = False

    def find(self, text: str) -> object:
        """The data in an answer, which may have words or a code fence around it. Raises ValueError.

        Of several values the last that fits counts: models think aloud before they answer.
        """
        wrong: list[str] = []
        for value in _values(text):
            try:
                return self._unwrap(value)
            except ValueError as error:
                wrong.append(str(error))
        if self.wrapped and text.strip():  # a single word needs no JSON
            try:
                return self.read(text.strip())
            except ValueError as error:
                wrong.append(str(error))
        raise ValueError(wrong[0] if wrong else "there is no JSON in it." if text.strip() else "it is empty.")

    def _unwrap(self, value: object) -> object:
        if self.wrapped and isinstance(value, dict) and set(value) == {_WRAP}:  # pyright: ignore[reportUnknownArgumentType] -- parsed JSON
            return self.read(value[_WRAP])  # pyright: ignore[reportUnknownArgumentType] -- parsed JSON
        return self.read(value)  # pyright: ignore[reportUnknownArgumentType] -- parsed JSON


def output_of(form: object) -> Output:
    """What a person asked for: a JSON Schema as a mapping, or a type that pydantic knows: a model, a dataclass, ...

    Raises UsageError where it is neither.
    """
    if isinstance(form, Mapping):
        try:
            schema = json_freeze_object(form)  # pyright: ignore[reportUnknownArgumentType] -- checked there
        except TypeError as error:
            raise UsageError(f"output: that is no JSON Schema: {error}") from error
        return _in_object(schema, lambda value: _read_by_schema(schema, value))
    from pydantic import PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter

    try:
        adapter = TypeAdapter[object](cast("type[object]", form))
        if adapter.core_schema.get("type") == "call":
            raise TypeError("it is a function.")
        schema = json_freeze_object({**adapter.json_schema()})
    except (PydanticUserError, PydanticUndefinedAnnotation, TypeError) as error:
        raise UsageError(
            f"output: {form!r:.100} cannot be asked for: {str(error).splitlines()[0]} It takes a pydantic model, a "
            "dataclass, a TypedDict, another type that pydantic knows, or a JSON Schema as a mapping."
        ) from error
    return _in_object(schema, lambda value: _read_by_type(adapter.validate_json, value))


async def take_structured_turn(state: AgentState, output: Output) -> tuple[str, object, Failure | None]:
    """Take a turn whose answer is to be data: why it ended, the data, and what is wrong where there is none.

    An answer that does not fit is told what is wrong and may be given once more.
    """
    state.context.output_schema = output.schema
    try:
        told = not _held(state)
        if told:
            _tell(state, output)
        reason, told = await _turn(state, output, told=told)
        if reason not in ("end", "stop_sequence"):
            return reason, None, None
        try:
            return reason, output.find(_said(state)), None
        except ValueError as error:
            wrong = str(error)
        state.journal.emit(
            Notice(state.path, "info", f"The answer does not fit what was asked for, and is asked for again: {wrong}")
        )
        told = told or _held(state)
        schema = "" if told else f" that fits this schema:\n\n{json_dump(output.schema)}\n\n"
        state.inbox.put(Arrived(user(REPAIR.format(wrong=wrong, schema=schema), sender="sagent")))
        reason, _ = await _turn(state, output, told=told)
        if reason not in ("end", "stop_sequence"):
            return reason, None, None
        try:
            return reason, output.find(_said(state)), None
        except ValueError as error:
            failure = Failure(
                "invalid_output", f"the answer does not fit what was asked for, nor did its repair: {error}"
            )
            return reason, None, failure
    finally:
        state.context.output_schema = None


async def _turn(state: AgentState, output: Output, *, told: bool) -> tuple[str, bool]:
    """A turn; begun again without the schema where the provider refuses that. Also, whether it is told in words now."""
    try:
        return await take_turn(state), told
    except ModelError as error:
        refused = error.kind in ("invalid_request", "permission") and _SCHEMA_REFUSED.search(str(error))
        if state.context.output_schema is None or not refused:
            raise
        words = f"The answer is not held to its schema, which is told in words only. {error}"
        state.journal.emit(Notice(state.path, "warning", words))
    state.context.output_schema = None
    if not told:
        _tell(state, output)
    return await take_turn(state), True


def _held(state: AgentState) -> bool:
    """Whether the provider shows the schema to its model."""
    return isinstance(state.model, Structuring) and state.model.structures(state.context.request())


def _tell(state: AgentState, output: Output) -> None:
    state.inbox.put(Arrived(user(TOLD.format(schema=json_dump(output.schema)), sender="sagent")))


def _said(state: AgentState) -> str:
    return next((message.content for message in reversed(state.context.history) if message.role == "assistant"), "")


# ---------------------------------------------------------------------------------------------------------------------
# Schemas


def _in_object(schema: JsonObject, read: Callable[[object], object]) -> Output:
    """The schema as an object's: a reference at the top is written out, and what is no object is put into one."""
    definitions = {name: schema[name] for name in ("$defs", "definitions") if name in schema}
    target = schema.get("$ref")
    if isinstance(target, str):
        place, _, name = target.removeprefix("#/").partition("/")
        found = definitions.get(place, EMPTY)
        named = found.get(name) if isinstance(found, JsonObject) else None
        if isinstance(named, JsonObject):
            schema = JsonObject({**named, **definitions})
    if schema.get("type") == "object":
        return Output(schema, read)
    inner = JsonObject({name: value for name, value in schema.items() if name not in definitions})
    members = {"type": "object", "properties": {_WRAP: inner}, "required": [_WRAP], "additionalProperties": False}
    return Output(json_freeze_object({**members, **definitions}), read, wrapped=True)


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
    except Exception as error:  # a validator of the person's own may raise anything; what was paid for is kept
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _listed(wrong: list[str]) -> str:
    more = f"; and {len(wrong) - _MOST_WRONG} more" if len(wrong) > _MOST_WRONG else ""
    return "; ".join(wrong[:_MOST_WRONG]) + more + "."


# ---------------------------------------------------------------------------------------------------------------------
# JSON among words


def _values(text: str) -> Iterator[object]:
    """The JSON values in a text, the likeliest first: all of it, what is in fences, what stands among words."""
    decoder = json.JSONDecoder(strict=False, parse_constant=_refuse, parse_float=_finite)
    pieces = (text, *reversed(_FENCE.findall(text)))
    for piece in dict.fromkeys(piece.strip() for piece in pieces):
        try:
            yield decoder.decode(piece)
        except (ValueError, RecursionError):
            continue
    found: list[object] = []
    at = 0
    for _ in range(_MOST_TRIES):
        starts = [place for mark in "{[" if (place := text.find(mark, at)) >= 0]
        if not starts:
            break
        at = min(starts)
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
        else:
            found.append(value)
    yield from reversed(found)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _refuse(digits)
