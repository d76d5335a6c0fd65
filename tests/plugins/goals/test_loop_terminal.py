"""A loop goes on where its session is resumed by its person."""

import json
import time
from pathlib import Path

import pytest

from sagent.testing.server import Turn
from sagent.usage import Usage
from tests.depth import slow
from tests.repl.conftest import console
from tests.repl.console import Console
from tests.waiting import wait_until

__all__ = ["console"]

pytestmark = pytest.mark.needs("tmux")


def kept_file(console: Console) -> Path:
    """Return the file with the loop of the only session."""
    (path,) = wait_until(lambda: [*Path(console.environment["HOME"]).rglob("goals.json")])
    return path


@pytest.mark.parametrize("plain", [False, pytest.param(True, marks=pytest.mark.plugin("plain"))])
def test_loop_goes_on_when_its_session_is_resumed(console: Console, tmp_path: Path, *, plain: bool) -> None:
    server = console.serve([Turn("First look."), Turn("Second look."), Turn("Nothing.")])
    console.start()
    console.type("/loop 1d look again")
    console.until("First look.")
    path = kept_file(console)
    console.until("First look.", "$0")
    console.keys("C-d")
    console.until("ended 0")
    kept = json.loads(path.read_text())
    path.write_text(json.dumps({**kept, "due": kept["due"] - 2 * 24 * 3600}))
    again = Console(tmp_path / "again", console.cwd, console.environment)
    try:
        again.start("--continue", *(("--plain",) if plain else ()), ready="The loop goes on")
        again.until("Second look.", "/loop off")
        assert len(server.requests) == 2
        again.type("/loop off")
        again.until("Ended: ")
    finally:
        again.close()
    assert not path.exists()


def nearly_midnight(seconds: int) -> str:
    """Return a time zone in which a day begins in so many seconds."""
    ahead = -(int(time.time()) + seconds) % 86_400
    return f"<new>-{ahead // 3600}:{ahead // 60 % 60:02}:{ahead % 60:02}"


@slow
@pytest.mark.plugin("spending")
def test_loop_goes_on_when_the_day_of_its_budget_is_over(console: Console) -> None:
    spent = Usage(10_000, 1_000)
    server = console.serve([Turn("First look.", usage=spent), Turn("Second look.", usage=spent)])
    console.environment |= {"TZ": nearly_midnight(25), "SAGENT_BUDGET_DAY": "0.05"}
    console.start()
    console.type("/loop 3s look again")
    console.until("First look.")
    console.until("budget_day", patience=20)
    assert len(server.requests) == 1
    console.until("Second look.", patience=60)
    assert len(server.requests) == 2
