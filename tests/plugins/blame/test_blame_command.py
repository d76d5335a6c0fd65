"""`sagent blame`, as a process, on files that the program's own agents wrote."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from sagent.testing.server import Call, Turn
from tests.cli.program import Shell
from tests.worktrees import git

FULL = ("--permission-mode", "full", "--sandbox", "off")
DONE = Turn(text="Done.")


def turns(*calls: tuple[str, Mapping[str, object]]) -> Sequence[Turn]:
    return [*(Turn(calls=(Call(name, arguments),)) for name, arguments in calls), DONE]


@pytest.fixture
def written(project: Shell) -> Shell:
    """A repository in which an agent has changed a.txt by a tool, and b.txt by a command."""
    content = "one\ntwo, changed by the agent\nthree\n"
    edit = {"file_path": "a.txt", "old_string": "two\n", "new_string": "two, changed by the agent\n"}
    command = {"command": "echo 'a line that a command wrote' >> b.txt"}
    project.serve(turns(("Read", {"file_path": "a.txt"}), ("Edit", edit), ("Bash", command)))
    done = project.run(*FULL, "-p", "change line two, please")
    assert done.code == 0, done
    assert (project.cwd / "a.txt").read_text() == content
    return project


def rows(shell: Shell, *words: str) -> list[dict[str, Any]]:
    done = shell.run("blame", *words, "--output-format", "json", model="")
    assert done.code == 0, done
    return json.loads(done.out)["lines"]


def origins(shell: Shell, *words: str) -> list[str]:
    return [row.get("tool", row["origin"]) for row in rows(shell, *words)]


def log_of(shell: Shell) -> Path:
    (found,) = Path(shell.environment["HOME"]).rglob("root.jsonl")
    return found


def test_lines_have_their_calls(written: Shell) -> None:
    assert origins(written, "a.txt") == ["unknown", "Edit", "unknown"]
    assert origins(written, "b.txt") == ["unknown", "Bash"]
    done = written.run("blame", "a.txt", model="")
    assert [line.rpartition(") ")[2] for line in done.out.splitlines()[:3]] == (
        written.cwd / "a.txt"
    ).read_text().splitlines()
    assert "3 lines: 1 by agents, 2 unknown" in done.out


def test_card_names_prompt_model_cost_and_proof(written: Shell) -> None:
    (row,) = rows(written, "a.txt:2")
    assert row["prompt"] == "change line two, please"
    assert row["model"] == "anthropic/claude-sonnet-4-6"
    assert float(row["usd"]) > 0
    assert row["proof"] == "arguments"
    assert row["entry"] in log_of(written).read_text()
    card = written.run("blame", "a.txt:2", model="").out
    for value in (row["prompt"], row["model"], row["entry"], str(log_of(written))):
        assert value in card


def test_lines_survive_a_person_git_and_a_move(written: Shell) -> None:
    cwd = written.cwd
    git(cwd, "commit", "-qam", "the agent's work")
    (cwd / "a.txt").write_text("zero\n" + (cwd / "a.txt").read_text() + "four\n")
    assert origins(written, "a.txt") == ["unknown", "unknown", "Edit", "unknown", "unknown"]
    git(cwd, "mv", "a.txt", "moved.txt")
    assert origins(written, "moved.txt") == ["unknown", "unknown", "Edit", "unknown", "unknown"]
    git(cwd, "commit", "-qam", "move it")
    assert origins(written, "moved.txt") == ["unknown", "unknown", "Edit", "unknown", "unknown"]
    assert origins(written, "moved.txt", "--at", "HEAD") == ["unknown", "unknown", "Edit", "unknown", "unknown"]
    assert written.run("blame", "a.txt", "--at", "HEAD", model="").code == 2


@pytest.mark.parametrize("place", ["log", "blob"])
def test_flipped_byte_is_refused(written: Shell, place: str) -> None:
    log = log_of(written)
    entry = rows(written, "a.txt:2")[0]["entry"]
    if place == "log":
        log.write_bytes(log.read_bytes().replace(b'"tool":"Edit"', b'"tool":"Adit"', 2))
    else:
        for blob in (log.parent / "blobs").iterdir():
            blob.write_bytes(blob.read_bytes().replace(b"changed by", b"chanced by"))
    done = written.run("blame", "a.txt", model="")
    assert done.code == 1 and done.out == ""
    (sentence,) = done.err.splitlines()
    assert str(log.parent) in sentence
    if place == "blob":
        assert entry in sentence and str(log) in sentence
    else:
        assert "Entry " in sentence and str(log) in sentence


def test_wrong_lines_and_files_are_refused(written: Shell) -> None:
    for words in (
        ("a.txt:9",),
        (f"a.txt:{'9' * 5000}",),
        ("a.txt:0",),
        ("a.txt:3-2",),
        ("none.txt",),
        (),
        ("a.txt", "--at", "nowhere"),
    ):
        done = written.run("blame", *words, model="")
        assert done.code == 2 and "Traceback" not in done.err, (words, done)
    assert [row["line"] for row in rows(written, "a.txt:2-3")] == [2, 3]


def test_file_without_sessions_is_unknown(project: Shell) -> None:
    found = rows(project, "a.txt")
    assert {row["reason"] for row in found} == {"no log"}
