"""A loop goes on where its session is resumed by its person."""

import json
from pathlib import Path

import pytest

from sagent.testing.server import Turn
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
