"""`sagent login copilot`, and a session with what it has kept, by a GitHub and an API on loopback."""

import asyncio
import json
from pathlib import Path

import pytest

from sagent.testing.server import FakeProviderServer, Turn
from tests.cli.program import Shell
from tests.plugins.logins.github_stand_in import GitHub


async def served(github: GitHub) -> tuple[asyncio.Server, str]:
    server = await asyncio.start_server(github.handle, "127.0.0.1", 0)
    return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_browser_login_used_and_hidden(shell: Shell) -> None:
    github = GitHub([{"error": "authorization_pending"}])
    server, address = await served(github)
    async with server, FakeProviderServer([Turn("Hello from the plan.")]) as api:
        github.api = api.url
        login = await asyncio.to_thread(shell.run, "login", "copilot", "--host", address, model="")
        assert login.code == 0, login.err
        done = await asyncio.to_thread(
            shell.run, "--output-format", "stream-json", "--log-level", "debug", "hello", model="copilot/gpt-4.1"
        )
        assert done.code == 0, done.err
        exported = await asyncio.to_thread(shell.run, "export", "--format", "jsonl", "--out", "-", model="")
        assert exported.code == 0, exported.err
    assert "WDJB-MJHT" in login.out
    assert "1240.5 of 1,500 credits left" in login.out
    home = Path(shell.environment["HOME"])
    kept = home / ".config" / "sagent" / "copilot.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    secrets = [json.loads(kept.read_text())[name] for name in ("github_token", "access_token")]
    texts = [login.out, login.err, done.out, done.err, exported.out, exported.err]
    texts += [file.read_text(errors="replace") for file in home.rglob("*") if file.is_file() and file != kept]
    assert "Hello from the plan." in done.out
    assert any("Hello from the plan." in text for text in texts[6:])  # the session's log is among them
    assert not any(secret in text for secret in secrets for text in texts)


async def test_refused_login_keeps_earlier(shell: Shell) -> None:
    github = GitHub([{"error": "access_denied"}])
    kept = Path(shell.environment["HOME"]) / ".config" / "sagent" / "copilot.json"
    kept.parent.mkdir(parents=True)
    kept.write_text("{}")
    server, address = await served(github)
    async with server:
        done = await asyncio.to_thread(shell.run, "login", "copilot", "--host", address, model="")
    assert done.code == 1
    assert "the login was refused" in done.err
    assert kept.read_text() == "{}"


@pytest.mark.plugin("setup")
def test_plain_http_and_missing_login_refused(shell: Shell) -> None:
    plain = shell.run("login", "copilot", "--host", "http://ghe.example", model="")
    assert plain.code == 2
    assert "unencrypted" in plain.err
    missing = shell.run("hello", model="copilot/gpt-4.1")
    assert missing.code == 2
    assert "sagent login copilot" in missing.err
