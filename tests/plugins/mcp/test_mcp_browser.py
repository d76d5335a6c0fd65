"""A real browser behind an MCP server, in the sandbox: a page of this machine is opened, used and seen by the model."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from sagent.app import open_agent
from sagent.config import load
from sagent.lib.gate import Wall
from sagent.plugins.mcp.browser import configuration
from sagent.sandbox.landlock import make_wall
from sagent.sandbox.profile import Profile
from sagent.testing.server import Call, FakeProviderServer, Received, Step, Turn
from tests.depth import later
from tests.plugins.mcp.playwright import PROGRAMS

PAGE = b"""<!doctype html><title>Shop</title><h1>Welcome</h1>
<button onclick="document.querySelector('h1').textContent='Thanks for buying'">Buy</button>"""


@pytest.fixture
async def page() -> AsyncIterator[int]:
    """The port of a shop on this machine."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(
            PAGE
        )
        writer.write(head + PAGE)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


class Shopper:
    """A model that looks at the shop, buys, looks again, and tries to get away."""

    def __init__(self, port: int) -> None:
        self._calls = iter(
            [
                ("browser_navigate", {"url": f"http://localhost:{port}/"}),
                ("browser_snapshot", {}),
                ("browser_click", {"element": "Buy", "target": "e3"}),
                ("browser_snapshot", {}),
                ("browser_take_screenshot", {"scale": "css"}),
                ("browser_navigate", {"url": "http://example.com/"}),
            ]
        )

    def answer(self, request: Received) -> Step:
        name, arguments = next(self._calls, ("", {}))
        if not name:
            return Turn(text="done")
        return Turn(calls=(Call("call_tool", {"name": f"mcp__browser__{name}", "arguments": arguments}),))


@later
@pytest.mark.needs("playwright")
@pytest.mark.needs("bwrap")  # within Landlock, Chromium does not start
async def test_page_opened_clicked_and_read(page: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("PATH", f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}")
    config = tmp_path / ".config" / "sagent" / "config.toml"
    config.parent.mkdir(parents=True)
    server = {
        "command": sys.executable,
        "args": ["-m", "sagent", "mcp", "browser"],
        "needs": [f"network:localhost:{page}"],
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in server.items()]
    config.write_text("\n".join(["[mcp.browser]", *lines, "start_timeout = 60"]))
    async with FakeProviderServer(Shopper(page).answer) as provider:
        monkeypatch.setenv("MOONSHOT_API_KEY", "k")
        monkeypatch.setenv("MOONSHOT_BASE_URL", provider.url + "/v1")
        where = {"HOME": str(tmp_path), "SAGENT_STATE_DIR": str(tmp_path / "state")}
        settings = load({"model": "moonshot/kimi-k2.6", "permission_mode": "full"}, where, tmp_path / "work")
        async with open_agent(settings, lambda _: None) as agent:
            assert (await agent.run("buy something")).content == "done"
            results = [result.text for message in agent.messages for result in message.results]
            held = agent.resources.finish is not None and await agent.resources.finish()
    assert len(provider.requests[0].body) <= 12_000
    assert "Page Title: Shop" in results[0]
    assert 'heading "Welcome"' in results[1]
    assert 'heading "Thanks for buying"' in results[3]
    assert b"data:image/png;base64," in provider.requests[5].body
    if held not in ("off", "none", False):
        assert "403" in results[5], "what its needs do not name is not reached"


def test_browser_uses_sandbox_proxy(tmp_path: Path) -> None:
    environ = {"HTTP_PROXY": "http://pass:x@127.0.0.1:4711", "PATH": ""}
    browser: object = configuration("/usr/bin/chromium", tmp_path, environ)["browser"]
    assert json.loads(json.dumps(browser))["launchOptions"]["proxy"] == {
        "server": "http://127.0.0.1:4711",
        "username": "pass",
        "password": "x",
    }
    assert '"proxy"' not in json.dumps(configuration("/usr/bin/chromium", tmp_path, {}))


@pytest.mark.costly
@pytest.mark.parametrize(("installed", "missing"), [((), "playwright-mcp"), (("playwright-mcp",), "Chromium")])
def test_missing_program_named(installed: tuple[str, ...], missing: str, tmp_path: Path) -> None:
    import subprocess

    for name in installed:
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    argv = [sys.executable, "-m", "sagent", "mcp", "browser"]
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert f"There is no {missing}. To install it" in done.stderr


@pytest.mark.needs("landlock")
def test_missing_browser_explained(tmp_path: Path) -> None:
    import subprocess

    for name in ("playwright-mcp", "chromium"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    with closing(Wall(make_wall(Profile(writable=(str(tmp_path),)), network=True))) as wall:
        argv = [wall.path, sys.executable, "-m", "sagent", "mcp", "browser"]
        environment = {"PATH": str(tmp_path), "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "apt install bubblewrap" in done.stderr
