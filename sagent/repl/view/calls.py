"""Tool calls as a person reads them: the one argument that matters, and what an edit is about to change."""

from collections.abc import Callable
from pathlib import Path

from sagent.lib.json import as_array, as_object, as_str
from sagent.messages import ToolCall
from sagent.repl.view.lines import cut, one_line

_ESSENTIAL = ("command", "file_path", "pattern", "url", "path", "to", "prompt", "question", "operation", "job", "name")
MOST_SHOWN = 1_000_000  # characters of a file that is compared with what will replace it


def essence(call: ToolCall, width: int = 100) -> str:
    """The one argument of a call worth reading, on one line."""
    for name in _ESSENTIAL:
        value = call.arguments.get(name)
        if isinstance(value, str) and value.strip():
            return cut(one_line(value), width)
    return ""


def proposal(call: ToolCall, read: Callable[[str], str | None]) -> str:
    """What a call would change, as a unified diff; "" where it edits no file. `read` gives a file's text, or None."""
    from difflib import unified_diff

    path = as_str(call.arguments.get("file_path"))
    if not path:
        return ""
    before = read(path)
    if isinstance(content := call.arguments.get("content"), str):
        old, new = before or "", content
    else:
        edits = [as_object(edit) for edit in as_array(call.arguments.get("edits"))] or [call.arguments]
        pairs = [(as_str(edit.get("old_string")), as_str(edit.get("new_string"))) for edit in edits]
        if not any(old or new for old, new in pairs):
            return ""
        old = before if before is not None else "\n".join(old for old, _ in pairs)
        new = old
        for wanted, given in pairs:
            new = new.replace(wanted, given) if wanted else given
        if new == old:  # what is to be replaced is not there as it was quoted
            old, new = "\n".join(old for old, _ in pairs), "\n".join(new for _, new in pairs)
    lines = unified_diff(old.splitlines(), new.splitlines(), path, path, lineterm="")
    return "\n".join(lines)


def read_text(directory: Path) -> Callable[[str], str | None]:
    """A reader for `proposal`, of paths below a directory or absolute ones."""

    def read(path: str) -> str | None:
        try:
            with (directory / Path(path).expanduser()).open(encoding="utf-8", errors="replace") as file:
                return file.read(MOST_SHOWN)
        except (OSError, ValueError):
            return None

    return read
