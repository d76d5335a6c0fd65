"""Calls that did not arrive whole: they are answered and never made, whoever the provider is."""

import ast
import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagent import Agent, RunLimits, tool
from sagent.codec import decode_message, encode_message
from sagent.engine.dispatch import close_calls
from sagent.errors import ModelError
from sagent.events import ToolStarted
from sagent.lib.json import json_freeze_object
from sagent.messages import CUT, WITHDRAWN, Message, Text, ToolCall, assistant, user
from sagent.model import Provider, Reply, Request
from sagent.plugins.clouds import Bedrock
from sagent.plugins.clouds.sdk.eventstream import server_sent
from sagent.providers import Anthropic, Google, OpenAI, OpenAICompatible, families
from sagent.providers.wire.transport import Answer, DirectTransport
from sagent.session.folds import history
from sagent.testing import ScriptedModel, check_pairing
from sagent.testing.families.converse import frame
from sagent.testing.server import Call, FakeProviderServer, Raw, Step, Turn
from sagent.transcript.event_json import encode_event
from tests.depth import later

ANTHROPIC, RESPONSES, CHAT, GOOGLE, CONVERSE = "anthropic", "responses", "chat", "google", "converse"
FAMILIES = (ANTHROPIC, RESPONSES, CHAT, GOOGLE, CONVERSE)
FAMILY_FOLDER = Path(families.__file__).parent
SSE = (("content-type", "text/event-stream"),)


@pytest.fixture(autouse=True)
def region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def provider_of(family: str, url: str, **more: Any) -> tuple[Provider, str]:
    match family:
        case "anthropic":
            return Anthropic.from_key("k", base_url=url, **more), "claude-sonnet-4-6"
        case "responses":
            return OpenAI.from_key("k", base_url=f"{url}/v1", **more), "gpt-5.5"
        case "chat":
            return OpenAICompatible.from_key("k", base_url=f"{url}/v1", **more), "m"
        case "google":
            return Google.from_key("k", base_url=url, **more), "gemini-3-pro"
        case _:
            return Bedrock.from_key("k", base_url=url, **more), "amazon.nova-pro-v1:0"


class Wipe:
    """A tool whose default is dangerous; remembers the paths that it was called with."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    @property
    def tool(self):
        @tool
        def wipe(path: str = "/everything") -> str:
            """Wipe a directory."""
            self.paths.append(path)
            return "wiped"

        return wipe


async def played(family: str, steps: Sequence[Step]) -> tuple[Wipe, list[str], str, int]:
    """Run an agent; returns what was wiped, the results of its calls, why it ended, and the number of requests."""
    wipe = Wipe()
    async with FakeProviderServer(steps) as server:
        provider, model = provider_of(family, server.url)
        async with Agent(provider.model(model), tools=[wipe.tool]) as agent:
            result = await agent.run("go")
            check_pairing(agent.messages)
            results = [each.text for message in agent.messages for each in message.results]
        await provider.aclose()
    return wipe, results, result.stop_reason, len(server.requests)


# -- every family, over HTTP -------------------------------------------------------------------------------------------


@pytest.mark.costly
@pytest.mark.parametrize("arguments", ["", "{}", '{"path": "/home/al'])
@pytest.mark.parametrize("family", FAMILIES)
async def test_cut_call_is_answered_and_not_run(family: str, arguments: str) -> None:
    cut = Turn(calls=[Call("wipe", arguments, cut=True)], stop="max_tokens")
    wipe, results, reason, _ = await played(family, [cut, Turn("ok")])
    assert (wipe.paths, reason, len(results)) == ([], "end", 1)
    assert all(part in results[0] for part in ("wipe was not run", "output limit"))
    assert "shorter arguments" in results[0]


@later
@pytest.mark.parametrize("family", FAMILIES)
async def test_last_call_of_cut_reply_is_not_run(family: str) -> None:
    """Providers close the block that they cut, so that its end proves nothing."""
    cut = Turn(calls=[Call("wipe", '{"path": "/home"}')], stop="max_tokens")
    wipe, results, _, _ = await played(family, [cut, Turn("ok")])
    assert (wipe.paths, len(results)) == ([], 1)


@pytest.mark.parametrize("family", FAMILIES)
async def test_whole_call_before_cut_one_is_run(family: str) -> None:
    calls = [Call("wipe", {"path": "/tmp/a"}), Call("wipe", "", cut=True)]
    wipe, results, _, _ = await played(family, [Turn(calls=calls, stop="max_tokens"), Turn("ok")])
    assert (wipe.paths, results[0]) == (["/tmp/a"], "wiped")
    assert "not run" in results[1]


@pytest.mark.parametrize("family", [ANTHROPIC, GOOGLE, CONVERSE, RESPONSES])
async def test_open_call_of_ended_reply_is_not_run(family: str) -> None:
    """The reply says that it waits for results, and the call was never closed."""
    calls = [Call("wipe", "", cut=True)]
    wipe, results, _, _ = await played(family, [Turn(calls=calls), Turn("ok")])
    assert (wipe.paths, len(results)) == ([], 1)


@pytest.mark.parametrize("family", FAMILIES)
async def test_call_without_arguments_is_run(family: str) -> None:
    wipe, results, _, _ = await played(family, [Turn(calls=[Call("wipe", "")]), Turn("ok")])
    assert (wipe.paths, results) == (["/everything"], ["wiped"])


@pytest.mark.parametrize("stop", ["content_filter", "refusal"])
@pytest.mark.parametrize("family", FAMILIES)
async def test_withdrawn_reply_runs_no_calls(family: str, stop: str) -> None:
    """Not even those that came whole: the provider takes back what it has said."""
    if stop == "refusal" and family in (RESPONSES, CONVERSE, CHAT):
        stop = "content_filter"  # they say a refusal in their text
    calls = [Call("wipe", {"path": "/tmp/a"}), Call("wipe", "", cut=True)]
    wipe, results, reason, requests = await played(family, [Turn(calls=calls, stop=stop), Turn("ok")])
    assert (wipe.paths, len(results), requests) == ([], 2, 1)
    assert reason in ("content_filter", "refusal")


@pytest.mark.parametrize(
    ("reason", "ended"),
    [
        ("SAFETY", "content_filter"),
        ("guardrail_blocked", "content_filter"),
        ("model_declined", "refusal"),
        ("max_output_reached", "end"),
        ("kv_window_full", "end"),
        ("malformed_call", "error"),
    ],
)
@pytest.mark.parametrize("family", [ANTHROPIC, CHAT, CONVERSE])
async def test_foreign_stop_words_mean_cut(family: str, reason: str, ended: str) -> None:
    """Gateways pass on reasons that nobody has listed."""
    calls = Turn(calls=[Call("wipe", {"path": "/home"})], stop=reason)
    wipe, results, why, _ = await played(family, [calls, Turn("ok")])
    assert (wipe.paths, why, len(results)) == ([], ended, 1)


@pytest.mark.parametrize("family", FAMILIES)
async def test_repeatedly_cut_calls_end_run(family: str) -> None:
    cut = Turn(calls=[Call("wipe", "", cut=True)], stop="max_tokens")
    wipe, results, reason, requests = await played(family, [cut] * 9)
    assert (wipe.paths, len(results), reason, requests) == ([], 3, "max_tokens", 3)


# -- what only one family has ------------------------------------------------------------------------------------------


def stream(*events: Mapping[str, object] | str, named: bool = False) -> Raw:
    lines = list[str]()
    for event in events:
        name = f"event: {event['type']}\n" if named and isinstance(event, Mapping) else ""
        lines.append(f"{name}data: {event if isinstance(event, str) else json.dumps(event)}\n\n")
    return Raw(200, SSE, "".join(lines).encode())


def chunk(finish: str | None = None, **delta: object) -> dict[str, object]:
    return {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def asked(arguments: str, index: int = 0) -> dict[str, object]:
    call = {"index": index, "id": f"c{index}", "type": "function"}
    return chunk(tool_calls=[{**call, "function": {"name": "wipe", "arguments": arguments}}])


@pytest.mark.parametrize(
    ("events", "paths"),
    [
        ((asked(""), "[DONE]"), []),  # nothing says why it ended
        ((asked('{"path": "/a"}'), "[DONE]"), ["/a"]),  # an object ends by itself
        ((asked(""), asked("{}"), "[DONE]"), ["/everything"]),  # recorded of a service that never says why it ends
        ((asked("{}"), "[DONE]"), []),  # what some begin with
        ((asked("{}"), chunk("eot_reached"), "[DONE]"), []),
        ((asked("{}"), chunk("stop"), "[DONE]"), ["/everything"]),
        ((asked(""), chunk("eot_reached"), "[DONE]"), []),  # a reason that nobody knows
        ((asked('{"path": "/a"}'), chunk("eot_reached"), "[DONE]"), ["/a"]),
        ((asked('{"path": "/a"}'), chunk("token_budget"), "[DONE]"), []),  # one that speaks of a limit
        ((asked('{"path": "/a"}'), chunk("PROHIBITED_CONTENT"), "[DONE]"), []),  # of a filter
        ((asked(""), chunk("stop"), "[DONE]"), ["/everything"]),
        ((asked('{"path": "/a"}'), chunk("length"), "[DONE]"), []),
        ((asked('{"path": "/a"}'), chunk(content="Then"), chunk("length"), "[DONE]"), []),  # Chat has no order of both
        ((asked(""), asked("", 1), chunk("length"), "[DONE]"), []),  # announced together, filled later
        ((asked('{"path": "/a"}'), asked('{"path": "/b', 1), chunk("model_length"), "[DONE]"), ["/a"]),
    ],
)
async def test_chat_call_needs_end_or_whole_object(
    events: Sequence[Mapping[str, object] | str], paths: list[str]
) -> None:
    wipe, results, _, _ = await played(CHAT, [stream(*events), Turn("ok")])
    assert wipe.paths == paths
    assert results


@pytest.mark.parametrize("finish", [None, "length", "content_filter"])
async def test_cut_chat_body_call_is_not_run(finish: str | None) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "wipe", "arguments": ""}}
    body = {"id": "c", "choices": [{"index": 0, "message": {"tool_calls": [call]}, "finish_reason": finish}]}
    answer = Raw(200, (("content-type", "application/json"),), json.dumps(body).encode())
    wipe, results, _, _ = await played(CHAT, [answer, Turn("ok")])
    assert (wipe.paths, len(results)) == ([], 1)


def ended(finish: str, **more: object) -> dict[str, object]:
    return {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": finish, **more}]}


@pytest.mark.parametrize("arguments", ["", "{}", '{"path": "/ho', '{"path": "/home"}'])
@pytest.mark.parametrize(
    ("end", "cut"),
    [
        (ended("stop", stop_reason="###"), True),  # vLLM, which completes the JSON of what it cut
        (ended("tool_calls", stop_reason="\n\n"), True),
        (ended("tool_calls", matched_stop="###"), True),  # SGLang
        (ended("stop_sequence"), True),
        (ended("tool_calls", native_finish_reason="STOP_SEQUENCE"), True),  # OpenRouter
        (ended("tool_calls", stop_reason="max_tokens"), True),
        (ended("tool_calls", stop_reason=128009), False),  # a token of the model's own
        (ended("tool_calls", matched_stop="<|im_end|>"), False),
        (ended("tool_calls", stop_reason="stop"), False),
        (ended("tool_calls", stop_reason=None), False),
    ],
)
async def test_chat_stop_sequence_cuts_call(end: Mapping[str, object], cut: bool, arguments: str) -> None:
    wipe, results, _, _ = await played(CHAT, [stream(asked(arguments), end, "[DONE]"), Turn("ok")])
    whole = {"": ["/everything"], "{}": ["/everything"], '{"path": "/home"}': ["/home"]}
    assert (wipe.paths, len(results)) == ([] if cut else whole.get(arguments, []), 1)


def blocks(arguments: str, *deltas: Mapping[str, object]) -> Raw:
    events = [
        {"type": "message_start", "message": {"id": "m", "content": [], "usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "wipe"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": arguments}},
        {"type": "content_block_stop", "index": 0},
        *({"type": "message_delta", "delta": delta} for delta in deltas),
        {"type": "message_stop"},
    ]
    return stream(*events, named=True)


REFUSED = {"stop_reason": "tool_use", "stop_details": {"type": "refusal", "category": "cyber"}}
SAID_NO = {"id": "msg_1", "type": "message", "content": [{"type": "refusal", "refusal": "No."}]}


@pytest.mark.parametrize("arguments", ["", '{"path": "/home"}'])
@pytest.mark.parametrize(
    ("delta", "cut"),
    [
        ({"stop_reason": "tool_use", "stop_sequence": "###"}, True),  # llama.cpp
        ({"stop_reason": "end_turn", "stop_sequence": "\n"}, True),
        ({"stop_reason": "tool_use", "stop_sequence": "<|im_end|>"}, False),
        ({"stop_reason": "tool_use", "stop_sequence": ""}, False),
        ({"stop_reason": "tool_use", "stop_details": None}, False),
        ({"stop_reason": "tool_use", "stop_details": {"type": "something_new"}}, False),
        (REFUSED, True),
    ],
)
async def test_messages_sequence_cuts_call(delta: Mapping[str, object], cut: bool, arguments: str) -> None:
    wipe, results, _, _ = await played(ANTHROPIC, [blocks(arguments, delta), Turn("ok")])
    assert (bool(wipe.paths), len(results)) == (not cut, 1)


def test_converse_sequence_cuts_call() -> None:
    from sagent.plugins.clouds.converse_events import ConverseReplyReader
    from sagent.providers.wire.faults import Origin

    for told, whole in (("###", False), ("<|eot_id|>", True), ("", True), (None, True)):
        reader = ConverseReplyReader(Origin("bedrock", "m"), "converse:amazon")
        use = {"toolUse": {"toolUseId": "c", "name": "wipe", "input": {"path": "/home"}}}
        more = {"additionalModelResponseFields": {"stop_sequence": told}}
        reader.whole({"output": {"message": {"content": [use]}}, "stopReason": "tool_use", **more}, [])
        assert [call.whole for call in reader.message().calls] == [whole]


@pytest.mark.parametrize(
    ("family", "answer"),
    [
        (CHAT, stream(chunk(refusal="No."), asked('{"path": "/a"}'), chunk("tool_calls"), "[DONE]")),
        (CHAT, stream(asked('{"path": "/a"}'), asked('{"path": "/b"}', 1), chunk("stop", refusal="No."), "[DONE]")),
        (CHAT, stream(chunk(refusal="No."), asked('{"path": "/a"}'), chunk("length"), "[DONE]")),
        (ANTHROPIC, blocks('{"path": "/a"}', REFUSED)),
        (ANTHROPIC, blocks('{"path": "/a"}', {"stop_reason": "refusal"}, {"stop_reason": "tool_use"})),
    ],
)
async def test_refusal_beside_calls_makes_none(family: str, answer: Raw) -> None:
    wipe, results, reason, requests = await played(family, [answer, Turn("ok")])
    assert (wipe.paths, reason, requests) == ([], "refusal", 1)
    assert results


async def test_calls_at_output_limit_are_cut() -> None:
    """vLLM ends with "tool_calls" what its limit has cut, and writes the end of the JSON that the model did not."""
    for tokens, paths in ((256, []), (255, ["/home/al"])):
        usage = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": tokens, "total_tokens": tokens + 9}}
        wipe = Wipe()
        answer = stream(asked('{"path": "/home/al"}'), chunk("tool_calls"), usage, "[DONE]")
        async with FakeProviderServer([answer, Turn("ok")]) as server:
            provider, model = provider_of(CHAT, server.url)
            async with Agent(
                provider.model(model), tools=[wipe.tool], limits=RunLimits(max_response_tokens=256)
            ) as agent:
                await agent.run("go")
            await provider.aclose()
        assert wipe.paths == paths


def item(kind: str = "function_call", **more: str) -> dict[str, object]:
    return {"id": "fc_1", "type": kind, "call_id": "c1", "name": "wipe", **more}


def responded(*events: Mapping[str, object], status: str = "completed", **more: object) -> Raw:
    end = {"type": f"response.{status}", "response": {"id": "r", "status": status, "output": [], **more}}
    return stream(*events, end, named=True)


ADDED = {"type": "response.output_item.added", "output_index": 0, "item": item(arguments="", status="in_progress")}


def closed(**more: str) -> dict[str, object]:
    return {"type": "response.output_item.done", "output_index": 0, "item": item(**more)}


@pytest.mark.parametrize(
    ("answer", "paths"),
    [
        (responded(ADDED), []),
        (responded(ADDED, closed(arguments="", status="incomplete")), []),
        (responded(ADDED, closed(arguments="{}", status="incomplete")), []),
        (responded(ADDED, closed(arguments="", status="completed")), ["/everything"]),
        (responded(ADDED, closed(arguments="")), ["/everything"]),  # some leave the status out
        (
            responded(ADDED, {"type": "response.function_call_arguments.done", "output_index": 0, "arguments": "{}"}),
            ["/everything"],
        ),
        (
            responded(
                closed(arguments="{}", status="completed"), status="incomplete", incomplete_details={"reason": "new"}
            ),
            [],
        ),
        (
            responded({**closed(), "item": SAID_NO}, {**closed(arguments="{}", status="completed"), "output_index": 1}),
            [],
        ),
        (responded(closed(arguments="{}", status="completed"), incomplete_details={"reason": "stop_sequence"}), []),
    ],
)
async def test_responses_call_needs_closed_item(answer: Raw, paths: list[str]) -> None:
    wipe, results, _, _ = await played(RESPONSES, [answer, Turn("ok")])
    assert (wipe.paths, len(results)) == (paths, 1)


def test_half_of_freeform_input_is_not_whole() -> None:
    from sagent.providers.families.responses.events import ResponsesReplyReader
    from sagent.providers.wire.faults import Origin

    for status, whole in (("incomplete", False), ("completed", True)):
        reader = ResponsesReplyReader(Origin("openai", "m"), "responses:openai")
        cut = {**item("custom_tool_call", input="*** Begin Patch\n*** Delete", status=status), "id": "ctc_1"}
        reader.feed({"type": "response.output_item.done", "output_index": 0, "item": cut}, [])
        reader.feed({"type": "response.completed", "response": {"status": "completed", "output": []}}, [])
        assert [call.whole for call in reader.message().calls] == [whole]


def parts(*calls: Mapping[str, object], finish: str = "STOP", message: str = "") -> Raw:
    events = [{"candidates": [{"content": {"parts": [{"functionCall": each}]}, "index": 0}]} for each in calls]
    end = {"finishReason": finish, "finishMessage": message}
    return stream(*events, {"candidates": [{"content": {"parts": []}, "index": 0, **end}]})


HALF = {"partialArgs": [{"jsonPath": "$.path", "stringValue": "/home/al", "willContinue": True}]}


@pytest.mark.parametrize(
    ("answer", "paths"),
    [
        (parts({"name": "wipe", "willContinue": True}, {**HALF, "willContinue": True}), []),
        (parts({"name": "wipe", "willContinue": True}, HALF), []),  # the string goes on, says only the string
        (parts({"name": "wipe", "willContinue": True}, {"name": "wipe", "args": {"path": "/b"}}), ["/b"]),
        (parts({"name": "wipe", "willContinue": True}, {**HALF, "willContinue": True}, {}), ["/home/al"]),
        (parts({"name": "wipe", "args": {"path": "/a"}}, finish="MAX_TOKENS"), []),
        (parts({"name": "wipe", "args": {"path": "/a"}}, finish="TOO_MANY_TOOL_CALLS"), []),
        (parts({"name": "wipe", "args": {"path": "/a"}}, message="Stopped at a stop sequence."), []),
        (parts({"name": "wipe"}, message="The response was truncated."), []),
        (parts({"name": "wipe"}, message="Model generated function call(s)."), ["/everything"]),
    ],
)
async def test_continuing_google_call_is_not_run(answer: Raw, paths: list[str]) -> None:
    wipe, results, _, _ = await played(GOOGLE, [answer, Turn("ok")])
    assert wipe.paths == paths
    assert results


async def test_empty_messages_call_needs_a_reason() -> None:
    events = [
        {"type": "message_start", "message": {"id": "m", "content": [], "usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "wipe"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_stop"},
    ]
    wipe, results, _, _ = await played(ANTHROPIC, [stream(*events, named=True), Turn("ok")])
    assert (wipe.paths, len(results)) == ([], 1)


# -- any model ---------------------------------------------------------------------------------------------------------

WHOLE = ToolCall("a", "wipe", json_freeze_object({"path": "/a"}))
CUT_CALL = ToolCall("b", "wipe", whole=False)
STOPS = st.sampled_from([None, "end", "tool_use", *CUT, *WITHDRAWN])


@pytest.mark.parametrize("stop", [*CUT, *WITHDRAWN])
async def test_foreign_model_need_not_tell_whole(stop: str) -> None:
    """Its reply says why it ended, and that marks the calls."""
    wipe = Wipe()
    line = assistant("", ToolCall("c", "wipe"), stop=stop)  # pyright: ignore[reportArgumentType] -- one of StopReason
    agent = Agent(ScriptedModel(line, "ok"), tools=[wipe.tool])
    await agent.run("go")
    check_pairing([*agent.messages, user("and?")])
    assert wipe.paths == []
    await agent.aclose()


async def test_script_can_say_that_call_is_cut() -> None:
    wipe = Wipe()
    agent = Agent(ScriptedModel((WHOLE, CUT_CALL), "ok"), tools=[wipe.tool])
    assert (await agent.run("go")).content == "ok"
    assert wipe.paths == ["/a"]
    await agent.aclose()


async def test_calls_open_without_reason_are_error() -> None:
    agent = Agent(ScriptedModel(*[CUT_CALL] * 9), tools=[Wipe().tool])
    result = await agent.run("go")
    assert (result.stop_reason, result.turns) == ("error", 3)
    assert result.error is not None and "cut" in result.error.message
    await agent.aclose()


async def test_whole_call_resets_count_of_cut_ones() -> None:
    agent = Agent(ScriptedModel(CUT_CALL, CUT_CALL, WHOLE, CUT_CALL, CUT_CALL, "ok"), tools=[Wipe().tool])
    assert (await agent.run("go")).content == "ok"
    await agent.aclose()


async def test_cut_call_of_any_schema_is_not_run() -> None:
    class Lenient:
        name, description, lenient = "wipe", "A tool.", True
        parameters = json_freeze_object({"type": "object"})

        async def __call__(self, arguments: object, run: object) -> str:
            raise AssertionError(f"called with {arguments}")

    agent = Agent(ScriptedModel(CUT_CALL, "ok"), tools=[Lenient()])
    await agent.run("go")
    assert "not run" in agent.messages[2].results[0].text
    await agent.aclose()


@given(STOPS, st.lists(st.sampled_from([Text("t"), WHOLE, CUT_CALL]), max_size=4))
def test_stop_reason_makes_no_cut_call_whole(stop, parts) -> None:
    message = Message("assistant", tuple(parts), stop=stop)
    assert len(message.parts) == len(parts)
    for place, (before, after) in enumerate(zip(parts, message.parts, strict=True)):
        if not isinstance(after, ToolCall):
            assert after == before
        elif stop in WITHDRAWN or (stop in CUT and place == len(parts) - 1):
            assert not after.whole
        else:
            assert after.whole == before.whole


@given(STOPS, st.lists(st.sampled_from([Text("t"), WHOLE, CUT_CALL]), max_size=4))
def test_log_keeps_whole_calls(stop, parts) -> None:
    message = Message("assistant", tuple(parts), stop=stop)
    assert decode_message(json.loads(json.dumps(encode_message(message, None))), None) == message


def test_call_of_older_log_is_whole_unless_cut() -> None:
    part = {"type": "tool_call", "id": "c", "name": "wipe", "arguments": "{}"}
    for stop, whole in (("tool_use", True), ("max_tokens", False), ("refusal", False)):
        (call,) = decode_message({"role": "assistant", "parts": [part], "stop": stop}, None).calls
        assert call.whole == whole


async def test_log_says_which_call_was_cut() -> None:
    agent = Agent(ScriptedModel((WHOLE, CUT_CALL), "ok"), tools=[Wipe().tool])
    await agent.run("go")
    logged = history(agent.log.contents(), agent.log.blobs.get)
    (reply,) = [message for message in logged if message.calls]
    assert [call.whole for call in reply.calls] == [True, False]
    await agent.aclose()


async def test_resumed_cut_call_was_never_made() -> None:
    agent = Agent(ScriptedModel("ok"), tools=[Wipe().tool])
    reply = assistant("", WHOLE, CUT_CALL, stop="max_tokens")
    results = close_calls(agent.state, reply, "the process ended").results
    assert results[0].text == "the process ended"
    assert "not run: the reply was cut" in results[1].text
    await agent.aclose()


@pytest.mark.parametrize("path", sorted(FAMILY_FOLDER.glob("*/events.py")), ids=lambda path: path.parent.name)
def test_readers_say_if_calls_are_whole(path: Path) -> None:
    made = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
    calls = [node for node in made if isinstance(node.func, ast.Name) and node.func.id == "ToolCall"]
    assert calls
    assert all(any(given.arg == "whole" for given in call.keywords) for call in calls)


def test_event_says_that_call_is_cut() -> None:
    assert encode_event(ToolStarted("root", CUT_CALL))["whole"] is False
    assert "whole" not in encode_event(ToolStarted("root", WHOLE))


# -- wherever a reply is cut -------------------------------------------------------------------------------------------


def framed(*events: tuple[str, Mapping[str, object]]) -> Raw:
    heads = [{":event-type": kind, ":content-type": "application/json", ":message-type": "event"} for kind, _ in events]
    body = b"".join(frame(head, json.dumps(event).encode()) for head, (_, event) in zip(heads, events, strict=True))
    return Raw(200, (("content-type", "application/vnd.amazon.eventstream"),), body)


GIVEN = {"path": "/home/é"}
SPLIT = [json.dumps(GIVEN)[at : at + 5] for at in range(0, len(json.dumps(GIVEN)), 5)]
WHOLE_REPLIES: Mapping[str, Raw] = {
    CHAT: stream(asked(""), *(asked(piece) for piece in SPLIT), chunk("tool_calls"), "[DONE]"),
    ANTHROPIC: blocks(json.dumps(GIVEN), {"stop_reason": "tool_use"}),
    RESPONSES: responded(
        ADDED,
        *({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": piece} for piece in SPLIT),
        closed(arguments=json.dumps(GIVEN), status="completed"),
    ),
    GOOGLE: parts(
        {"name": "wipe", "willContinue": True},
        {"partialArgs": [{"jsonPath": "$.path", "stringValue": "/home", "willContinue": True}], "willContinue": True},
        {"partialArgs": [{"jsonPath": "$.path", "stringValue": "/é"}], "willContinue": True},
        {},
    ),
    CONVERSE: framed(
        ("contentBlockStart", {"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": "u", "name": "wipe"}}}),
        *(("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"toolUse": {"input": piece}}}) for piece in SPLIT),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        ("messageStop", {"stopReason": "tool_use"}),
        ("metadata", {"usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}}),
    ),
}


@pytest.mark.costly
@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=25)
@given(st.data())
def test_reply_cut_anywhere_has_no_half_call(family: str, data: st.DataObject) -> None:
    whole = WHOLE_REPLIES[family]
    end = len(whole.body)
    size = data.draw(st.one_of(st.integers(0, end), st.integers(end - 200, end), st.just(end)))
    pieces = data.draw(st.integers(1, 400))

    class Cut(DirectTransport):
        async def post(self, url: str, headers: Mapping[str, str], body: Sequence[bytes]) -> Answer:
            async def chunks() -> AsyncGenerator[bytes]:
                for at in range(0, size, pieces):
                    yield whole.body[at : min(at + pieces, size)]

            rest = chunks()
            events = server_sent(rest) if family == CONVERSE else rest  # as the SDK's transport gives them
            return Answer(200, {"content-type": "text/event-stream"}, events, rest.aclose)

    async def calls() -> Sequence[ToolCall]:
        provider, model = provider_of(family, "http://127.0.0.1:9", transport=Cut())
        with suppress(ModelError):
            *_, reply = [item async for item in provider.model(model).stream(Request("c", [user("go")]))]
            assert isinstance(reply, Reply)
            return reply.message.whole_calls
        return ()

    made = asyncio.run(calls())
    assert all((call.arguments, call.malformed) == (GIVEN, None) for call in made)
    assert len(made) == 1 or size < end
