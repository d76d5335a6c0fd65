"""Tool calls for an editor: kind, location, and changes."""

import re
from collections.abc import Mapping
from contextlib import suppress
from itertools import chain, count
from pathlib import Path

from sagent.errors import ToolError
from sagent.lib.json import as_int, as_str
from sagent.lib.text import main_argument, one_line, printable
from sagent.messages import ToolCall
from sagent.plugins.hosting.proposal import MAX_COMPARED_CHARS, Proposal
from sagent.tool import Workspace
from sagent.tools.textfile import read_whole

MAX_RESULT_CHARS = 30_000  # of a result
_TITLE = 300
_OVERLAP_CHARS = 400  # characters to match when joining two ends of one output
_KINDS: Mapping[str, str] = {
    "Read": "read",
    "List": "read",
    "Edit": "edit",
    "Write": "edit",
    "Glob": "search",
    "Grep": "search",
    "WebSearch": "search",
    "PaperSearch": "search",
    "Bash": "execute",
    "WebFetch": "fetch",
    "PaperFetch": "fetch",
    "PaperDetails": "fetch",
    "PaperAuthor": "fetch",
    "AgentSpawn": "think",
    "ExitPlan": "switch_mode",
}
_PLACE = re.compile(r"^@@ -\d+(?:,\d+)? \+(\d+)", re.MULTILINE)


def kind_of(call: ToolCall) -> str:
    """Return the protocol's kind of a call."""
    return _KINDS.get(call.name, "other")


def title_of(call: ToolCall, agent: str) -> str:
    """Return the call on one line; an agent below the root is named before it."""
    who = f"{agent.partition('/')[2]}: " if "/" in agent else ""
    what = as_str(call.arguments.get("command")) or f"{call.name} {main_argument(call.arguments)}"
    return printable(one_line(f"{who}{what}", _TITLE))


def place_of(call: ToolCall, workspace: Workspace) -> Path | None:
    """Return the file that it reads or writes, absolute."""
    if text := as_str(call.arguments.get("file_path")):
        with suppress(ToolError, RuntimeError, OSError):
            return workspace.resolve(text)
    return None


def line_of(call: ToolCall, diff: str) -> int | None:
    """Return the line, from 1, that it reads or has changed."""
    match = _PLACE.search(diff)
    if match is None:
        return as_int(call.arguments.get("offset")) or None
    body = diff[match.end() :].split("\n")[1:]
    kept = next((at for at, line in enumerate(body) if not line.startswith(" ")), 0)
    return max(int(match[1]) + kept, 1)


def current_proposal(change: Proposal) -> Proposal:
    """Return the proposal with the text that the file has now: an editor may have formatted it."""
    with suppress(OSError, ValueError):
        if (now := read_whole(Path(change.path), MAX_COMPARED_CHARS)) is not None and now != change.old:
            return Proposal(change.path, change.old, now)
    return change


def shortened(text: str) -> str:
    """Shorten a result for a person to its beginning and end."""
    if len(text) <= MAX_RESULT_CHARS:
        return text
    half = MAX_RESULT_CHARS // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half:,} characters are left out here ...]\n{text[-half:]}"


def new_output(before: str, now: str) -> str:
    """Return the new part of an output; both versions may be only its end."""
    if now.startswith(before):
        return now[len(before) :]
    tail = before[-_OVERLAP_CHARS:]
    at = now.rfind(tail)
    return now[at + len(tail) :] if tail and at >= 0 else f"\n[...]\n{now}"


class CallIds:
    """Session-wide unique ids for calls, because providers repeat ids, and agents have separate ones."""

    def __init__(self) -> None:
        self._by_call: dict[tuple[str, str], str] = {}
        self._given: set[str] = set()
        self._open: dict[str, None] = {}
        self._jobs: set[str] = set()

    def begin(self, agent: str, call_id: str) -> tuple[str, bool]:
        """Return the id of a call that starts or needs approval, and True if it is new."""
        key = (agent, call_id)
        if (name := self._by_call.get(key, "")) in self._open or (name and name in self._jobs):
            return name, False
        wanted = (call_id or "call") if agent == "root" else f"{agent}:{call_id}"
        named = chain([wanted], (f"{wanted}#{number}" for number in count(2)))
        name = next(name for name in named if name not in self._given)
        self._given.add(name)
        self._by_call[key] = name
        self._open[name] = None
        return name, True

    def find(self, agent: str, call_id: str) -> str | None:
        """Return the id of a call that was begun."""
        return self._by_call.get((agent, call_id))

    def is_job(self, name: str) -> bool:
        """Return True if a call was answered and continues in the background."""
        return name in self._jobs

    def end(self, name: str, *, job: bool) -> None:
        self._open.pop(name, None)
        (self._jobs.add if job else self._jobs.discard)(name)

    def take_open(self) -> list[str]:
        """Return the calls that have not ended, and mark them as ended."""
        found = list(self._open)
        self._open.clear()
        return found
