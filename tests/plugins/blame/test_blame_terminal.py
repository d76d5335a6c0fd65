"""`/blame`, in a terminal and without one."""

import re
import subprocess
from pathlib import Path

import pytest

from sagent.testing.server import Call, Turn
from tests.repl.conftest import console
from tests.repl.console import Console
from tests.repl.recorded import RecordingContext, context
from tests.repl.test_slash_commands import Row, check_row

__all__ = ["console", "context"]
ROWS = (
    Row("/blame", "/blame", refuses="Give a file"),
    Row("/blame", "/blame none.txt:3", refuses="none.txt cannot be read"),
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.headless)
async def test_blame_row_works(context: RecordingContext, row: Row) -> None:
    await check_row(context, row)


@pytest.mark.needs("tmux")
def test_lines_and_card_are_shown_in_a_terminal(console: Console) -> None:
    """The session at work counts too, and a file's control characters do not reach the terminal."""
    hostile = "first \x1b[46mcyan\x1b]2;stolen title\x07"
    subprocess.run(["git", "init", "-q"], cwd=console.cwd, check=True)
    written = {"file_path": "new.txt", "content": f"{hostile}\nsecond\n"}
    console.serve([Turn(calls=(Call("Write", written),)), Turn(text="All is written.")])
    console.start("--permission-mode", "full", "--sandbox", "off")
    console.type("write two lines, please")
    console.until("All is written.", "$0")
    Path(console.cwd, "new.txt").write_text(f"{hostile}\nsecond\nby hand\n")
    console.type("/blame new.txt")
    console.until("3 lines: 2 by agents, 1 unknown; 1 session verified")
    console.type("/blame new.txt:1")
    console.until("prompt", "write two lines, please", "Write, call", "claude-sonnet-4-6", "verified")
    console.type("/blame new.txt:3")
    console.until("unknown: by hand")
    console.type("/blame new.txt:9")
    console.until("new.txt has 3 lines")
    assert not re.search(r"\x1b\[[\d;]*46m", console.tmux("capture-pane", "-p", "-e", "-S", "-200"))
    assert "stolen" not in console.tmux("display-message", "-p", "#{pane_title}")
