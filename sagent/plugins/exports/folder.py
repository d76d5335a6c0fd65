"""A folder of shared sessions for any web server: each as a page, and one page that lists them all."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import quote

from sagent.errors import UsageError
from sagent.lib.atomic import atomic_output
from sagent.lib.dataclass import dataclass
from sagent.lib.figures import money
from sagent.lib.json import as_int, as_object, as_str, canonical_bytes
from sagent.lib.money import as_usd
from sagent.lib.regular import read_given
from sagent.plugins.exports.cards import when
from sagent.plugins.exports.page import escape, page, section, table
from sagent.plugins.exports.timeline import Timeline
from sagent.transcript.redaction import Redaction

ABOUT = "session.json"  # a session's entry for the list, in its folder
MARK = "Shared with sagent"  # in each of our lists, to recognize it
FORMS = {"index.html": "page", "session.md": "Markdown", "session.cast": "recording"}


@dataclass(frozen=True, slots=True)
class SharedFolder:
    """A folder for a web server: everyone can read it."""

    path: Path

    def add(self, timeline: Timeline, name: str, files: Iterable[tuple[str, Iterable[bytes]]]) -> None:
        """Write a session's files, replacing earlier ones of it, and the list. Raises UsageError if another session has
        its name there or the folder has a foreign page, and OSError."""
        below, index = self.path / name, self.path / "index.html"
        if index.exists() and MARK.encode() not in read_given(index):
            raise UsageError(f"{index} is not a list of shared sessions and would be replaced: choose another folder.")
        below.mkdir(parents=True, exist_ok=True)
        if as_str(_about(below).get("at"), timeline.first) != timeline.first:
            raise UsageError(f"{below} has another session with that name: share this one in another folder.")
        for file, pieces in files:
            _write(below / file, pieces)
        spent = timeline.spent.whole
        about = {
            "title": timeline.heading(Redaction()),
            "at": timeline.first,
            "turns": sum(agent.turns for agent in timeline.agents.values()),
            "usd": str(spent.usd),
            "unpriced": spent.unpriced,
        }
        _write(below / ABOUT, [canonical_bytes(about) + b"\n"])
        _write(index, [self._list().encode()])

    def _list(self) -> str:
        shared = [(file.parent.name, about) for file in self.path.glob(f"*/{ABOUT}") if (about := _about(file.parent))]
        found = sorted(shared, key=lambda each: as_str(each[1].get("at")), reverse=True)
        rows = [
            (_link(name, about), when(as_str(about.get("at"))), *_figures(about), _forms(self.path / name))
            for name, about in found
        ]
        listed = table(("session", "begun", "turns", "cost", "as"), rows, "Sessions")
        return page("Sessions", "", section("sessions", "Sessions", listed), MARK, "sessions")


def _write(path: Path, pieces: Iterable[bytes]) -> None:
    with atomic_output(path, 0o666) as file:
        file.writelines(pieces)


def _about(folder: Path) -> Mapping[str, object]:
    """Read a session's entry for the list; empty if there is none, or it is not ours."""
    try:
        return as_object(json.loads(read_given(folder / ABOUT)))
    except (OSError, ValueError, RecursionError):
        return {}


def _link(name: str, members: Mapping[str, object]) -> str:
    return f'<a href="{quote(name)}/index.html">{escape(as_str(members.get("title")) or name)}</a>'


def _figures(members: Mapping[str, object]) -> tuple[str, str]:
    return str(
        as_int(members.get("turns"))
    ), f"{'≥ ' if members.get('unpriced') else ''}{money(as_usd(members.get('usd')))}"


def _forms(folder: Path) -> str:
    there = [(file, form) for file, form in FORMS.items() if (folder / file).is_file()]
    return ", ".join(f'<a href="{quote(folder.name)}/{file}">{form}</a>' for file, form in there)
