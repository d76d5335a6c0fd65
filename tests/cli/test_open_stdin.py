"""Standard input that is not closed: what is waited for is said."""

import io
import os
import subprocess
from collections.abc import Callable

import pytest
from program import PROGRAM, Shell

from sagent.cli import headless
from sagent.cli.headless import read_prompt, read_text
from sagent.testing.server import Turn
from tests.depth import later


class Heard(io.StringIO):
    """Standard error; the first thing said on it has something happen."""

    def __init__(self, then: Callable[[], object]) -> None:
        super().__init__()
        self._then = then

    def write(self, text: str) -> int:
        if not self.getvalue():
            self._then()
        return super().write(text)


@pytest.mark.parametrize("words", [[], ["what", "is", "this"]])
@pytest.mark.parametrize("first", [b"some data", b""])
def test_open_pipe_is_said(monkeypatch: pytest.MonkeyPatch, first: bytes, words: list[str]) -> None:
    monkeypatch.setattr(headless, "FIRST_BYTE_TIMEOUT_SECONDS", 0.05)
    reading, writing = os.pipe()
    os.write(writing, first)

    def go_on() -> None:
        if first or not words:
            os.write(writing, b" and more")
        os.close(writing)

    err = Heard(go_on)
    with os.fdopen(reading) as stdin:
        prompt = read_prompt(words, stdin, err)
    said = err.getvalue()
    if words and not first:
        assert "no input on stdin" in said
        return
    assert ("read 9 bytes" if first else "read nothing") in said
    assert said.count("waiting for its end") == 1
    assert (first.decode() + " and more").strip() in prompt.text + str(prompt.parts)


@pytest.mark.parametrize(
    ("piped", "reads"),
    [(b"plain\n", "plain"), ("café".encode("utf-16"), "café"), ("caf\xe9 au lait".encode("latin-1"), "")],
)
def test_message_to_an_agent_is_decoded(monkeypatch: pytest.MonkeyPatch, piped: bytes, reads: str) -> None:
    monkeypatch.setattr(headless, "FIRST_BYTE_TIMEOUT_SECONDS", 0.05)
    reading, writing = os.pipe()
    os.write(writing, piped)
    err = Heard(lambda: os.close(writing))
    with os.fdopen(reading) as stdin:
        text = read_text(stdin, err).strip()
    assert "waiting for its end" in err.getvalue()
    assert text == reads or (not reads and "is not UTF-8 text" in err.getvalue())


def test_closed_pipe_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headless, "FIRST_BYTE_TIMEOUT_SECONDS", 5.0)
    reading, writing = os.pipe()
    os.write(writing, b"data")
    os.close(writing)
    err = io.StringIO()
    with os.fdopen(reading) as stdin:
        read_prompt([], stdin, err)
    assert err.getvalue() == ""


@later
def test_program_says_pipe_is_held_open(shell: Shell) -> None:
    shell.serve([Turn(text="ok")])
    argv = [*PROGRAM, "--model", "claude-sonnet-4-6", "what is this?"]
    with subprocess.Popen(
        argv,
        cwd=shell.cwd,
        env=shell.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        assert running.stdin and running.stderr and running.stdout
        running.stdin.write(b"data")
        running.stdin.flush()
        assert b"read 4 bytes from stdin, which is still open" in running.stderr.readline()
        running.stdin.close()
        assert running.stdout.read() == b"ok\n"
