"""A note of the memory in a terminal: edited in the person's editor, and forgotten from a list."""

from pathlib import Path

import pytest

from sagent.config import load
from sagent.plugins.memory.notes import folders
from tests.repl.console import Console

pytestmark = pytest.mark.needs("tmux")


def test_note_edited_and_forgotten(console: Console, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/tabs/blanks/ "$1"\n')
    editor.chmod(0o755)
    console.environment["EDITOR"] = str(editor)
    note = folders(load({"cwd": str(console.cwd)}, console.environment, console.cwd))["project"] / "style.md"
    note.parent.mkdir(parents=True)
    note.write_text("Use tabs\n")
    console.serve([])
    console.start("--sandbox", "off")
    console.type("/memory edit style")
    console.until("Saved project/style.md")
    assert note.read_text() == "Use blanks\n"
    console.type("/memory forget")
    console.until("Which note?", "project/style.md")
    console.keys("Enter")
    console.until("Deleted project/style.md")
    assert not note.exists()
