"""Makes a proof of a range of commits from the sessions on this machine."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import NamedTuple

from sagent.errors import SessionCorrupt, UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import sha256_hex
from sagent.plugins.blame.attribution import LineOrigin, Unknown, WrittenByAgent, attribute
from sagent.plugins.blame.evidence import Evidence as BlameEvidence
from sagent.plugins.blame.evidence import read_evidence
from sagent.plugins.proofs.archive import MAX_PROOF_BYTES, MAX_STATEMENT_BYTES, Proof
from sagent.plugins.proofs.claims import bill_of, quote_of
from sagent.plugins.proofs.evidence import (
    NEEDED,
    CarriedLog,
    LogFacts,
    Ran,
    blob_name,
    inside,
    log_name,
    read_carried,
    seal_entry,
    sources_of,
)
from sagent.plugins.proofs.lines import same_ends, split_lines
from sagent.plugins.proofs.origins import Attribution, Person, Trace, Traced
from sagent.plugins.proofs.repository import Change, authors_of, read_change, short, work_trees
from sagent.plugins.proofs.statement import Evidence, FromLog, LogClaim, Statement, state
from sagent.plugins.worktrees.record import home_of
from sagent.session.blobs import BlobDirectory
from sagent.session.contents import MessageEntry, Opened, ResultEntry
from sagent.session.entries import Entry, parse_line
from sagent.session.folds import origin as first_entry
from sagent.session.log import read_contents, read_log
from sagent.session.names import agent_of
from sagent.session.store import named_logs, sessions
from sagent.session.touches import Touched
from sagent.transcript.redaction import Redaction

MAX_FIRST_LINE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Wanted:
    """Choices for a proof: `sessions` instead of all that changed these files, `by` instead of the commits' authors,
    commands to `quote`, the budget as `cap`, the repository that it is for, `whole` logs instead of sealed ones, and
    the proof's `own` path, which is left out."""

    sessions: tuple[Path, ...] = ()
    by: str = ""
    quote: tuple[str, ...] = ()
    cap: Decimal | None = None
    audience: str = ""
    whole: bool = False
    own: str = ""


def make_proof(root: Path, base: str, head: str, state_dir: Path, wanted: Wanted, redaction: Redaction) -> Proof:
    """Return the proof of the changes between two commits, not yet signed. Raises UsageError, SessionCorrupt and
    OSError."""
    change = read_change(root, base, head)
    change = replace(change, files={path: each for path, each in change.files.items() if path != wanted.own})
    if not change.files:
        raise UsageError(f"{short(base)}..{head[:12]} changes no file, so there is nothing to prove.")
    person = _authors(root, change, wanted.by)
    places = _Places.of(root, state_dir, wanted.sessions)
    found = [session for path in places.paths() if (session := _Session.read(path, places, change))]
    trace = _tracing(root, change, found)
    used, quoted = _used(found, change, person, trace, wanted)
    carried = [_carry(session, change, used, quoted, wanted, redaction) for session in found if session.id in used]
    evidence = {name: data for each in carried for name, data in each.files.items()} | _contents(change)
    if (size := sum(map(len, evidence.values()))) > MAX_PROOF_BYTES * 3 // 4:
        raise UsageError(f"The logs have {size:,} bytes, more than a proof can have: prove a part of the range.")
    statement = _state(change, carried, evidence, _Attributing(person, trace), wanted, quoted)
    if len(signed := state(statement)) > MAX_STATEMENT_BYTES:
        raise UsageError("The change is too large for one proof: prove a part of the range.")
    return Proof(statement, signed, b"", (), evidence)


def _authors(root: Path, change: Change, by: str) -> Person:
    @cache
    def authors(path: str) -> Mapping[int, str]:
        return authors_of(root, change.base, change.head, path)

    return lambda path, number: by or authors(path).get(number) or authors(path)[0]


class _Attributing(NamedTuple):
    """The person named for lines, and the way in which histories of files are traced."""

    person: Person
    trace: Trace


def _tracing(root: Path, change: Change, candidates: Sequence["_Session"]) -> Trace:
    """Return how lines are traced through the histories of files, in the sessions' logs and in git."""

    @cache
    def evidence() -> BlameEvidence:
        return read_evidence(session.path for session in candidates)

    @cache
    def trace(path: str) -> Sequence[Traced]:
        after = change.files[path].after
        lines = attribute(root / path, after.data, evidence(), at=change.head) if after and candidates else ()
        return [_traced(line) for line in lines]

    return trace


def _traced(line: LineOrigin) -> Traced:
    match line:
        case WrittenByAgent(session, agent, entry=entry):
            return FromLog(session, agent, entry)
        case Unknown("outside"):
            return "outside"
        case Unknown():
            return None


@dataclass(frozen=True, slots=True)
class _Places:
    """Places of a repository's sessions, and of their work: its work trees, and directories of further ones."""

    state_dir: Path
    given: tuple[Path, ...]
    trees: tuple[str, ...]
    home: str

    @classmethod
    def of(cls, root: Path, state_dir: Path, given: tuple[Path, ...]) -> "_Places":
        trees = dict.fromkeys(str(form) for tree in work_trees(root) for form in (tree, tree.resolve()))
        return cls(state_dir, given, tuple(trees), str(home_of(root, state_dir)))

    def paths(self) -> Iterable[Path]:
        """Return the given sessions, or all that were opened in these places."""
        if self.given:
            return self.given
        return [path for path in sorted(sessions(self.state_dir)) if self._holds(_opened(path).cwd)]

    def _holds(self, cwd: str) -> bool:
        return any(cwd == place or cwd.startswith(f"{place}/") for place in (*self.trees, self.home))

    def roots(self, cwd: str, paths: Iterable[str]) -> tuple[str, ...]:
        """Return the work trees that paths are in; for a given session of another machine, its directory."""
        ours = {f"{self.home}/{below.split('/')[0]}" for path in paths if (below := inside(path, (self.home,)))}
        others = (cwd,) if self.given and cwd and not self._holds(cwd) else ()
        return tuple(sorted({*self.trees, *ours, *others}))


@dataclass(slots=True)
class _Session:
    """A session that changed some of the files: its work trees, and its logs' entries by agent."""

    id: str
    path: Path
    roots: tuple[str, ...]
    logs: Mapping[str, Sequence[Entry]]
    blobs: BlobDirectory

    @classmethod
    def read(cls, path: Path, places: _Places, change: Change) -> "_Session | None":
        """Read a session; None if it changed none of the files and was not asked for."""
        files = named_logs(path)
        touched = [
            touch.path
            for file in files
            for entry in read_contents(file).of("touched")
            if isinstance(content := entry.content, Touched)
            for touch in content.files
        ]
        roots = places.roots(_opened(path).cwd, touched)
        used = tuple(root for root in roots if any(inside(each, (root,)) in change.files for each in touched))
        if not used and not places.given:
            return None
        logs = {agent_of(path, file): tuple(read_log(file)) for file in files}
        return cls(path.name, path, used, logs, BlobDirectory(path / "blobs"))

    def facts(self) -> Iterator[LogFacts]:
        """Yield the facts of its logs."""
        return (LogFacts.of(self.id, agent, self.roots, entries) for agent, entries in self.logs.items())


def _opened(session: Path) -> Opened:
    """Return the first entry of a session's own log; an empty one if it cannot be read."""
    try:
        with (session / "root.jsonl").open("rb") as file:
            return first_entry([parse_line(file.readline(MAX_FIRST_LINE_BYTES))])
    except (OSError, ValueError, SessionCorrupt):
        return Opened()


def _used(
    candidates: Sequence[_Session], change: Change, person: Person, trace: Trace, wanted: Wanted
) -> tuple[Mapping[str, set[str]], Sequence[tuple[LogFacts, Ran]]]:
    """Return the entries that lines come from, by session, and the results to quote. Raises UsageError."""
    facts = [log for session in candidates for log in session.facts()]
    blobs = {session.id: session.blobs for session in candidates}
    sources = sources_of(facts, lambda session, name: blobs[session].find(name))
    attribution = Attribution(sources, person, trace)
    for _ in attribution.claims(change.files):
        pass
    used: dict[str, set[str]] = {session.id: set() for session in candidates if wanted.sessions}
    for origin in attribution.origins:
        if isinstance(origin, FromLog):
            used.setdefault(origin.session, set()).add(origin.entry)
    quoted = [_find_quoted([log for log in facts if log.session in used], words) for words in wanted.quote]
    return used, quoted


def _find_quoted(facts: Sequence[LogFacts], words: str) -> tuple[LogFacts, Ran]:
    results = [(ran.at, log, ran) for log in facts for ran in log.ran.values() if words in ran.command]
    if not results:
        raise UsageError(f"No command with {words!r} was run in the sessions that wrote these lines.")
    _, log, ran = max(results, key=lambda row: row[0])
    return log, ran


@dataclass(slots=True)
class _Carried:
    """A session's part of a proof: the files, those with redacted content, and what a checker reads from them."""

    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    partial: set[str] = field(default_factory=set[str])
    redacted: set[str] = field(default_factory=set[str])
    logs: list[LogClaim] = field(default_factory=list[LogClaim])
    facts: list[LogFacts] = field(default_factory=list[LogFacts])
    sealed: int = 0


def _carry(
    session: _Session,
    change: Change,
    used: Mapping[str, set[str]],
    quoted: Sequence[tuple[LogFacts, Ran]],
    wanted: Wanted,
    redaction: Redaction,
) -> _Carried:
    """Return the logs with the entries that are needed, and the contents that lines come from."""
    carried = _Carried()
    for agent, entries in session.logs.items():
        shown = {ran.entry for log, ran in quoted if (log.session, log.agent) == (session.id, agent)}
        needed = _needed(entries, shown, session.roots, change)
        lines: list[bytes] = []
        for entry in entries:
            if not (wanted.whole or entry.id in needed):
                lines.append(seal_entry(entry))
                continue
            lines.append(line := redaction.entry(entry))
            carried.redacted |= set() if line is entry.line else {entry.id}
        data = b"".join(lines)
        log = read_carried(data, frozenset(carried.redacted))
        carried.files[log_name(session.id, agent)] = data
        carried.logs.append(LogClaim(session.id, agent, log.head, len(log.ids), session.roots))
        carried.facts.append(LogFacts.of(session.id, agent, session.roots, log.open))
        carried.sealed += log.sealed
        _add_contents(carried, session, log, change, used[session.id], redaction)
    return carried


def _needed(entries: Sequence[Entry], shown: set[str], roots: Sequence[str], change: Change) -> set[str]:
    """Return the ids of the entries that stay open."""
    needed, calls = set[str](), set[str]()
    for entry in entries:
        match content := entry.content if entry.kind in ("touched", "result") else None:
            case Touched(ended=True, files=files) if any(inside(file.path, roots) in change.files for file in files):
                needed.add(entry.id)
            case ResultEntry(result) if entry.id in shown or result.denied:
                needed.add(entry.id)
                calls |= {result.call_id} if entry.id in shown else set()
            case _:
                needed |= {entry.id} if content is None and entry.kind in NEEDED else set()
    for entry in entries:
        if calls and entry.kind == "message" and isinstance(content := entry.content, MessageEntry):
            needed |= {entry.id} if calls & {call.id for call in content.message.calls} else set()
    return needed


def _add_contents(
    carried: _Carried, session: _Session, log: CarriedLog, change: Change, used: set[str], redaction: Redaction
) -> None:
    """Add the contents before and after each change that a line comes from."""
    for entry in log.open:
        if entry.id not in used or not isinstance(content := entry.content, Touched):
            continue
        for file in content.files:
            path = inside(file.path, session.roots)
            if path is None or path not in change.files:
                continue
            for name in {file.before.blob, file.after.blob} - {""}:
                if (data := session.blobs.find(name)) is not None:
                    kept = _without_secrets(data, path, change, redaction)
                    carried.partial |= set() if kept is data else {blob_name(name)}
                    carried.files.setdefault(blob_name(name), kept)


def _without_secrets(data: bytes, path: str, change: Change, redaction: Redaction) -> bytes:
    """Return a content; if something in it looks like a secret, only the lines that the change itself shows."""
    before = redaction.count
    redaction.text(data.decode("latin-1"))
    if redaction.count == before:
        return data
    known = {same_ends(line) for side in change.files[path] if side for line in split_lines(side.data)}
    kept = b"".join(line for line in split_lines(data) if same_ends(line) in known)
    redaction.count = redaction.count if kept != data else before
    return data if kept == data else kept


def _contents(change: Change) -> dict[str, bytes]:
    """Return the changed files before and after, by name."""
    sides = (side for changed in change.files.values() for side in changed if side)
    return {blob_name(side.sha256): side.data for side in sides}


def _state(
    change: Change,
    carried: Sequence[_Carried],
    files: Mapping[str, bytes],
    attributing: _Attributing,
    wanted: Wanted,
    quoted: Sequence[tuple[LogFacts, Ran]],
) -> Statement:
    partial = set[str]().union(*(each.partial for each in carried)) - _contents(change).keys()
    facts = [log for each in carried for log in each.facts]
    attribution = Attribution(sources_of(facts, lambda _, name: files.get(blob_name(name))), *attributing)
    claims = tuple(attribution.claims(change.files))
    sides = {claim.path: claim.after for claim in claims}
    rows = (Evidence(name, len(data), sha256_hex(data), name in partial) for name, data in sorted(files.items()))
    return Statement(
        change.base,
        change.head,
        change.tree,
        wanted.audience,
        claims,
        tuple(attribution.origins),
        tuple(sorted((log for each in carried for log in each.logs), key=lambda log: (log.session, log.agent))),
        tuple(rows),
        frozenset[str]().union(*(each.redacted for each in carried)),
        tuple(quote_of(log, ran, facts, sides) for log, ran in _again(quoted, facts)),
        bill_of(facts, wanted.cap),
        sum(log.denied for log in facts),
        not any(each.sealed for each in carried),
    )


def _again(quoted: Sequence[tuple[LogFacts, Ran]], facts: Sequence[LogFacts]) -> Iterator[tuple[LogFacts, Ran]]:
    """Yield the quoted results as the proof carries them: without secrets."""
    for before, ran in quoted:
        log = next(log for log in facts if (log.session, log.agent) == (before.session, before.agent))
        yield log, log.ran[ran.entry]
