"""Web front ends read an agent's answers with their own clients: the AI SDK's, and that of AG-UI."""

import asyncio
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
from chat_app import Chat, call, served

from sagent import Agent, UsageError
from sagent.errors import ModelError
from sagent.events import Finished, TextDelta
from sagent.lib.json import JsonObject
from sagent.messages import Document, Image, Thinking, ToolCall, user
from sagent.plugins import frontends
from sagent.plugins.frontends import AGUIRequest, UIRequest, following, respond
from sagent.testing import Line, ScriptedModel
from tests.npm import packages
from tests.waiting import SECONDS, started

SDK, OLD_SDK, AG_UI = "ai@7.0.173", "ai@6.0.326", "@ag-ui/client@1.0.0"
WORK: Sequence[Line] = (
    (Thinking("Let me see."), "I look.", call("measure"), call("fail")),
    ModelError("overloaded", "busy", provider="scripted", retry_after=0.0),
    ("Wrong", ModelError("cut", "the line broke", provider="scripted", retry_after=0.0)),
    "It is 3.",
)
ASKS: Sequence[Line] = ((call("deploy", host="production"),), "I wait for you.")


async def client(name: str, package: str, chat: Chat, path: str, *steps: object) -> list[dict[str, Any]]:
    """Return what a client saw in each of its turns."""
    npm, pipe = packages(package), asyncio.subprocess.PIPE
    argv = (Path(__file__).with_name(name), npm.modules, f"{chat.url}{path}", json.dumps(steps))
    async with started(npm.node, *argv, stdout=pipe, stderr=pipe) as node:
        out, err = await node.communicate()
    assert node.returncode == 0, err.decode()
    return json.loads(out)


def parts(turn: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [part for part in turn["message"]["parts"] if part["type"] == kind]


def of(turn: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [event for event in turn["events"] if event["type"] == kind]


def custom(turn: dict[str, Any], name: str) -> list[Any]:
    return [event["value"] for event in of(turn, "CUSTOM") if event["name"] == f"sagent.{name}"]


async def test_ai_sdk_reads_work(tmp_path: Path) -> None:
    async with served(tmp_path, WORK) as chat:
        [turn] = await client("ui_client.mjs", SDK, chat, "/api/chat", {"prompt": "How much?"})
    assert turn["errors"] == []
    assert [part["text"] for part in parts(turn, "reasoning")] == ["Let me see."]
    assert [part["text"] for part in parts(turn, "text")] == ["I look.", "It is 3."]  # "Wrong" was taken back
    measured, failed = parts(turn, "dynamic-tool")
    assert (measured["toolName"], measured["state"], measured["input"]) == ("measure", "output-available", {})
    assert measured["output"]["text"] == "It is 3." and measured["output"]["diff"].startswith("--- a")
    assert failed["state"] == "output-error" and "no such table" in failed["errorText"]
    assert turn["message"]["metadata"]["stopReason"] == "end" and turn["message"]["metadata"]["turns"] == 2
    assert parts(turn, "data-cost")[0]["data"]["inputTokens"] > 0
    assert len(parts(turn, "step-start")) == 2


@pytest.mark.costly
@pytest.mark.parametrize(("sdk", "path"), [(SDK, "/api/chat"), (OLD_SDK, "/api/6")])
async def test_ai_sdk_answers_call_that_waits(tmp_path: Path, sdk: str, path: str) -> None:
    steps = {"prompt": "Deploy."}, {"answer": {"approved": True}}, {"prompt": "Thanks."}
    async with served(tmp_path, ASKS, ["Done."], ["Bye."]) as chat:
        asked, done, bye = await client("ui_client.mjs", sdk, chat, path, *steps)
    [waiting] = parts(asked, "dynamic-tool")
    assert (waiting["state"], waiting["input"]) == ("approval-requested", {"host": "production"})
    assert asked["goesOn"] and asked["errors"] == done["errors"] == []
    [made] = parts(done, "dynamic-tool")
    assert (made["state"], made["output"]["text"]) == ("output-available", "deployed to production")
    assert [part["text"] for part in parts(done, "text")] == ["I wait for you.", "Done."]
    assert parts(bye, "text")[0]["text"] == "Bye."


async def test_ag_ui_reads_work(tmp_path: Path) -> None:
    async with served(tmp_path, WORK) as chat:
        [turn] = await client("agui_client.mjs", AG_UI, chat, "/ag-ui", {"prompt": "How much?"})
    assert turn["failure"] == ""
    kinds = [event["type"] for event in turn["events"]]
    assert (kinds[0], kinds[-1]) == ("RUN_STARTED", "RUN_FINISHED")
    assert [event["delta"] for event in of(turn, "REASONING_MESSAGE_CONTENT")] == ["Let me see."]
    results = {event["toolCallId"]: event["content"] for event in of(turn, "TOOL_CALL_RESULT")}
    assert results["c-measure"] == "It is 3." and "no such table" in results["c-fail"]
    assert custom(turn, "output")[0]["diff"].startswith("--- a")
    assert [told["discarded"] for told in custom(turn, "retry")] == ["", "Wrong"]
    assert of(turn, "RUN_FINISHED")[0]["outcome"] == {"type": "success"}
    assert turn["messages"][-1]["content"] == "It is 3."


async def test_ag_ui_answers_call_that_waits(tmp_path: Path) -> None:
    no = {"status": "resolved", "payload": {"approved": False, "reason": "Not today."}}
    async with served(tmp_path, ASKS, ["Then not."]) as chat:
        asked, done = await client("agui_client.mjs", AG_UI, chat, "/ag-ui", {"prompt": "Deploy."}, {"answer": no})
        read = chat.agents[-1].messages[-2].content
    [interrupt] = asked["interrupts"]
    assert (interrupt["toolCallId"], asked["failure"], done["failure"]) == ("c-deploy", "", "")
    assert "Not today." in of(done, "TOOL_CALL_RESULT")[0]["content"] and "Not today." in read
    assert done["messages"][-1]["content"] == "Then not."


async def test_failure_is_shown_without_its_words(tmp_path: Path) -> None:
    secret = ModelError("auth", "the key of 10.0.0.7 is wrong", provider="scripted", model="scripted")
    async with served(tmp_path, [secret], [secret]) as chat, httpx2.AsyncClient(base_url=chat.url) as web:
        text = (await web.post("/api/chat", json=ui_prompt("Go."))).text
        run = {"threadId": "t", "runId": "r", "messages": [{"role": "user", "content": "Go."}]}
        other = (await web.post("/ag-ui", json=run)).text
    assert '"errorText":"The run failed (auth)."' in text and text.endswith("data: [DONE]\n\n")
    assert '"type":"RUN_ERROR"' in other and "10.0.0.7" not in text + other


def ui_prompt(text: str) -> dict[str, object]:
    return {"id": "c1", "messages": [{"role": "user", "parts": [{"type": "text", "text": text}]}]}


@pytest.mark.parametrize("before", ["", "Hel"])
async def test_reader_that_leaves_ends_the_run(tmp_path: Path, before: str) -> None:
    ended = asyncio.Event()

    async def silent(_: object) -> Line:
        try:
            await asyncio.sleep(math.inf)
        finally:
            ended.set()
        return ""

    script: Sequence[Line] = [(before, silent) if before else silent]
    async with served(tmp_path, script) as chat:
        async with (
            httpx2.AsyncClient() as web,
            web.stream("POST", f"{chat.url}/api/chat", json=ui_prompt("Go.")) as response,
        ):
            async for line in response.aiter_lines():
                if (before in line and "text-delta" in line) or not before:
                    break
        async with asyncio.timeout(SECONDS):
            await ended.wait()
            while chat.agents[0].running:
                await asyncio.sleep(0.01)
        last = chat.agents[0].last
        assert last is not None and last.stop_reason == "interrupted"


async def test_reader_that_left_before_the_first_byte_leaves_no_session_open(tmp_path: Path) -> None:
    agent = Agent(ScriptedModel("Hello."), session=tmp_path / "chat")
    response = respond(agent, UIRequest("c1", user("Go.")))

    async def receive() -> dict[str, str]:
        return {"type": "http.disconnect"}

    async def send(_: object) -> None:
        await asyncio.sleep(math.inf)

    await response({"type": "http"}, receive, send)
    async with Agent(ScriptedModel("Hello again."), session=tmp_path / "chat") as other:
        assert (await other.run("Go.")).content == "Hello again."


async def test_answer_to_no_call_is_an_error_for_the_reader(tmp_path: Path) -> None:
    approval = {"state": "approval-responded", "approval": {"id": "c-deploy", "approved": True}}
    late = {"id": "c1", "messages": [{"role": "assistant", "parts": [{"type": "dynamic-tool", **approval}]}]}
    async with served(tmp_path, [], ["Hello."]) as chat, httpx2.AsyncClient(base_url=chat.url) as web:
        assert '"errorText":"The run failed (usage' in (await web.post("/api/chat", json=late)).text
        assert '"delta":"Hello."' in (await web.post("/api/chat", json=ui_prompt("Go."))).text


async def test_slow_reader_has_text_joined_and_too_slow_one_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Agent(ScriptedModel(tuple("ab" for _ in range(500)), ("x" * 5_000, math.inf))) as agent:
        first = [event async for event in following.follow(agent, lambda: agent.run("Go."))]
        texts = [event.text for event in first if isinstance(event, TextDelta)]
        assert "".join(texts) == "ab" * 500 and len(texts) < 500
        monkeypatch.setattr(following, "MAX_BEHIND_CHARS", 1_000)
        last = [event async for event in following.follow(agent, lambda: agent.run("Go."))][-1]
        assert isinstance(last, Finished) and last.result.stop_reason == "interrupted"


async def test_silence_has_signs_of_life() -> None:
    async with Agent(ScriptedModel((0.2, "Hello."))) as agent:
        events = [event async for event in following.follow(agent, lambda: agent.run("Go."), quiet=0.01)]
    assert None in events and isinstance(events[-1], Finished)


async def test_error_of_the_program_ends_the_stream(tmp_path: Path) -> None:
    def crash(_: object) -> Line:
        raise RuntimeError("secret")

    async with served(tmp_path, [crash]) as chat, httpx2.AsyncClient() as web:
        text = (await web.post(f"{chat.url}/api/chat", json=ui_prompt("Go."))).text
    assert '"type":"error"' in text and "secret" not in text and text.endswith("data: [DONE]\n\n")


async def test_subagents_are_told_apart(tmp_path: Path) -> None:
    spawn = ToolCall("1", "AgentSpawn", JsonObject({"prompt": "look"}))
    script: Sequence[Line] = (spawn, (Thinking("Hm."), "I am below."), "I am above.")
    async with served(tmp_path, script, script) as chat:
        [shown] = await client("agui_client.mjs", AG_UI, chat, "/ag-ui", {"prompt": "Go."})
        [other] = await client("ui_client.mjs", SDK, chat, "/api/chat", {"prompt": "Go."})
    [begun] = of(shown, "SUBAGENT_STARTED")
    below = {event["delta"]: event.get("subagentRunId") for event in of(shown, "TEXT_MESSAGE_CONTENT")}
    assert below == {"I am below.": begun["subagentRunId"], "I am above.": None}
    assert [event["subagentRunId"] for event in of(shown, "SUBAGENT_FINISHED")] == [begun["subagentRunId"]]
    assert shown["failure"] == "" and other["errors"] == []
    assert [part["text"] for part in parts(other, "text")] == ["I am above."]
    assert [part["data"]["doing"] for part in parts(other, "data-agent")] == ["ended: end"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b"nonsense",
        b'{"id": 5, "threadId": null}',
        b'{"id": "c", "threadId": "t", "runId": "r"}',
        b"[" * 100_000,
    ],
)
def test_request_without_a_conversation_is_refused(body: bytes) -> None:
    with pytest.raises(UsageError):
        UIRequest.read(body)
    with pytest.raises(UsageError):
        AGUIRequest.read(body)


@pytest.mark.parametrize("kind", ["ui", "ag-ui"])
def test_files_are_attached_or_refused(kind: str) -> None:
    def read(media: str, data: str) -> object:
        if kind == "ui":
            parts = [{"type": "text", "text": "See."}, {"type": "file", "url": f"data:{media};base64,{data}"}]
            asked = UIRequest.read(json.dumps({"id": "c", "messages": [{"role": "user", "parts": parts}]}).encode())
        else:
            source = {"type": "data", "value": data, "mimeType": media}
            content = [{"type": "text", "text": "See."}, {"type": "image", "source": source}]
            run = {"threadId": "t", "runId": "r", "messages": [{"role": "user", "content": content}]}
            asked = AGUIRequest.read(json.dumps(run).encode())
        return asked.prompt

    assert read("image/png", "QUJD") == user("See.", Image("image/png", b"ABC"))
    assert read("application/pdf", "QUJD") == user("See.", Document("application/pdf", b"ABC"))
    for media, data in (("text/html", "QUJD"), ("image/png", "%%%"), ("image/png", "")):
        with pytest.raises(UsageError, match="file"):
            read(media, data)


def test_conversations_have_folders_of_their_own() -> None:
    names = "../../etc", "a", "a/b", "\ud800", "\ud801", "/", "A"
    folders = [UIRequest(name).folder for name in names]
    assert len(set(folders)) == len(names) and all(folder.isalnum() for folder in folders)
    assert AGUIRequest("a", "r").folder == UIRequest("a").folder


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "starlette", None)
    monkeypatch.delitem(sys.modules, "starlette.responses")
    monkeypatch.delitem(sys.modules, "sagent.plugins.frontends.response")
    monkeypatch.delattr(frontends, "response")
    with pytest.raises(UsageError, match="serve"):
        _ = frontends.respond
