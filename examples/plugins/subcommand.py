"""A subcommand: `sagent notes --plugin subcommand.py` lists the TODO lines of the files below the working directory."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from sagent.plugin import Command, Plugin


def notes(words: Sequence[str]) -> int:
    """Print each line that has one of the words; return 1 if there is none."""
    parser = argparse.ArgumentParser("sagent notes", description="List the lines of Python files that have a word.")
    parser.add_argument("word", nargs="*", default=["TODO"], help="TODO by default")
    wanted: list[str] = parser.parse_args(words).word
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
