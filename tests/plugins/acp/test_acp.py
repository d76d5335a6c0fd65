"""`sagent acp` as its clients see it, at the level of lines: each request answered once, each call ended, and what the
protocol says of sessions, turns, permissions, files and forms. A provider on loopback speaks from a script."""

import asyncio
import base64
import json
import os
import shutil
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pytest
from acp_peer import Refused, agent_for, choosing

from sagent.cli.settings import load_settings
from sagent.plugins.acp.client import Client
from sagent.plugins.acp.command import AcpHost
from sagent.plugins.acp.permissions import Person
from sagent.plugins.hosting.jsonrpc import Connection
from sagent.testing.script import Call, Fail, Received, Stall, Step, Turn
from sagent.tools.ask import Question
from tests.depth import later
from tests.plugins.mcp.odd import Odd
from tests.waiting import until

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def calls(*given: Call, text: str = "") -> Turn:
    return Turn(text, calls=given)


def write(path: str, content: str = "x\n") -> Call:
    return Call("Write", {"file_path": path, "content": content})


def bash(command: str) -> Call:
    return Call("Bash", {"command": command})


# -- JSON-RPC


async def test_slow_request_answered_at_shutdown(monkeypatch: pytest.MonkeyPatch, work: Path) -> None:
    begun, let_go = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def opening(*_: object) -> AsyncGenerator[None]:
        with suppress(asyncio.CancelledError):
            begun.set()
            await let_go.wait()
        await let_go.wait()
        yield

    monkeypatch.setattr(AcpHost, "opening", opening)
    monkeypatch.setattr("sagent.plugins.acp.server._CLOSE_TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr("sagent.plugins.acp.server._CLOSING_TIMEOUT_SECONDS", 0.2)
    async with agent_for([]) as peer:
        waiting = peer.begin("session/new", cwd=str(work), mcpServers=[])
        await begun.wait()
    assert waiting.result()["error"]["code"] == -32800
    let_go.set()
    await until(lambda: len(asyncio.all_tasks()) == 1, "the end of it")
    assert not peer.stray


@pytest.mark.parametrize(
    ("line", "code", "number"),
    [
        (b"{", -32700, None),
        (b"\xff\xfe{}", -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":NaN}', -32700, None),
        (b"[" * 100_000, -32700, None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"initialize"}]', -32600, None),
        (b"17", -32600, None),
        (b'{"id":7,"method":"initialize"}', -32600, 7),
        (b'{"jsonrpc":"1.0","id":"a","method":"initialize"}', -32600, "a"),
        (b'{"jsonrpc":"2.0","id":7}', -32600, 7),
        (b'{"jsonrpc":"2.0","id":{},"method":"initialize"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"initialize"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":8,"method":"session/fork","params":{}}', -32601, 8),
        (b'{"jsonrpc":"2.0","id":9,"method":"_mine/do","params":{}}', -32601, 9),
        (b'{"jsonrpc":"2.0","id":null,"method":"nothing"}', -32601, None),
        (b'{"jsonrpc":"2.0","id":9,"method":"%b"}' % (b"x" * 1_000_000), -32601, 9),
        (b'{"jsonrpc":"2.0","id":9,"method":"session/load","params":{"cwd":"%b"}}' % (b"x" * 1_000_000), -32602, 9),
        (b'{"jsonrpc":"2.0","id":10,"method":"initialize","params":[1]}', -32602, 10),
        (b'{"jsonrpc":"2.0","id":11,"method":"initialize"}', -32602, 11),
        (b'{"jsonrpc":"2.0","id":12,"method":"session/prompt","params":{"sessionId":"none","prompt":[]}}', -32002, 12),
    ],
)
async def test_bad_request_answered_once(line: bytes, code: int, number: object) -> None:
    async with agent_for([]) as peer:
        peer.write(line)
        await until(lambda: peer.stray, "the error")
        assert [(each["error"]["code"], each["id"]) for each in peer.stray] == [(code, number)]
        assert len(json.dumps(peer.stray)) < 20_000
        assert (await peer.greet())["protocolVersion"] == 1
        assert len(peer.stray) == 1


async def test_notifications_get_no_answer() -> None:
    async with agent_for([]) as peer:
        for method in ("nothing", "_mine", "$/cancel_request", "initialize", "session/prompt"):
            peer.notify(method)
        peer.notify("session/cancel", sessionId="none")
        peer.write(b'{"jsonrpc":"2.0","id":99,"result":{}}')
        peer.write(b"   ")
        await peer.greet()
        assert not peer.stray


async def test_request_ids_unique_by_type(work: Path) -> None:
    async with agent_for([Stall(Turn("late"))]) as peer:
        session = await peer.new(work)
        for number in ("p", "p", 70, "70"):
            peer.send_prompt(number, session, "a")
        await until(lambda: peer.stray, "the refusal")
        assert [(each["id"], each["error"]["code"]) for each in peer.stray] == [("p", -32600)]
        peer.notify("session/cancel", sessionId=session)
        await until(lambda: len(peer.stray) == 4, "every answer")
        said = [(each["id"], each["result"]["stopReason"]) for each in peer.stray[1:]]
        assert sorted(said, key=str) == sorted([("p", "cancelled"), (70, "cancelled"), ("70", "cancelled")], key=str)


# -- initialize


async def test_initialize_lists_capabilities() -> None:
    async with agent_for([]) as peer:
        for asked in (1, 0, 2, 9999):
            found = await peer.ask("initialize", protocolVersion=asked)
            assert found["protocolVersion"] == 1
        offered = found["agentCapabilities"]
        assert offered["loadSession"] is True
        assert set(offered["sessionCapabilities"]) == {"list", "resume", "close", "delete", "additionalDirectories"}
        assert offered["promptCapabilities"] == {"image": True, "audio": False, "embeddedContext": True}
        assert [way["id"] for way in found["authMethods"]] == ["key"]
        found = await peer.greet(auth={"terminal": True})
        assert [way["id"] for way in found["authMethods"]] == ["key", "login"]
        assert await peer.ask("authenticate", methodId="key") == {}
        for wrong in ("login", "other", 3):
            with pytest.raises(Refused) as refused:
                await peer.ask("authenticate", methodId=wrong)
            assert refused.value.code == -32602
        for version in ("1", True, -1, None, 1.5):
            with pytest.raises(Refused):
                await peer.ask("initialize", protocolVersion=version)


async def test_session_without_key_needs_login(work: Path) -> None:
    async with agent_for([]) as peer:
        del os.environ["ANTHROPIC_API_KEY"], os.environ["ANTHROPIC_BASE_URL"]
        asked = ("session/new", {"cwd": str(work), "mcpServers": []}), ("authenticate", {"methodId": "key"})
        for method, params in asked:
            with pytest.raises(Refused, match="ANTHROPIC_API_KEY") as refused:
                await peer.ask(method, **params)
            assert refused.value.code == -32000


# -- sessions


async def test_turn_shown_and_session_listed(work: Path) -> None:
    work.joinpath("a.txt").write_text("one\ntwo\n")
    todo = Call("TodoWrite", {"todos": [{"content": "look", "status": "in_progress"}]})
    script = [
        Turn("Let me look.", "thinking", (Call("Read", {"file_path": "a.txt"}), todo)),
        calls(Call("Edit", {"file_path": "a.txt", "old_string": "two", "new_string": "zwei ä"})),
        Turn("Done."),
        Turn("You said: change it"),
    ]
    async with agent_for(script) as peer:
        session = await peer.new(work)
        await until(lambda: peer.kinds("available_commands_update"), "the commands")
        names = {each["name"] for each in peer.kinds("available_commands_update")[0]["availableCommands"]}
        assert {"clear", "compact", "cost", "model"} <= names
        assert not {"quit", "login", "theme"} & names
        assert await peer.prompt(session, "change it") == "end_turn"
        assert peer.text() == "Let me look.Done."
        assert peer.text("agent_thought_chunk").startswith("thinking")
        read, edit = peer.kinds("tool_call")
        assert (read["kind"], edit["kind"]) == ("read", "edit")
        assert read["locations"] == [{"path": str(work / "a.txt")}]
        change = {"type": "diff", "path": str(work / "a.txt"), "oldText": "one\ntwo\n", "newText": "one\nzwei ä\n"}
        assert edit["content"] == [change]
        ends = [each for each in peer.kinds("tool_call_update") if each.get("status") == "completed"]
        assert ends[-1]["content"] == [change]
        assert peer.kinds("tool_call_update")[-1]["locations"] == [{"path": str(work / "a.txt"), "line": 2}]
        assert peer.kinds("plan")[-1]["entries"] == [{"content": "look", "priority": "medium", "status": "in_progress"}]
        usage = peer.kinds("usage_update")[-1]
        assert 0 < usage["used"] < usage["size"]
        assert usage["cost"]["currency"] == "USD" and usage["cost"]["amount"] > 0
        assert peer.kinds("session_info_update")[-1]["title"] == "change it"
        messages = {each["messageId"] for each in peer.kinds("agent_message_chunk")}
        assert len(messages) == 2
    async with agent_for(script[3:]) as peer:
        listed = (await peer.ask("session/list", cwd=str(work)))["sessions"]
        assert [(each["sessionId"], each["cwd"], each["title"]) for each in listed] == [
            (session, str(work), "change it")
        ]
        assert (await peer.ask("session/list", cwd=str(work.parent)))["sessions"] == []
        loaded = await peer.ask("session/load", sessionId=session, cwd=str(work), mcpServers=[])
        assert loaded["modes"]["currentModeId"] == "edit"
        await until(lambda: peer.kinds("available_commands_update"), "the commands")
        answered = peer.order.index("session/load")
        assert peer.order.index("available_commands_update") > answered
        assert all(peer.order.index(kind) < answered for kind in ("user_message_chunk", "tool_call_update", "plan"))
        assert peer.text("user_message_chunk") == "change it"
        assert peer.text() == "Let me look.Done."
        assert [each["title"] for each in peer.kinds("tool_call")] == ["Read a.txt", "Edit a.txt"]
        assert await peer.prompt(session, "what did I say?") == "end_turn"
        assert peer.text().endswith("You said: change it")
    async with agent_for(script[3:]) as peer:
        await peer.ask("session/resume", sessionId=session, cwd=str(work))
        assert not peer.kinds("user_message_chunk", "agent_message_chunk", "tool_call")
        assert await peer.prompt(session, "and now?") == "end_turn"


async def test_sessions_are_closed_and_deleted(work: Path) -> None:
    async with agent_for([Turn("a"), Turn("b")]) as peer:
        first, second = await peer.new(work), await peer.new(work)
        for session in (first, second):
            assert await peer.prompt(session, "hello") == "end_turn"
        assert await peer.ask("session/close", sessionId=first) == {}
        for method in ("session/close", "session/set_mode"):
            with pytest.raises(Refused):
                await peer.ask(method, sessionId=first, modeId="ask")
        assert len((await peer.ask("session/list"))["sessions"]) == 2
        for session in (first, second, first, "none", "../../etc"):
            assert await peer.ask("session/delete", sessionId=session) == {}
        assert (await peer.ask("session/list"))["sessions"] == []
        for method in ("session/load", "session/resume"):
            with pytest.raises(Refused) as refused:
                await peer.ask(method, sessionId=first, cwd=str(work), mcpServers=[])
            assert refused.value.code == -32002
            assert refused.value.data == {"details": str(refused.value), "sessionId": first}
            with pytest.raises(Refused) as refused:
                await peer.ask(method, sessionId="a" * 300, cwd=str(work), mcpServers=[])
            assert refused.value.code == -32002


async def test_deleted_session_takes_no_prompt(work: Path) -> None:
    async with agent_for([Turn("a")]) as peer:
        session = await peer.new(work)
        assert await peer.prompt(session, "hello") == "end_turn"
        (path,) = load_settings({}).state_dir.glob(f"sessions/*/{session}")
        shutil.rmtree(path)
        with pytest.raises(Refused, match="deleted"):
            await peer.prompt(session, "again")
        assert not path.exists()


async def test_many_sessions_are_listed_in_pages(monkeypatch: pytest.MonkeyPatch, work: Path) -> None:
    monkeypatch.setattr("sagent.plugins.acp.server.PAGE", 2)
    async with agent_for([]) as peer:
        made = {await peer.new(work) for _ in range(5)}
        found: list[str] = []
        cursor: dict[str, object] = {}
        while True:
            page = await peer.ask("session/list", **cursor)
            found += [each["sessionId"] for each in page["sessions"]]
            if "nextCursor" not in page:
                break
            cursor = {"cursor": page["nextCursor"]}
        assert len(found) == 5 and set(found) == made
        for wrong in ({"cursor": "x"}, {"cursor": 3}, {"cursor": "-1"}, {"cursor": "9" * 5000}, {"cwd": "/a\ud800"}):
            with pytest.raises(Refused) as refused:
                await peer.ask("session/list", **wrong)
            assert refused.value.code == -32602


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"cwd": "relative", "mcpServers": []},
        {"cwd": "/no/such/place", "mcpServers": []},
        {"cwd": 3, "mcpServers": []},
        {"cwd": "/tmp"},
        {"cwd": "/tmp", "mcpServers": {}},
        {"cwd": "/tmp", "mcpServers": [{"name": "x"}]},
        {"cwd": "/" + "a" * 5000, "mcpServers": []},
        {"cwd": "/tmp", "mcpServers": [{"name": "x", "command": "a", "args": [1], "env": []}]},
        {"cwd": "/tmp", "mcpServers": [{"name": "x", "command": "a", "args": "b", "env": []}]},
        {"cwd": "/tmp", "mcpServers": [{"name": "x", "command": "a", "args": [], "env": {"A": "b"}}]},
        {"cwd": "/tmp", "mcpServers": [{"type": "sse", "name": "x", "url": "http://x", "headers": []}]},
        {"cwd": "/tmp", "mcpServers": [], "additionalDirectories": ["relative"]},
    ],
)
async def test_impossible_session_refused(params: dict[str, object]) -> None:
    async with agent_for([]) as peer:
        with pytest.raises(Refused) as refused:
            await peer.ask("session/new", **params)
        assert refused.value.code == -32602


@later
async def test_two_sessions_keep_directories(tmp_path: Path) -> None:
    places = [tmp_path / name for name in ("one", "two")]
    script = [calls(bash("pwd > here")), calls(bash("pwd > here")), Turn("a"), Turn("b")]
    async with agent_for(script) as peer:
        for place in places:
            place.mkdir()
        sessions = [await peer.new(place) for place in places]
        ends = await asyncio.gather(*(peer.prompt(session, "go") for session in sessions))
        assert ends == ["end_turn", "end_turn"]
        assert [place.joinpath("here").read_text().strip() for place in places] == list(map(str, places))
        for session in sessions:
            assert len(peer.kinds("tool_call", session=session)) == 1


async def test_further_directories_are_worked_in(work: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    async with agent_for([calls(write(str(other / "f"))), Turn("a")]) as peer:
        session = await peer.new(work, additionalDirectories=[str(other)])
        assert await peer.prompt(session, "go") == "end_turn"
        assert other.joinpath("f").exists()


# -- prompts


async def test_prompt_takes_images_and_links(work: Path) -> None:
    blocks = [
        {"type": "image", "mimeType": "image/png", "data": base64.b64encode(PNG).decode()},
        {"type": "resource_link", "uri": f"file://{work}/a%20b.py", "name": "a b.py"},
        {"type": "resource", "resource": {"uri": "file:///x/y.py#L3", "text": "print(1)", "mimeType": "text/x-python"}},
        {"type": "resource_link", "uri": "file://[odd", "name": "odd"},
        {
            "type": "image",
            "mimeType": "image/webp",
            "data": f"data:image/gif;base64,{base64.encodebytes(PNG).decode()}",
        },
    ]
    async with agent_for([Turn("seen")]) as peer:
        session = await peer.new(work)
        assert await peer.prompt(session, "look", *blocks) == "end_turn"
        await peer.ask("session/load", sessionId=session, cwd=str(work), mcpServers=[])
        shown = [each["content"] for each in peer.kinds("user_message_chunk")]
        assert [each["type"] for each in shown] == ["text", "image", "text", "text", "text", "image"]
        assert base64.b64decode(shown[1]["data"]) == base64.b64decode(shown[5]["data"]) == PNG
        assert f"{work}/a b.py" in shown[2]["text"]
        assert 'uri="/x/y.py#L3"' in shown[3]["text"] and "print(1)" in shown[3]["text"]


@pytest.mark.parametrize(
    "prompt",
    [
        None,
        "text",
        [],
        [{"type": "text"}],
        [{"type": "text", "text": "  "}],
        [{"type": "nothing"}],
        [7],
        [{"type": "audio", "data": "", "mimeType": "audio/wav"}],
        [{"type": "image", "data": "!!", "mimeType": "image/png"}],
        [{"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}],
        [{"type": "image", "data": base64.b64encode(PNG[:40]).decode(), "mimeType": "image/png"}],
        [{"type": "resource", "resource": {"uri": "file:///x"}}],
    ],
)
async def test_unsendable_prompt_refused(work: Path, prompt: object) -> None:
    async with agent_for([Turn("b")]) as peer:
        session = await peer.new(work)
        with pytest.raises(Refused) as refused:
            await peer.ask("session/prompt", sessionId=session, prompt=prompt)
        assert refused.value.code == -32602
        assert await peer.prompt(session, "hello") == "end_turn"


async def test_slash_commands_are_carried_out(work: Path) -> None:
    commands = work / ".sagent" / "commands"
    commands.mkdir(parents=True)
    commands.joinpath("greet.md").write_text("Say hello to $1.\n")
    async with agent_for([Turn("Hello Ada")]) as peer:
        session = await peer.new(work)
        assert await peer.prompt(session, "/cost") == "end_turn"
        assert "$" in peer.text()
        assert await peer.prompt(session, "/nothing here") == "end_turn"
        assert "There is no command /nothing" in peer.text()
        assert await peer.prompt(session, "/greet Ada") == "end_turn"
        assert peer.text().endswith("Hello Ada")
        named = [each["name"] for each in peer.kinds("available_commands_update")[0]["availableCommands"]]
        assert "greet" in named


async def test_turn_end_has_reason(work: Path) -> None:
    async with agent_for([Turn("cut", stop="max_tokens"), Turn("no", stop="refusal")]) as peer:
        session = await peer.new(work)
        assert await peer.prompt(session, "a") == "max_tokens"
        assert await peer.prompt(session, "b") == "refusal"
    async with agent_for([calls(Call("List", {})), Turn("b")], max_turns="1") as peer:
        assert await peer.prompt(await peer.new(work), "a") == "max_turn_requests"


async def test_provider_failure_keeps_session(work: Path) -> None:
    script = [Fail(401, message="bad key"), Fail(400, message="what is this"), Turn("fine")]
    async with agent_for(script) as peer:
        session = await peer.new(work)
        for code in (-32000, -32603):
            with pytest.raises(Refused) as refused:
                await peer.prompt(session, "a")
            assert refused.value.code == code
        assert await peer.prompt(session, "b") == "end_turn"


async def test_budget_flag_holds(work: Path) -> None:
    async with agent_for([Turn("fine")], max_budget_usd="0.000001") as peer:
        session = await peer.new(work)
        with pytest.raises(Refused, match="budget"):
            await peer.prompt(session, "a")


# -- cancel and close


async def test_cancelled_turn_is_no_error(work: Path) -> None:
    def script(_: Received) -> Turn:
        began = work.joinpath("began").exists()
        return Turn("again") if began else calls(bash("touch began; sleep 60"), text="Wait")

    async with agent_for(script) as peer:
        session = await peer.new(work)
        peer.notify("session/cancel", sessionId=session)  # before anything runs
        running, waiting = peer.begin_prompt(session, "one"), peer.begin_prompt(session, "two")
        await until(work.joinpath("began").exists, "the command")
        peer.notify("session/cancel", sessionId=session)
        for each in (running, waiting):
            assert (await each)["result"] == {"stopReason": "cancelled"}
        assert not peer.unfinished
        silent = peer.begin_prompt(session, "three")
        peer.notify("session/cancel", sessionId=session)  # at once
        assert (await silent)["result"] == {"stopReason": "cancelled"}
        peer.notify("session/cancel", sessionId=session)  # and after
        assert await peer.prompt(session, "four") == "end_turn"


async def test_new_message_replaces_turn(work: Path) -> None:
    """As editors send it: a cancel, and the new prompt at once."""

    def script(_: Received) -> Turn:
        began = work.joinpath("began").exists()
        return Turn("the other") if began else calls(bash("touch began; sleep 60"))

    async with agent_for(script) as peer:
        session = await peer.new(work)
        running = peer.begin_prompt(session, "one")
        await until(work.joinpath("began").exists, "the command")
        peer.notify("session/cancel", sessionId=session)
        other = peer.begin_prompt(session, "no, do the other")
        ends = [(await each)["result"]["stopReason"] for each in (running, other)]
        assert ends == ["cancelled", "end_turn"]
        assert peer.text() == "the other"


async def test_request_cancelled_by_id(work: Path) -> None:
    async with agent_for([Stall(Turn("never")), Turn("again")]) as peer:
        session = await peer.new(work)
        peer.send_prompt("mine", session, "a")
        peer.notify("$/cancel_request", requestId="none")
        peer.notify("$/cancel_request", requestId="mine")
        await until(lambda: peer.stray, "the answer")
        (answer,) = peer.stray
        assert answer["id"] == "mine" and answer["error"]["code"] == -32800


@later
async def test_queued_request_cancelled_alone(work: Path) -> None:
    bodies: list[str] = []

    def script(request: Received) -> Turn:
        bodies.append(request.body.decode())
        return Turn("done") if "tool_result" in bodies[-1] else calls(bash("touch began; sleep 1"))

    async with agent_for(script) as peer:
        session = await peer.new(work)
        first = peer.begin_prompt(session, "prompt-one")
        await until(work.joinpath("began").exists, "the command")
        peer.send_prompt("two", session, "prompt-two")
        third = peer.begin_prompt(session, "prompt-three")
        peer.notify("$/cancel_request", requestId="two")
        await until(lambda: peer.stray, "the answer")
        assert peer.stray[0]["error"]["code"] == -32800
        assert not first.done()
        ends = [(await each)["result"]["stopReason"] for each in (first, third)]
        assert ends == ["end_turn", "end_turn"]
        assert "prompt-three" in bodies[-1] and "prompt-two" not in bodies[-1]


@later
@pytest.mark.parametrize("method", ["session/close", "session/delete"])
async def test_running_session_closed(work: Path, method: str) -> None:
    script = [calls(bash("touch began; sleep 60")), Turn("again")]
    async with agent_for(script) as peer:
        session = await peer.new(work)
        running, waiting = peer.begin_prompt(session, "one"), peer.begin_prompt(session, "two")
        await until(work.joinpath("began").exists, "the command")
        assert await peer.ask(method, sessionId=session) == {}
        for each in (running, waiting):
            assert (await each)["result"] == {"stopReason": "cancelled"}
        with pytest.raises(Refused):
            await peer.prompt(session, "three")


# -- permissions


async def test_call_allowed_once_always_or_never(work: Path) -> None:
    script = [
        calls(write("a")), Turn("1"), calls(bash("touch b c")), Turn("2"), calls(bash("touch b c")), Turn("3"),
        calls(write("e")), Turn("4"), calls(write("f")), Turn("5"), calls(write("g")), Turn("6"),
    ]  # fmt: skip
    async with agent_for(script, permission_mode="ask", sandbox="off") as peer:
        session = await peer.new(work)
        chosen = ("allow_once", "allow_always", "reject_once", "cancelled", "something else")
        peer.handlers["session/request_permission"] = choosing(*chosen)
        for _ in range(6):
            assert await peer.prompt(session, "go") == "end_turn"
        assert {path.name for path in work.iterdir()} == {"a", "b", "c"}
        asked = [params for _, params in peer.asked]
        assert len(asked) == 5  # the rule that was allowed covers the third call
        assert [each["kind"] for each in asked[0]["options"]] == ["allow_once", "allow_always", "reject_once"]
        always = next(each for each in asked[1]["options"] if each["kind"] == "allow_always")
        assert "Bash(touch b c)" in always["name"]
        assert asked[0]["toolCall"]["content"][0]["type"] == "diff"
        assert "touch b c" in json.dumps(asked[1]["toolCall"]["content"])
        states = [
            each["status"] for each in peer.kinds("tool_call_update") if each.get("status") in ("completed", "failed")
        ]
        assert states == ["completed"] * 3 + ["failed"] * 3


async def test_open_question_ends_with_turn(work: Path) -> None:
    async def never(params: Mapping[str, Any]) -> Mapping[str, object]:
        await asyncio.Event().wait()
        raise AssertionError

    async with agent_for([calls(write("a")), Turn("b")], permission_mode="ask") as peer:
        peer.handlers["session/request_permission"] = never
        session = await peer.new(work)
        running = peer.begin_prompt(session, "go")
        await until(lambda: peer.asked, "the question")
        peer.notify("session/cancel", sessionId=session)
        assert (await running)["result"] == {"stopReason": "cancelled"}
        assert not work.joinpath("a").exists()
        for task in peer.tasks:
            task.cancel()


async def test_answer_bound_to_its_request(work: Path) -> None:
    allowed = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}

    async def refuse(params: Mapping[str, Any]) -> Mapping[str, object]:
        for number in (True, "1", 1.5, 2, None):  # the request's id is 1
            peer.write(json.dumps({"jsonrpc": "2.0", "id": number, "result": allowed}).encode())
        return {"outcome": {"outcome": "selected", "optionId": "reject_once"}}

    async with agent_for([calls(write("a")), Turn("b")], permission_mode="ask") as peer:
        peer.handlers["session/request_permission"] = refuse
        session = await peer.new(work)
        assert await peer.prompt(session, "go") == "end_turn"
        assert not work.joinpath("a").exists()


async def test_subagents_ask_under_session_id(work: Path) -> None:
    script = [
        calls(Call("AgentSpawn", {"prompt": "write it", "name": "helper"})), calls(write("x")), Turn("written"),
        Turn("all done"),
    ]  # fmt: skip

    async with agent_for(script, permission_mode="ask") as peer:
        peer.handlers["session/request_permission"] = choosing("allow_once")
        session = await peer.new(work)
        assert await peer.prompt(session, "go") == "end_turn"
        assert {name for name, _ in peer.updates} == {session}
        writes = [params for _, params in peer.asked if params["toolCall"]["kind"] == "edit"]
        assert [params["sessionId"] for params in writes] == [session]
        assert writes[0]["toolCall"]["title"].startswith("helper: Write")
        assert "written" not in peer.text()


@later
async def test_several_questions_open_at_once(work: Path) -> None:
    async with agent_for([calls(write("a")), calls(write("b")), Turn("1"), Turn("2")], permission_mode="ask") as peer:
        both = asyncio.Event()

        async def together(params: Mapping[str, Any]) -> Mapping[str, object]:
            if len(peer.asked) == 2:
                both.set()
            await both.wait()
            return {"outcome": {"outcome": "selected", "optionId": "allow_once"}}

        peer.handlers["session/request_permission"] = together
        sessions = [await peer.new(work), await peer.new(work)]
        assert await asyncio.gather(*(peer.prompt(each, "go") for each in sessions)) == ["end_turn"] * 2
        assert {params["sessionId"] for _, params in peer.asked} == set(sessions)


# -- options


async def test_mode_model_effort_advisor_set(work: Path) -> None:
    async with agent_for([calls(write("a")), Turn("b")]) as peer:
        made = await peer.ask("session/new", cwd=str(work), mcpServers=[])
        session = made["sessionId"]
        values = {each["id"]: each["currentValue"] for each in made["configOptions"]}
        assert values == {"mode": "edit", "model": "anthropic/claude-sonnet-4-6", "effort": "default", "advisor": "off"}
        wanted = {
            "mode": "ask",
            "model": "anthropic/claude-opus-4-6",
            "effort": "high",
            "advisor": "anthropic/claude-opus-4-6",
        }
        for name, value in wanted.items():
            found = await peer.ask("session/set_config_option", sessionId=session, configId=name, value=value)
            assert {each["id"]: each["currentValue"] for each in found["configOptions"]}[name] == value
        assert peer.kinds("current_mode_update")[-1]["currentModeId"] == "ask"  # for who knows modes alone
        assert await peer.ask("session/set_mode", sessionId=session, modeId="full") == {}
        await peer.ask(
            "session/set_config_option", sessionId=session, configId="advisor", value="off"
        )  # it came before
        shown = peer.kinds("config_option_update")[-1]["configOptions"]
        assert {each["id"]: each["currentValue"] for each in shown}["mode"] == "full"
        await peer.ask("session/set_config_option", sessionId=session, configId="advisor", value=wanted["advisor"])
        for name, value in (("mode", "none"), ("model", "x/y"), ("effort", 3), ("nothing", "a"), ("mode", True)):
            with pytest.raises(Refused) as refused:
                await peer.ask("session/set_config_option", sessionId=session, configId=name, value=value)
            assert refused.value.code == -32602
        with pytest.raises(Refused):
            await peer.ask("session/set_mode", sessionId=session, modeId="none")
        found = await peer.ask("session/set_config_option", sessionId=session, configId="advisor", value="off")
        assert {each["id"]: each["currentValue"] for each in found["configOptions"]} == {
            **wanted,
            "mode": "full",
            "advisor": "off",
        }


async def test_accepted_plan_carried_out(work: Path) -> None:
    script = [Turn("## Plan\n1. write a"), calls(write("a")), Turn("done")]
    async with agent_for(script) as peer:
        session = await peer.new(work)
        peer.handlers["session/request_permission"] = choosing("edit")
        await peer.ask("session/set_mode", sessionId=session, modeId="plan")
        assert await peer.prompt(session, "plan it") == "end_turn"
        assert work.joinpath("a").exists()
        assert peer.kinds("current_mode_update")[-1]["currentModeId"] == "edit"
    propose = calls(Call("ExitPlan", {"plan": "write b"}))
    async with agent_for([propose, Turn("as you like")], permission_mode="plan") as peer:
        session = await peer.new(work)
        peer.handlers["session/request_permission"] = choosing("no")
        assert await peer.prompt(session, "plan it") == "end_turn"
        assert not peer.kinds("current_mode_update")


# -- forms, notices, MCP servers


async def test_questions_become_forms(work: Path) -> None:
    question = Call("AskUser", {"question": "Which?", "options": ["red", "blue"]})
    several = Call("AskUser", {"question": "Which ones?", "options": ["red", "blue"], "multiple": True})
    script = [calls(question), calls(several), calls(question), Turn("thanks")]
    answers = [
        {"action": "accept", "content": {"answer": "blue"}},
        {"action": "accept", "content": {"answers": ["red", "blue"], "other": "green"}},
        {"action": "decline"},
    ]

    async def fill(params: Mapping[str, Any]) -> Mapping[str, object]:
        return answers.pop(0)

    async with agent_for(script, {"elicitation": {"form": {}}}) as peer:
        peer.handlers["elicitation/create"] = fill
        session = await peer.new(work)
        assert await peer.prompt(session, "go") == "end_turn"
        said = [json.dumps(each["content"]) for each in peer.kinds("tool_call_update") if each.get("content")]
        assert ["blue" in said[0], "green" in said[1], "unanswered" in said[2]] == [True] * 3
    for none in ({}, {"elicitation": {}}, {"elicitation": None}, {"elicitation": {"form": None, "url": {}}}):
        async with agent_for([calls(question), Turn("well")], none) as peer:
            session = await peer.new(work)
            assert await peer.prompt(session, "go") == "end_turn"
            assert not peer.asked


@later
async def test_client_mcp_servers_connected(work: Path) -> None:
    odd = Odd(work).config
    server = {
        "name": "my things",
        "command": odd.command,
        "args": [*odd.args],
        "env": [{"name": "MINE", "value": "v"}],
    }
    script = [calls(Call("mcp__my_things__do", {"code": "import os; text = '3 ' + os.environ['MINE']"})), Turn("3")]
    async with agent_for(script, permission_mode="full") as peer:
        made = await peer.ask("session/new", cwd=str(work), mcpServers=[server])
        assert await peer.prompt(made["sessionId"], "add") == "end_turn"
        assert "3 v" in json.dumps(peer.kinds("tool_call_update")[-1])
    gone = {"name": "gone", "command": "/no/such/program", "args": [], "env": []}
    async with agent_for([Turn("without")], {"session": {"notices": {}}}) as peer:
        made = await peer.ask("session/new", cwd=str(work), mcpServers=[gone])
        assert await peer.prompt(made["sessionId"], "hello") == "end_turn"
        assert any("gone" in each["title"] for each in peer.kinds("notice"))


async def test_no_form_without_capability() -> None:
    sent: list[bytes] = []
    client = Client(Connection({}, {}, sent.append))
    person = Person(client, cast("Any", None), lambda: None)
    assert await person.answer(Question("root", "Which?")) is None
    assert not sent


@later
async def test_running_session_shown_again(work: Path) -> None:
    script = [calls(Call("List", {}), text="I look."), calls(bash("touch began; sleep 60")), Turn("never")]
    async with agent_for(script, ephemeral="true") as peer:
        session = await peer.new(work)
        running = peer.begin_prompt(session, "go")
        await until(work.joinpath("began").exists, "the command")
        (command,) = (each for each in peer.kinds("tool_call") if each["kind"] == "execute")
        said = len(peer.kinds("agent_message_chunk"))
        await peer.ask("session/load", sessionId=session, cwd=str(work), mcpServers=[])
        assert len(peer.kinds("agent_message_chunk")) == 2 * said
        assert peer.unfinished == {(session, command["toolCallId"]): "in_progress"}
        peer.notify("session/cancel", sessionId=session)
        assert (await running)["result"] == {"stopReason": "cancelled"}
        assert (await peer.ask("session/list", cwd=str(work)))["sessions"] == []


async def test_warnings_wait_or_become_notices(work: Path) -> None:
    commands = work / ".sagent"
    commands.mkdir()
    commands.joinpath("config.toml").write_text('permission_mode = "full"\n')
    for able, kind in (({}, "agent_thought_chunk"), ({"session": {"notices": {}}}, "notice")):
        async with agent_for([Turn("x")], able) as peer:
            session = await peer.new(work)
            await until(lambda: peer.kinds("available_commands_update"), "the commands")
            assert bool(peer.kinds("notice")) == (kind == "notice")
            assert not peer.kinds("agent_thought_chunk")
            assert await peer.prompt(session, "go") == "end_turn"
            assert "permission_mode" in json.dumps(peer.kinds(kind)[0])


async def test_advice_shown_as_finished_call(work: Path) -> None:
    def reply(request: Received) -> Step:
        advises = "opus" in str(request.json["model"])
        return Turn("Proceed." if advises else "said") if "hold it" not in request.body.decode() else Stall()

    async with agent_for(reply, advisor="anthropic/claude-opus-4-6") as peer:
        session = await peer.new(work)
        assert await peer.prompt(session, "go") == "end_turn"
        peer.updates.clear()
        assert await peer.prompt(session, "/ask-advisor is this right?") == "end_turn"
        (advice,) = peer.kinds("tool_call")
        assert advice["kind"] == "think"
        assert "Proceed." in json.dumps(peer.kinds("tool_call_update")[-1])
        asking = peer.begin_prompt(session, "/ask-advisor hold it")
        await until(lambda: len(peer.kinds("tool_call")) == 2, "the question")
        peer.notify("session/cancel", sessionId=session)
        assert (await asking)["result"] == {"stopReason": "cancelled"}


async def test_command_output_streamed(work: Path) -> None:
    command = "echo line 1; until [ -e gate ]; do sleep 0.05; done; echo line 4"
    async with agent_for([calls(bash(command)), Turn("done")]) as peer:

        def shown() -> list[str]:
            updates = [each for each in peer.kinds("tool_call_update") if "content" in each]
            return [each["content"][0]["content"]["text"] for each in updates]

        asking = peer.begin_prompt(await peer.new(work), "go")
        await until(lambda: any("line 1" in text for text in shown()), "its output")
        (work / "gate").touch()
        assert (await asking)["result"]["stopReason"] == "end_turn"
        assert "line 4" not in shown()[0] and "line 4" in shown()[-1]


async def test_commands_use_client_terminals(work: Path) -> None:
    loud = "for i in 1 2 3 4; do seq -f line-$i-%g 2000; sleep 0.6; done; exit 3"
    script = [calls(bash(loud)), calls(bash("echo quick; pwd")), Turn("done")]
    async with agent_for(script, {"_meta": {"terminal_output": True}, "terminal": True}) as peer:
        session = await peer.new(work)
        assert await peer.prompt(session, "go") == "end_turn"
        first, second = peer.kinds("tool_call")
        assert first["content"] == [{"type": "terminal", "terminalId": first["toolCallId"]}]
        assert first["_meta"] == {"terminal_info": {"terminal_id": first["toolCallId"], "cwd": str(work)}}
        data = {first["toolCallId"]: "", second["toolCallId"]: ""}
        codes: list[int] = []
        for update in peer.kinds("tool_call_update"):
            assert "content" not in update
            if "terminal_output" in update["_meta"]:
                data[update["toolCallId"]] += update["_meta"]["terminal_output"]["data"]
            if "terminal_exit" in update["_meta"]:
                codes.append(update["_meta"]["terminal_exit"]["exit_code"])
        assert codes == [1, 0]
        assert data[second["toolCallId"]].startswith(f"quick\n{work}")
        lines = data[first["toolCallId"]].split("\n")
        assert lines.count("line-4-2000") == 1
        assert not peer.asked


@later
async def test_background_command_call_ends(work: Path) -> None:
    background = Call("Bash", {"command": "echo one; sleep 0.5; echo two", "background": True})
    async with agent_for([calls(background), Turn("it runs"), Turn("it is done")]) as peer:
        session = await peer.new(work)
        assert await peer.prompt(session, "go") == "end_turn"
        assert peer.text() == "it runsit is done"
        assert "two" in json.dumps(peer.kinds("tool_call_update")[-1])
