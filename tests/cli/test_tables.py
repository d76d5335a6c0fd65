"""Tables for people: fitted to a terminal, whole and plain anywhere else."""

import re
import subprocess
from io import StringIO

import pytest
from program import PROGRAM, Shell

from sagent.cli.tables import draw, write
from sagent.lib.text import Table
from sagent.testing.server import Turn
from tests.depth import later


def lines(*blocks: str | Table) -> list[str]:
    """As they go to a pipe."""
    out = StringIO()
    write(out, blocks)
    return out.getvalue().split("\n")[:-1]


def test_row_is_one_uncut_line() -> None:
    long = "word " * 200
    found = lines(
        Table((("a", "1", long.strip()), ("bbb", "22", "two\nlines")), ("name", "figure", "what"), right=(1,))
    )
    assert found == ["name  figure  what", f"a          1  {long.strip()}", "bbb       22  two lines"]


def test_outside_text_is_no_markup() -> None:
    (row,) = lines(Table((("[red]x[/red]", ":smile:", "\x1b[2Jgone", "\u202eleft"),)))
    assert row == "[red]x[/red]  :smile:  �[2Jgone  �left"
    assert lines("\x1b]0;title\x07 [bold]") == ["�]0;title� [bold]"]


def test_empty_table_has_its_titles() -> None:
    assert lines(Table((), ("a", "b"))) == ["a  b"]
    assert lines(Table(())) == []


def test_columns_fit_wide_letters() -> None:
    assert lines(Table((("日本", "x"), ("abcd", "y")))) == ["日本  x", "abcd  y"]


def test_titles_stand_out_on_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table((("x",),), ("name",))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1mname" in draw(table, on_terminal=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in draw(table, on_terminal=True)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in draw(table, on_terminal=True)


def test_table_fits_terminal_not_pipe(shell: Shell) -> None:
    shell.environment |= {"TERM": "xterm-256color", "SAGENT_SYSTEM": "x" * 150}
    narrow = re.sub(r"\x1b\[[0-9;]*m", "", shell.on_terminal("config", "show", columns=60, quiet=True))
    assert max(map(len, narrow.splitlines())) <= 60
    assert narrow.count("x") >= 150, "nothing is cut there either"
    (row,) = [line for line in shell.run("config", "show", model="").out.splitlines() if line.startswith("system ")]
    assert "x" * 150 in row
    assert row.endswith("SAGENT_SYSTEM)")
    shell.environment["NO_COLOR"] = "1"
    assert "\x1b" not in shell.on_terminal("config", "show", columns=60, quiet=True)


@pytest.mark.plugin("audit")
def test_title_cannot_drive_the_terminal(shell: Shell) -> None:
    shell.serve([Turn(text="Yes.")])
    done = shell.run("say [red]yes[/red] \x1b[31mnow")
    assert done.code == 0, done.err
    listed = shell.run("sessions", "list", model="").out
    assert "say [red]yes[/red]" in listed
    assert "\x1b" not in listed


@later
def test_rich_is_imported_only_for_terminals(shell: Shell) -> None:
    code = "import sys; from sagent.cli.main import run; run({!r}); print('rich' in sys.modules)"
    shell.serve([Turn(text="Yes.")])
    for argv, imported in ((["--model", "anthropic/claude-sonnet-4-6", "hi"], "False"), (["config", "show"], "False")):
        done = subprocess.run(
            [PROGRAM[0], "-c", code.format(argv)],
            cwd=shell.cwd, env=shell.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.splitlines()[-1] == imported


def test_unreadable_settings_say_next_step(shell: Shell) -> None:
    """As with the HOME of another user: `su` and `sudo -E` keep it. A name that is too long fails alike for root."""
    shell.environment["XDG_CONFIG_HOME"] = "/" + "x" * 300
    done = shell.run("hello")
    assert done.code == 2
    assert "sagent/config.toml: cannot be read" in done.err
    assert "Set HOME" in done.err
