"""A subcommand: `sagent --plugin subcommand.py notes` lists the TODO lines of the files below the working directory."""

from collections.abc import Sequence
from pathlib import Path

from sagent.plugin import Command, Plugin


def notes(words: Sequence[str]) -> int:
    """Print each line that has one of the words, TODO by default; return 1 if there is none."""
    wanted = tuple(words) or ("TODO",)
    found = False
    for path in sorted(Path().rglob("*.py")):
        for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1):
            if any(word in line for word in wanted):
                print(f"{path}:{number}: {line.strip()}")
                found = True
    return 0 if found else 1


plugin = Plugin(
    "subcommand", "lists TODO lines", commands=(Command("notes", "list the TODO lines of files", ":notes"),)
)
