"""Files restored with the conversation: in a real terminal, and without a person."""

from pathlib import Path

import pytest

from sagent.agent import Agent, Resources
from sagent.config import load
from sagent.errors import UsageError
from sagent.lib.json import JsonObject
from sagent.messages import ToolCall
from sagent.policy.permissions import PermissionPolicy
from sagent.repl.headless_command import run_headless_command
from sagent.repl.opening import Opened
from sagent.session.contents import Unknown
from sagent.session.log import MemoryLog
from sagent.testing import ScriptedModel
from sagent.testing.server import Call, Received, Turn
from sagent.tool import Workspace
from sagent.tools import Write
from tests.depth import later
from tests.repl.console import Console


def working(request: Received) -> Turn:
    """Writes a file for each request, then runs a command, then says so."""
    messages = request.json["messages"]
    assert isinstance(messages, list)
    last = str(messages[-1])
    number = sum("'text': 'change" in str(message) for message in messages)
    if "tool_result" not in last:
        arguments = {"file_path": f"file{number}.txt", "content": f"line of {number}\n"}
        return Turn(calls=(Call("Write", arguments, f"w{len(messages)}"),))
    if "Created" in last or "Wrote" in last:
        command = {"command": f"echo {number} >> log.txt; rm -f old.txt"}
        return Turn(calls=(Call("Bash", command, f"b{len(messages)}"),))
    return Turn(text=f"done with {number}")


@pytest.mark.needs("tmux")
def test_both_are_wound_back_and_forth(console: Console) -> None:
    console.serve(working)
    (console.cwd / "old.txt").write_text("old\n")
    console.start("--permission-mode", "full")
    for number in (1, 2):
        console.type(f"change {number}")
        console.until(f"done with {number}")
    assert (console.cwd / "log.txt").read_text() == "1\n2\n"
    (console.cwd / "file2.txt").write_text("mine now\n")
    console.keys("Escape", "Escape")
    console.until("Back to before which prompt?", "❯ change 2", "change 1")
    console.keys("Down", "Enter")
    console.until("conversation and files", "files only", "cancel")
    console.until("created old.txt +1 -0", "deleted log.txt +0 -2", "deleted file1.txt", "left alone file2.txt")
    console.keys("Enter")
    console.until("files back to before: change 1", "1 left alone")
    assert (console.cwd / "old.txt").read_text() == "old\n"
    assert not (console.cwd / "log.txt").exists()
    assert not (console.cwd / "file1.txt").exists()
    assert (console.cwd / "file2.txt").read_text() == "mine now\n"
    console.keys("C-u")
    console.type("/rewind")
    console.until("❯ undo the last /rewind of files")
    console.keys("Enter")
    console.until("conversation and files", "cancel")
    console.keys("Enter")
    console.until("files as it was before the last /rewind")
    assert (console.cwd / "log.txt").read_text() == "1\n2\n"
    assert (console.cwd / "file1.txt").exists()
    assert not (console.cwd / "old.txt").exists()
    console.type("/tree")
    console.until("1 ● change 1", "2 ● change 2")
    console.type("/rewind 2 files")
    console.until("files back to before: change 2")
    assert (console.cwd / "log.txt").read_text() == "1\n"
    console.type("change 3")
    console.until("done with 3")


@later
@pytest.mark.needs("tmux")
def test_escape_changes_nothing(console: Console) -> None:
    console.serve(working)
    console.start("--permission-mode", "full")
    console.type("change 1")
    console.until("done with 1")
    console.type("/rewind 1")
    console.until("conversation and files", "cancel")
    console.keys("Escape")
    console.until(gone="conversation and files")
    assert (console.cwd / "file1.txt").exists()
    console.type("/tree")
    console.until("1 ● change 1")
    console.type("/rewind 1 conversation")
    console.until("back to before: change 1")
    assert (console.cwd / "file1.txt").exists()


async def test_headless_rewind_needs_file_choice(tmp_path: Path) -> None:
    log = MemoryLog()
    log.append(Unknown("opened", {}))
    write = ToolCall("1", "Write", JsonObject({"file_path": "new.txt", "content": "new\n"}))
    resources = Resources(log=log, workspace=Workspace(tmp_path))
    agent = Agent(ScriptedModel((write,), "done"), tools=(Write(),), resources=resources)
    await agent.run("write it")
    settings = load({"cwd": str(tmp_path)}, {"HOME": str(tmp_path / "home")}, tmp_path)
    opened, written = Opened(agent, PermissionPolicy("edit")), []

    async def do(line: str) -> str:
        written.clear()
        assert await run_headless_command(line, settings, opened, written.append) == ""
        return "".join(written)

    with pytest.raises(UsageError, match="accepted are both, conversation, files"):
        await do("/rewind 1 everything")
    assert "/rewind NUMBER both" in await do("/rewind 1")
    assert ((tmp_path / "new.txt").exists(), agent.messages) == (True, ())
    assert "forward to after: write it" in await do("/rewind 1")
    assert len(agent.messages) == 4
    told = await do("/rewind 1 both")
    assert "back to before: write it" in told
    assert "1 deleted" in told
    assert ((tmp_path / "new.txt").exists(), agent.messages) == (False, ())
    assert "1 created" in await do("/rewind 1 both")
    assert (tmp_path / "new.txt").read_text() == "new\n"
    await agent.aclose()


@later
@pytest.mark.needs("tmux")
def test_one_file_viewed_and_restored(console: Console) -> None:
    console.serve(working)
    (console.cwd / "old.txt").write_text("old\n")
    console.start("--permission-mode", "full")
    console.type("change 1")
    console.until("done with 1")
    console.type("/diff")
    console.until("Changed in this session: 3 files, +2 -1", "file1.txt  created +1 -0", "old.txt    deleted +0 -1")
    console.type("old")
    console.until("? old.txt", "1 - old", "u Undo it in this file", "b Back")
    console.keys("b")
    console.until("Changed in this session: 3 files", gone="b Back")
    console.type("old")
    console.until("u Undo it in this file")
    console.keys("u")
    console.until("Restore old.txt to its state before this session?", "y Yes, restore it", "n No")
    assert not (console.cwd / "old.txt").exists()
    console.keys("y")
    console.until("old.txt: 1 created", "Changed in this session: 2 files, +2 -0")
    assert (console.cwd / "old.txt").read_text() == "old\n"
    console.keys("Escape")
    console.until(gone="Changed in this session: 2 files")
    console.type("/rewind")
    console.until("❯ undo the last /rewind of files")
    console.keys("Escape")
    console.until(gone="undo the last")
    assert (console.cwd / "file1.txt").exists()
