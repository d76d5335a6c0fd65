"""What exports and reports of a session write to a terminal cannot drive it; a pipe and a file get all."""

import json
import subprocess
from pathlib import Path

import pytest

from sagent.plugins.exports.page import escape
from tests.cli.program import PROGRAM, Shell
from tests.cli.test_split_text_shown import serve
from tests.cli.test_terminal_output import HOSTILE, driving, session
from tests.depth import later

__all__ = ["session"]
COMMANDS = (
    "export {0} --out - --format html",
    "export {0} --out - --format md",
    "export {0} --out - --format jsonl",
    "export {0} --out - --format jsonl --keep-secrets",
    "trace {0}",
    "trace {0} --full",
    "verify {0}",
    "advice {0}",
)


@pytest.mark.costly
@pytest.mark.parametrize("command", COMMANDS)
def test_output_does_not_drive_terminal(shell: Shell, session: Path, command: str) -> None:
    shown = shell.on_terminal(*command.format(session).split())
    assert shown
    assert "Traceback" not in shown
    assert driving(shown) == []


@pytest.mark.parametrize("argv", ["export", "trace", "verify"])
def test_wrong_name_does_not_drive_terminal(shell: Shell, argv: str) -> None:
    shown = shell.on_terminal(argv, HOSTILE)
    assert "owned" in shown
    assert driving(shown) == []


@later
def test_pipe_and_file_get_every_byte(shell: Shell, session: Path) -> None:
    for form in ("html", "md", "jsonl"):
        argv = ("export", str(session), "--keep-secrets", "--format", form)
        assert shell.run(*argv, "--out", "whole", model="").code == 0
        whole = (shell.cwd / "whole").read_bytes()
        done = subprocess.run(
            [*PROGRAM, *argv, "--out", "-"], cwd=shell.cwd, env=shell.environment, capture_output=True, check=True
        )
        assert done.stdout == whole
        assert "\u202e".encode() in whole or form == "html"
        (shell.cwd / "whole").unlink()


@later
def test_terminal_json_equals_piped(shell: Shell, session: Path) -> None:
    argv = ("export", str(session), "--out", "-", "--format", "jsonl", "--keep-secrets")
    shown = [line for line in shell.on_terminal(*argv).splitlines() if line.startswith("{")]
    assert [json.loads(line) for line in shown] == shell.run(*argv, model="").lines


def test_c1_control_characters_shown() -> None:
    assert escape("\x9b31m\x85") == "[U+009B]31m[U+0085]"


def test_half_characters_valid_in_all_files(shell: Shell) -> None:
    serve(shell)
    done = shell.run("--permission-mode", "full", "--sandbox", "off", "--output-format", "json", "x")
    path = str(done.json["session_path"])
    assert shell.run("share", path, "--out", "shared", model="").code == 0
    written = [file for file in (shell.cwd / "shared").rglob("*") if file.suffix in (".html", ".md", ".cast")]
    assert len(written) >= 3
    for file in written:
        text = file.read_text("utf-8")  # raises where it is not
        assert "😀 🚀😀" in text or file.name == "index.html"


@pytest.mark.parametrize("command", ["trace", "verify"])
def test_unknown_user_path_refused(shell: Shell, command: str) -> None:
    done = shell.run(command, "~no-user/x", model="")
    assert done.code in (1, 2)
    assert "no-user" in done.err
    assert "Traceback" not in done.err
