"""A reply whose characters come in halves, on every surface of the program."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from program import PROGRAM, Shell

from sagent.testing.script import Call, Fail, Turn
from tests.depth import later
from tests.intact import faults

HALVES, WHOLE = "a\ud83d\ude00 \ud83d\ude80\ud83d\ude00 b\ud83d", "a😀 🚀😀 b\ufffd"
NUL = "c\0d\x1b[31m"


def serve(shell: Shell) -> None:
    calls = (Call("Bash", f'{{"command": "printf %s {HALVES[:3]} > out.txt"}}'),)
    shell.serve([Turn(HALVES, thinking=HALVES, calls=calls, pieces=1), Turn(HALVES + NUL, pieces=1)])


def strings(value: object) -> list[str]:
    """Return every text in a JSON value."""
    if isinstance(value, dict):
        return [text for pair in value.items() for each in pair for text in strings(each)]
    if isinstance(value, list):
        return [text for each in value for text in strings(each)]
    return [value] if isinstance(value, str) else []


@pytest.mark.costly
@pytest.mark.parametrize("locale", [{}, {"LANG": "C", "LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}])
def test_text_output_is_utf8(shell: Shell, locale: dict[str, str]) -> None:
    serve(shell)
    shell.environment |= locale
    python = subprocess.run([sys.executable, "-c", ""], env=shell.environment, capture_output=True, check=False)
    if python.returncode and not os.fsencode(sys.prefix).isascii():
        pytest.skip("Python itself does not start from this path, which is not ASCII, in this locale")
    done = shell.run("--permission-mode", "full", "--sandbox", "off", "x")
    assert (done.code, done.out) == (0, f"{WHOLE}{NUL}\n"), done.err
    assert (shell.cwd / "out.txt").read_bytes().decode() == "a😀"


@pytest.mark.plugin("audit")
def test_stream_json_events_are_valid_text(shell: Shell) -> None:
    serve(shell)
    done = shell.run("--permission-mode", "full", "--sandbox", "off", "--output-format", "stream-json", "x")
    events = done.lines
    for text in strings(events):
        text.encode()
    kinds = ("text_delta", "thinking_delta")
    deltas = {kind: "".join(str(each["text"]) for each in events if each["type"] == kind) for kind in kinds}
    assert deltas == {"text_delta": f"{WHOLE}{WHOLE}{NUL}", "thinking_delta": WHOLE}
    path = str(events[-1]["session_path"])
    assert "😀 🚀😀" in shell.run("sessions", "show", path, model="").out
    assert faults(Path(path)) == []


@pytest.mark.costly
@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_error_message_is_valid_text(shell: Shell, form: str) -> None:
    shell.serve([Fail(400, message=f"no {HALVES}")])
    done = shell.run("--output-format", form, "x")
    assert done.code == 1
    said = done.err if form == "text" else str(strings([json.loads(line) for line in done.out.splitlines()]))
    assert "no a" in said
    assert "\ud83d" not in said


@later
def test_odd_argument_is_sent(shell: Shell) -> None:
    server = shell.serve([Turn("ok")])
    child = shell.start(os.fsdecode(b"caf\xe9 \xf0\x9f"), program=PROGRAM)
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out) == (0, b"ok\n"), err
    assert b"caf" in server.requests[0].body
    server.requests[0].body.decode()
