"""What a person is shown of an edit that is quoted nearly is what will be written."""

from pathlib import Path

import pytest

from sagent.errors import ToolError
from sagent.lib.json import JsonObject, json_freeze_object
from sagent.messages import ToolCall
from sagent.policy import Ask
from sagent.repl.terminal.approval import approval_options
from sagent.repl.view.calls import MAX_COMPARED_CHARS, proposal, read_text, render_approval
from sagent.repl.view.lines import plain
from sagent.tool import Workspace

PATCH = "*** Begin Patch\n*** Update File: f\n@@\n café = 1\n-x = 1\n+x = 2\n*** End Patch"


def arguments(old: str, new: str) -> JsonObject:
    return json_freeze_object({"file_path": "f", "old_string": old, "new_string": new})


@pytest.mark.parametrize("codec", ["utf-8", "cp1252", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("old", "new"), [("café = 1 \nx = 1 \n", "café = 1 \nx = 2\n"), (PATCH, ""), ("\tx = 1\n", "\tx = 2\n")]
)
def test_any_encoding_is_compared(tmp_path: Path, codec: str, end: str, old: str, new: str) -> None:
    text = "café = 1\nx = 1\ny = é\n"
    (tmp_path / "f").write_bytes(text.replace("\n", end).encode(codec))
    shown = proposal(ToolCall("c", "Edit", arguments(old, new)), lambda path: read_text(tmp_path, path))
    assert [line for line in shown.splitlines()[2:] if line[:1] in "+-"] == ["-x = 1", "+x = 2"]


def test_too_large_file_uses_exact_quotes(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("café = 1\nx = 1\n" + "y" * MAX_COMPARED_CHARS)
    assert read_text(tmp_path, "f") is None
    workspace = Workspace(tmp_path.resolve())
    workspace.saw(workspace.cwd / "f", (tmp_path / "f").read_bytes(), (tmp_path / "f").stat())

    def change(old: str, new: str) -> str:
        from sagent.tools.change import plan_edit
        from sagent.tools.replacement import read_replacements

        replacements = read_replacements(arguments(old, new))
        return plan_edit(workspace.cwd / "f", workspace.cwd / "f", replacements, workspace).after

    assert change("x = 1\n", "x = 2\n").startswith("café = 1\nx = 2\n")
    with pytest.raises(ToolError, match="not found"):
        change(PATCH, "")


def test_quoted_file_name_is_compared(tmp_path: Path) -> None:
    (tmp_path / "a\n  1 + b").write_text("old\n")
    given = json_freeze_object({"file_path": "$'a\\n  1 + b'", "content": "new\n"})
    shown = proposal(ToolCall("c", "Write", given), lambda path: read_text(tmp_path, path))
    assert [line for line in shown.splitlines()[2:] if line[:1] in "+-"] == ["-old", "+new"]
    call = ToolCall("c", "Write", json_freeze_object({"file_path": "a\n  1 + b", "content": "new\n"}))
    rows = plain(render_approval(call, Ask("why"), lambda _: None, 60)).splitlines()
    assert rows[0] == "? Write a⟨U+000A⟩  1 + b?"
    options = approval_options(["Edit(/a\n\tb)"])
    assert [one.hint for one in options[1:3]] == [
        "Edit(/a⟨U+000A⟩⟨U+0009⟩b)",
        "adds Edit(/a⟨U+000A⟩⟨U+0009⟩b) to your settings",
    ]
