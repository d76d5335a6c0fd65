"""Plan mode in a terminal: the model proposes, the person changes or accepts, and says in which mode to go on."""

from pathlib import Path

import pytest
from console import Console, last_text

from sagent.testing.server import Call, Turn

pytestmark = pytest.mark.needs("tmux")


def test_a_plan_is_proposed_changed_and_carried_out(console: Console, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/first/second/ "$1"\n')
    editor.chmod(0o755)
    console.environment["EDITOR"] = str(editor)
    write = Call("Write", {"file_path": "made.txt", "content": "x"})
    server = console.serve(
        [
            Turn(text="Which one?"),
            Turn(text="I looked.\n\n## Plan\n\n1. Write the first file."),
            Turn(text="Now.", calls=(write,)),
            Turn(text="All is done."),
        ]
    )
    console.start("--permission-mode", "plan", "--sandbox", "off")
    console.type("a file, please")
    console.until("Which one?", gone="Esc interrupts")
    console.keys("x", "BSpace")
    assert "Carry out" not in console.screen
    console.type("any")
    console.until("Carry out this plan?", "y Yes, and ask")
    console.keys("c")
    console.until("Carry out the changed plan?", "y Yes, and ask")
    console.keys("e")
    console.until("All is done.", "edit · no sandbox")
    assert "Write the second file." in last_text(server.requests[2])
    told = [str(request.json["messages"]) for request in server.requests]
    assert "Plan mode is on" in told[0]
    assert told[3].count("Plan mode is on") == told[3].count("Plan mode is off") == 1
    assert (console.cwd / "made.txt").exists()
