"""What pydantic reads, writes and describes of our types: all of it, and the same again."""

import json
import subprocess
import sys
from dataclasses import dataclass
from decimal import Decimal

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from sagent.agent import Agent
from sagent.events import AdvisorTally, Denial, Failure, Result
from sagent.lib.json import Json, JsonObject, json_freeze
from sagent.lib.schema import violations
from sagent.messages import Document, Image, Message, Opaque, Private, Text, Thinking, ToolCall, ToolResult
from sagent.testing import ScriptedModel
from sagent.usage import Cost, Usage

PRIVATE = Private("anthropic", json_freeze([1, {"a": None, "b": [True, "x"]}]))
MESSAGE = Message(
    "assistant",
    (
        Text("a", PRIVATE),
        Thinking("a", PRIVATE),
        Thinking("a"),
        Opaque("a", PRIVATE),
        Image("image/png", b"\xff\x00"),
        Document("application/pdf", b"\xfe"),
        Document("application/pdf", b"", name="x.pdf"),
        ToolCall("1", "Read", json_freeze({"z": 1, "a": [2.5, {"deep": []}]})),
        ToolCall("2", "Read", malformed="{"),
        ToolResult("1", (Text("t"), Image("image/png", b"\x89"), Document("application/pdf", b"d")), is_error=True),
    ),
    sender="job:3",
    model="anthropic/claude-sonnet-4-6",
    stop="tool_use",
)


@dataclass
class Recipe:
    name: str


class Dish(BaseModel):
    name: str


class Kept(BaseModel):
    """A program's own model with ours in it."""

    message: Message
    arguments: JsonObject
    anything: Json


RESULT = Result(
    "a",
    MESSAGE.parts,
    "max_turns",
    error=Failure("max_turns", "too many"),
    usage=Usage(1, 2, fees={"web_search": 1}),
    cost=Cost(Decimal("0.1"), by_model={"a/b": Decimal("0.1")}, unpriced=("c/d",)),
    run_usd=Decimal("0.05"),
    denials=(Denial("Bash", "1", "no"),),
    advisors={"strong": AdvisorTally(1, usd=None)},
)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Message, MESSAGE),
        (Result, RESULT),
        (Result[Recipe], Result("a", (), "end", data=Recipe("soup"))),
        (Result[Dish], Result("a", (), "end", data=Dish(name="soup"))),
        (Result[list[Recipe]], Result("a", (), "end", data=[Recipe("soup")])),
        (Kept, Kept(message=MESSAGE, arguments=JsonObject({"a": 1}), anything=(1, "x"))),
        (list[Message], [MESSAGE, MESSAGE]),
    ],
    ids=str,
)
def test_written_value_is_read_and_fits_schema(kind: type[object], value: object) -> None:
    adapter = TypeAdapter(kind)
    text = adapter.dump_json(value)
    assert adapter.validate_json(text) == value
    assert adapter.validate_python(adapter.dump_python(value)) == value
    assert adapter.validate_python(value) == value
    for mode in ("validation", "serialization"):
        schema = adapter.json_schema(mode=mode)
        assert violations(json_freeze(schema), json_freeze(json.loads(text))) == []


async def test_run_result_is_written_and_read() -> None:
    async with Agent(ScriptedModel('{"name": "soup"}')) as agent:
        result = await agent.run("A dish?", output=Recipe)
    adapter = TypeAdapter(Result[Recipe])
    assert adapter.validate_json(adapter.dump_json(result)) == result
    assert json.loads(adapter.dump_json(result))["data"] == {"name": "soup"}
    parts = json.loads(TypeAdapter(Result).dump_json(result))["parts"]
    assert parts == [{"type": "text", "text": '{"name": "soup"}', "private": None}]


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([{"text": "a"}], "Unable to extract tag"),
        ([{"type": "poem", "text": "a"}], "'poem'.*does not match any of the expected tags"),
        (["a"], "'str'.*does not match any of the expected tags"),
        ([{"type": "image", "media_type": "image/png", "data": "?"}], "Invalid base64|Only base64|base64"),
        ([{"type": "image", "media_type": "image/png", "data": 3}], "bytes, or text in base64, not int"),
        ([{"type": "tool_call", "id": "1", "name": "x", "arguments": [1]}], "a JSON object, not list"),
        ([{"type": "tool_call", "id": "1", "name": "x", "arguments": {"a": {1, 2}}}], "not a JSON value: set"),
    ],
)
def test_non_message_is_refused(parts: object, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        TypeAdapter(Message).validate_python({"role": "user", "parts": parts})


def test_pydantic_is_imported_only_on_use() -> None:
    program = "import sys, sagent.codec, sagent.agent; print([name for name in sys.modules if 'pydantic' in name])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
