"""`sagent models`: what it lists, at any width."""

import re
from pathlib import Path

import pytest

from sagent.testing.server import Turn
from tests.cli.program import Shell
from tests.depth import later


def test_models_list_window_and_price(shell: Shell) -> None:
    done = shell.run("models", "anthropic", model="")
    assert done.code == 0
    row = next(line.split() for line in done.out.splitlines() if line.startswith("anthropic/claude-opus-4-6 "))
    assert row[1] == "1000000"
    assert row[3:5] == ["5", "25"]
    assert "moonshot/kimi" in shell.run("models", model="").out
    bad = shell.run("models", "anthropik", model="")
    assert (bad.code, "anthropic" in bad.err) == (2, True)


@later
def test_short_name_shown_full_logged(shell: Shell) -> None:
    shell.serve([Turn(text="Fine.")])
    rows = [line.split() for line in shell.run("models", model="").out.splitlines()]
    full = next(row[1] for row in rows if row[:1] == ["sonnet"])
    assert full.startswith("anthropic/claude-sonnet-")
    done = shell.run("hi", "--output-format", "json", model="sonnet").json
    assert done["model"] == full
    assert shell.server is not None
    assert shell.server.requests[0].json["model"] == full.partition("/")[2]
    assert full in (Path(str(done["session_path"])) / "root.jsonl").read_text("utf-8")


@later
@pytest.mark.costly
@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_narrow_terminal_keeps_names(shell: Shell, term: str) -> None:
    shell.environment |= {"TERM": term, "NO_COLOR": "1"}
    drawn = shell.on_terminal("models", "minimax", columns=40, quiet=True)
    assert max(map(len, drawn.splitlines()[1:])) < 45  # a name needs some letters
    for line in shell.run("models", "minimax", model="").out.splitlines()[1:]:
        name, window, *_ = line.split()
        assert re.search(rf"^{re.escape(name[:8])} +{window} ", drawn, re.MULTILINE), line
    assert any(map(len, shell.on_terminal("models", "minimax", columns=10, quiet=True).splitlines()))
