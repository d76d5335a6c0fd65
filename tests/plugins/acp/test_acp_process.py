"""`sagent acp` as a process: what it writes, how long lines may be, and that nothing is left of it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sagent.testing.script import Call, Turn
from sagent.testing.server import FakeProviderServer, Script
from tests.depth import WHOLE, later, slow
from tests.forked import Forked
from tests.forks import Forks
from tests.waiting import wait_until
from tests.warm import STATE, warm

CHECKOUT = Path(__file__).parents[3]
PROGRAM = [sys.executable, "-m", "sagent.bin.cli"]
MODEL = ["--model", "anthropic/claude-sonnet-4-6"]


class Agent:
    """The program and its two pipes."""

    def __init__(self, process: Forked) -> None:
        self.process = process
        self._in, self._out = process.stdin, process.stdout
        self.seen: list[dict[str, Any]] = []

    def send(self, method: str, number: int | None = None, **params: object) -> None:
        more = {} if number is None else {"id": number}
        self._in.write(json.dumps({"jsonrpc": "2.0", **more, "method": method, "params": params}).encode() + b"\n")
        self._in.flush()

    def ask(self, number: int, method: str, **params: object) -> dict[str, Any]:
        """The response of a request."""
        self.send(method, number, **params)
        while True:
            message = json.loads(self._out.readline())
            self.seen.append(message)
            if message.get("id") == number and "method" not in message:
                return message

    def new(self, cwd: Path) -> str:
        self.ask(0, "initialize", protocolVersion=1)
        return self.ask(1, "session/new", cwd=str(cwd), mcpServers=[])["result"]["sessionId"]

    def end(self) -> tuple[int, bytes]:
        """The exit code after the end of its input, and what it still wrote."""
        self._in.close()
        rest = self._out.read()
        return self.process.wait(60), rest


@contextmanager
def program(forks: Forks, place: Path, script: Script, *argv: str) -> Iterator[Agent]:
    warm(place / "home" / STATE)
    with FakeProviderServer(script).in_thread() as server:
        environment = {"PATH": os.environ["PATH"], "HOME": str(place / "home"), "PYTHONPATH": str(CHECKOUT)}
        environment |= {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "k"}
        with Forked(forks, *argv, cwd=place, environment=environment) as process:
            yield Agent(process)


@pytest.mark.costly
@pytest.mark.parametrize(
    "argv",
    [
        ("acp", *MODEL, "--add-dir", "/"),
        (*MODEL, "--acp"),
        pytest.param(("--acp", *MODEL), marks=slow),
        pytest.param(("acp", "--experimental-acp", *MODEL), marks=slow),
    ],
)
def test_process_ends_with_its_input(forks: Forks, tmp_path: Path, argv: tuple[str, ...]) -> None:
    with program(forks, tmp_path, [Turn("hello")], *argv) as agent:
        session = agent.new(tmp_path)
        prompt = [{"type": "text", "text": "hi"}]
        answer = agent.ask(2, "session/prompt", sessionId=session, prompt=prompt)
        assert answer["result"] == {"stopReason": "end_turn"}
        assert agent.end() == (0, b"")


def test_requests_before_end_answered(forks: Forks, tmp_path: Path) -> None:
    with program(forks, tmp_path, [], "acp", *MODEL) as agent:
        agent.send("initialize", 0, protocolVersion=1)
        agent.send("session/list", 1)
        code, rest = agent.end()
        assert code == 0
        assert [json.loads(line)["id"] for line in rest.splitlines()] == [0, 1]


@later
def test_lines_of_many_megabytes_are_read(forks: Forks, tmp_path: Path) -> None:
    text = "ä" * (25_000_000 if WHOLE else 5_000_000)
    with program(forks, tmp_path, [Turn("short")], "acp", *MODEL, "--ephemeral") as agent:
        agent.new(tmp_path)
        big = [{"type": "resource", "resource": {"uri": "file:///x", "text": text}}]
        answer = agent.ask(2, "session/prompt", sessionId="none", prompt=big)
        assert answer["error"]["code"] == -32002
        assert agent.end() == (0, b"")


@later
@pytest.mark.needs("linux")
@pytest.mark.parametrize("how", ["eof", "term", "kill"])
def test_running_turn_leaves_nothing(forks: Forks, tmp_path: Path, how: str) -> None:
    work = tmp_path / "work"
    work.mkdir()
    script = [Turn("", calls=(Call("Bash", {"command": "sleep 61 & echo $! > pid; sleep 62"}),))]
    with program(forks, tmp_path, script, "acp", *MODEL, "--permission-mode", "full", "--sandbox", "off") as agent:
        session = agent.new(work)
        agent.send("session/prompt", 2, sessionId=session, prompt=[{"type": "text", "text": "go"}])
        pid = wait_until(lambda: (work / "pid").exists() and (work / "pid").read_text().strip(), "the command")
        if how == "eof":
            code, rest = agent.end()
            answers = [message for message in map(json.loads, rest.splitlines()) if "id" in message]
            assert [(each["id"], each["result"]) for each in answers] == [(2, {"stopReason": "cancelled"})]
            assert code == 0
        else:
            agent.process.send_signal(signal.SIGTERM if how == "term" else signal.SIGKILL)
            assert agent.process.wait(30) in (128 + signal.SIGTERM, -signal.SIGKILL)
        wait_until(lambda: not runs(str(pid)), "the end of what the command has started")


def runs(pid: str) -> bool:
    """Return True for a process that has not ended: the first process of a container may never reap it."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


def test_stdout_holds_only_messages(tmp_path: Path) -> None:
    """Whatever is printed in the process, or complains, goes to standard error."""
    code = (
        "import sys, os; from sagent.plugins.acp.server import Server; "
        "old = Server._initialize\n"
        "async def noisy(self, params):\n"
        "    print('noise'); os.write(1, b'more noise'); return await old(self, params)\n"
        "Server._initialize = noisy; sys.argv = ['sagent', 'acp']\n"
        "from sagent.bin.cli import main; sys.exit(main())"
    )
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(CHECKOUT)}
    lines = [{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}]
    done = subprocess.run(
        [sys.executable, "-c", code], input="\n".join(map(json.dumps, lines)).encode(), env=environment,
        capture_output=True, cwd=tmp_path, check=False, timeout=60,
    )  # fmt: skip
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [0]
    assert b"noise" in done.stderr


def test_client_closing_output_ends_agent(forks: Forks, tmp_path: Path) -> None:
    with program(forks, tmp_path, [], "acp", *MODEL) as agent:
        agent.new(tmp_path)
        assert agent.process.stdout is not None
        agent.process.stdout.close()
        agent.send("session/list", 5)
        assert agent.process.wait(60) == 0


def test_initialize_imports_nothing_heavy(tmp_path: Path) -> None:
    code = "import sys; from sagent.plugins.acp import command, server, stdio; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=CHECKOUT)
    assert not {"sagent.config", "sagent.agent", "sagent.providers", "pydantic", "mcp"} & set(found.stdout.split())
