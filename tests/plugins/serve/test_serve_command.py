"""`sagent serve` as a program: what it says, who may read it, and how it ends."""

import json
import signal
import stat
import subprocess
from pathlib import Path

import httpx2
import pytest

from sagent.errors import UsageError
from sagent.plugins.hosting import listening
from sagent.plugins.serve import command
from sagent.testing.script import Call, Turn
from tests.cli.program import Shell
from tests.depth import later, slow
from tests.waiting import wait_until

Started = tuple[subprocess.Popen[bytes], dict, httpx2.Client]


def start(shell: Shell, *argv: str) -> Started:
    child, said = shell.announced("serve", "--output-format", "json", *argv)
    headers = {"authorization": f"Bearer {said.get('token', '')}"}
    return child, said, httpx2.Client(base_url=said["url"], headers=headers, timeout=30)


@pytest.fixture(autouse=True)
def _own_model(shell: Shell) -> None:
    config = Path(shell.environment["HOME"]) / ".config" / "sagent" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('model = "anthropic/claude-sonnet-4-6"\n')


@later
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=slow)])
def test_signal_leaves_resumable_session(shell: Shell, number: int) -> None:
    shell.serve([Turn("", calls=(Call("Bash", {"command": "touch began; sleep 300"}),)), Turn("went on")])
    child, said, http = start(shell, "--permission-mode", "full")
    with http:
        name = http.post("/v1/sessions", json={"text": "sleep"}).json()["id"]
        with http.stream("GET", f"/v1/sessions/{name}/events") as events:
            lines = events.iter_lines()
            while '"tool_started"' not in next(lines):
                pass
            wait_until((shell.cwd / "began").exists, "the command to begin", child=child)
            child.send_signal(number)
            for _ in lines:  # the stream ends too
                pass
    assert child.wait(60) == 128 + number
    assert not Path(said["file"]).exists()
    child, said, http = start(shell)
    with http:
        assert http.post(f"/v1/sessions/{name}/messages", json={"text": "go on"}).status_code == 202
        with http.stream("GET", f"/v1/sessions/{name}/events") as events:
            assert any('"went on"' in line for line in events.iter_lines())
    child.terminate()
    child.wait(60)


@later
def test_token_file_private(shell: Shell) -> None:
    child, said, http = start(shell)
    with http:
        assert http.get("/v1/sessions").status_code == 200
    file = Path(said["file"])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert json.loads(file.read_text())["token"] == said["token"]
    assert said["token"].encode() not in Path(f"/proc/{child.pid}/cmdline").read_bytes()
    assert said["url"].startswith("http://127.0.0.1:")


def test_address_printed_and_user_tokens(shell: Shell) -> None:
    shell.environment["SAGENT_SERVE_TOKEN"] = "a-token-of-my-own"
    child = shell.start("serve", model="")
    assert child.stdout is not None
    assert b"/#token=a-token-of-my-own" in child.stdout.readline()
    _, said, http = start(shell, "--user", "ann", "--user", "bob")
    with http:
        for token in said["tokens"].values():
            assert http.get("/v1/sessions", headers={"authorization": f"Bearer {token}"}).status_code == 200
        assert http.get("/v1/sessions", headers={"authorization": "Bearer a-token-of-my-own"}).status_code == 401
    assert set(said["tokens"]) == {"ann", "bob"}


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--port", "70000"), "65535"),
        (("--host", "256.1.1.1"), "256.1.1.1"),
        (("--user", "../a"), "--user"),
        (("--user", "a", "--user", "a"), "--user"),
        (("--cwd", "/no/such"), "/no/such"),
        (("--output-format", "xml"), "text or json"),
    ],
)
def test_invalid_flags_refused_at_once(shell: Shell, argv: tuple[str, ...], words: str) -> None:
    done = shell.run("serve", *argv, model="")
    assert done.code == 2
    assert words in done.err


def test_short_token_refused(shell: Shell) -> None:
    shell.environment["SAGENT_SERVE_TOKEN"] = "short"
    done = shell.run("serve", model="")
    assert done.code == 2 and "SAGENT_SERVE_TOKEN" in done.err


def test_missing_packages_name_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"uvicorn.*serve\]"):
        command.run_serve([])
