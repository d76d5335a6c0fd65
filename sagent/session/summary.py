"""A session at a glance, for whoever chooses among several: its first and last words, its model, files and cost."""

from collections.abc import Callable, Iterator
from dataclasses import field
from decimal import Decimal
from pathlib import Path

from sagent.errors import SessionCorrupt
from sagent.lib.dataclass import dataclass
from sagent.lib.text import one_line
from sagent.session.contents import MessageEntry
from sagent.session.entries import Entry
from sagent.session.folds import spend
from sagent.session.log import read_log
from sagent.session.store import named_logs
from sagent.session.touches import Touched

_MOST = 400  # characters of what was said
_RESULT, _REPLY, _TEXT = b'"type":"tool_result"', b'"role":"assistant"', b'"type":"text"'
"""What only parts of a message, and it itself, have in a line of canonical JSON."""


@dataclass(slots=True)
class Preview:
    """What a person asked first, what was `said` last, by which model, which files calls changed, and what it cost, at
    least where prices are unknown. `last` is UTC, ISO 8601; `problem` says what is wrong with it, "" if nothing is."""

    asked: str = ""
    said: str = ""
    model: str = ""
    last: str = ""
    files: dict[str, None] = field(default_factory=dict[str, None])
    usd: Decimal = Decimal(0)
    unpriced: bool = False
    problem: str = ""

    def read(self, path: Path, stop: Callable[[], bool]) -> Iterator[Entry]:
        """Take in every entry of every log, and pass it on."""
        latest: dict[bytes, Entry] = {}  # the reply, and the words: the others are not taken apart
        try:
            for number, file in enumerate(named_logs(path)):
                for entry in read_log(file):
                    if stop():
                        return
                    self.last = max(self.last, entry.at)
                    if entry.kind == "touched":
                        self._note_files(entry)
                    elif entry.kind == "message" and not number and _RESULT not in entry.line:
                        latest |= {mark: entry for mark in (_REPLY, _TEXT) if mark in entry.line}
                        if not self.asked:
                            self._note_words(entry)
                    yield entry
        except (SessionCorrupt, OSError) as error:
            self.problem = str(error)
        for mark in (_REPLY, _TEXT):
            if mark in latest:
                self._note_words(latest[mark])

    def _note_files(self, entry: Entry) -> None:
        if isinstance(content := entry.content, Touched):
            changed = (touch.path for touch in content.files if content.ended and touch.before != touch.after)
            self.files.update(dict.fromkeys(changed))

    def _note_words(self, entry: Entry) -> None:
        if isinstance(content := entry.content, MessageEntry):
            message = content.message
            words = one_line(message.text, _MOST)
            self.model = message.model or self.model
            if message.role == "user" and not message.sender:
                self.asked = self.asked or words
            self.said = words or self.said


def preview(path: Path, stop: Callable[[], bool] = lambda: False) -> Preview:
    """Read a session's logs, as far as they are whole, until `stop` says so. Needs no lock."""
    found = Preview()
    cost = spend(found.read(path, stop)).cost()
    found.usd, found.unpriced = cost.total, bool(cost.unpriced)
    return found
