"""Worktrees by themselves: merged in the middle of work, and asked about at the end."""

import io
import shutil
import sys
from pathlib import Path

import pytest

from sagent.errors import UsageError
from sagent.plugins.worktrees.preparation import Preparation
from sagent.plugins.worktrees.record import Record, Repository, find_record, repository_at
from sagent.plugins.worktrees.run import ask_what_becomes
from sagent.plugins.worktrees.worktree import advance, made, merge, outcome, remove
from tests.repositories import copy_repositories
from tests.worktrees import git


class Terminal(io.StringIO):
    """A terminal with lines that were typed."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def repository(made_repositories: Path, tmp_path: Path) -> Repository:
    copy_repositories(made_repositories, tmp_path / "repositories")
    return repository_at(tmp_path / "repositories/work", tmp_path / "state")


def test_merged_work_is_not_merged_again(repository: Repository) -> None:
    with made(repository, "try", "run", Preparation()) as record:
        (record.path / "one.txt").write_text("1\n")
        merge(record)
        after = advance(record)
        assert outcome(after).is_empty
        (record.path / "two.txt").write_text("2\n")
        assert [each.path for each in merge(after).changes] == ["two.txt"]


@pytest.mark.parametrize(("typed", "left", "merged"), [("m\n", 0, True), ("what\nx\n", 0, False), ("", 1, False)])
def test_question_at_the_end(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, typed: str, left: int, *, merged: bool
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    with made(repository, "try", "run", Preparation()) as first:
        (first.path / "one.txt").write_text("1\n")
        merge(first)
        advance(first)
        (first.path / "two.txt").write_text("2\n")
        ask_what_becomes(first)  # as it was at the beginning
    assert (repository.root / "two.txt").exists() is merged
    assert len([*repository.home.glob("*.json")]) == left


def test_full_disk_leaves_nothing(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Record, state: str = "") -> Record:
        del self, state
        raise OSError(28, "No space left on device", "x")

    monkeypatch.setattr(Record, "write", full)
    with pytest.raises(OSError, match="No space"), made(repository, "try", "run", Preparation()):
        pass
    assert not repository.home.exists()
    with pytest.raises(Exception, match="There is no worktree 'try'"):
        find_record(repository, "try")


def test_worktree_of_a_worktree(repository: Repository) -> None:
    """An isolated agent has one, too: what was done comes to the inner one, and then to the person's."""
    with made(repository, "outer", "run", Preparation()) as outer:
        inside = repository_at(outer.path, repository.home.parent.with_name("state"))
        assert inside.home == repository.home
        with made(inside, "inner", "run", Preparation(takes_changes=True)) as inner:
            (inner.path / "one.txt").write_text("1\n")
            merge(inner)
            remove(inner)
        assert not (repository.root / "one.txt").exists()
        merge(outer)
        remove(outer)
    assert (repository.root / "one.txt").read_text() == "1\n"
    assert not repository.home.exists()


def test_tampered_worktree_is_not_merged(repository: Repository, tmp_path: Path) -> None:
    """If its .git leads to another repository, nothing is merged, and it can be dropped."""
    with made(repository, "try", "run", Preparation()) as record:
        (record.path / ".git").unlink()
        with pytest.raises(UsageError, match=r"lost its directory or its \.git"):
            merge(record)
        git(tmp_path, "init", "-q", "other")
        (tmp_path / "other/.git").rename(record.path / ".git")
        with pytest.raises(UsageError):
            merge(record)
        remove(record)
    assert git(repository.root, "status", "--short") == "" and not repository.home.exists()
    assert git(repository.root, "worktree", "list").count("\n") == 0


def test_order_of_removal_does_not_matter(repository: Repository) -> None:
    with made(repository, "try", "run", Preparation()) as record:
        shutil.rmtree(record.path)
        git(repository.root, "branch", "-m", "sagent/try", "mine")  # the person keeps it
        with pytest.raises(UsageError):
            outcome(record)
        remove(record)
    assert git(repository.root, "branch", "--list", "mine") == "  mine" and not repository.home.exists()
