"""`python -m tests.eval` as a whole, at a stand-in for llama-server: a fake provider behind the real server's door."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.depth import later
from tests.eval import results
from tests.eval.__main__ import ROOT
from tests.surroundings import PYTHON
from tests.waiting import wait_until

SERVER = """#!/bin/sh
''''exec {python} "$0" "$@" # '''
import asyncio, os, pathlib, signal, sys

sys.path[:0] = [{root!r}, {providers!r}]
from llama_server import Front
from sagent.testing.server import FakeProviderServer, Turn

async def serve():
    given = dict(zip(sys.argv[1:], sys.argv[2:]))
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    turn = Turn(text="It is E5512.", delay={delay})
    async with FakeProviderServer([turn], require_key=False, strict=False, repeat_last=True) as provider:
        front = Front(provider.url, name=given["--alias"])
        await front.open(int(given["--port"]))
        pathlib.Path({pid!r}).write_text(str(os.getpid()))
        await stop.wait()
        await front.aclose()

asyncio.run(serve())
"""


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., subprocess.Popen[bytes]]:
    """Start a run of one task whose model takes a time to answer, in seconds; or with another program as its server."""
    program, model, home = tmp_path / "llama-server", tmp_path / "tiny.gguf", tmp_path / "home"
    model.write_bytes(b"GGUF")
    home.mkdir()

    def started(*, delay: float = 0, server: str = SERVER) -> subprocess.Popen[bytes]:
        providers, pid = ROOT / "tests" / "providers", tmp_path / "pid"
        text = server.format(python=PYTHON, root=str(ROOT), providers=str(providers), delay=delay, pid=str(pid))
        program.write_text(text)
        program.chmod(0o755)
        named = {"LLAMA_CPP_SERVER": str(program), "LLAMA_CPP_MODEL": str(model)}
        argv = [sys.executable, "-m", "tests.eval", "--tasks", "read-log", "--harness", "sagent"]
        environment = {"PATH": os.environ["PATH"], "HOME": str(home), **named}
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [*argv, "--out", str(tmp_path / "out")], cwd=ROOT, env=environment, stdout=pipe, stderr=pipe
        )

    return started


@later
def test_run_prints_table_and_keeps_row(start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path) -> None:
    with start() as process:
        out, err = process.communicate()
    assert process.returncode == 0, err.decode()
    assert "**1 of 1**" in out.decode()
    assert "1/1 read-log · sagent: done" in err.decode()
    (row,) = results.read(tmp_path / "out")
    assert (row.model, row.suite, row.success, row.exit) == ("tiny", "sagent", True, 0)
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()


@later
@pytest.mark.costly
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 1)])
def test_signal_ends_agent_and_server(
    number: signal.Signals, code: int, start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    stdout = tmp_path / "out" / "tiny" / "sagent" / "sagent" / "read-log" / "stdout.txt"
    with start(delay=600) as process:
        wait_until(stdout.exists, "the start of the agent", child=process)
        process.send_signal(number)
        _, err = process.communicate()
    assert process.returncode == code
    assert b"Traceback" not in err
    assert not results.read(tmp_path / "out")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@later
def test_server_that_does_not_start_is_said(start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path) -> None:
    with start(server="#!/bin/sh\necho no such model >&2\nexit 3\n") as process:
        _, err = process.communicate()
    assert process.returncode == 1
    assert b"does not start" in err
    assert b"no such model" in err
    assert b"Traceback" not in err
    assert not results.read(tmp_path / "out")
