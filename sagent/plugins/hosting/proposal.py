"""The change that a call of Edit or Write would make to the present file, for the person who is asked."""

from sagent.errors import ToolError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_str
from sagent.messages import ToolCall
from sagent.tool import Workspace
from sagent.tools.change import unified_diff
from sagent.tools.replacement import proposed
from sagent.tools.textfile import read_whole

MAX_COMPARED_CHARS = 400_000  # of a file to show before and after


@dataclass(frozen=True, slots=True)
class Proposal:
    """A file's text before and after; `old` is None if there is no file."""

    path: str
    old: str | None
    new: str

    def diff(self) -> str:
        """Return the whole change as a unified diff without file names; "" if nothing changes."""
        return "\n".join(unified_diff(self.old or "", self.new, "", max_lines=None).removesuffix("\n").split("\n")[2:])


def proposal_of(call: ToolCall, workspace: Workspace) -> Proposal | None:
    """Return the change that a call would make to its file; None if unknown, and for calls of other tools. May
    block."""
    name = as_str(call.arguments.get("file_path"))
    if call.name not in ("Edit", "Write") or not name:
        return None
    try:
        path = workspace.resolve(name)
        try:
            before = read_whole(path, MAX_COMPARED_CHARS)
            if before is None:
                return None  # no text, or too much
        except FileNotFoundError:
            before = None
        new = proposed(call, before or "")[1]
    except (ToolError, OSError, ValueError, RuntimeError):
        return None
    return Proposal(str(path), before, new) if len(new) <= MAX_COMPARED_CHARS else None
