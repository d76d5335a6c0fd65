"""The last rewind of files, which can be undone."""

from collections.abc import Iterable

from sagent.lib.dataclass import dataclass
from sagent.rewind.plan import REWIND
from sagent.session.contents import Forked
from sagent.session.entries import Entry
from sagent.session.touches import Touched


@dataclass(frozen=True, slots=True)
class UndoPoint:
    """The way to undo the last rewind of files: the entry with the files as they were before it, and the entry for the
    conversation, "" if it was not rewound. `at` is UTC, ISO 8601."""

    files: str
    conversation: str
    at: str


def way_back(entries: Iterable[Entry]) -> UndoPoint | None:
    """Return the rewind that can be undone; None if there were messages since."""
    found: UndoPoint | None = None
    previous: Entry | None = None
    for entry in entries:
        if entry.kind == "message":
            found = None
        elif entry.kind == "touched" and previous is not None:
            what = entry.content
            if isinstance(what, Touched) and what.tool == REWIND and not what.ended:
                before = previous.content
                found = UndoPoint(previous.id, before.left if isinstance(before, Forked) else "", entry.at)
        previous = entry
    return found
