"""Hooks at the terminal: a folder's are asked about once, and what is typed during a turn is put to them too."""

import pytest

from sagent.testing.server import Received, Stall, Turn
from tests.depth import later
from tests.repl.console import Console, last_text
from tests.waiting import wait_until

pytestmark = pytest.mark.needs("tmux")


@later
def test_folder_hooks_asked_about_once(console: Console) -> None:
    console.serve([Turn(text="Hello.")])
    file = console.cwd / ".sagent" / "config.toml"
    file.parent.mkdir()
    file.write_text('[[hooks.PreToolUse]]\nmatcher = "Bash"\ncommand = "./check.sh"\n')
    console.start(ready="? Trust this folder?")
    console.until("wants to run hooks:", "hook PreToolUse Bash: ./check.sh", "a Yes, always")
    console.keys("a")
    console.until("to be asked again, delete", "│ $0")
    console.type("/hooks")
    console.until("PreToolUse Bash: ./check.sh  project:")
    console.leave()
    console.start()
    assert "Trust this" not in console.screen
    console.leave()
    file.write_text(file.read_text().replace("check.sh", "other.sh"))
    console.start(ready="? Trust this folder?")


def test_typed_message_goes_through_hook(console: Console) -> None:
    def answer(request: Received) -> Turn | Stall:
        return Stall(Turn(text="Done with it."), seconds=3) if "first" in last_text(request) else Turn(text="Never.")

    server = console.serve(answer)
    file = console.cwd.parent / "config.toml"
    file.write_text("[[hooks.UserPromptSubmit]]\ncommand = 'grep -q secret && { echo it is secret >&2; exit 2; }; :'\n")
    console.environment["SAGENT_CONFIG"] = str(file)
    console.start()
    console.type("the first")
    wait_until(lambda: len(server.requests) == 1)
    console.type("a secret")
    console.until("Done with it.", "it is secret")
    assert all("a secret" not in str(request.json) for request in server.requests)
