"""The fake provider's Responses family: read by the official SDK, and as strict as the real API."""

import json

import pytest

from sagent.testing.families import FAMILIES, family_of
from sagent.testing.script import Call, Cut, ErrorEvent, Fail, Received, Turn
from sagent.testing.server import FakeProviderServer
from sagent.usage import Usage

USAGE = Usage(input=10, cache_read=200, cache_write=30, output=50, reasoning=7)
TURN = Turn("Hello ✓", thinking="Hm.", calls=(Call("Read", {"path": "ä"}), Call("Read")), usage=USAGE, pieces=3)


def client_of(server: FakeProviderServer):
    openai = pytest.importorskip("openai")
    return openai.AsyncOpenAI(api_key="k", base_url=server.url + "/v1", max_retries=0)


def shape(response) -> list[tuple]:
    """What a reply says, item by item."""
    said: list[tuple] = []
    for item in response.output:
        if item.type == "reasoning":
            said.append((item.type, item.summary[0].text, bool(item.encrypted_content)))
        elif item.type == "message":
            said.append((item.type, item.content[0].type, item.phase))
        else:
            said.append((item.type, item.name, item.arguments))
    return said


@pytest.mark.costly
@pytest.mark.parametrize("stream", [True, False])
async def test_openai_sdk_reads_responses_turn(stream):
    asked = {"model": "m", "input": "hi", "store": False, "include": ["reasoning.encrypted_content"]}
    async with FakeProviderServer([TURN]) as server, client_of(server) as client:
        if stream:
            async with client.responses.stream(**asked) as events:
                text = "".join([event.delta async for event in events if event.type == "response.output_text.delta"])
                response = await events.get_final_response()
            assert text == "Hello ✓"
        else:
            response = await client.responses.create(**asked)
    assert response.output_text == "Hello ✓"
    assert shape(response) == [
        ("reasoning", "Hm.", True),
        ("message", "output_text", "commentary"),
        ("function_call", "Read", '{"path":"ä"}'),
        ("function_call", "Read", "{}"),
    ]
    usage = response.usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (240, 50, 290)
    assert (usage.input_tokens_details.cached_tokens, usage.input_tokens_details.cache_write_tokens) == (200, 30)
    assert (response.status, server.requests[0].family) == ("completed", "responses")


@pytest.mark.parametrize(
    ("stop", "status", "reason"),
    [
        ("end", "completed", None),
        ("max_tokens", "incomplete", "max_output_tokens"),
        ("content_filter", "incomplete", "content_filter"),
        ("steered", "incomplete", "steered"),
    ],
)
async def test_stop_reasons_are_statuses(stop, status, reason):
    async with FakeProviderServer([Turn("x", stop=stop)]) as server, client_of(server) as client:
        response = await client.responses.create(model="m", input="hi")
    assert response.status == status
    assert (response.incomplete_details and response.incomplete_details.reason) == reason


async def test_refusal_has_its_own_part():
    async with FakeProviderServer([Turn("No.", stop="refusal")]) as server, client_of(server) as client:
        response = await client.responses.create(model="m", input="hi")
    assert (response.output[0].content[0].type, response.output[0].content[0].refusal) == ("refusal", "No.")


async def test_errors_are_those_of_the_sdk():
    openai = pytest.importorskip("openai")
    steps = [Fail(429), ErrorEvent(Turn("abc", pieces=1), 5, message="too busy"), Cut(Turn("abc", pieces=1), 5)]
    async with FakeProviderServer(steps) as server, client_of(server) as client:
        with pytest.raises(openai.RateLimitError):
            await client.responses.create(model="m", input="hi", stream=True)
        for error in (openai.APIError, openai.APIConnectionError):
            seen = []
            with pytest.raises(error):
                await watch(client, seen)
            assert seen[-1] == "response.output_text.delta"


async def watch(client, seen: list[str]) -> None:
    async for event in await client.responses.create(model="m", input="hi", stream=True):
        seen.append(event.type)


async def test_uncut_stream_has_last_event():
    async with FakeProviderServer([Cut(TURN, 4, "clean"), TURN]) as server, client_of(server) as client:
        cut, whole = [], []
        for seen in (cut, whole):
            await watch(client, seen)
    assert (len(cut), cut, whole[-1]) == (4, whole[:4], "response.completed")


CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "Read", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "ok"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
USER = {"role": "user", "content": "hi"}


def complaint(*items: dict, **more: object) -> str:
    body = {"model": "gpt-5.5", "input": [USER, *items], "store": False, **more}
    received = Received("POST", "/v1/responses", "", {}, b"", json.loads(json.dumps(body)), 0.0, 1, "responses")
    return next(FAMILIES["responses"].complaints(received), "")


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([CALL], "No tool output found for function call c1"),
        ([OUTPUT], "No tool call found for function call output"),
        ([OUTPUT, CALL], "No tool call found for function call output"),
        ([REASONING], "without its required following item"),
        ([REASONING, USER], "without its required following item"),
        ([{**REASONING, "encrypted_content": None}, CALL, OUTPUT], "not found. Items are not persisted"),
        ([{"type": "item_reference", "id": "rs_1"}], "not found. Items are not persisted"),
        ([{**REASONING, "encrypted_content": "half"}, CALL, OUTPUT], "could not be verified"),
        ([{**REASONING, "encrypted_content": "fake-encrypted-00"}, CALL, OUTPUT], "could not be verified"),
        ([{**CALL, "id": "item_1"}, OUTPUT], "begins with 'fc'"),
        ([{**CALL, "id": "fc_" + "x" * 70}, OUTPUT], "maximum length 64"),
        ([{**CALL, "call_id": "c" * 65}], "maximum length 64"),
        ([{**CALL, "call_id": ""}], "minimum length 1"),
        ([CALL, OUTPUT, {**CALL, "call_id": "c2"}, {**OUTPUT, "call_id": "c2"}], "Duplicate item"),
        ([{"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}], "'output_text' and 'refusal'"),
        ([{"role": "tool", "content": "x"}], "Supported values"),
        ([CALL, {**OUTPUT, "output": []}], "expected one of"),
    ],
)
def test_responses_refuses_malformed(items, words):
    assert words in complaint(*items)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"input": []}, "Missing required parameter: 'input'"),
        ({"max_output_tokens": 15}, "Expected a value >= 16"),
        ({"messages": []}, "moved to 'input'"),
        ({"model": "gpt-4o", "include": ["reasoning.encrypted_content"]}, "not supported with this model"),
        ({"model": "gpt-4o", "reasoning": {"effort": "low"}}, "not supported with this model"),
        ({"tools": [{"type": "function", "name": "a b"}]}, "String should match pattern"),
    ],
)
def test_refused_other_members(more, words):
    assert words in complaint(**more)


def test_responses_accepts_well_formed():
    said = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]}
    image = {**OUTPUT, "output": [{"type": "input_image", "image_url": "data:", "detail": "auto"}]}
    assert complaint(REASONING, said, {**REASONING, "id": "rs_2"}, CALL, image, USER, max_output_tokens=16) == ""
    assert complaint({**REASONING, "encrypted_content": None}, said, store=True) == ""
    assert (family_of("/v1/responses"), family_of("/v1/chat/completions")) == ("responses", "chat")
