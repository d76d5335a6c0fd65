"""Tables for people: fitted to a terminal, whole and plain anywhere else."""

import re
import subprocess
from io import StringIO

import pytest
from program import PROGRAM, Shell

from sagent.cli.tables import draw, write
from sagent.lib.text import Table
from sagent.testing.server import Turn


def lines(*blocks: str | Table) -> list[str]:
    """As they go to a pipe."""
    out = StringIO()
    write(out, blocks)
    return out.getvalue().split("\n")[:-1]


def test_a_row_is_a_line_and_nothing_is_cut() -> None:
    long = "word " * 200
    found = lines(
        Table((("a", "1", long.strip()), ("bbb", "22", "two\nlines")), ("name", "figure", "what"), right=(1,))
    )
    assert found == ["name  figure  what", f"a          1  {long.strip()}", "bbb       22  two lines"]


def test_text_from_outside_is_neither_markup_nor_control() -> None:
    (row,) = lines(Table((("[red]x[/red]", ":smile:", "\x1b[2Jgone", "\u202eleft"),)))
    assert row == "[red]x[/red]  :smile:  �[2Jgone  �left"
    assert lines("\x1b]0;title\x07 [bold]") == ["�]0;title� [bold]"]


def test_an_empty_table_is_its_titles() -> None:
    assert lines(Table((), ("a", "b"))) == ["a  b"]
    assert lines(Table(())) == []


def test_columns_are_as_wide_as_their_letters() -> None:
    assert lines(Table((("日本", "x"), ("abcd", "y")))) == ["日本  x", "abcd  y"]


def test_on_a_terminal_titles_stand_out_unless_colour_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table((("x",),), ("name",))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1mname" in draw(table, on_terminal=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in draw(table, on_terminal=True)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in draw(table, on_terminal=True)


def test_a_command_fits_its_table_to_the_terminal_and_not_to_a_pipe(shell: Shell) -> None:
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
def test_a_title_cannot_drive_the_terminal(shell: Shell) -> None:
    shell.serve([Turn(text="Yes.")])
    done = shell.run("say [red]yes[/red] \x1b[31mnow")
    assert done.code == 0, done.err
    listed = shell.run("sessions", "list", model="").out
    assert "say [red]yes[/red]" in listed
    assert "\x1b" not in listed


def test_nothing_but_a_terminal_or_wide_letters_imports_rich(shell: Shell) -> None:
    code = "import sys; from sagent.cli.main import run; run({!r}); print('rich' in sys.modules)"
    shell.serve([Turn(text="Yes.")])
    for argv, imported in ((["--model", "anthropic/claude-sonnet-4-6", "hi"], "False"), (["config", "show"], "False")):
        done = subprocess.run(
            [PROGRAM[0], "-c", code.format(argv)],
            cwd=shell.cwd, env=shell.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.splitlines()[-1] == imported


def test_settings_where_nobody_may_look_are_named_with_what_to_do(shell: Shell) -> None:
    """As with the HOME of another user: `su` and `sudo -E` keep it. A name that is too long fails alike for root."""
    shell.environment["XDG_CONFIG_HOME"] = "/" + "x" * 300
    done = shell.run("hello")
    assert done.code == 2
    assert "x/sagent/config.toml: cannot be read: " in done.err
    assert "Set HOME" in done.err
