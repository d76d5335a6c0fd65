"""Origins of changed lines: recorded changes first, then lines moved within the change, then people."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Literal, TypeAlias

from sagent.lib.dataclass import dataclass
from sagent.plugins.proofs.evidence import Source
from sagent.plugins.proofs.lines import Edit, changed_lines, edits, is_text, same_ends, split_lines
from sagent.plugins.proofs.repository import Changed, File
from sagent.plugins.proofs.statement import FileClaim, FromLog, FromPerson, Moved, Origin, Side, runs

Person = Callable[[str, int], str]
"""Names the person for a line of a path, by its number from 1, and for the removed ones and the whole file by 0."""
Traced: TypeAlias = FromLog | Literal["outside"] | None
"""Origin of a line as the history of its file shows it: a call, something outside the logs, or None if that is open."""
Trace: TypeAlias = Callable[[str], Sequence[Traced]]
"""Traces the lines of a path after the change: one for each line, or none at all."""


@dataclass(slots=True)
class _Lines:
    """A changed file as lines: those before and after, the steps, and the numbers of removed and added ones."""

    before: list[bytes]
    after: list[bytes]
    steps: Sequence[Edit]
    removed: list[int]
    added: list[int]


@dataclass(slots=True)
class Attribution:
    """Finds origins for the lines of a change, each once in `origins`."""

    sources: Mapping[str, Sequence[Source]]
    person: Person
    trace: Trace
    origins: dict[Origin, int] = field(default_factory=dict[Origin, int])
    _moved: dict[bytes, Counter[str]] = field(default_factory=dict[bytes, Counter[str]])

    def claims(self, files: Mapping[str, Changed]) -> Iterator[FileClaim]:
        """Yield the claim of each changed file."""
        lines = {path: _lines(changed) for path, changed in files.items() if has_lines(changed)}
        for path, each in lines.items():
            for number in each.removed:
                self._moved.setdefault(same_ends(each.before[number]), Counter())[path] += 1
        for path, changed in files.items():
            yield self._claim(path, changed, lines.get(path))

    def _claim(self, path: str, changed: Changed, lines: _Lines | None) -> FileClaim:
        before, after = side_of(changed.before), side_of(changed.after)
        whole = None
        if lines is None or needs_whole(changed):
            whole = self._number(self._whole(path, after))
        if lines is None:
            return FileClaim(path, before, after, whole=whole)
        removed = [same_ends(lines.before[number]) for number in lines.removed]
        added = [same_ends(lines.after[number]) for number in lines.added]
        return FileClaim(
            path,
            before,
            after,
            tuple(lines.steps),
            runs(self._origins(path, removed, lambda source: source.removed, None)),
            runs(self._origins(path, added, lambda source: source.added, lines.added)),
            whole,
        )

    def _origins(
        self, path: str, lines: Sequence[bytes], of: Callable[[Source], Counter[bytes]], numbers: Sequence[int] | None
    ) -> Iterator[int]:
        left: dict[bytes, list[tuple[FromLog, int]]] = {}
        for source in self.sources.get(path, ()):
            for line, times in of(source).items():
                left.setdefault(line, []).append((_origin(source), times))
        traced = self.trace(path) if numbers else ()
        for place, line in enumerate(lines):
            hint = traced[numbers[place]] if numbers and traced else None
            if found := _take(left.get(line, []), hint):
                origin: Origin = found
            elif numbers is not None and (source_path := self._take_moved(path, line)):
                origin = Moved(source_path)
            else:
                origin = FromPerson(self.person(path, 0 if numbers is None else numbers[place] + 1))
            yield self._number(origin)

    def _take_moved(self, path: str, line: bytes) -> str:
        if not line.strip():
            return ""
        counts = self._moved.get(line, Counter[str]())
        other = min((name for name, times in counts.items() if times and name != path), default="")
        if other:
            counts[other] -= 1
        return other

    def _whole(self, path: str, after: Side | None) -> Origin:
        wanted = ("", "") if after is None else (after.sha256, after.mode)
        sources = reversed(self.sources.get(path, ()))
        return next(
            (_origin(source) for source in sources if source.leads_to(*wanted)), FromPerson(self.person(path, 0))
        )

    def _number(self, origin: Origin) -> int:
        return self.origins.setdefault(origin, len(self.origins))


def _take(rows: list[tuple[FromLog, int]], hint: Traced) -> FromLog | None:
    """Take a line from the call that the file's history names, or from the last one that wrote such a line; none if the
    history names something outside the logs."""
    if hint == "outside" or not rows:
        return None
    named = (hint.agent, hint.entry) if hint else None  # a copied session has the entry too
    places = (place for place, (origin, _) in enumerate(rows) if (origin.agent, origin.entry) == named)
    place = next(places, len(rows) - 1)
    origin, times = rows.pop(place)
    if times > 1:
        rows.insert(place, (origin, times - 1))
    return origin


def _origin(source: Source) -> FromLog:
    return FromLog(source.session, source.agent, source.written.entry)


def side_of(file: File | None) -> Side | None:
    """Return a file's mode and sha256."""
    return None if file is None else Side(file.mode, file.sha256)


def has_lines(changed: Changed) -> bool:
    """Return True if a change is proven line by line: regular files with text, on each side that there is."""
    sides = [side for side in changed if side is not None]
    return all(side.mode.startswith("100") and is_text(side.data) for side in sides)


def needs_whole(changed: Changed) -> bool:
    """Return True if a change with lines is more than these: another mode, or an empty file that comes or goes."""
    before, after = changed
    mode = before.mode if before else "100644"
    data = (side.data if side else b"" for side in changed)
    return (after is not None and after.mode != mode) or not any(data)


def _lines(changed: Changed) -> _Lines:
    before, after = (split_lines(side.data) if side else [] for side in changed)
    steps = edits(before, after)
    return _Lines(before, after, steps, *changed_lines(before, after, steps))
