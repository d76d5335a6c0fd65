"""Background sessions that work in a worktree of their own."""

import json

import pytest

from sagent.testing.server import Call, Turn
from tests.cli.program import Shell
from tests.plugins.background.conftest import Place
from tests.worktrees import assert_nothing_left, git, made_repositories, project, worktrees_of

__all__ = ["made_repositories", "project"]
pytestmark = pytest.mark.plugin("worktrees")
FREE = ("--permission-mode", "full", "--sandbox", "off")
WRITE = Turn("I write.", calls=(Call("Bash", {"command": "pwd; echo 1 > new.txt"}),))


@pytest.fixture
def apart(place: Place, project: Shell) -> Place:
    """Return a place of background sessions in a repository."""
    place.shell = project
    return place


def test_background_work_in_a_worktree(apart: Place) -> None:
    server = apart.shell.serve([WRITE, Turn("Done."), Turn("More is done.")])
    session = apart.start(*FREE, "--worktree", "fix", "please work")
    done = apart.run("wait", session)
    assert done.out == "Done.\n" and "The worktree fix is kept: 1 file +1 -0" in done.err
    assert not (apart.shell.cwd / "new.txt").exists()
    assert apart.record(session)["state"] == "ended"
    (there,) = worktrees_of(apart.shell)
    assert str(there).encode() in server.requests[1].body
    assert json.loads(apart.run("worktree", "--json").out)["worktrees"][0]["state"] == "kept"
    assert apart.run("worktree", "merge", "fix").code == 0
    assert (apart.shell.cwd / "new.txt").exists()
    assert_nothing_left(apart.shell)


def test_killed_work_in_a_worktree(apart: Place) -> None:
    apart.shell.serve([WRITE, WRITE, Turn("Done.")])
    session = apart.start("--permission-mode", "ask", "--sandbox", "off", "--worktree", "please work")
    record = apart.until(session, "asking")
    assert record["place"] == "work-1" and record["cwd"] == str(worktrees_of(apart.shell)[0])
    busy = apart.run("worktree", "drop", "work-1")
    assert busy.code == 2 and "in use by another process" in busy.err
    apart.kill(session)
    assert apart.record(session)["state"] == "lost"
    apart.run("worktree")
    assert_nothing_left(apart.shell)
    apart.run("stop", "--all")


def test_no_worktree_no_session(apart: Place) -> None:
    (apart.shell.cwd / ".git").rename(apart.shell.cwd / "git")
    done = apart.shell.run("--bg", "--worktree", "x", "please work")
    assert done.code == 2 and "is in no git repository" in done.err
    assert json.loads(apart.run("ps", "--json").out) == []
    (apart.shell.cwd / "git").rename(apart.shell.cwd / ".git")
    assert git(apart.shell.cwd, "status", "--short") == ""
