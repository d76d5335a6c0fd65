"""A summary of a session from all its logs: title, first and last message, model, files, size and cost."""

from collections.abc import Callable, Iterator
from dataclasses import field
from decimal import Decimal
from pathlib import Path

from sagent.errors import SessionCorrupt
from sagent.lib.dataclass import dataclass
from sagent.lib.figures import bill
from sagent.lib.secrets import redact
from sagent.lib.text import one_line
from sagent.session.contents import MessageEntry
from sagent.session.entries import Entry
from sagent.session.folds import origin, spend, title, title_source
from sagent.session.log import read_log
from sagent.session.retention import size_of
from sagent.session.store import named_logs
from sagent.session.touches import Touched

_MAX_SAID_CHARS, _SEARCHED_CHARS = 400, 4_000  # of a message to show, and to search for secrets
_RESULT, _REPLY, _TEXT = b'"type":"tool_result"', b'"role":"assistant"', b'"type":"text"'
"""Byte sequences that only parts of a message, or the message itself, have in canonical JSON."""


@dataclass(slots=True)
class Summary:
    """A session: the person's first request `asked`, the last message `said`, its model, and the changed files. `last`
    is UTC, ISO 8601; `size` is in bytes, with blobs; `unpriced` names models without a known price, so that `usd` is a
    minimum; `unbilled` may come to it; `compacted` says whether a conversation was; `problem` describes damage, or is
    ""."""

    path: Path
    cwd: str = ""
    title: str = ""
    asked: str = ""
    said: str = ""
    model: str = ""
    last: str = ""
    entries: int = 0
    files: dict[str, None] = field(default_factory=dict[str, None])
    usd: Decimal = Decimal(0)
    unpriced: tuple[str, ...] = ()
    unbilled: Decimal = Decimal(0)
    size: int = 0
    compacted: bool = False
    problem: str = ""

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def bill(self) -> str:
        return bill(self.usd, self.unbilled, least=bool(self.unpriced))

    def read(self, stop: Callable[[], bool]) -> Iterator[Entry]:
        """Read every entry of every log and yield it; of a damaged log only those before the damage."""
        latest: dict[bytes, Entry] = {}  # only the latest reply and text are decoded
        telling: list[Entry] = []  # the root's few entries with directory and name
        try:
            self.size = size_of(self.path)
            for number, file in enumerate(named_logs(self.path)):
                for entry in read_log(file):
                    if stop():
                        return
                    self._note(entry)
                    if not number and entry.kind == "message" and _RESULT not in entry.line:
                        latest |= {mark: entry for mark in (_REPLY, _TEXT) if mark in entry.line}
                        if not self.asked and title_source([entry]):
                            self._note_words(entry)
                            telling.append(entry)
                    elif not number and entry.kind in ("opened", "label"):
                        telling.append(entry)
                    yield entry
        except (SessionCorrupt, OSError) as error:
            self.problem = str(error)
        try:
            for mark in (_REPLY, _TEXT):
                if mark in latest:
                    self._note_words(latest[mark])
            self.cwd, self.title = origin(telling).cwd, title(telling)
        except SessionCorrupt as error:
            self.problem = self.problem or str(error)

    def _note(self, entry: Entry) -> None:
        self.entries += 1
        self.last = max(self.last, entry.at)
        self.compacted |= entry.kind == "compacted"
        if entry.kind == "touched" and isinstance(content := entry.content, Touched):
            changed = (touch.path for touch in content.files if content.ended and touch.before != touch.after)
            self.files.update(dict.fromkeys(changed))

    def _note_words(self, entry: Entry) -> None:
        if isinstance(content := entry.content, MessageEntry):
            message = content.message
            words = one_line(redact(message.text[:_SEARCHED_CHARS])[0], _MAX_SAID_CHARS)
            self.model = message.model or self.model
            if message.role == "user" and not message.sender:
                self.asked = self.asked or words
            self.said = words or self.said


def summarize(path: Path, stop: Callable[[], bool] = lambda: False) -> Summary:
    """Read all intact parts of a session, until `stop` is True. Needs no lock."""
    found = Summary(path)
    cost = spend(found.read(stop)).cost()
    found.usd, found.unpriced, found.unbilled = cost.total, cost.unpriced, cost.unbilled
    return found
