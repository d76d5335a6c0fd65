"""Servers that die, flood, hang, answer with what is no JSON, and calls that are given up."""

import asyncio
import base64
import gzip
import json
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

from sagent.agent.resources import tools_of
from sagent.lib.json import json_freeze_object
from sagent.messages import Image, Text
from sagent.plugins.mcp import Servers
from sagent.plugins.mcp.output import MAX_MEDIA
from sagent.plugins.mcp.server import McpServer
from sagent.tool import RunContext, Workspace
from tests.depth import later
from tests.plugins.mcp.odd import Odd, do, tool
from tests.repl.samples import PNG
from tests.waiting import until

LARGE = PNG[:-12] + b"x" * 4_000_000 + PNG[-12:]
DIE = "import os; os._exit(3)"


@later
async def test_call_of_dead_server_not_repeated(tmp_path: Path) -> None:
    odd = Odd(tmp_path)
    async with odd.opened() as servers:
        said = await do(servers, DIE)
        assert "it ended with exit code 3" in said
        assert "Whether it did" in said
        assert odd.log.count("tools/call") == 1
        assert await do(servers) == "done"


@later
async def test_dead_server_restarts_between_calls(tmp_path: Path) -> None:
    odd = Odd(tmp_path)
    async with odd.opened() as servers:
        await do(servers, "threading.Timer(0.1, lambda: __import__('os')._exit(0)).start()")
        await until(lambda: servers.links["odd"].state != "connected", "the end of the server")
        assert await do(servers) == "done"


@later
async def test_restarts_back_off(tmp_path: Path) -> None:
    odd = Odd(tmp_path)
    async with odd.opened() as servers:
        link = servers.links["odd"]
        for _ in range(3):  # the third one a second later
            assert "is unknown" in await do(servers, DIE)
        link._failures = 7  # instead of a minute of waiting
        said = await do(servers, DIE)
        assert "7 times in a row" in said and "started again in" in said
        assert "The call was not sent." in said
        link.works()
        assert await do(servers) == "done"


@later
async def test_error_answer_keeps_connection(tmp_path: Path) -> None:
    odd = Odd(tmp_path)
    async with odd.opened() as servers:
        said = await do(servers, "raise KeyError('a\\x1b[2Jb')")
        assert "answered with an error: no 'a" in said
        assert "\x1b" not in said
        assert await do(servers) == "done"
    assert odd.log.count('"initialize"') == 1


async def test_invalid_answer_keeps_connection(tmp_path: Path) -> None:
    typed = {**tool("do"), "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    odd = Odd(tmp_path, tools=[typed])
    async with odd.opened() as servers:
        assert '{"no":"content"}' in await do(servers, "result = {'no': 'content'}")
        assert await do(servers, "result = {'content': [], 'structuredContent': {'n': 1}}") == '{"n":1}'
    assert odd.log.count('"initialize"') == 1


async def test_cancelled_call_cancels_at_server(tmp_path: Path) -> None:
    odd = Odd(tmp_path)
    async with odd.opened() as servers:
        task = asyncio.create_task(do(servers, "threading.Event().wait(60)"))
        await until(lambda: "tools/call" in odd.log, "the call")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: "notifications/cancelled" in odd.log, "the cancellation")
        assert await do(servers) == "done"
    assert odd.log.count('"initialize"') == 1


async def test_timed_out_call_keeps_server(tmp_path: Path) -> None:
    odd = Odd(tmp_path)
    async with odd.opened(config=replace(odd.config, timeout=1)) as servers:
        said = await do(servers, "threading.Event().wait(60)")
        assert "within 1 s (its timeout)" in said and "Whether it did" in said
        while (said := await do(servers)) != "done":  # on a busy machine an answer may take a second
            assert "within 1 s (its timeout)" in said
    assert odd.log.count('"initialize"') == 1


@later
@pytest.mark.parametrize(
    ("text", "read"),
    [
        ('half \\ud83d of it", "annotations": {"priority": NaN}, "_meta": {"x": "\\udc00"}, "y": "', "half ? of it"),
        ("\N{OK HAND SIGN} \\ud83d\\ude00", "\N{OK HAND SIGN} \N{GRINNING FACE}"),
        ("a byte \xff", "a byte \ufffd"),
    ],
)
async def test_almost_json_parsed(tmp_path: Path, text: str, read: str) -> None:
    odd = Odd(tmp_path)
    data = text.encode("latin-1") if "\xff" in text else text.encode()
    line = b'{"jsonrpc": "2.0", "id": %d, "result": {"content": [{"type": "text", "text": "' + data + b'"}]}}'
    async with odd.opened() as servers:
        async with asyncio.timeout(60):
            assert await do(servers, f"raw({line!r} % number)") == read


@later
async def test_non_messages_skipped(tmp_path: Path) -> None:
    odd = Odd(tmp_path)
    async with odd.opened() as servers:
        for line in ("[" * 100_000, "no JSON", '{"a": 1}', '{"id": [', '"\\ud83d'):
            assert await do(servers, f"with lock: print({line!r}, flush=True)") == "done"


@later
async def test_huge_line_and_stderr_flood_pass(tmp_path: Path) -> None:
    odd = Odd(tmp_path)
    async with odd.opened() as servers:
        said = await do(servers, "text = 'x' * 20_000_000")
        assert "10,000,000 more characters" in said and "MCP server odd" in said
        assert await do(servers, "[sys.stderr.write('e' * 100_000) for _ in range(100)]") == "done"


@later
async def test_progress_has_no_control_characters(tmp_path: Path) -> None:
    odd = Odd(tmp_path)
    shown: list[str] = []
    code = "\n".join((
        "token = params['_meta']['progressToken']",
        "notify('notifications/progress', progressToken=token, progress=1, total=4)",
        "notify('notifications/progress', progressToken=token, progress=2, message='half \\x1b[2J way')",
    ))  # fmt: skip
    async with odd.opened() as servers:
        await do(servers, code, progress=shown.append)
        await until(lambda: len(shown) == 2, "the progress")
    assert shown == ["1 of 4", "half \ufffd[2J way"]


async def test_server_gets_workspace_roots(tmp_path: Path) -> None:
    odd = Odd(tmp_path)
    async with odd.opened() as servers:
        said = json.loads(await do(servers, "text = json.dumps(ask('roots/list')['result'])"))
    assert said == {"roots": [{"uri": "file:///work", "name": "work"}]}


@later
async def test_odd_schemas_become_objects(tmp_path: Path) -> None:
    odd = Odd(tmp_path, tools=[
        {"name": "a", "inputSchema": {"type": "object", "properties": None}},
        tool("c", properties={"x": {"type": "number", "default": float("nan")}}),
    ])  # fmt: skip
    async with odd.opened() as servers:
        schemas = {one.own: one.parameters for one in servers.tools}
    assert all(schema["type"] == "object" for schema in schemas.values())
    assert len(schemas) == 2
    assert "NaN" not in json.dumps([repr(schema) for schema in schemas.values()])


class Forgetful(BaseHTTPRequestHandler):
    """A server of the earlier protocol over HTTP, whose sessions can be forgotten; it counts the calls that it made."""

    sessions: ClassVar[list[str]] = []
    calls: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, known = message.get("method"), self.headers.get("mcp-session-id") in self.sessions
        if method == "initialize":
            self.sessions.append(f"s{len(self.calls)}-{time.monotonic_ns()}")
            about = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
            self.reply(200, message, result={**about, "serverInfo": {"name": "f", "version": "1"}})
        elif method == "server/discover":
            self.reply(400, message, error={"code": -32601, "message": "no such method"})
        elif not known:
            self.reply(404)
        elif "id" not in message:
            self.reply(202)
        elif method == "tools/list":
            self.reply(200, message, result={"tools": [tool("do")]})
        else:
            self.calls.append(method)
            self.reply(200, message, result={"content": [{"type": "text", "text": f"call {len(self.calls)}"}]})

    def do_GET(self) -> None:
        self.reply(405)

    def do_DELETE(self) -> None:
        self.reply(405)

    def reply(self, status: int, message: dict[str, object] | None = None, **said: object) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}).encode() if message else b""
        self.send_response(status)
        self.send_header("content-type", "application/json" if body else "text/plain")
        self.send_header("content-length", str(len(body)))
        if self.sessions:
            self.send_header("mcp-session-id", self.sessions[-1])
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, *args: object) -> None:
        """Say nothing."""


@asynccontextmanager
async def serving(odd: Odd, handler: type[Forgetful]) -> AsyncGenerator[Servers]:
    """Such a server, in the place of the program."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        try:
            async with odd.opened(config=McpServer(url=f"http://127.0.0.1:{site.server_address[1]}/")) as servers:
                yield servers
        finally:
            await asyncio.to_thread(site.shutdown)


async def test_forgotten_session_reopened(tmp_path: Path) -> None:
    odd = Odd(tmp_path)
    async with serving(odd, Forgetful) as servers:
        assert odd.notices == []
        assert await do(servers) == "call 1"
        Forgetful.sessions.clear()
        assert await do(servers) == "call 2"


class Wordy(Forgetful):
    """The same, whose answer to a call has a length, and comes as one of several kinds."""

    how: ClassVar[str] = ""
    length: ClassVar[int] = 0

    def reply(self, status: int, message: dict[str, object] | None = None, **members: object) -> None:
        if not self.calls or status != 200 or message is None or message.get("method") != "tools/call":
            super().reply(status, message, **members)
            return
        result = {"content": [{"type": "text", "text": "x" * self.length}]}
        data = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        kind = "text/event-stream" if self.how == "events" else "application/json"
        data = b"event: message\ndata: %b\n\n" % data if self.how == "events" else data
        data = gzip.compress(data, 1) if self.how == "gzip" else data
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        if self.how == "gzip":
            self.send_header("content-encoding", "gzip")
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(data)


@pytest.mark.costly
@pytest.mark.parametrize("how", ["plain", "gzip", "events"])
async def test_http_answer_size_bounded(tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagent.plugins.mcp.bodies.MAX_LINE_BYTES", 1 << 20)
    monkeypatch.setattr("sagent.plugins.mcp.link.MAX_LINE_BYTES", 1 << 20)
    Wordy.how, Wordy.length = how, 1 << 19
    async with serving(Odd(tmp_path), Wordy) as servers:
        assert len(await do(servers)) == 1 << 19
        Wordy.length = 10 << 20
        said = await do(servers)
        assert ("1048576 byte limit" if how == "events" else "it answered with more than 1 MiB") in said
        Wordy.length = 3
        assert await do(servers) == "xxx"


@later
@pytest.mark.costly
@pytest.mark.parametrize("how", ["ends", "passes over"])
async def test_old_server_without_discovery_works(tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagent.plugins.mcp.pipes._PROBE_TIMEOUT_SECONDS", 0.5)
    odd = Odd(tmp_path, discover=how)
    async with odd.opened() as servers:
        assert odd.notices == []
        assert await do(servers) == "done"
        await do(servers, DIE)
        assert await do(servers) == "done"


@later
async def test_task_only_and_second_tool_named(tmp_path: Path) -> None:
    second = {**tool("do"), "description": "Another."}
    odd = Odd(tmp_path, tools=[tool("do"), {**tool("long"), "execution": {"taskSupport": "required"}}, second])
    async with odd.opened() as servers:
        assert [one.own for one in servers.tools] == ["do"]
    (notice,) = odd.notices
    assert "long (it can only be called as a task); do (an earlier tool has this name)" in notice


@later
@pytest.mark.costly
@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"type": "image", "mimeType": "image/png", "data": "cGl4ZWxz"}, "image/png, 6 bytes, which cannot be shown"),
        ({"type": "image", "mimeType": "image/tiff", "data": "TU0AKg=="}, "image/tiff, 4 bytes, which cannot be shown"),
        (
            {"type": "image", "mimeType": "image/png", "data": base64.b64encode(PNG[:40]).decode()},
            "broken or incomplete",
        ),
        ({"type": "image", "mimeType": "image/png", "data": "ab*c"}, "not base64"),
        (
            {"type": "resource", "resource": {"uri": "a:b", "mimeType": "application/pdf", "blob": "cGRm"}},
            "a:b: application/pdf, 3 bytes, which cannot be shown",
        ),
        ({"type": "image", "mimeType": "image/png", "data": base64.b64encode(LARGE).decode()}, "broken or incomplete"),
    ],
    ids=lambda given: str(given)[:40],
)
async def test_unsendable_content_replaced(tmp_path: Path, block: dict[str, object], said: str) -> None:
    odd = Odd(tmp_path)
    async with odd.opened() as servers:
        assert said in await do(servers, f"result = {{'content': [{block!r}]}}")


@later
async def test_of_many_images_some_are_shown(tmp_path: Path) -> None:
    image = {"type": "image", "mimeType": "text/odd", "data": base64.b64encode(PNG).decode()}
    odd = Odd(tmp_path)
    async with odd.opened() as servers:
        (tool,) = servers.tools
        code = f"result = {{'content': [{image!r}] * 2000 + [{{'type': 'text', 'text': 'end'}}]}}"
        run = RunContext("root", "c", Workspace(tmp_path), SimpleNamespace(), lambda _: None)  # pyright: ignore[reportArgumentType] -- no blobs
        content = (await tool(json_freeze_object({"code": code}), run)).content
    assert content[:-2] == (Image("image/png", PNG),) * MAX_MEDIA
    assert content[-2:] == (Text("end"), Text("(1980 more images and documents of the MCP server odd were left out)"))


ODD = [
    {"name": "none"},
    {"name": "nu\x1bll", "inputSchema": None},
    {"name": "string", "inputSchema": {"type": "string"}},
    {"name": 5, "inputSchema": {"type": "object"}},
    "no object",
]


@pytest.mark.costly
@pytest.mark.parametrize("levels", [40, 150, 400])
async def test_deeply_nested_definition_skipped(tmp_path: Path, levels: int) -> None:
    schema: dict[str, object] = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"x": schema}}
    odd = Odd(tmp_path, tools=[tool("do"), {"name": "deep", "inputSchema": schema}])
    async with odd.opened() as servers:
        assert [one.own for one in servers.tools] == (["deep", "do"] if levels < 50 else ["do"])
        assert await do(servers, f"result = {{'content': [], 'structuredContent': {{'x': {'[' * 90}{']' * 90}}}}}")
    assert ["deep (inputSchema: nested too deeply)" in notice for notice in odd.notices] == [True] * (levels > 50)


@later
async def test_strange_types_are_not_passed_on(tmp_path: Path) -> None:
    """Providers would refuse each request with one; the server judges arguments itself."""
    odd = {"type": "float", "default": {"type": "float"}}
    given = {"type": odd, "list": {"items": odd}, "either": {"anyOf": [{"type": ["string", "any"]}, True]}}
    server = Odd(tmp_path, tools=[tool("do", properties=given)])
    async with server.opened() as servers:
        (found,) = tools_of(servers.tools)
        kept = {"default": {"type": "float"}}
        assert found.parameters["properties"] == {
            "type": kept,
            "list": {"items": kept},
            "either": {"anyOf": ({}, True)},
        }
        assert await do(servers) == "done"


@later
@pytest.mark.costly
@pytest.mark.parametrize("discover", ["", "modern"])
async def test_unreadable_tool_skipped_and_named(tmp_path: Path, discover: str) -> None:
    forgiven = [
        {"name": "bare", "inputSchema": {}},
        {**tool("decorated"), "icons": "none", "annotations": {"readOnlyHint": "perhaps"}, "execution": 3},
    ]
    odd = Odd(tmp_path, tools=[*ODD, *forgiven, tool("do")], discover=discover)
    async with odd.opened() as servers:
        assert [one.own for one in servers.tools] == ["bare", "decorated", "do"]
        assert await do(servers) == await do(servers, own="bare") == await do(servers, own="decorated") == "done"
    (notice,) = odd.notices
    assert notice.startswith(
        "The MCP server odd lists what cannot be used: none (inputSchema: Field required); nu\ufffdll ("
    )
    assert all(name in notice for name in ("string (inputSchema: ", "5 (name: ", "one of its tools ("))


@later
async def test_unreadable_prompt_skipped(tmp_path: Path) -> None:
    prompts = [{"name": "good"}, {"name": ["odd"]}, {"name": "odd", "arguments": "x"}]
    resources = [{"uri": "a:b", "name": "good"}, {"uri": 7, "name": "odd"}, {"name": "none"}]
    odd = Odd(tmp_path, prompts=prompts, resources=resources)
    async with odd.opened() as servers:
        assert [one.own for one in await servers.prompts()] == ["good"]
        assert await servers.resources() == ["odd:a:b"]
