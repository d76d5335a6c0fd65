"""Going back in a session, and what it has changed in files, as JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.agent import Agent
from sagent.bridges.serve.fragments import diff_fragment
from sagent.errors import UsageError
from sagent.lib.text import one_line
from sagent.session.folds import points, spend
from sagent.session.log import read_contents, read_log
from sagent.session.store import named_logs
from sagent.transcript.event_json import encode_cost

if TYPE_CHECKING:
    from sagent.rewind.restore import FileChanges

_BACK = {"written": "written", "created": "deleted", "deleted": "created"}  # what was done, by what undoes it


def list_points(session: Path) -> Sequence[dict[str, object]]:
    """What was asked for, on every branch. May block."""
    return [
        {"id": each.before if each.current else each.tip, "text": one_line(each.text, 200), "at": each.at,
         "current": each.current, "depth": each.depth}
        for each in points(read_contents(session / "root.jsonl"))
    ]  # fmt: skip


def past_cost(session: Path) -> dict[str, object]:
    """What a session has cost that is closed. May block."""
    return encode_cost(spend(entry for file in named_logs(session) for entry in read_log(file)).cost())


async def rewind(agent: Agent, point: str, what: str, *, preview: bool) -> dict[str, object]:
    """Go back to an entry; what became of files, or would. Raises UsageError."""
    if not point and what != "files":
        raise UsageError("The conversation goes back to a point: give one of the session's points.")
    if preview:
        return _show(await agent.preview(point))
    if what in ("both", "conversation"):
        agent.rewind(point)
    if what == "conversation":
        return _show(None)
    return _show(await agent.rewind_files(point))


async def list_files(agent: Agent) -> dict[str, object]:
    """The files that a session has changed, and how."""
    found = _show(await agent.preview(""))
    changed: list[dict[str, object]] = found["changed"]  # pyright: ignore[reportAssignmentType] -- as it is made
    found["changed"] = [
        {**each, "how": _BACK[str(each["how"])], "added": each["removed"], "removed": each["added"]} for each in changed
    ]
    return found


async def diff(agent: Agent, path: str, *, html: bool) -> dict[str, object]:
    """What became of a file. Raises UsageError for one that was not changed."""
    found = await agent.diff(path)
    shown: dict[str, object] = {"path": path, "diff": found.diff, "note": found.note}
    return {**shown, "html": diff_fragment(path, found.diff)} if html and found.diff else shown


def _show(changes: "FileChanges | None") -> dict[str, object]:
    if changes is None:
        return {"changed": [], "left": [], "omitted": [], "commands": False}
    return asdict(changes)
