"""What a call of Edit or Write would make of its file."""

import os
from pathlib import Path

import pytest

from sagent.lib.json import JsonObject
from sagent.messages import ToolCall
from sagent.plugins.hosting.proposal import Proposal, proposal_of
from sagent.tool import Workspace


def proposed(place: Path, **arguments: str) -> Proposal | None:
    name = "Write" if "content" in arguments else "Edit"
    return proposal_of(ToolCall("c", name, JsonObject(arguments)), Workspace(place))


def test_edit_and_new_file_shown_whole(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\r\ntwo\r\n")
    found = proposed(tmp_path, file_path="a", old_string="two\n", new_string="2\n" * 900)
    assert found is not None and found.diff() == "@@ -1,2 +1,901 @@\n one\n-two" + "\n+2" * 900
    found = proposed(tmp_path, file_path="b", content="x")
    assert found is not None and found == Proposal(str(tmp_path / "b"), None, "x")
    assert found.diff() == "@@ -0,0 +1,1 @@\n+x\n\\ No newline at end of file"
    found = proposed(tmp_path, file_path="a", content="one\ntwo\n")
    assert found is not None and found.diff() == ""


@pytest.mark.parametrize("name", ["fifo", "elf", "directory", "circle", "a\0b", "long" * 100, "fifo/below", ""])
def test_non_text_file_not_compared(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "elf").write_bytes(b"\x7fELF\0\1")
    (tmp_path / "directory").mkdir()
    (tmp_path / "circle").symlink_to("circle")
    assert proposed(tmp_path, file_path=name, content="x") is None
    assert proposed(tmp_path, file_path=name, old_string="a", new_string="b") is None
