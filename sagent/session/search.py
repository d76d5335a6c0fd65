"""Search for words in the messages of any number of sessions."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from sagent.errors import SessionCorrupt
from sagent.lib.dataclass import dataclass
from sagent.lib.json import valid_text
from sagent.lib.regular import read_given
from sagent.lib.secrets import redact
from sagent.session.contents import MessageEntry
from sagent.session.folds import readable
from sagent.session.log import read_lines
from sagent.session.names import agent_of
from sagent.session.store import log_files, named_logs

_AROUND_CHARS = 40  # of a message shown on either side of the first word
_SEARCHED_CHARS = 4_000  # on either side to search for secrets


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A message with all the words, and the text around the first without likely secrets. `at` is UTC, ISO 8601."""

    session: Path
    agent: str
    entry: str
    at: str
    role: str
    excerpt: str


def search(paths: Iterable[Path], words: Sequence[str]) -> Iterator[SearchHit]:
    """Yield the messages of these sessions that contain all the words, in any case; later ones first within each log.
    Calls, results, damaged logs and logs that no other names are not searched."""
    words = [valid_text(word) for word in words]
    wanted = [word.casefold() for word in words]
    raw = [json.dumps(word, ensure_ascii=False)[1:-1].encode() for word in words]
    fold = bytes.lower if all(word.isascii() for word in words) else _casefolded
    for path in paths:
        files = [(file, lines) for file in log_files(path) if (lines := _likely(file, list(map(fold, raw)), fold))]
        root = path / "root.jsonl"
        named = _named(path) if any(file != root for file, _ in files) else {root}
        for file, lines in files:
            if file in named:
                yield from _said(path, agent_of(path, file), _intact(file, lines)[::-1], wanted)


def _likely(file: Path, words: Sequence[bytes], fold: Callable[[bytes], bytes]) -> Sequence[bytes]:
    """Return the lines of messages that contain the words, both case-folded."""
    try:
        data = read_given(file)
    except OSError:
        return ()

    def holds(text: bytes) -> bool:
        folded = fold(text)
        return all(word in folded for word in words)

    if not holds(data):
        return ()
    lines = data.splitlines(keepends=True)
    return [line for line in lines if b',"kind":"message"' in line[-140:] and holds(line)]


def _intact(file: Path, lines: Sequence[bytes]) -> Sequence[bytes]:
    """Return the lines if their log is intact; in a damaged one it is unknown which of them are."""
    wanted = set(lines)
    try:
        return [line for line in read_lines(file) if line in wanted]
    except (OSError, SessionCorrupt):
        return ()


def _casefolded(data: bytes) -> bytes:
    return data.decode("utf-8", "replace").casefold().encode("utf-8", "replace")


def _named(path: Path) -> set[Path]:
    try:
        return set(named_logs(path))
    except (OSError, SessionCorrupt):
        return {path / "root.jsonl"}


def _said(session: Path, agent: str, lines: Iterable[bytes], words: Sequence[str]) -> Iterator[SearchHit]:
    for entry in readable(lines):
        content = entry.content
        if not isinstance(content, MessageEntry):
            continue
        text = " ".join(content.message.text.split())
        folded = text.casefold()
        if all(word in folded for word in words):
            excerpt = _excerpt(text, folded.find(words[0]), words[0])
            yield SearchHit(session, agent, entry.id, entry.at, content.message.role, excerpt)


def _excerpt(text: str, place: int, word: str) -> str:
    """Return the text around a word. Secrets are removed from a longer text first, because half a secret is not
    recognized."""
    begin, stop = max(0, place - _SEARCHED_CHARS), place + _SEARCHED_CHARS
    clean = redact(text[begin:stop])[0]
    at = clean.casefold().find(word)
    at = max(0, (at if at >= 0 else clean.find("[redacted")) - _AROUND_CHARS)  # the word may have been inside a secret
    end = at + 2 * _AROUND_CHARS + len(word)
    return f"{'…' if begin or at else ''}{clean[at:end]}{'…' if end < len(clean) or stop < len(text) else ''}"
