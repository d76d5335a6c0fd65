"""The REPL in a directory that is open in an editor with a link: its selection, and changes decided on there."""

import asyncio
import json

import pytest

from sagent.testing.script import Call, Received, Turn
from tests.plugins.editor.extension import Extension
from tests.repl.console import Console, last_text
from tests.waiting import wait_until

pytestmark = pytest.mark.needs("tmux")


def test_editor_accepts_change_and_selection(console: Console) -> None:
    extension = Extension(console.cwd.parent / "home", console.cwd, decisions=[["FILE_SAVED"], None, ["DIFF_REJECTED"]])
    requests: list[str] = []

    def reply(request: Received) -> Turn:
        requests.append(json.dumps(request.json["messages"]))
        if "please" in last_text(request):
            name = f"file{len(requests)}.txt"
            return Turn("", calls=(Call("Write", {"file_path": name, "content": "new\n"}),))
        return Turn(f"done {len(requests)}")

    console.serve(reply)
    with extension.in_thread() as loop:
        console.start("--permission-mode", "ask")
        wait_until(lambda: extension.sockets, "the link")
        selecting = extension.select(console.cwd / "b.txt", "some selected words")
        asyncio.run_coroutine_threadsafe(selecting, loop).result(30)
        console.type("write one please")
        console.until("done 2")  # the editor has said yes
        assert (console.cwd / "file1.txt").read_text() == "new\n"
        assert "some selected words" in requests[0]
        console.type("write another please")
        console.until("y once", "file3.txt")
        console.keys("y")
        console.until("done 4")
        assert (console.cwd / "file3.txt").exists()
        console.type("write a third please")
        console.until("done 6")
        assert not (console.cwd / "file5.txt").exists()
        assert "in the editor" in requests[-1]
        wait_until(lambda: [name for name, _ in extension.called].count("close_tab") == 3, "the tabs to close")
