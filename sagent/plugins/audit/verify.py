"""Verification that a session is unchanged.

A hash chain shows damage and edits. But whoever can write the directory can also rewrite all of it with new hashes, or
cut whole entries from the end of the root's log. Against that, compare the head with one kept elsewhere (every result
has it), or check a signature.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import TypeAlias

from sagent.errors import SagentError, SessionNotFound, UsageError
from sagent.lib.atomic import put
from sagent.lib.dataclass import dataclass
from sagent.lib.text import count
from sagent.plugins.audit.bundle import (
    NAME,
    PROOF,
    SESSION,
    Listed,
    Manifest,
    is_bundle,
    open_bundle,
    read_manifest,
    unpacked,
)
from sagent.plugins.audit.kept_savings import NAME as KEPT_SAVINGS
from sagent.plugins.audit.segment import ASTRAY, UNKNOWN, LogSegment, check, split
from sagent.plugins.audit.signature import SIGNATURE, check_signature, sign
from sagent.session.blobs import OUTPUTS
from sagent.session.contents import Repaired
from sagent.session.lock import Lock
from sagent.session.names import is_agent
from sagent.session.place import Place, find_ids
from sagent.session.statement import STATEMENT, Statement, read_statement, state
from sagent.session.store import is_session

_ASIDE = ".damaged-"  # in the name of a file moved aside by a repair

Each: TypeAlias = Callable[[Callable[[Place], LogSegment], Iterable[Place]], Iterable[LogSegment]]
"""Applies a function to each of many items in order, here or in other processes: `map`, or an executor's."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a record: its name, the checks made, and the findings."""

    name: str
    checked: str
    problems: tuple[str, ...] = ()
    torn: str = ""  # the one about an incomplete last line of a log, which is no damage


@dataclass(frozen=True, slots=True)
class Proof:
    """Result of a verification, part by part. Every file is either checked or among the problems, except the lock,
    the kept savings and those in `notes`.

    `heads` are the last ids by agent. Without problems every entry and blob is unchanged, except those in `redacted`,
    from which secrets were removed on export. In `gaps`, damaged entries were lost; for the others, the repairer's word
    counts.
    """

    session: str
    heads: Mapping[str, str]
    entries: int
    blobs: int
    parts: tuple[Part, ...]
    notes: tuple[str, ...]
    redacted: int = 0
    signer: str = ""
    gaps: int = 0

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems found, each reported once."""
        return tuple(dict.fromkeys(problem for part in self.parts for problem in part.problems))

    @property
    def torn(self) -> tuple[str, ...]:
        """The problems that are no damage: incomplete and unacknowledged writes of a killed process."""
        return tuple(part.torn for part in self.parts if part.torn)


def verify(path: Path, head: str = "", *, signers: Path | None = None, parallel_map: Each = map) -> Proof:
    """Check every byte of a session or exported bundle: ids, chains, blobs, references from a parent's log to its
    children's, the manifest.

    With `head`, check that this entry is in the root's log; with `signers`, a file of allowed signers, that one of them
    has signed. Needs no lock; a running session may show an incomplete last line. `parallel_map` is used for work that
    several processes can share. Raises SessionNotFound, UsageError and OSError.
    """
    if signers is not None and not signers.is_file():
        raise UsageError(
            f"{signers} is missing: the file of allowed signers, each line like `me@example.org ssh-ed25519 AAAA...`. "
            "Give it with --signers."
        )
    asked = _Asked(head, signers, parallel_map)
    if path.is_file() and path.name != "root.jsonl" and is_bundle(path):
        return _verify_bundle(path, *open_bundle(path), asked)
    if path.is_dir() and unpacked(path):
        return _verify_bundle(path, *_places(path), asked)
    session = path.parent if path.name == "root.jsonl" else path
    if not is_session(session) and not _was_session(session):
        raise SessionNotFound(f"no session at {path}")
    files, strangers = _places(session)
    return _Record(session.name, str(session), files, asked, strangers).proof()


def sign_record(path: Path, proof: Proof, key: Path) -> Path:
    """Sign a verified record with an SSH key; return the signature's file. A session's signature is inside it, beside
    the signed heads of its logs, so that the session can continue; a bundle's is beside the bundle.

    Raises UsageError for an unusable key and for an unpacked bundle, SessionBusy, and OSError.
    """
    if path.is_file() and path.name != "root.jsonl":
        signature = path.with_name(f"{path.name}.sig")
        put(signature, sign(path, key))
        return signature
    session = path.parent if path.is_file() else path
    if unpacked(session):
        raise UsageError(f"{path} is an unpacked bundle: sign the bundle itself, or the session.")
    names = (file.name for file in session.glob("blobs/*"))
    blobs = sorted(name for name in names if not name.startswith("scratch-"))
    statement = state(Statement(proof.session, proof.heads, tuple(blobs)))
    signature = sign(statement, key)
    with closing(Lock(session)):
        put(session / STATEMENT, statement)
        put(session / SIGNATURE, signature)
    return session / SIGNATURE


@dataclass(frozen=True, slots=True)
class _Asked:
    """Parameters of a verification: the expected head, the allowed signers, and the `map` to work with."""

    head: str
    signers: Path | None
    each: Each


@dataclass(slots=True)
class _Log:
    """Findings in one agent's log."""

    place: Place
    first: str = ""
    last: str = ""
    entries: int = 0
    redacted: int = 0
    torn: str = ""
    problems: list[str] = field(default_factory=list[str])
    segments: list[LogSegment] = field(default_factory=list[LogSegment])
    marks: set[str] = field(default_factory=set[str])  # of the damaged files moved aside

    @property
    def named(self) -> Iterator[tuple[str, str, str, str]]:
        """The references to children in the log."""
        return (each for segment in self.segments for each in segment.named)

    @property
    def is_opening(self) -> bool:
        """True if the log only has its opening entry."""
        return not self.entries or (self.entries == 1 and self.segments[0].begins in ("opened", ""))

    def lacks(self, ids: Iterable[str]) -> set[str]:
        """Return those of some ids that no entry has."""
        wanted = {name for name in ids if name not in ("", self.first, self.last)}
        return wanted - find_ids(self.place, wanted) if wanted else wanted


class _Record:
    """The files of a session, by relative names, during the check; `location` prefixes the names in reports."""

    def __init__(
        self, name: str, location: str, files: Mapping[str, Place], asked: _Asked, strangers: Sequence[str] = ()
    ) -> None:
        self.session, self.where, self.files, self.asked = name, location, files, asked
        self.manifest: Manifest | None = None
        self.parts: list[Part] = []
        self.notes: list[str] = []
        self.strangers = strangers  # problems with foreign files
        self.signer = ""
        self.gaps = 0
        self.names: set[str] = set()  # the session's own ids, and those of sessions that it was copied from
        self.reached: set[str] = set()  # agents whose logs are reachable from the root's
        self.logs: dict[str, _Log] = {}
        self.blobs = {name[6:]: place for name, place in files.items() if name.startswith("blobs/")}

    def proof(self) -> Proof:
        for agent in _agents(self.files):
            self.logs[agent] = self._log(agent)
        if "root" not in self.logs:
            self.parts.append(Part("log of root", "none", (f"{self.path('root.jsonl')} is missing",)))
        elif not self.logs["root"].entries:
            self.parts.append(Part("log of root", "none", (f"{self.path('root.jsonl')} has no whole entry",)))
        said = {log.session for each in self.logs.values() for log in each.segments[:1] if log.session}
        self.session = self.session or min(said, default="")
        self.names = {self.session, *said}
        self._children()
        self._blobs()
        self._signature()
        self._head()
        self._others()
        if not self.asked.head and not self.signer:
            self.notes.append(
                "A chain alone cannot show that a log was rewritten whole, or that whole entries were cut from its "
                "end: compare the head with the one that the run printed (--head ID), or check a signature."
            )
        return Proof(
            session=self.session or Path(self.where).name,
            heads={agent: log.last for agent, log in self.logs.items()},
            entries=sum(log.entries for log in self.logs.values()),
            blobs=sum(not name.startswith("scratch-") for name in self.blobs),
            parts=tuple(self.parts),
            notes=tuple(self.notes),
            redacted=self.redacted,
            signer=self.signer,
            gaps=self.gaps,
        )

    def path(self, name: str) -> str:
        """Return a file as reports name it."""
        return f"{self.where}/{name}"

    def _log(self, agent: str) -> _Log:
        name = f"{agent}.jsonl"
        place = self.files[name]
        found = _Log(place)
        redacted = self.manifest.redacted.get(name, frozenset[str]()) if self.manifest else frozenset[str]()
        forks: list[str] = []
        for segment in self.asked.each(partial(check, redacted=redacted), split(place)):
            self._join(found, segment, forks, self.path(name))
        if lost := found.lacks(forks):
            found.problems.append(f"{self.path(name)}: {', '.join(sorted(lost))} is continued from, but missing")
        if found.last == UNKNOWN:
            found.last = ""
        changed = f", {found.redacted} of them redacted" if found.redacted else ""
        what = f"{count(found.entries, 'entry', 'entries')}{changed}, {place.size} bytes: ids, parents, form"
        what += f"; head {found.last}" if found.last else ""
        self.parts.append(Part(f"log of {agent}", what, tuple(found.problems), found.torn))
        return found

    def _join(self, log: _Log, segment: LogSegment, forks: list[str], name: str) -> None:
        """Put a segment after those before it."""
        if segment.lines and UNKNOWN not in (segment.parent, log.last) and segment.parent != log.last:
            if segment.left == log.last:
                forks.append(segment.parent)
            else:
                log.problems.append(f"{name}, line {log.entries + 1}: {ASTRAY}")
        log.problems.extend(f"{name}, line {log.entries + line}: {problem}" for line, problem in segment.problems)
        if segment.damaged > len(segment.problems):
            log.problems.append(f"{name}: {segment.damaged - len(segment.problems)} more lines are damaged")
        if segment.torn:
            log.torn = (
                f"{name}: {segment.torn} bytes of an unfinished entry at the end: its writer was killed, or is "
                "still running; opening the session removes it"
            )
            log.problems.append(log.torn)
        for line, at, repaired in segment.repairs:
            log.marks.add(repaired.aside.rpartition(_ASIDE)[2])
            if repaired.is_gap:
                self._report_gap(f"{name}, line {log.entries + line}", at, repaired)
        log.first = log.first or segment.first
        log.last = segment.last or log.last
        log.entries += segment.lines
        log.redacted += segment.redacted
        log.segments.append(segment)
        forks.extend(segment.forks)

    def _report_gap(self, location: str, at: str, repaired: Repaired) -> None:
        """Report lost entries, which the chain no longer shows."""
        self.gaps += 1
        lost = repaired.lost or ("?",)
        what = f"{len(lost)} or more lines" if "?" in lost else f"{count(len(lost), 'line')} ({', '.join(lost)})"
        self.notes.append(
            f"{location}: a gap: {what}, {repaired.dropped_bytes} bytes, were damaged and left out in the repair of "
            f"{at[:10]}. Later entries have new ids, so no earlier head or signature fits; {repaired.aside} is "
            "the original file."
        )

    def _children(self) -> None:
        """Check the references between the logs of agents."""
        problems: list[str] = []
        wanted: dict[str, dict[str, str]] = {}  # by agent and entry, who names it
        vouched: dict[str, str] = {}
        named = 0
        for agent, log in self.logs.items():
            for by, kind, child, entry in log.named:
                named += 1
                wanted.setdefault(child, {}).setdefault(entry, f"{agent}, entry {by} ({kind})")
                vouched[child] = entry
        for child, entries in wanted.items():
            log = self.logs.get(child)
            if log is None:
                problems.append(f"{next(iter(entries.values()))}: the log of {child} is missing")
            else:
                lost = log.lacks(entries)
                problems.extend(f"{entries[each]}: the log of {child} has no entry {each}" for each in lost)
        waiting = ["root"]
        while waiting:
            self.reached.add(agent := waiting.pop())
            known = self.logs.keys() - self.reached
            if agent in self.logs:
                waiting += {child for _, _, child, _ in self.logs[agent].named if child in known}
        for agent, log in self.logs.items():
            if agent == "root":
                continue
            if agent not in self.reached and not log.is_opening:  # it is written before the entry that names it
                problems.append(
                    f"{self.path(agent)}.jsonl: no other log names this one, so it is not shown: someone put it "
                    "there, or the end of the log that named it is lost. Move it out of the session once you know which"
                )
            elif vouched.get(agent) != log.last:
                self.notes.append(f"The end of the log of {agent} is not covered by its parent's log.")
        if named or len(self.logs) > 1:
            checked = f"{count(named, 'entry', 'entries')} of {count(len(wanted), 'child', 'children')}: each is there"
            self.parts.append(Part("children", checked, tuple(problems)))

    def _blobs(self) -> None:
        """Check every blob against its name, and every name against the blobs."""
        problems: list[str] = []
        changed = self.manifest.blobs if self.manifest else frozenset[str]()
        kept = {name: place for name, place in self.blobs.items() if not name.startswith("scratch-")}
        for name, place in kept.items():
            if name not in changed and place.sha256() != name:
                problems.append(f"{self.path('blobs')}/{name} was changed: its content does not match its name")
        used: set[str] = set()
        for agent, log in self.logs.items():
            named = (named_blob for segment in log.segments for named_blob in segment.named_blobs(self.names))
            for name, entry in named:
                used.add(name)
                if name not in kept:
                    problems.append(f"{agent}, entry {entry}: {self.path('blobs')}/{name} is missing")
        for name in self.blobs.keys() - kept.keys():
            self.notes.append(
                f"{self.path('blobs')}/{name} was being written when its process died; it is not checked."
            )
        if kept or problems:
            apart = f", {len(kept.keys() - used)} of them named by no entry" if kept.keys() - used else ""
            apart += f", {len(changed & kept.keys())} of them redacted" if changed & kept.keys() else ""
            self.parts.append(Part("blobs", f"{count(len(kept), 'file')}{apart}: sha256", tuple(problems)))

    def _signature(self) -> None:
        """Check the signed statement, and its signer if requested."""
        if STATEMENT not in self.files:
            if self.asked.signers is not None and not self.signer:
                self.parts.append(Part("signature", "none", (f"{self.where} is not signed.",)))
            return
        data = self.files[STATEMENT].read()  # read once, so that the compared bytes are the verified ones
        try:
            problems = list(self._compare(read_statement(data)))
        except ValueError as error:
            self.parts.append(Part("signature", "none", (f"{self.path(STATEMENT)} was changed: {error}",)))
            return
        if self.asked.signers is None:
            self.notes.append(f"{self.path(SIGNATURE)} is not checked: --check-signature does.")
        elif not self.signer:
            try:
                self.signer = self._check_signature(data, self.asked.signers)
            except UsageError:
                raise
            except SagentError as error:
                problems.append(str(error))
            if self.manifest is not None:
                self.notes.append("Pages and reports are the exporter's own: only the session is signed.")
            if self.redacted:
                problems.append(
                    f"{self.where}: the signature covers the session, not the changes that its export made "
                    f"({self.redacted} redacted): have the exporter sign the bundle, or check the session itself"
                )
        self.parts.append(Part("signature", self.signer or "the signed entries exist", tuple(problems)))

    @property
    def redacted(self) -> int:
        """Entries and blobs changed by redaction, by the manifest."""
        blobs = self.manifest.blobs if self.manifest else frozenset[str]()
        return sum(log.redacted for log in self.logs.values()) + len(blobs & self.blobs.keys())

    def _compare(self, statement: Statement) -> Iterator[str]:
        if statement.session not in self.names:
            yield f"{self.path(STATEMENT)} is of the session {statement.session!r}, not of {self.session!r}"
        for agent, head in statement.heads.items():
            if agent not in self.logs or self.logs[agent].lacks([head]):
                yield f"{self.path(STATEMENT)}: the log of {agent} has no entry {head}, which was signed"
        for name in statement.blobs:
            if name not in self.blobs:
                yield f"{self.path('blobs')}/{name}, which was signed, is missing"
        for agent in self.logs.keys() - self.reached - statement.heads.keys():
            yield f"{self.path(agent)}.jsonl: it was not there when the session was signed, and no log names it"
        since = [
            agent
            for agent in self.logs
            if agent in self.reached and statement.heads.get(agent) != self.logs[agent].last
        ]
        if since:
            ends = ", ".join(since)
            self.notes.append(f"Written after it was signed, so not covered by the signature: the end of {ends}.")

    def _check_signature(self, statement: bytes, signers: Path) -> str:
        from sagent.sandbox.scratch import temporary

        if SIGNATURE not in self.files:
            raise SagentError(f"{self.where} is not signed: {SIGNATURE} is missing")
        with temporary() as directory:
            signature = directory / SIGNATURE
            signature.write_bytes(self.files[SIGNATURE].read())
            return check_signature(statement, signature, signers)

    def _head(self) -> None:
        if not (head := self.asked.head):
            return
        problem = (
            f"{self.where}: no entry {head} in the root's log: its end is missing, or it was rewritten (by a "
            "repair too, if that left a gap), or it is another session"
        )
        root = self.logs.get("root")
        if root is None or root.lacks([head]):
            part = Part("head", head, (problem,))
        else:
            part = Part("head", "the last entry" if root.last == head else "in the log, which has gone on since")
            named = {by: child for by, _, child, _ in root.named}
            before = {named[by] for by in find_ids(root.place, set(named), stop=head)}
            since = sorted(set(named.values()) - before)
            if root.last != head:
                began = f", and that of the logs of {', '.join(since)} and of agents below them" if since else ""
                self.notes.append(f"Entries of the root's log after {head} are not covered{began}.")
        self.parts.append(part)

    def _others(self) -> None:
        """Yield the foreign files."""
        marks = set[str]().union(*(log.marks for log in self.logs.values()))
        problems = list(self.strangers)
        known = {f"{agent}.jsonl" for agent in self.logs} | {"lock", STATEMENT, SIGNATURE, KEPT_SAVINGS}
        for name in sorted(self.files.keys() - known):
            of, _, mark = name.rpartition(_ASIDE)
            if of in known and mark in marks:
                self.notes.append(f"{self.path(name)} was set aside when the log was repaired; it is not checked.")
            elif name.startswith(f"{OUTPUTS}/"):
                shown = name.removeprefix(f"{OUTPUTS}/")  # a blob's second name, for commands
                if not shown.startswith("scratch-") and self.files[name].sha256() != shown:
                    problems.append(f"{self.path(name)} was changed: its content does not match its name")
            elif not name.startswith("blobs/"):
                problems.append(f"{self.path(name)}: not part of a session; not checked")
        if problems:
            self.parts.append(Part("other files", count(len(problems), "file"), tuple(problems)))


def _verify_bundle(path: Path, files: Mapping[str, Place], problems: list[str], asked: _Asked) -> Proof:
    """Check an export: the manifest's files, and the session among them. Raises UsageError for a proof."""
    if PROOF in files:
        raise UsageError(f"{path} is a proof of a change, not a session: `sagent check-proof {path}` checks it.")
    inside = {name.removeprefix(SESSION): place for name, place in files.items() if name.startswith(SESSION)}
    record = _Record("", f"{path}:session" if path.is_file() else str(path / "session"), inside, asked)
    checked = "none"
    try:
        if NAME not in files:
            raise ValueError("it is missing")
        record.manifest = read_manifest(files[NAME].read())
    except ValueError as error:
        problems.append(f"{path}: {NAME}: {error}")
    else:
        record.session = record.manifest.session
        problems.extend(_compare_files(path, files, record.manifest.files))
        checked = f"{count(len(record.manifest.files), 'file')}: sizes and sha256; id {record.manifest.id}"
        if record.manifest.secrets:
            record.notes.append(
                f"Secrets redacted in this export: {record.manifest.secrets}. The redacted entries keep their ids, "
                "but no longer match them. Only the session itself can prove that nothing else was changed."
            )
    record.parts.append(Part("manifest", checked, tuple(problems)))
    signature = path.with_name(f"{path.name}.sig")
    if path.is_file() and signature.is_file():
        _check_separate(path, signature, record)
    return record.proof()


def _compare_files(path: Path, files: Mapping[str, Place], listed: Sequence[Listed]) -> Iterator[str]:
    for each in listed:
        place = files.get(each.name)
        if place is None:
            yield f"{path}: {each.name} is missing"
        elif place.size != each.size or place.sha256() != each.sha256:
            yield f"{path}: {each.name} was changed: it is not the file that the manifest lists"
    for name in files.keys() - {each.name for each in listed} - {NAME}:
        yield f"{path}: {name} is not in the manifest"


def _check_separate(path: Path, signature: Path, record: _Record) -> None:
    """Check the signature of a whole archive."""
    if record.asked.signers is None:
        record.notes.append(f"{signature} is not checked: --check-signature does.")
        return
    try:
        record.signer = check_signature(path, signature, record.asked.signers)
    except UsageError:
        raise
    except SagentError as error:
        record.parts.append(Part("signature of the bundle", "none", (str(error),)))
    else:
        record.parts.append(Part("signature of the bundle", record.signer))


def _places(directory: Path) -> tuple[dict[str, Place], list[str]]:
    """Return the files below a directory by relative names, and the problems: anything but files and directories."""
    found: dict[str, Place] = {}
    problems: list[str] = []
    for above, directories, names in os.walk(directory):
        directories.sort(key=lambda name: (name == "blobs", name))  # last: blobs are written before entries name them
        for name in (*directories, *names):
            path = Path(above, name)
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                found[path.relative_to(directory).as_posix()] = Place(path, 0, status.st_size)
            elif not stat.S_ISDIR(status.st_mode):
                problems.append(f"{path}: not a plain file; not checked")
    return dict(sorted(found.items())), problems


def _agents(files: Mapping[str, Place]) -> list[str]:
    """List the agents that have a log, parents before their children."""
    agents = [name.removesuffix(".jsonl") for name in files if name.endswith(".jsonl")]
    return sorted(filter(is_agent, agents), key=lambda agent: (agent.count("/"), agent))


def _was_session(directory: Path) -> bool:
    """Return True if a directory holds the remains of a session without its root's log."""
    parts = {"lock", "root", "blobs", STATEMENT, SIGNATURE}
    return (directory / "lock").is_file() and {each.name for each in directory.iterdir()} <= parts
