"""Edit and Write through a client that writes files: its review has each change, and what it makes of them counts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from acp_peer import Peer, Refused, agent_for

from sagent.testing.script import Call, Turn

CAN = {"fs": {"readTextFile": True, "writeTextFile": True}}


@dataclass
class Editor:
    """Buffers that are saved when they are written, but for those in `unsaved`; Python files are formatted."""

    unsaved: dict[str, str] = field(default_factory=dict[str, str])
    refuses: str = ""
    saves: bool = True
    written: list[str] = field(default_factory=list[str])

    def serve(self, peer: Peer) -> None:
        peer.handlers |= {"fs/read_text_file": self.read, "fs/write_text_file": self.write}

    async def read(self, params: Mapping[str, Any]) -> Mapping[str, object]:
        path = params["path"]
        try:
            text = self.unsaved.get(path) or Path(path).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Refused({"code": -32002, "message": str(error)}) from error
        return {"content": text}

    async def write(self, params: Mapping[str, Any]) -> Mapping[str, object]:
        if self.refuses:
            raise Refused({"code": -32603, "message": self.refuses})
        path = Path(params["path"])
        self.written.append(path.name)
        self.unsaved.pop(str(path), None)
        text = params["content"].replace("=1", " = 1") if path.suffix == ".py" else params["content"]
        if self.saves:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        return {}


def write(path: str, content: str) -> Turn:
    return Turn("", calls=(Call("Write", {"file_path": path, "content": content}),))


def edit(path: str, old: str, new: str) -> Turn:
    return Turn("", calls=(Call("Edit", {"file_path": path, "old_string": old, "new_string": new}),))


def read(path: str) -> Turn:
    return Turn("", calls=(Call("Read", {"file_path": path}),))


def ends(peer: Peer) -> list[dict[str, Any]]:
    return [each for each in peer.kinds("tool_call_update") if each.get("status") in ("completed", "failed")]


async def test_edits_go_through_editor(work: Path) -> None:
    script = [
        write("new/a.py", "x=1\n"), edit("new/a.py", "x = 1", "y=1"), edit("new/a.py", "y = 1", "z = 2"), Turn("done"),
    ]  # fmt: skip
    editor = Editor()
    async with agent_for(script, CAN) as peer:
        editor.serve(peer)
        session = await peer.new(work)
        assert await peer.prompt(session, "go") == "end_turn"
        assert work.joinpath("new/a.py").read_text() == "z = 2\n"
        assert editor.written == ["a.py"] * 3
        diffs = [each["content"][0] for each in ends(peer)]
        assert [(each["oldText"], each["newText"]) for each in diffs] == [
            (None, "x = 1\n"), ("x = 1\n", "y = 1\n"), ("y = 1\n", "z = 2\n"),
        ]  # fmt: skip
        assert {params["path"] for method, params in peer.asked} == {str(work / "new/a.py")}


async def test_unsaved_text_edited_in_place(work: Path) -> None:
    file = work / "a.txt"
    file.write_text("one\ntwo\n")
    editor = Editor(unsaved={str(file): "zero\none\ntwo\n"})
    async with agent_for([read("a.txt"), edit("a.txt", "two", "2"), Turn("done")], CAN) as peer:
        editor.serve(peer)
        assert await peer.prompt(await peer.new(work), "go") == "end_turn"
        assert file.read_text() == "zero\none\n2\n"


async def test_slow_saving_editor_trusted(work: Path) -> None:
    work.joinpath("a.txt").write_text("one\n")
    editor = Editor(saves=False)
    script = [read("a.txt"), edit("a.txt", "one", "1"), write("b.txt", "b"), Turn("done")]
    async with agent_for(script, CAN) as peer:
        editor.serve(peer)
        assert await peer.prompt(await peer.new(work), "go") == "end_turn"
        assert [each["status"] for each in ends(peer)] == ["completed"] * 3
        assert not work.joinpath("b.txt").exists()


async def test_editor_refusal_fails_call(work: Path) -> None:
    editor = Editor(refuses="the buffer is locked")
    async with agent_for([write("a.txt", "x"), Turn("done")], CAN) as peer:
        editor.serve(peer)
        assert await peer.prompt(await peer.new(work), "go") == "end_turn"
        (end,) = ends(peer)
        assert end["status"] == "failed" and "the buffer is locked" in str(end["content"])
        assert not work.joinpath("a.txt").exists()


async def test_other_files_written_directly(work: Path, tmp_path: Path) -> None:
    work.joinpath("a.txt").write_bytes("größe\n".encode("latin-1"))
    work.joinpath("crlf.txt").write_bytes(b"one\r\ntwo\r\n")
    outside = tmp_path / "outside.txt"
    script = [
        read("a.txt"), edit("a.txt", "größe", "Größe"), write(str(outside), "x"),
        read("crlf.txt"), edit("crlf.txt", "two", "2"), Turn("done"),
    ]  # fmt: skip
    editor = Editor()
    async with agent_for(script, CAN, permission_mode="full") as peer:
        editor.serve(peer)
        assert await peer.prompt(await peer.new(work), "go") == "end_turn"
        assert work.joinpath("a.txt").read_bytes() == "Größe\n".encode("latin-1")
        assert outside.read_text() == "x"
        assert work.joinpath("crlf.txt").read_bytes() == b"one\r\n2\r\n"
        assert editor.written == ["crlf.txt"]


@pytest.mark.costly
@pytest.mark.parametrize("fs", [{}, {"readTextFile": True}, {"writeTextFile": False}, {"writeTextFile": None}])
async def test_client_without_write_not_asked(work: Path, fs: dict[str, object]) -> None:
    async with agent_for([write("a.txt", "x"), Turn("done")], {"fs": fs}) as peer:
        assert await peer.prompt(await peer.new(work), "go") == "end_turn"
        assert work.joinpath("a.txt").read_text() == "x"
        assert not peer.asked
