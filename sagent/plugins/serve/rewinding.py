"""Rewinding a session, and its changes of files, as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal, TypeAlias

from sagent.agent import Agent
from sagent.errors import UsageError
from sagent.lib.text import one_line
from sagent.plugins.serve.fragments import diff_fragment
from sagent.rewind.restore import FileChanges
from sagent.session.folds import points, spend
from sagent.session.log import read_contents, read_log
from sagent.session.store import named_logs
from sagent.transcript.event_json import encode_cost

_How: TypeAlias = Literal["written", "created", "deleted"]
_BACK: Mapping[_How, _How] = {"written": "written", "created": "deleted", "deleted": "created"}  # by what undoes it


def list_points(session: Path) -> Sequence[dict[str, object]]:
    """Return the prompts on every branch. May block."""
    return [
        {"id": point.before if point.current else point.tip, "text": one_line(point.text, 200), "at": point.at,
         "current": point.current, "depth": point.depth}
        for point in points(read_contents(session / "root.jsonl"))
    ]  # fmt: skip


def past_cost(session: Path) -> dict[str, object]:
    """Return the cost of a closed session. May block."""
    return encode_cost(spend(entry for file in named_logs(session) for entry in read_log(file)).cost())


async def rewind(agent: Agent, point: str, scope: str, *, preview: bool) -> dict[str, object]:
    """Go back to an entry; what became of files, or would. Raises UsageError."""
    if not point and scope != "files":
        raise UsageError("The conversation goes back to a point: give one of the session's points.")
    if preview:
        return asdict(await agent.preview(point))
    if scope in ("both", "conversation"):
        agent.rewind(point)
    return asdict(await agent.rewind_files(point) if scope != "conversation" else FileChanges())


async def list_files(agent: Agent) -> dict[str, object]:
    """Return the files that a session has changed, and how."""
    found = await agent.preview("")
    changed = (replace(each, how=_BACK[each.how], added=each.removed, removed=each.added) for each in found.changed)
    return asdict(replace(found, changed=tuple(changed)))


async def diff(agent: Agent, path: str, *, html: bool) -> dict[str, object]:
    """Return the changes of a file. Raises UsageError if it was not changed."""
    found = await agent.diff(path)
    shown: dict[str, object] = {"path": path, "diff": found.diff, "note": found.note}
    return {**shown, "html": diff_fragment(path, found.diff)} if html and found.diff else shown
