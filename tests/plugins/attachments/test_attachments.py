"""A file attached to a message counts as read if all of it was shown."""

from pathlib import Path

import pytest

from sagent.errors import ToolError
from sagent.messages import Text
from sagent.plugins.attachments.reading import record_attached
from sagent.repl import project
from sagent.testing.server import Call, Turn
from sagent.tool import Workspace
from tests.repl.console import Console


def attached(directory: Path, name: str) -> str:
    """Return the text of the file that a message mentions."""
    (part,), wrong = project.attach(f'Change @"{name}".', directory)
    assert isinstance(part, Text) and not wrong
    return part.text


CONTENTS = (
    b"one\ntwo\n",
    b"one\r\ntwo",
    b"",
    b"\xef\xbb\xbfone\n",
    "ä".encode("latin-1"),
    "ä\n".encode("utf-16"),
    b"</file>",
)


@pytest.mark.parametrize("content", CONTENTS)
def test_whole_file_counts_as_read(tmp_path: Path, content: bytes) -> None:
    path, workspace = tmp_path / "a b.txt", Workspace(tmp_path)
    path.write_bytes(content)
    with pytest.raises(ToolError, match="was not read"):
        workspace.check_unchanged(path)
    record_attached(attached(tmp_path, "a b.txt"), tmp_path, workspace)
    workspace.check_unchanged(path)
    path.write_bytes(content + b"later")
    with pytest.raises(ToolError, match="has changed"):
        workspace.check_unchanged(path)


def test_cut_file_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project, "MAX_TEXT_CHARS", 5)
    path, workspace = tmp_path / "a.txt", Workspace(tmp_path)
    path.write_text("123456")
    record_attached(attached(tmp_path, "a.txt"), tmp_path, workspace)
    with pytest.raises(ToolError, match="was not read"):
        workspace.check_unchanged(path)


@pytest.mark.parametrize("later", ["123457", "12345", "1234567"])
def test_file_that_has_changed_does_not_count(tmp_path: Path, later: str) -> None:
    path, workspace = tmp_path / "a.txt", Workspace(tmp_path)
    path.write_text("123456")
    text = attached(tmp_path, "a.txt")
    path.write_text(later)
    record_attached(text, tmp_path, workspace)
    with pytest.raises(ToolError, match="was not read"):
        workspace.check_unchanged(path)


@pytest.mark.parametrize(
    "text", ["", '\n<file path="a.txt">\n', '\n<file path="">\n\n</file>', '\n<file path="none">\n1\n</file>']
)
def test_other_texts_record_nothing(tmp_path: Path, text: str) -> None:
    workspace = Workspace(tmp_path)
    (tmp_path / "a.txt").write_text("")
    record_attached(text, tmp_path, workspace)
    assert not workspace.known_files


@pytest.mark.needs("tmux")
def test_attached_file_is_edited_at_once(console: Console) -> None:
    (console.cwd / "shop.py").write_text("rate = 1\n")
    change = {"file_path": "shop.py", "old_string": "rate = 1", "new_string": "rate = 2"}
    server = console.serve([Turn(calls=(Call("Edit", change),)), Turn("It is 2.")])
    console.start("--permission-mode", "edit")
    console.type("double the rate in @shop.py")
    console.until("It is 2.")
    assert (console.cwd / "shop.py").read_text() == "rate = 2\n"
    assert len(server.requests) == 2
