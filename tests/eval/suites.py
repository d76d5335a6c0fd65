"""Tasks: laid into a folder as a git repository, and judged afterwards. Ours are in `tasks`; others are folders."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from tests.eval.checks import Check, Work


@dataclass(frozen=True, slots=True)
class Edit:
    """A text of a file that stands there once, and what replaces it."""

    path: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Write:
    """A file and its whole text; None deletes it."""

    path: str
    text: str | None


@dataclass(frozen=True, slots=True)
class Say:
    """Words of the model."""

    text: str


Step: TypeAlias = Edit | Write | Say
Steps: TypeAlias = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """A task with a way to do it right, and plausible ways to do it wrong, which its checks are tested with.

    `commits` are made before the files are laid, each a message and its files; without any, the files are committed.
    """

    name: str
    prompt: str
    files: Mapping[str, str]
    checks: tuple[Check, ...]
    right: Steps
    wrong: tuple[Steps, ...]
    commits: tuple[tuple[str, Mapping[str, str]], ...] = field(default=())

    def lay(self, folder: Path) -> None:
        """Make the project in an empty folder."""
        git(folder, "init", "-q")
        for message, files in self.commits or (("Start", self.files),):
            _write(folder, files)
            git(folder, "add", "-A")
            git(folder, "commit", "-q", "--allow-empty", "-m", message)
        _write(folder, self.files)

    def judge(self, work: Work) -> str | None:
        """Return why the task has failed, or None."""
        return next((reason for check in self.checks if (reason := check(work))), None)


@dataclass(frozen=True, slots=True)
class FolderTask:
    """A task as a folder: `prompt.txt`, `files/`, and `check.py`, which is run in the project with the path of a file
    of the model's words, prints why the task has failed, and exits with 0 if it has not."""

    folder: Path

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.name

    @property
    def prompt(self) -> str:
        """The text of its file."""
        return (self.folder / "prompt.txt").read_text("utf-8").strip()

    def lay(self, folder: Path) -> None:
        """Make the project in an empty folder."""
        shutil.copytree(self.folder / "files", folder, dirs_exist_ok=True)
        for path in (folder, *folder.rglob("*")):  # the suite may lie where nobody may write
            path.chmod(path.stat().st_mode | (0o700 if path.is_dir() else 0o600))
        git(folder, "init", "-q")
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "--allow-empty", "-m", "Start")

    def judge(self, work: Work) -> str | None:
        """Return why the task has failed, or None."""
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as words:
            words.write(work.words)
            words.flush()
            argv = [sys.executable, "-B", str(self.folder / "check.py"), words.name]
            try:
                done = subprocess.run(argv, cwd=work.folder, capture_output=True, text=True, check=False, timeout=60)
            except subprocess.TimeoutExpired:
                return "its check did not end"
        return (f"{done.stdout}{done.stderr}".strip()[-200:] or "its check failed") if done.returncode else None


AnyTask: TypeAlias = Task | FolderTask


def folder_tasks(suite: Path) -> list[FolderTask]:
    """Return the tasks of a folder of folders, by name."""
    return [FolderTask(check.parent.absolute()) for check in sorted(suite.glob("*/check.py"))]


def chosen(tasks: Iterable[AnyTask], parts: str) -> list[AnyTask]:
    """Return the tasks whose names hold one of some parts with commas between them; all of them for ""."""
    wanted = [part.strip() for part in parts.split(",")]
    return [task for task in tasks if any(part in task.name for part in wanted)]


def git(folder: Path, *arguments: str) -> None:
    """Run git in a project, without a person's settings."""
    who = {f"GIT_{role}_{what}": "eval" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    none = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    argv = ["git", "-c", "init.defaultBranch=main", *arguments]
    subprocess.run(argv, cwd=folder, env={"PATH": os.environ["PATH"], **who, **none}, check=True, capture_output=True)


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
