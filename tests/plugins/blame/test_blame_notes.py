"""Git notes that name sessions: written only if that was chosen, and read as hints, with git itself and real runs."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from sagent.testing.server import Call, Turn
from tests.cli.program import Shell
from tests.worktrees import git, made_repositories, project

__all__ = ["made_repositories", "project"]
FULL = ("--permission-mode", "full", "--sandbox", "off")
REF = "refs/notes/sagent"
EDIT = {"file_path": "a.txt", "old_string": "two\n", "new_string": "two, changed by the agent\n"}
COMMIT = {"command": "git commit -qam 'the work of the agent'"}
PROMPT = "change line two and commit, please"


def work(shell: Shell, *flags: str, commits: bool = True) -> str:
    calls = (Call("Read", {"file_path": "a.txt"}), Call("Edit", EDIT), *((Call("Bash", COMMIT),) if commits else ()))
    shell.serve([*(Turn(calls=(call,)) for call in calls), Turn(text="Done.")])
    done = shell.run(*FULL, *flags, "-p", PROMPT)
    assert done.code == 0, done
    return done.err


def session_of(shell: Shell) -> Path:
    (found,) = Path(shell.environment["HOME"]).rglob("root.jsonl")
    return found.parent


def notes(cwd: Path) -> dict[str, str]:
    """The notes by commit."""
    rows = [row.split() for row in git(cwd, "notes", f"--ref={REF}", "list").splitlines()]
    return {commit: git(cwd, "cat-file", "blob", blob) for blob, commit in rows}


def put_note(cwd: Path, text: str) -> None:
    git(cwd, "-c", "user.name=x", "-c", "user.email=x", "notes", f"--ref={REF}", "add", "-f", "-m", text, "HEAD")


def second_line(shell: Shell) -> dict[str, Any]:
    done = shell.run("blame", "a.txt:2", "--json", model="")
    assert done.code == 0, done
    return json.loads(done.out)["lines"][0]


def clone(shell: Shell, place: Path) -> Shell:
    """The same person's shell on another machine: a clone with the notes, and no sessions."""
    git(place, "clone", "-q", str(shell.cwd), "clone")
    git(place / "clone", "fetch", "-q", "origin", f"{REF}:{REF}")
    (place / "elsewhere").mkdir()
    shell.environment["HOME"] = str(place / "elsewhere")
    shell.cwd = place / "clone"
    return shell


def test_no_note_is_written_unless_chosen(project: Shell) -> None:
    work(project)
    assert git(project.cwd, "for-each-ref", "refs/notes") == ""


def test_note_names_session_and_entry_and_nothing_else(project: Shell) -> None:
    work(project, "--blame-notes")
    session, head = session_of(project), git(project.cwd, "rev-parse", "HEAD")
    ((commit, text),) = notes(project.cwd).items()
    name, entry = text.removeprefix("Sagent-Session: ").split()
    assert (commit, name) == (head, session.name)
    assert f'{{"id":"{entry}"' in (session / "root.jsonl").read_text()
    assert git(project.cwd, "log", "-1", "--format=%B") == "the work of the agent"
    assert git(project.cwd, "status", "--porcelain") == ""
    row = second_line(project)  # which the log proves: the note is only checked against it
    assert row["origin"] == "agent"
    assert [(note["session"], note["log"]) for note in row["notes"]] == [(session.name, "named")]


def test_persons_commits_are_noted_if_the_session_changed_their_files(project: Shell) -> None:
    work(project, "--blame-notes", commits=False)
    assert git(project.cwd, "for-each-ref", "refs/notes") == ""
    git(project.cwd, "commit", "-qam", "by the person, after the session")
    own = git(project.cwd, "rev-parse", "HEAD")
    (project.cwd / "b.txt").write_text("by hand\n")
    git(project.cwd, "commit", "-qam", "not of the session")
    project.serve([Turn(text="Yes.")])
    assert project.run(*FULL, "--blame-notes", "--continue", "-p", "is all done?").code == 0
    assert list(notes(project.cwd)) == [own]
    project.serve([Turn(text="Yes.")])
    assert project.run(*FULL, "--blame-notes", "--continue", "-p", "really?").code == 0
    assert notes(project.cwd)[own].count("Sagent-Session") == 1


def test_commit_before_the_session_is_not_noted(project: Shell) -> None:
    later = {**os.environ, **project.environment, "GIT_COMMITTER_DATE": f"{int(time.time()) + 600} +0000"}
    amend = ("git", "-C", str(project.cwd), "commit", "--amend", "--no-edit", "-q")  # as if it was of the same second
    subprocess.run(amend, env=later, check=True)
    work(project, "--blame-notes", commits=False)
    assert git(project.cwd, "for-each-ref", "refs/notes") == ""


def test_claim_is_shown_where_the_log_is_not(project: Shell, tmp_path: Path) -> None:
    work(project, "--blame-notes")
    name = session_of(project).name
    shell = clone(project, tmp_path)
    commit = git(shell.cwd, "rev-parse", "HEAD")
    row = second_line(shell)
    assert (row["origin"], row["notes"][0]["log"]) == ("unknown", "missing")
    card = shell.run("blame", "a.txt:2", model="").out
    assert f"claimed by the note of commit {commit[:12]}: session {name} (its log is not here)" in card
    table = shell.run("blame", "a.txt", model="").out.splitlines()
    assert "claimed" in table[1] and "claimed" not in table[0]
    assert "0 by agents, 3 unknown" in table[3] and "1 line claimed" in table[3]
    (shell.cwd / "a.txt").write_text("new\n" + (shell.cwd / "a.txt").read_text())
    rows = json.loads(shell.run("blame", "a.txt", "--json", model="").out)["lines"]
    assert ["notes" in row for row in rows] == [False, False, True, False]
    rows = json.loads(shell.run("blame", "a.txt", "--at", "HEAD", "--json", model="").out)["lines"]
    assert ["notes" in row for row in rows] == [False, True, False]


@pytest.mark.parametrize("rewrites", [False, True])
def test_rebase_takes_notes_along_where_git_is_told_to(project: Shell, tmp_path: Path, *, rewrites: bool) -> None:
    work(project, "--blame-notes")
    shell = clone(project, tmp_path)
    who = ("-c", "user.name=x", "-c", "user.email=x")
    git(shell.cwd, "checkout", "-q", "-b", "other", "HEAD~1")
    (shell.cwd / "b.txt").write_text("another\n")
    git(shell.cwd, *who, "commit", "-qam", "another")
    if rewrites:
        git(shell.cwd, "config", "notes.rewriteRef", REF)
    git(shell.cwd, "checkout", "-q", "main")
    git(shell.cwd, *who, "rebase", "-q", "other")
    claims = second_line(shell).get("notes", [])
    assert [claim["commit"] for claim in claims] == ([git(shell.cwd, "rev-parse", "HEAD")] if rewrites else [])


def test_forged_notes_prove_nothing(project: Shell) -> None:
    work(project, commits=False)
    session = session_of(project)
    (project.cwd / "a.txt").write_text("one\nby a person\nthree\n")
    git(project.cwd, "commit", "-qam", "by a person")
    entry = json.loads((session / "root.jsonl").read_text().splitlines()[0])["id"]
    for head, state in ((entry, "named"), ("0" * 64, "lacking")):
        put_note(project.cwd, f"Sagent-Session: {session.name} {head}")
        row = second_line(project)
        assert (row["origin"], row["notes"][0]["log"]) == ("unknown", state)
        card = project.run("blame", "a.txt:2", model="").out
        assert "claimed by" not in card and session.name in card
    for text in (
        f"Sagent-Session: \x1b[31mred {entry}",
        f"Sagent-Session: ../../{session.name} {entry}",
        f"Sagent-Session: {session.name} {entry} and more",
        f"Sagent-Session: {'s' * 101} {entry}",
        f"Sagent-Session: big {entry}\n" + "x" * 70_000,
    ):
        put_note(project.cwd, text)
        assert "notes" not in second_line(project), text[:80]


def test_deleted_session_is_only_claimed(project: Shell) -> None:
    work(project, "--blame-notes")
    assert second_line(project)["origin"] == "agent"
    shutil.rmtree(session_of(project))
    row = second_line(project)
    assert (row["origin"], row["reason"], row["notes"][0]["log"]) == ("unknown", "no log", "missing")


def test_repository_that_names_programs_gets_no_note_and_a_warning(project: Shell) -> None:
    git(project.cwd, "config", "filter.x.clean", "touch ran")
    warned = work(project, "--blame-notes")
    assert git(project.cwd, "for-each-ref", "refs/notes") == ""
    assert not (project.cwd / "ran").exists()
    assert warned.count("No note names this session") == 1
