"""sagent as an MCP server, driven by the SDK's client over stdio and HTTP, with a provider on loopback."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp.types import (
    CallToolResult,
    ElicitRequestParams,
    ElicitResult,
    InputRequiredResult,
    InputResponses,
    TextContent,
)

from sagent.lib.json import as_array, as_object
from sagent.plugins.mcp.agent_server import Sessions, make_server
from sagent.plugins.mcp.command import opener
from sagent.testing.script import Call
from sagent.testing.server import FakeProviderServer, Script, Turn
from tests.depth import later, slow
from tests.forks import Forks
from tests.waiting import SECONDS, started

CHECKOUT = Path(__file__).parents[3]
MODEL = "anthropic/claude-sonnet-4-6"
SERVE = [sys.executable, "-m", "sagent.bin.cli", "mcp", "serve", "--model", MODEL]
MODES = ("legacy", "auto")  # the era of `initialize`, and the stateless one


@dataclass
class Person:
    """Answers what is asked, and remembers it."""

    answers: list[ElicitResult] = field(default_factory=list[ElicitResult])
    asked: list[str] = field(default_factory=list[str])

    async def __call__(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        self.asked.append(params.message)
        return self.answers.pop(0)


@dataclass
class Place:
    """Where the server runs: in this process, but where a test needs a real one."""

    work: Path
    monkeypatch: pytest.MonkeyPatch

    @property
    def environment(self) -> dict[str, str]:
        names = ("PATH", "HOME", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY")
        return {"PYTHONPATH": str(CHECKOUT)} | {name: os.environ[name] for name in names if name in os.environ}

    @asynccontextmanager
    async def serve(self, mode: str = "auto", person: Person | None = None, **flags: object) -> AsyncGenerator[Client]:
        sessions = Sessions(opener({"model": MODEL, **flags}))
        try:
            async with Client(make_server(sessions), mode=mode, elicitation_callback=person) as client:
                yield client
        finally:
            await sessions.aclose()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return Place(work, monkeypatch)


@asynccontextmanager
async def provider(place: Place, script: Script) -> AsyncGenerator[FakeProviderServer]:
    async with FakeProviderServer(script) as server:
        place.monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        place.monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        yield server


def wants_to_write(path: Path) -> Turn:
    return Turn("", calls=(Call("Write", {"file_path": str(path), "content": "x"}),))


def text_of(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


def structured(result: CallToolResult) -> dict[str, object]:
    assert result.structured_content is not None
    return result.structured_content


@pytest.mark.costly
@pytest.mark.parametrize("mode", MODES)
async def test_prompt_returns_cost_and_session(place: Place, mode: str) -> None:
    said: list[str] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        said.append(message or "")

    call = Call("List", {})
    script = [Turn("", calls=(call,)), Turn("There is nothing."), Turn("You asked what is there.")]
    async with provider(place, script) as server, place.serve(mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["sagent", "sagent_reply", "sagent_status"]
        first = await client.call_tool("sagent", {"prompt": "What is here?"}, progress_callback=on_progress)
        assert not first.is_error
        assert text_of(first).startswith("There is nothing.")
        found = structured(first)
        assert found["result"] == "There is nothing."
        cost = as_object(found["cost_usd"])["total"]
        assert isinstance(cost, float) and cost > 0
        assert found.keys() == {"result", "is_error", "error", "session_id", "permission_denials", "cost_usd"}
        whole = as_object((first.meta or {}).get("sagent/result"))
        assert whole["session_id"] == found["session_id"] and whole["session_path"] and whole["usage"]
        assert any("List" in each for each in said)
        again = await client.call_tool("sagent_reply", {"session_id": found["session_id"], "prompt": "What did I ask?"})
        assert structured(again)["session_id"] == found["session_id"]
        assert len(as_array(server.requests[-1].json["messages"])) > len(as_array(server.requests[0].json["messages"]))
        runs = as_array(structured(await client.call_tool("sagent_status", {}))["runs"])
        await asyncio.sleep(0.2)
        assert structured(await client.call_tool("sagent_status", {}))["runs"] == runs  # nor does their duration grow
        assert [as_object(run)["state"] for run in runs] == ["done", "done"]


@pytest.mark.costly
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("answer", ["allow", "deny", "decline"])
async def test_policy_asks_client_person(place: Place, mode: str, answer: str) -> None:
    target = place.work.parent / "beyond.txt"
    given = {
        "allow": ElicitResult(action="accept", content={"decision": "allow"}),
        "deny": ElicitResult(action="accept", content={"decision": "deny", "reason": "not there"}),
        "decline": ElicitResult(action="decline"),
    }[answer]
    person = Person([given])
    async with (
        provider(place, [wants_to_write(target), Turn("done")]) as server,
        place.serve(mode=mode, person=person) as client,
    ):
        result = await client.call_tool("sagent", {"prompt": "Write it."})
    assert not result.is_error
    assert len(person.asked) == 1
    assert "Write" in person.asked[0] and str(target) in person.asked[0]
    assert target.exists() == (answer == "allow")
    read = str(server.requests[-1].json["messages"])
    assert ("not there" in read) == (answer == "deny")
    assert len(as_array(structured(result)["permission_denials"])) == (answer != "allow")


async def test_policy_denies_without_elicitation(place: Place) -> None:
    target = place.work.parent / "beyond.txt"
    async with provider(place, [wants_to_write(target), Turn("done")]), place.serve() as client:
        result = await client.call_tool("sagent", {"prompt": "Write it."})
    assert not target.exists()
    assert len(as_array(structured(result)["permission_denials"])) == 1


async def test_unknown_price_not_zero(place: Place) -> None:
    async with provider(place, [Turn("done")]), place.serve() as client:
        result = await client.call_tool("sagent", {"prompt": "Go.", "model": "anthropic/claude-unheard-of"})
    assert "at least $0.00" in text_of(result)
    assert as_object(structured(result)["cost_usd"])["unpriced"] == ["anthropic/claude-unheard-of"]


async def test_client_cannot_raise_cap(place: Place) -> None:
    async with provider(place, [Turn("done")]) as server, place.serve(max_budget_usd="0.000001") as client:
        result = await client.call_tool("sagent", {"prompt": "Go.", "max_budget_usd": 5})
    assert result.is_error
    assert "budget" in text_of(result)
    assert as_object(structured(result)["error"])["kind"] == "budget"
    assert not server.requests


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("sagent", {"prompt": "x", "cwd": "/no/such/directory"}, "/no/such/directory"),
        ("sagent", {"prompt": "x", "model": "nobody/knows"}, "nobody"),
        ("sagent", {"prompt": "x", "max_budget_usd": -1}, "above 0"),
        ("sagent", {"prompt": "x", "max_budget_usd": "nan"}, "above 0"),
        ("sagent", {"prompt": "x", "max_budget_usd": "1e400"}, "above 0"),
        ("sagent", {"prompt": " "}, "prompt is empty"),
        ("sagent_reply", {"session_id": "none-such", "prompt": "x"}, "none-such"),
        ("sagent_reply", {"session_id": "", "prompt": "x"}, "no session"),
        ("sagent_reply", {"session_id": "~nobody-here", "prompt": "x"}, "no session"),
        ("sagent_reply", {"session_id": "x" * 5000, "prompt": "x"}, "x" * 40),
        ("sagent", {"prompt": "x", "cwd": "/" + "x" * 5000}, "/" + "x" * 40),
    ],
)
async def test_invalid_request_explained(place: Place, tool: str, arguments: dict[str, object], said: str) -> None:
    async with provider(place, [Turn("done")]), place.serve() as client:
        result = await client.call_tool(tool, arguments)
        assert result.is_error
        assert said in text_of(result)
        assert "Traceback" not in text_of(result)
        empty = {"cwd": "", "model": "", "max_budget_usd": None}
        assert not (await client.call_tool("sagent", {"prompt": "x", **empty})).is_error  # it goes on
        assert as_array(structured(await client.call_tool("sagent_status", {"session_id": ""}))["runs"])


@later
async def test_cancelled_call_frees_session(place: Place, tmp_path: Path) -> None:
    began = tmp_path / "work" / "began"
    call = Call("Bash", {"command": "touch began; sleep 60"})
    async with provider(place, [Turn("", calls=(call,)), Turn("done"), Turn("and again")]), place.serve() as client:
        task = asyncio.create_task(client.call_tool("sagent", {"prompt": "Sleep."}))
        while not began.exists():
            await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.wait([task])
        while True:
            [run] = as_array(structured(await client.call_tool("sagent_status", {}))["runs"])
            if as_object(run)["state"] != "working":
                break
            await asyncio.sleep(0.02)
        again = await client.call_tool("sagent_reply", {"session_id": as_object(run)["session_id"], "prompt": "Go on."})
        assert not again.is_error


async def test_answer_bound_to_its_question(place: Place) -> None:
    first, second = (place.work.parent / name for name in ("first.txt", "second.txt"))
    script = [wants_to_write(first), wants_to_write(second), Turn("done")]
    async with provider(place, script), place.serve(person=Person()) as client:

        async def call(state: str | None = None, decision: str = "allow") -> CallToolResult | InputRequiredResult:
            said: InputResponses = {"approval": ElicitResult(action="accept", content={"decision": decision})}
            return await asyncio.wait_for(
                client.session.call_tool(
                    "sagent", {"prompt": "Write."}, request_state=state, input_responses=said if state else None,
                    allow_input_required=True,
                ),
                60,
            )  # fmt: skip

        asked = await call()
        assert isinstance(asked, InputRequiredResult)
        again = await call(asked.request_state)
        assert isinstance(again, InputRequiredResult)
        repeated = await call(asked.request_state)  # the first answer once more: the second question stays
        assert isinstance(repeated, InputRequiredResult)
        assert first.exists() and not second.exists()
        ended = await call(repeated.request_state, "deny")
        assert isinstance(ended, CallToolResult)
        assert text_of(ended).startswith("done") and not second.exists()
        assert await call(repeated.request_state) == ended


@later
async def test_nonsense_answered_and_allows_nothing(place: Place) -> None:
    target = place.work.parent / "beyond.txt"
    elicitation: dict[str, object] = {}
    capable = {"protocolVersion": "2025-06-18", "capabilities": {"elicitation": elicitation}}
    begin: dict[str, object] = {
        "method": "initialize",
        "id": 1,
        "params": {**capable, "clientInfo": {"name": "x", "version": "1"}},
    }
    call: dict[str, object] = {
        "method": "tools/call",
        "id": 2,
        "params": {"name": "sagent", "arguments": {"prompt": "Write it."}},
    }
    async with provider(place, [wants_to_write(target), Turn("done")]):
        pipe = asyncio.subprocess.PIPE
        async with started(*SERVE, cwd=place.work, env=place.environment, stdin=pipe, stdout=pipe) as server:
            assert server.stdin is not None and server.stdout is not None

            def send(message: Mapping[str, object]) -> None:
                assert server.stdin is not None
                server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

            server.stdin.write(b"no JSON\n")
            for message in (begin, {"method": "notifications/initialized"}, call):
                send(message)
            while (said := as_object(json.loads(await server.stdout.readline()))).get("id") != 2:
                if said.get("method") == "elicitation/create":
                    send({"id": said["id"], "result": {"action": "maybe", "content": 5}})
            assert "done" in str(said) and not as_object(said["result"])["isError"]
            assert not target.exists()
            server.stdin.close()
            assert await server.wait() == 0


@later
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=slow)])
async def test_signal_ends_server(place: Place, number: int) -> None:
    pipe, environment = asyncio.subprocess.PIPE, place.environment | {"ANTHROPIC_API_KEY": "k"}
    async with started(*SERVE, cwd=place.work, env=environment, stdin=pipe, stdout=pipe) as server:
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        await server.stdout.readline()
        server.send_signal(number)
        assert await server.wait() == 128 + number


async def test_stdio_call_answered(place: Place) -> None:
    async with provider(place, [Turn("over stdio")]):
        given = StdioServerParameters(command=SERVE[0], args=SERVE[1:], env=place.environment, cwd=place.work)
        async with Client(given) as client:
            result = await client.call_tool("sagent", {"prompt": "hello"})
            assert structured(result)["result"] == "over stdio"


async def test_http_needs_token_and_host(place: Place) -> None:
    async with provider(place, [Turn("over HTTP")]):
        server = await asyncio.create_subprocess_exec(
            *SERVE, "--http", "127.0.0.2:0", cwd=place.work,
            env=place.environment | {"SAGENT_MCP_TOKEN": "a-token-of-this-server"}, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            assert server.stderr is not None
            url = (await server.stderr.readline()).decode().split()[-1]
            login = {"Authorization": "Bearer a-token-of-this-server"}
            async with httpx2.AsyncClient(timeout=4 * SECONDS) as http:
                assert (await http.post(url, json={})).status_code == 401
                assert (await http.post(url, json={}, headers={"Authorization": "Bearer guess"})).status_code == 401
                foreign = await http.post(url, json={}, headers={**login, "Host": "evil.example"})
                assert foreign.status_code == 421
                page = await http.post(url, json={}, headers={**login, "Origin": "https://evil.example"})
                assert page.status_code == 403
            async with (
                httpx2.AsyncClient(headers=login, timeout=4 * SECONDS) as http,
                Client(streamable_http_client(url, http_client=http)) as client,
            ):
                result = await client.call_tool("sagent", {"prompt": "hello"})
                assert structured(result)["result"] == "over HTTP"
        finally:
            server.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(server.wait(), 4 * SECONDS) == 128 + signal.SIGTERM


@later
@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["mcp", "serve", "--http", "x"], "--http x"),
        (["mcp", "serve", "--permission-mode", "whatever"], "permission"),
        (["mcp", "add", "a", "https://example.org", "--env", "A=B"], "--env"),
        (["mcp", "remove", "nobody"], "nobody"),
        (["mcp", "test", "nobody"], "nobody"),
    ],
)
async def test_invalid_command_line_exits_2(place: Place, argv: Sequence[str], said: str) -> None:
    done = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "sagent.bin.cli", *argv, cwd=place.work, env=place.environment,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert said in (await done.communicate())[1].decode()
    assert done.returncode == 2


LINES = {
    # what is sent: the code of the error, and its id
    "not json": (-32700, None),
    '{"jsonrpc": "2.0", "id": 3, "method":': (-32700, None),
    "[1]": (-32600, None),
    '{"id": 4}': (-32600, 4),
    '{"jsonrpc": "2.0", "id": "q", "method": 5}': (-32600, "q"),
}


def test_lines_that_are_no_messages_are_answered(place: Place, forks: Forks) -> None:
    lines = "\n".join(("", *LINES, " ", "")).encode()
    done = forks.run(*SERVE[3:], cwd=place.work, environment=place.environment, stdin=lines)
    errors = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(each["error"]["code"], each["id"]) for each in errors] == [*LINES.values()]
    assert done.returncode == 0
