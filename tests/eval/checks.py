"""Checks of a finished task: each looks at the files that are there and at the model's own words, and at nothing else.

A check returns why the task has failed, or None.
"""

import csv
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

MAX_SCRIPT_SECONDS = 20
NOT_COUNTED = (".git/", ".aider", ".pytest_cache/")
"""Beginnings of paths that are a tool's own, as is every `__pycache__`."""


@dataclass(frozen=True, slots=True)
class Work:
    """The state after a run: the project's folder, as which files it began, every word and call of the model, and the
    text of its last reply that has one."""

    folder: Path
    before: Mapping[str, bytes]
    words: str
    answer: str

    def text(self, path: str) -> str:
        """Return a file's text, "" where there is no file."""
        file = self.folder / path
        return file.read_text("utf-8", "replace") if file.is_file() else ""

    def changed(self) -> set[str]:
        """Return the files that were written, made or deleted."""
        after = contents(self.folder)
        return {path for path in after.keys() | self.before.keys() if after.get(path) != self.before.get(path)}


Check = Callable[[Work], str | None]


def contents(folder: Path) -> dict[str, bytes]:
    """Return what the files of a project hold, without those of tools."""
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    counted = {name: path for name, path in files.items() if not name.startswith(NOT_COUNTED)}
    return {name: path.read_bytes() for name, path in counted.items() if "__pycache__" not in path.parts}


def run(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the project; what hangs has exit code 124."""
    environment = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8"}
    try:
        return subprocess.run(
            argv, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False,
            encoding="utf-8", errors="replace", timeout=MAX_SCRIPT_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(argv, 124, "", f"it ran longer than {MAX_SCRIPT_SECONDS} s")


def only(*paths: str) -> Check:
    """Check that no other files were written, made or deleted."""

    def check(work: Work) -> str | None:
        others = sorted(work.changed() - set(paths))
        return f"{', '.join(others[:4])} changed too" if others else None

    return check


def says(*texts: str) -> Check:
    """Check that the model wrote each of the texts, which nobody could guess."""

    def check(work: Work) -> str | None:
        missing = [text for text in texts if text not in work.words]
        return f"the words do not hold {', '.join(missing)}" if missing else None

    return check


def answers(right: str, *wrong: str) -> Check:
    """Check that the last reply holds a text, and none of those that would be another answer."""

    def check(work: Work) -> str | None:
        if right not in work.answer:
            return f"the answer does not hold {right}"
        others = [text for text in wrong if text in work.answer]
        return f"the answer also names {', '.join(others)}" if others else None

    return check


def counts(number: int) -> Check:
    """Check that a number comes first or last of those in the last reply."""

    def check(work: Work) -> str | None:
        found = re.findall(r"\d+", work.answer.replace(",", ""))
        return None if str(number) in (found[:1] + found[-1:]) else f"the answer's numbers are {found[:5]}"

    return check


def holds(path: str, *texts: str) -> Check:
    """Check that a file holds exactly one of the texts, but for white space at its ends."""

    def check(work: Work) -> str | None:
        found = work.text(path).strip()
        return None if found in [text.strip() for text in texts] else f"{path} holds {found[:120]!r}"

    return check


def gone(path: str) -> Check:
    """Check that there is no such file."""
    return lambda work: f"{path} is still there" if (work.folder / path).exists() else None


def lacks(path: str, pattern: str) -> Check:
    """Check that a pattern is nowhere in a file."""
    return lambda work: f"{path} still holds {pattern}" if re.search(pattern, work.text(path)) else None


def has(path: str, pattern: str) -> Check:
    """Check that a pattern is in a file."""
    return lambda work: None if re.search(pattern, work.text(path)) else f"{path} does not hold {pattern}"


def holds_data(path: str, data: Any) -> Check:
    """Check what a JSON, YAML or CSV file means."""

    def check(work: Work) -> str | None:
        text = work.text(path)
        try:
            match path.rpartition(".")[2]:
                case "json":
                    found = json.loads(text)
                case "csv":
                    found = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines()) if row]
                case _:
                    found = yaml.safe_load(text)
        except (ValueError, csv.Error, yaml.YAMLError) as error:
            return f"{path} cannot be read: {str(error)[:100]}"
        return None if found == data else f"{path} means {str(found)[:160]}"

    return check


def prints(output: str, *argv: str) -> Check:
    """Check that a program of the project succeeds and prints a text."""

    def check(work: Work) -> str | None:
        done = run(work.folder, *argv)
        if done.returncode == 0 and done.stdout.strip() == output.strip():
            return None
        return f"{argv[-1]} exits {done.returncode} and prints {done.stdout[:80]!r} {done.stderr[-120:]}"

    return check


def python(code: str) -> Check:
    """Check that a piece of Python runs in the project."""

    def check(work: Work) -> str | None:
        done = run(work.folder, sys.executable, "-c", code)
        return None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it failed"])[-1][-160:]

    return check


def fails_with(path: str, mutants: Mapping[str, str], *argv: str) -> Check:
    """Check that a program succeeds as it is, and fails when a file's text is replaced by that of any mutant."""

    def check(work: Work) -> str | None:
        if (done := run(work.folder, *argv)).returncode:
            return f"{argv[-1]} exits {done.returncode}: {done.stderr[-160:]}"
        for name, text in mutants.items():
            with tempfile.TemporaryDirectory() as directory:
                for file, data in contents(work.folder).items():
                    Path(directory, file).parent.mkdir(parents=True, exist_ok=True)
                    Path(directory, file).write_bytes(data)
                Path(directory, path).write_text(text, "utf-8")
                if not run(Path(directory), *argv).returncode:
                    return f"it passes although {path} {name}"
        return None

    return check
