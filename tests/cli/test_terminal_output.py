"""What a command writes to a terminal cannot drive it, whatever the model, a tool or a file said; a pipe gets all."""

import json
import os
import pty
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from program import PROGRAM, Shell

from sagent.lib.terminal import neutral
from sagent.lib.text import printable
from sagent.testing.server import Call, Turn
from tests.depth import later

HOSTILE = "a\x1b]0;owned\x07b\x1b[2Jc\x9b31md\u202etxt.exe\u2066e\x08f\rg\x1b[8mh\x7fi\x9d0;x\x9cj"
DRIVING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

STYLES = re.compile(r"\x1b\[(?:[0-479]|[39][0-7])(?:;(?:[0-479]|[39][0-7]))*m")  # that the progress of a run has


def driving(text: str) -> list[str]:
    """What drives a terminal in a text; that it is bold or of a colour is ours."""
    return DRIVING.findall(re.sub(r"\x1b\[([01]|(1;)?3[1-6])?m", "", text))


@pytest.fixture
def session(shell: Shell) -> Path:
    """One in which everybody says hostile things."""
    (shell.cwd / "a.txt").write_text(f"{HOSTILE}\n", newline="")
    calls = (Call("Read", {"file_path": "a.txt"}), Call("Bash", {"command": HOSTILE}))
    shell.serve([Turn(text=f"Look: {HOSTILE}", calls=calls), Turn(text=f"Done: {HOSTILE}")])
    assert shell.run(f"go {HOSTILE}").code == 0
    (root,) = Path(shell.environment["HOME"]).rglob("root.jsonl")
    return root.parent


COMMANDS = (
    "sessions show {0}",
    "sessions list --costs",
    "replay {0}",
    "replay {0} --output-format json",
    "compare {0} {0}",
    "compare {0} {0} --output-format json",
    "compare {0} {0} --output-format html",
)


@later
def test_session_commands_drive_no_terminal(shell: Shell, session: Path) -> None:
    for command in COMMANDS:
        shown = shell.on_terminal(*command.format(session).split())
        assert shown, command
        assert "Traceback" not in shown, command
        assert driving(shown) == [], command


@later
@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_run_drives_no_terminal(shell: Shell, form: str) -> None:
    calls = (Call("Bash", {"command": f"touch {HOSTILE}"}), Call("Read", {"file_path": HOSTILE}))
    shell.serve([Turn(text=HOSTILE, calls=calls), Turn(text=HOSTILE)])
    flags = ("--model", "anthropic/claude-sonnet-4-6", "--output-format", form)
    shown = shell.on_terminal(*flags, "-p", f"go {HOSTILE}")
    assert "owned" in shown
    assert driving(STYLES.sub("", shown)) == []


def test_progress_has_its_styles(shell: Shell) -> None:
    shell.serve([Turn(calls=(Call("Write", {"file_path": "a.py", "content": "a = 1\n"}),)), Turn(text="Done.")])
    shown = shell.on_terminal("--model", "anthropic/claude-sonnet-4-6", "--permission-mode", "full", "-p", "go")
    assert STYLES.search(shown)
    assert "\\u001b" not in shown


@pytest.mark.parametrize(
    "argv", [pytest.param("sessions show", marks=pytest.mark.plugin("audit")), "--config", "--cwd"]
)
def test_error_drives_no_terminal(shell: Shell, argv: str) -> None:
    shown = shell.on_terminal(*argv.split(), HOSTILE)
    assert "owned" in shown
    assert driving(shown) == []


@given(st.lists(st.sampled_from([*"ab\n\t\r\x00\x1b[018m;2J\x9b\u202e\u2069é�", "\x1b[1m", "\x1b[1;31m"])).map("".join))
def test_neutral_text_drives_no_terminal(text: str) -> None:
    shown = neutral(text)
    assert driving(shown) == []
    assert driving(printable(text)) == []
    assert re.sub(r"\\u[0-9a-f]{4}", "", shown).replace("\x1b", "") == DRIVING.sub("", text)
    assert json.loads(neutral(json.dumps(text, ensure_ascii=False))) == text


def test_piped_answer_is_on_terminal_once(shell: Shell) -> None:
    calls = (Call("Glob", {"pattern": "*.nothing"}),)
    shell.serve([Turn(text="I shall look.", calls=calls), Turn(text="The answer.")])
    program = shlex.join([*PROGRAM, "--model", "anthropic/claude-sonnet-4-6", "go on"])
    shown = shell.on_terminal(program=["sh", "-c", f"{program} | cat"])
    assert shown.count("The answer.") == 1
    assert shown.count("I shall look.") == 1
    assert "Glob" in shown


@later
def test_misspelled_command_asks_on_terminal(shell: Shell) -> None:
    server = shell.serve([Turn(text="sent")])
    for typed, code, sent in (("\n", 2, 0), ("y\n", 0, 1)):
        ours, theirs = pty.openpty()
        os.write(ours, typed.encode())
        done = subprocess.run(
            [*PROGRAM, "--model", "anthropic/claude-sonnet-4-6", "confg", "show"],
            cwd=shell.cwd, env=shell.environment, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, check=False,
        )  # fmt: skip
        assert done.stdout == b"sent\n" * sent
        assert b"sagent config" in os.read(ours, 65536)
        os.close(theirs)
        os.close(ours)
        assert (done.returncode, len(server.requests)) == (code, sent)
