"""A run of the program as a fork is what a run of it is."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sagent.testing.server import Call, FakeProviderServer, Turn
from tests.depth import later
from tests.forks import CHECKOUT, PROGRAM, Forks


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(CHECKOUT)}


@pytest.mark.costly
@pytest.mark.parametrize(
    ("words", "code"),
    [("--version", 0), ("config show", 0), ("--help", 0), ("--frob", 2), ("config nothing", 2)],
)
def test_fork_answers_as_a_started_process(
    forks: Forks, environment: dict[str, str], tmp_path: Path, words: str, code: int
) -> None:
    argv = words.split()
    environment |= {"SAGENT_MODEL": "openai/gpt-5.5", "OPENAI_API_KEY": "k"}
    started = subprocess.run(
        [sys.executable, "-m", PROGRAM, *argv], cwd=tmp_path, env=environment, input=b"", capture_output=True
    )
    forked = forks.run(*argv, cwd=tmp_path, environment=environment)
    assert (forked.returncode, forked.stdout, forked.stderr) == (code, started.stdout, started.stderr)


def test_fork_has_own_input_cwd_variables(forks: Forks, environment: dict[str, str], tmp_path: Path) -> None:
    turns = [Turn(calls=(Call("Bash", {"command": "pwd; env"}),)), Turn(text="ok")]
    with FakeProviderServer(turns * 2).in_thread() as server:
        environment |= {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "k"}
        flags = ("--model", "anthropic/claude-sonnet-4-6", "--permission-mode", "full", "--ephemeral")
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            given = name.encode() * 100_000  # more than a pipe holds
            done = forks.run(*flags, cwd=tmp_path / name, environment=environment | {name: name}, stdin=given)
            assert (done.returncode, done.stdout) == (0, b"ok\n"), done.stderr
        first, second = (str(server.requests[number].json["messages"]) for number in (1, 3))
    assert "oneone" in first
    assert f"{tmp_path / 'one'}\\n" in first
    assert "one=one" in first
    assert "twotwo" in second
    assert f"{tmp_path / 'two'}\\n" in second
    assert "two=two" in second
    assert "one=one" not in second


def test_fork_tells_the_signal_that_killed_it(forks: Forks, environment: dict[str, str], tmp_path: Path) -> None:
    kill = Turn(calls=(Call("Bash", {"command": "kill -KILL $PPID"}),))
    with FakeProviderServer([kill]).in_thread() as server:
        environment |= {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "k", "SAGENT_SANDBOX": "off"}
        flags = ("--model", "anthropic/claude-sonnet-4-6", "--permission-mode", "full", "go")
        assert forks.run(*flags, cwd=tmp_path, environment=environment).returncode == -signal.SIGKILL


def test_fork_reads_python_variables(forks: Forks, environment: dict[str, str], tmp_path: Path) -> None:
    environment["PYTHONVERBOSE"] = "1"
    assert b"import 'sagent'" in forks.run("--version", cwd=tmp_path, environment=environment).stderr


@later
def test_unending_fork_is_named_and_ended(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "lasts.py").write_text("import time\ntime.sleep(600)")
    forks, null, (out, stdout) = Forks(), os.open(os.devnull, os.O_RDWR), os.pipe()
    streams = (null, stdout, os.dup(null))
    _, end = forks.start("x", cwd=tmp_path, environment=environment, streams=streams, file=tmp_path / "lasts.py")
    with end, pytest.raises(AssertionError, match=r"have not ended: .*lasts.py', 'x'"):
        forks.close(timeout=0.1)
    with open(out) as said:
        assert said.read() == ""  # to its end, which comes with the fork's
