"""The possible origins of every line of a file, followed through all its known states in the order of time.

A state is known from a log (before and after a call) or from git (a commit). Between two known states anybody may have
changed the file: lines that surely survived keep their origins, all others are of unknown origin, unless another known
state explains them. Where two explanations differ, both are kept, and the line is attributed to nobody.
"""

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from datetime import datetime
from itertools import groupby
from pathlib import Path

from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_str
from sagent.lib.text import same_ends
from sagent.plugins.blame.alignment import Origins, changed_region, trace
from sagent.plugins.blame.arguments import split_lines, steps_of, written_lines
from sagent.plugins.blame.evidence import Evidence, FileChange
from sagent.plugins.blame.gitlog import FileHistory, Movement, Version
from sagent.plugins.blame.likeness import MIN_COPIED_LETTERS, MIN_LETTERS, is_renamed, letters
from sagent.rewind.plan import REWIND

NEW: Origins = frozenset({-1})
"""The origin of a line that a step cannot explain; another explanation replaces it."""
OTHER: Origins = frozenset({0})
"""The origin of a line that no known call wrote."""
_RESTORING = re.compile(  # commands that bring back or bring in what others wrote
    r"\b(git|jj|hg|sl|svn)\b.*\b(am|apply|archive|clone|worktree|submodule|checkout|cherry-pick|merge|pull|rebase|reset|restore|revert|stash|switch|update"
    r"|unshelve|undo|restack|goto)\b|\bpatch\b",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class State:
    """A known content of the file at a path, with the possible origins of its lines; `content` has LF line ends."""

    path: str
    content: bytes
    lines: Sequence[bytes]
    origins: Sequence[Origins]
    seconds: float = 0.0


@dataclass(slots=True)
class Tracer:
    """Follows one file and those from which commands may have copied it. `names` are the paths that it surely had, and
    `elsewhere` its paths in other work trees.

    `written` are the changes that origins name by number, from 1, each with True if the call's arguments prove it.
    """

    evidence: Evidence
    history: FileHistory
    names: frozenset[str]
    elsewhere: frozenset[str] = frozenset()
    written: list[tuple[FileChange, bool]] = field(default_factory=list[tuple[FileChange, bool]])
    _sessions: dict[str, set[Path]] = field(default_factory=lambda: defaultdict[str, set[Path]](set))
    _current: dict[str, State] = field(default_factory=dict[str, State])
    _known: dict[bytes, list[State]] = field(default_factory=lambda: defaultdict[bytes, list[State]](list))
    _by_text: dict[bytes, Origins] = field(default_factory=dict[bytes, Origins])
    _versions: dict[str, State] = field(default_factory=dict[str, State])
    _replayable: dict[str, list[tuple[Version, State]]] = field(
        default_factory=lambda: defaultdict[str, list[tuple[Version, State]]](list)
    )

    def follow(self, changes: Iterable[FileChange], path: str, content: bytes, *, committed: bool) -> Sequence[Origins]:
        """Return the origins of the lines of a content, which the file at a path has now, or has in a commit."""
        for change in self.evidence.changes:
            self._sessions[change.path].add(change.session)
        versions = list(self.history.versions)
        for change in changes:
            begun = seconds(change.begun)
            while versions and versions[0].time + 1 <= begun:
                self._add_version(versions.pop(0))
            self._apply(change)
        for version in versions:
            self._add_version(version)
        tip = self._versions.get(self.history.tip)
        if committed:  # later states say nothing about it
            is_known = tip is not None and tip.content == normal(content)
            return tip.origins if tip is not None and is_known else [OTHER] * len(split_lines(content))
        return self._reached(path, normal(content), float("inf")).origins

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _apply(self, change: FileChange) -> None:
        before, after = (self._content(change, state) for state in (change.before, change.after))
        began = State(change.path, b"", (), ()) if change.before.kind == "absent" else None
        if before is not None:
            began = self._reached(change.path, before, seconds(change.begun))
            self._keep(change.path, began)
        if after is None:
            if change.after.kind == "absent":
                self._current.pop(change.path, None)
            return
        if change.tool == REWIND:
            self._keep(change.path, self._reached(change.path, after, seconds(change.at), undone=True))
        else:
            self._keep(change.path, self._changed(change, began, after))

    def _content(self, change: FileChange, state: object) -> bytes | None:
        from sagent.session.touches import Snapshot

        assert isinstance(state, Snapshot)
        content = self.evidence.content(change, state)
        return None if content is None else normal(content)

    def _changed(self, change: FileChange, began: State | None, after: bytes) -> State:
        """Return the state after a call."""
        at = seconds(change.at)
        if began is None:
            lines = split_lines(after)
            return self._finish(State(change.path, after, lines, [OTHER] * len(lines), at))
        steps = None if change.altered else steps_of(change.tool, change.arguments, began.content, began.lines, after)
        if steps is not None:
            added = frozenset({self._number(change, proven=True)})
            added = added | OTHER if self._overlaps(change) else added
            state = began
            for step in steps:
                old, new = state.lines, step.lines
                inner, _ = trace(
                    old[step.start : step.old_end],
                    new[step.start : step.new_end],
                    state.origins[step.start : step.old_end],
                    added,
                )
                origins = [*state.origins[: step.start], *inner, *state.origins[step.old_end :]]
                state = State(change.path, after, new, origins, at)
            return self._finish(state)
        return self._finish(self._by_command(change, began, State(change.path, after, split_lines(after), (), at)))

    def _by_command(self, change: FileChange, began: State, after: State) -> State:
        """Return the state after a call that only the contents before and after it show."""
        base = replace(began, seconds=seconds(change.begun))
        sources = self._sources(change.path, base, after.seconds)
        origins = self._explain(after, sources, copied=True)
        mine = self._is_author(change, moved=len(sources) > 1 or sources[0] is not base)
        texts = written_lines(change.arguments) if change.tool in ("Edit", "Write") else None
        number = frozenset({self._number(change, proven=False)})
        for place, found in enumerate(origins):
            if found >= NEW:
                own = mine if texts is None else after.lines[place] in texts
                origins[place] = (found - NEW) | (number if own else OTHER)
        return replace(after, origins=origins)

    def _is_author(self, change: FileChange, *, moved: bool) -> bool:
        """Return True if the lines that are new after a command are that command's."""
        if change.altered or change.beside or self._overlaps(change):
            return False
        command = as_str(change.arguments.get("command"))
        return moved or not _RESTORING.search(command)

    def _overlaps(self, change: FileChange) -> bool:
        """Return True if a call of another session changed the file at the same time."""
        if len(self._sessions[change.path]) < 2:
            return False
        return any(
            other.begun <= change.at and change.begun <= other.at
            for other in self.evidence.changes
            if other.path == change.path and other.session != change.session
        )

    def _number(self, change: FileChange, *, proven: bool) -> int:
        self.written.append((change, proven))
        return len(self.written)

    # -- states between calls ------------------------------------------------------------------------------------------

    def _reached(self, path: str, content: bytes, at: float, *, undone: bool = False) -> State:
        """Return the state of a content that a file has, however it came about. If it was `undone`, that content was
        put back as it had been."""
        current = self._current.get(path)
        if current is not None and current.content == content:
            return current
        reached = State(path, content, split_lines(content), (), at)
        current = current or self._present(path, reached.lines)
        sources = self._sources(path, current, at)
        origins = self._explain(reached, sources, undone=undone)
        settled = [(found - NEW) | OTHER if found >= NEW else found for found in origins]
        return self._finish(replace(reached, origins=settled))

    def _sources(self, path: str, current: State | None, at: float) -> list[State]:
        """Return the states that a file may have been changed from: its last known one, or what git put in its place.

        If git moved the work tree while the file was as committed, nothing else of it was kept.
        """
        moves = () if current is None else self._moved(current.seconds, at)
        first = next((move for move in moves if not move.local), None)
        if current is not None and first is None:
            return [current]
        version = self._version_at(path, at)
        if version is None or current is None:
            return [state for state in (current, version) if state is not None]
        is_at_one_time = first is not None and first.earliest == first.time
        before = self._version_before(first) if first is not None and is_at_one_time else None
        return [version] if before is not None and before.content == current.content else [current, version]

    def _explain(
        self, reached: State, sources: Sequence[State], *, undone: bool = False, copied: bool = False
    ) -> list[Origins]:
        """Return the origins of a state's lines by all explanations; those without any may be NEW."""
        explained = [trace(source.lines, reached.lines, source.origins, NEW)[0] for source in sources]
        fresh = [place for place, found in enumerate(explained[0]) if found >= NEW] if explained else []
        before = [state for state in self._known.get(reached.content, ()) if state.seconds <= reached.seconds + 1]
        own = [state for state in before if self._is_same_file(state.path, reached.path)]
        known = own or (before if copied else [])
        if known:
            explained.append(_restored(reached, known, fresh, undone=undone))
        if not explained:
            return self._explain_texts(reached.lines, [NEW] * len(reached.lines))
        return self._explain_texts(reached.lines, _combine(explained))

    def _is_same_file(self, path: str, other: str) -> bool:
        """Return True if two paths are names of one file."""
        return path == other or (path in self.names and other in self.names)

    def _present(self, path: str, lines: Sequence[bytes]) -> State | None:
        """Return the last state of a file, also under a name that it had before."""
        if path in self._current or path not in self.names:
            return self._current.get(path)
        former = [
            state for name, state in self._current.items() if name in self.names and is_renamed(state.lines, lines)
        ]
        return former[0] if len(former) == 1 else None

    def _explain_texts(self, lines: Sequence[bytes], origins: list[Origins]) -> list[Origins]:
        """Explain blocks of new lines by their text, if it is long, occurs once, and has always had one origin."""
        places = [place for place, found in enumerate(origins) if found >= NEW]
        if not places:
            return origins
        counts = Counter(lines)
        known = {
            place: origin
            for place in places
            if len(origin := self._by_text.get(lines[place], OTHER)) == 1 and counts[lines[place]] == 1
        }
        for _, run in groupby(enumerate(known), lambda pair: (pair[1] - pair[0], known[pair[1]])):
            block = [place for _, place in run]
            if known[block[0]] != OTHER and sum(letters(lines[place]) for place in block) >= MIN_COPIED_LETTERS:
                for place in block:
                    origins[place] = (origins[place] - NEW) | known[place]
        return origins

    def _keep(self, path: str, state: State) -> None:
        self._current[path] = state
        self._know(state)

    def _know(self, state: State) -> None:
        known = self._known[state.content]
        if all(other.origins != state.origins for other in known):
            known.append(state)

    def _finish(self, state: State) -> State:
        """Return a state after noting the origins of its texts."""
        if state.path not in self.names:
            return state
        by_text, last = self._by_text, self._current.get(state.path)
        start, end = 0, len(state.lines)
        if last is not None:  # whose lines are noted already
            ends = [same_ends(last.lines, state.lines), same_ends(last.origins, state.origins)]
            start, end = min(head for head, _ in ends), end - min(tail for _, tail in ends)
        for line, found in zip(state.lines[start:end], state.origins[start:end], strict=True):
            before = by_text.get(line)
            if before is None:
                by_text[line] = found
            elif before is not found and not found <= before:
                by_text[line] = before | found
        return state

    # -- git -----------------------------------------------------------------------------------------------------------

    def _moved(self, start: float, end: float) -> list[Movement]:
        """Return the movements of the work tree that may have happened between two times."""
        moves = self.history.movements
        if moves is None:
            return [Movement(0, "", local=False, earliest=0)] if self.history.versions else []
        return [move for move in moves if start - 1 < move.time and move.earliest <= end]

    def _version_at(self, path: str, at: float) -> State | None:
        """Return the version of a file in the commit that was checked out at a time."""
        if path not in self.history.names[:1]:
            return None
        moves = self.history.movements or ()
        place = bisect_right(moves, at, key=lambda move: move.earliest)
        commit = moves[place - 1].commit if place else ""
        key = self.history.by_commit.get(commit, self.history.tip if not moves or place == len(moves) else "")
        return self._versions.get(key)

    def _version_before(self, move: Movement) -> State | None:
        """Return the version of the file in the commit that was checked out before a movement."""
        moves = self.history.movements or ()
        place = next((place for place, each in enumerate(moves) if each is move), 0)
        return self._versions.get(self.history.by_commit.get(moves[place - 1].commit, "")) if place else None

    def _add_version(self, version: Version) -> None:
        """Add the state of a file in a commit."""
        if version.content is None:
            return
        content = normal(version.content)
        lines = split_lines(content)
        parents = [self._versions[key] for key in version.parents if key in self._versions]
        name = self.history.names[0]
        same = next((parent for parent in parents if parent.content == content), None)
        known = [
            state
            for state in self._known.get(content, ())
            if state.seconds < version.time + 1 and (state.path in self.names or state.path in self.elsewhere)
        ]
        if same is not None:
            self._versions[version.key] = same
            return
        if known:
            self._settle(version, State(name, content, lines, _joined(known), version.time), parents)
            return
        local = any(move.local and move.commit == version.commit for move in self.history.movements or ())
        current = self._present(name, lines) if local else None
        # a commit made here is what lay in the work tree
        sources = parents if current is None else self._sources(name, current, version.time - 0.5)
        explained = [trace(source.lines, lines, source.origins, NEW)[0] for source in sources]
        if current is not None and current.seconds >= version.time and current.content != content:
            explained += [trace(parent.lines, lines, parent.origins, OTHER)[0] for parent in parents]  # it may be older
        origins = _combine(explained) if explained else [NEW] * len(lines)
        for place, found in () if current else self._replayed(version, lines, parents):
            origins[place] = found
        origins = self._explain_texts(lines, origins)
        settled = [(found - NEW) | OTHER if found >= NEW else found for found in origins]
        self._settle(version, State(name, content, lines, settled, version.time), parents)

    def _settle(self, version: Version, state: State, parents: Sequence[State]) -> None:
        self._versions[version.key] = self._finish(state)
        self._know(state)
        if len(parents) == 1:
            self._replayable[version.authorship].append((version, state))

    def _replayed(
        self, version: Version, lines: Sequence[bytes], parents: Sequence[State]
    ) -> Iterable[tuple[int, Origins]]:
        """Return the places and origins of added lines in a commit that is an earlier one made again, by a rebase or
        cherry-pick: it has the same author, time and subject, and adds the same lines."""
        if len(parents) != 1 or not (places := _added(parents[0].lines, lines)):
            return ()
        texts = [lines[place] for place in places]
        found: set[tuple[Origins, ...]] = set()
        for earlier, state in self._replayable.get(version.authorship, ()):
            parent = next((self._versions[key] for key in earlier.parents if key in self._versions), None)
            was = () if parent is None else _added(parent.lines, state.lines)
            if [state.lines[place] for place in was] == texts and _runs(places) == _runs(was):
                found.add(tuple(state.origins[place] for place in was))
        return zip(places, found.pop(), strict=True) if len(found) == 1 else ()


def _joined(known: Sequence[State]) -> list[Origins]:
    return [frozenset[int]().union(*each) for each in zip(*(state.origins for state in known), strict=True)]


def _restored(reached: State, known: Sequence[State], fresh: Sequence[int], *, undone: bool) -> list[Origins]:
    """Return the origins that a state had when it was known before. Where the `fresh` lines have only few letters, they
    may also have been typed again."""
    joined = _joined(known)
    if fresh and not undone and sum(letters(reached.lines[place]) for place in fresh) < MIN_LETTERS:
        for place in fresh:
            joined[place] |= OTHER
    return joined


def _added(old: Sequence[bytes], new: Sequence[bytes]) -> list[int]:
    """Return the places of lines in a new text that may not be in the old one."""
    region = changed_region(old, new)
    if region.start == region.new_end:
        return []
    traced, _ = trace(old, new, [OTHER] * len(old), NEW)
    return [place for place in range(region.start, region.new_end) if traced[place] >= NEW]


def _runs(places: Sequence[int]) -> list[int]:
    """Return the lengths of the runs of consecutive numbers."""
    return [len([*run]) for _, run in groupby(enumerate(places), lambda pair: pair[1] - pair[0])]


def _combine(explained: Sequence[Sequence[Origins]]) -> list[Origins]:
    """Combine the origins that several explanations give to lines: all of them, but none where one does not explain a
    line that another does."""
    if len(explained) == 1:
        return [*explained[0]]
    found: list[Origins] = []
    for each in zip(*explained, strict=True):
        joined = each[0] if all(origins is each[0] for origins in each) else frozenset[int]().union(*each)
        found.append(joined - NEW if any(not origins >= NEW for origins in each) else joined)
    return found


def normal(content: bytes) -> bytes:
    """Return a content with LF line ends, as git may keep it."""
    return content.replace(b"\r\n", b"\n") if b"\r" in content else content


def seconds(at: str) -> float:
    """Return the time of an entry in seconds since the epoch."""
    try:
        return datetime.fromisoformat(at).timestamp()
    except ValueError:
        return 0.0
