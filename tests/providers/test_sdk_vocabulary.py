"""Whatever the official SDKs' types name, read, kept, and sent back as it was: also what no recording holds.

A newer SDK that knows a further block, item or reason is tested with it.
"""

import json
from collections.abc import Iterator
from datetime import datetime
from enum import Enum
from types import UnionType
from typing import Annotated, Literal, Union, get_args, get_origin

import pytest
from pydantic import BaseModel, TypeAdapter

from sagent.errors import ModelError
from sagent.messages import Message, Text, Thinking, ToolCall, user
from sagent.model import Request
from sagent.providers import Anthropic, Google, OpenAI
from sagent.providers.families.model import WireModel
from sagent.providers.families.responses.events import CLIENT_CALLS
from sagent.providers.wire.reply import ReplyReader


def members(kind: object) -> Iterator[type[BaseModel]]:
    """The models of a union."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, UnionType):
        for each in get_args(kind):
            yield from members(each)
    else:
        assert isinstance(kind, type)
        assert issubclass(kind, BaseModel)
        yield kind


def sample(kind: object, name: str = "") -> object:
    """A value of a type, with every member it may have."""
    if get_origin(kind) is Annotated:
        return sample(get_args(kind)[0], name)
    if get_origin(kind) is Literal:
        return get_args(kind)[0]
    if get_origin(kind) in (Union, UnionType):
        return sample(next(each for each in get_args(kind) if each is not type(None)), name)
    if get_origin(kind) is list:
        return [sample(get_args(kind)[0], name)]
    if get_origin(kind) is dict:
        return {"key": sample(get_args(kind)[1], name)}
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {each.alias or key: sample(each.annotation, key) for key, each in kind.model_fields.items()}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return list(kind)[-1].value
    if name == "arguments":
        return "{}"
    plain = {str: f"a_{name}", int: 7, float: 1.5, bool: True, bytes: "QUJD", datetime: "2026-01-01T00:00:00Z"}
    return plain.get(kind, {"any": 1})


def draft_of(model: WireModel) -> ReplyReader:
    return model.prepare(Request("c", [user("hi")])).reader


def sent_back(model: WireModel, said: Message) -> dict:
    """The body of the request after a reply."""
    body = model.prepare(Request("c", [user("before"), said, user("after")])).body
    return json.loads(b"".join(body.parts))


CLAUDE = Anthropic.from_key("k").model("claude-sonnet-4-6")
GPT = OpenAI.from_key("k").model("gpt-5.4")
GEMINI = Google.from_key("k").model("gemini-3-flash-preview")


def test_every_block_of_messages() -> None:
    beta = pytest.importorskip("anthropic.types.beta")
    from anthropic.types.beta.beta_raw_content_block_start_event import ContentBlock

    adapter = TypeAdapter(beta.BetaMessageParam)
    seen = 0
    for kind in members(ContentBlock):
        block = sample(kind)
        assert isinstance(block, dict)
        asks = block["type"].endswith("tool_use")  # its result stands beside it, else it is ours to give
        result = {"type": "web_search_tool_result", "tool_use_id": block.get("id"), "content": []}
        if block["type"] == "mcp_tool_use":
            result = {"type": "mcp_tool_result", "tool_use_id": block["id"], "is_error": False, "content": []}
        blocks = [block, *([result] if asks and block["type"] != "tool_use" else []), {"type": "text", "text": "end"}]
        reader = draft_of(CLAUDE)
        reader.feed({"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 1}}}, [])
        for index, each in enumerate(blocks):
            reader.feed({"type": "content_block_start", "index": index, "content_block": each}, [])
            reader.feed({"type": "content_block_stop", "index": index}, [])
        reader.feed({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}, [])
        reader.feed({"type": "message_stop"}, [])
        said = reader.message()
        turn = sent_back(CLAUDE, said)["messages"][1]
        if block["type"] == "tool_use":
            assert [type(part) for part in said.parts] == [ToolCall, Text]
        elif block["type"] == "tool_search_tool_result":  # it names tools, and goes where these are deferred
            assert "tool_search" not in json.dumps(turn)
        else:
            assert turn["content"][: len(blocks)] == blocks, kind.__name__
        adapter.validate_python(turn, extra="forbid")
        seen += 1
    assert seen >= 18


def test_every_stop_reason_of_messages() -> None:
    beta = pytest.importorskip("anthropic.types.beta")
    from sagent.providers.families.anthropic.events import _STOPS

    assert set(get_args(beta.BetaStopReason)) <= set(_STOPS)


def test_every_output_item_of_responses() -> None:
    responses = pytest.importorskip("openai.types.responses")
    seen = 0
    for kind in members(responses.ResponseOutputItem):
        item = sample(kind)
        assert isinstance(item, dict)
        item["id"] = {"message": "msg_1", "reasoning": "rs_1", "function_call": "fc_1"}.get(item["type"], "x_1")
        answer = {"id": "msg_9", "type": "message", "role": "assistant", "status": "completed", "content": []}
        answer["content"] = [{"type": "output_text", "text": "end", "annotations": []}]
        response = {"id": "resp_1", "status": "completed", "output": [item, answer]}
        drafts = draft_of(GPT), draft_of(GPT)
        drafts[0].whole(response, [])
        for index, each in enumerate(response["output"]):
            drafts[1].feed({"type": "response.output_item.added", "output_index": index, "item": each}, [])
            drafts[1].feed({"type": "response.output_item.done", "output_index": index, "item": each}, [])
        drafts[1].feed({"type": "response.completed", "response": {**response, "output": []}}, [])
        said = drafts[0].message()
        assert said == drafts[1].message(), kind.__name__
        back = sent_back(GPT, said)["input"]
        match item["type"]:
            case "function_call" | "custom_tool_call":
                assert [type(part) for part in said.parts] == [ToolCall, Text]
            case "message" | "reasoning":
                assert type(said.parts[0]) is (Text if item["type"] == "message" else Thinking)
                assert item["id"] in [each.get("id") for each in back]
            case call if call in CLIENT_CALLS:  # only their outputs, which we do not have, would let them go back
                assert item["id"] not in [each.get("id") for each in back]
            case _:
                kept = {name: value for name, value in item.items() if name != "created_by"}
                assert kept in back, kind.__name__
        seen += 1
    assert seen >= 25


def test_every_responses_event_is_taken() -> None:
    responses = pytest.importorskip("openai.types.responses")
    ends = ("response.completed", "response.failed", "response.incomplete")
    seen = 0
    for kind in members(responses.ResponseStreamEvent):
        event = sample(kind)
        assert isinstance(event, dict)
        reader = draft_of(GPT)
        if event["type"] in ends:
            with pytest.raises(ModelError, match="a_message"):  # the sample has an error
                reader.feed(event, [])
        else:
            reader.feed(event, [])
            reader.message()
        seen += 1
    assert seen >= 50


def test_every_part_of_generate_content() -> None:
    types = pytest.importorskip("google.genai").types
    seen = 0
    for name, field in types.Part.model_fields.items():
        key = field.alias or name
        if key in ("thought", "thoughtSignature"):
            continue
        for signature in ({}, {"thoughtSignature": "c2ln"}):
            part = {key: sample(field.annotation, name), **signature}
            reader = draft_of(GEMINI)
            candidate = {"content": {"role": "model", "parts": [part, {"text": " end"}]}, "finishReason": "STOP"}
            reader.feed({"responseId": "r", "candidates": [candidate]}, [])
            turn = sent_back(GEMINI, reader.message())["contents"][1]
            if key == "functionCall":
                assert turn["parts"][0]["functionCall"]["name"] == "a_name"
            elif key == "text" and not signature:
                assert turn["parts"] == [{"text": "a_text end"}]
            else:
                assert turn["parts"] == [part, {"text": " end"}], key
            types.Content.model_validate(turn)
        seen += 1
    assert seen >= 12


def test_every_generate_content_finish_reason() -> None:
    types = pytest.importorskip("google.genai").types
    for reason in types.FinishReason:
        reader = draft_of(GEMINI)
        chunk = {"candidates": [{"content": {"parts": [{"text": "Some."}]}, "finishReason": reason.value}]}
        if reason.value in ("MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE"):
            with pytest.raises(ModelError, match=reason.value):
                reader.feed(chunk, [])
            continue
        reader.feed(chunk, [])
        said = reader.message()
        assert said.content == "Some."
        told = said.stop in ("end", "max_tokens")
        assert told or reader.notes() == (f"the provider stopped the answer: {reason.value}",)
