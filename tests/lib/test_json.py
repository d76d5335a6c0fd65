"""JSON values: from outside, read leniently; from a program, taken as they are, or refused by path."""

import json
from collections import OrderedDict
from collections.abc import Callable
from enum import Enum, IntEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from sagent.lib.json import Json, JsonObject, NotJsonError, as_int, json_dump, json_freeze, json_load, json_thaw
from sagent.messages import Message, Private, Text, ToolCall, assistant
from sagent.model import Request, RequestDigest, ToolSpec
from sagent.policy import Allow
from sagent.tool import ToolOutput

leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(
    leaves, lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)
objects = st.dictionaries(st.text(), values)


@pytest.mark.parametrize(
    ("value", "read"),
    [(3, 3), (3.9, 3), (-2.0, -2), (10**30, 10**30), (True, 7), ("3", 7), (None, 7)]
    + [(float(odd), 7) for odd in ("inf", "-inf", "nan")],
)
def test_count_is_a_whole_number_or_none(value: object, read: int) -> None:
    assert as_int(value, 7) == read


def is_frozen(value: Json) -> bool:
    if isinstance(value, JsonObject):
        return all(map(is_frozen, value.values()))
    if isinstance(value, tuple):
        return all(map(is_frozen, value))
    return value is None or isinstance(value, str | bool | int | float)


@given(objects)
def test_nested_json_is_frozen_and_thawed(value: dict[str, Any]) -> None:
    for made in (json_freeze(value), JsonObject(value), ToolCall("1", "x", value).arguments):
        assert is_frozen(made)
        assert hash(made) == hash(json_freeze(value))
        assert json_dump(made) == json_dump(value)
        assert json_thaw(made) == json.loads(json.dumps(value))
        assert json_load(json_dump(made)) == made


MAKERS: dict[str, Callable[[Any], object]] = {
    "ToolCall.arguments": lambda given: ToolCall("1", "x", given).arguments,
    "Request.options": lambda given: Request("c", (), options=given).options,
    "Request.output_schema": lambda given: Request("c", (), output_schema=given).output_schema,
    "ToolSpec.parameters": lambda given: ToolSpec("x", "x", given).parameters,
    "RequestDigest.parameters": lambda given: RequestDigest("", 0, "m", given).parameters,
    "Private.data": lambda given: Private("x", given).data,
    "Allow.arguments": lambda given: Allow(given).arguments,
    "JsonObject": JsonObject,
}


@pytest.mark.parametrize("made", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("kind", [dict, OrderedDict, MappingProxyType, JsonObject])
def test_fields_take_plain_json(made: Callable[[Any], object], kind: Callable[[Any], Any]) -> None:
    given: dict[str, Any] = {"a": {"b": [1, (2, {"c": None})]}}
    found = made(kind(given))
    assert found == json_freeze(given)
    assert isinstance(found, JsonObject)
    assert is_frozen(found)
    given["a"]["b"].append(3)  # what is given may change; what was taken does not
    assert found["a"]["b"] == (1, (2, JsonObject({"c": None})))  # pyright: ignore[reportArgumentType, reportCallIssue, reportIndexIssue, reportOptionalSubscript]


@pytest.mark.parametrize("made", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"a": [1, 2, {3}]}, r"a\[2\]: not a JSON value: set"),
        ({"a": [{"b c": float("nan")}]}, r"a\[0\]\['b c'\]: not a JSON value: nan"),
        ({"a": {"b": (float("inf"),)}}, r"a\.b\[0\]: not a JSON value: inf"),
        ({"a": b"x"}, r"a: not a JSON value: bytes; give text"),
        ({"a": {"b": {1: 2}}}, r"a\.b.*key must be a string, not int"),
        ({"a": Path("x")}, r"a: not a JSON value: PosixPath"),
    ],
)
def test_non_json_is_named_by_path(made: Callable[[Any], object], wrong: Any, said: str) -> None:
    with pytest.raises(NotJsonError, match=said):
        made(wrong)


def test_self_containing_value_is_refused() -> None:
    endless: list[Any] = []
    endless.append({"again": endless})
    with pytest.raises(NotJsonError, match="options: nested too deeply, or it contains itself"):
        Request("c", (), options={"x": endless} | {"y": 1})


def test_pydantic_reads_and_writes_json_fields() -> None:
    adapter = TypeAdapter(Message)
    message = assistant("", ToolCall("1", "x", {"a": {"b": [1]}}, private=Private("f", {"k": [1]})), Text("t"))
    assert adapter.validate_json(adapter.dump_json(message)) == message


def test_tool_output_of_json() -> None:
    assert ToolOutput.of({"a": [1, {"b": None}]}).content == (Text('{"a":[1,{"b":null}]}'),)
    assert ToolOutput.of([1, "x"]).content == (Text('[1,"x"]'),)
    assert ToolOutput.of(None).content == (Text("null"),)
    assert ToolOutput.of("as is").content == (Text("as is"),)
    with pytest.raises(NotJsonError, match=r"result\.a\[0\]: not a JSON value: set"):
        ToolOutput.of({"a": [{1}]})


class _Color(str, Enum):  # noqa: UP042 -- whose str() is not its value
    RED = "red"


class _Level(IntEnum):
    LOW = 1


class _Share(float):
    pass


def test_str_and_number_subclasses_become_plain() -> None:
    call = ToolCall("1", "paint", {_Color.RED: [_Color.RED, _Level.LOW, _Share(0.5), True]})
    ((key, values),) = call.arguments.items()
    assert (key, values) == ("red", ("red", 1, 0.5, True))
    assert isinstance(values, tuple)
    assert [type(each) for each in (key, *values)] == [str, str, int, float, bool]
    assert f"{key} {values[0]} {values[1]}" == "red red 1"
