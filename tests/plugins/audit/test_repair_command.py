"""`sagent sessions repair`, an operation that the plugin adds to a command of the core."""

from pathlib import Path

from sagent.testing.server import Turn
from tests.cli.program import Shell


def test_repaired_session_continues(shell: Shell) -> None:
    shell.serve([Turn(text="one"), Turn(text="two")])
    path = Path(str(shell.run("--output-format", "json", "a").json["session_path"]))
    lines = (path / "root.jsonl").read_bytes().splitlines(keepends=True)
    (path / "root.jsonl").write_bytes(b"".join([*lines[:3], lines[3].replace(b"e", b"x", 1), *lines[4:]]))
    assert shell.run("--continue", "b").code == 1
    done = shell.run("sessions", "repair", str(path), model="")
    assert done.code == 0, done.err
    assert "the file as it was is" in done.out
    assert shell.run("--continue", "b").out == "two\n"
    assert shell.run("sessions", "repair", str(path), model="").out == f"{path}: nothing to repair\n"


def test_repair_listed_in_help(shell: Shell) -> None:
    assert "keep the intact part" in shell.run("sessions", "--help", model="").out
    assert "as they were" in shell.run("sessions", "repair", "--help", model="").out
    assert "arguments are required" in shell.run("sessions", "repair", model="").err
