"""The signed part of a proof: where each changed line comes from, the evidence by hash, and what is claimed."""

from collections.abc import Iterable, Mapping
from dataclasses import field
from decimal import Decimal, InvalidOperation
from itertools import groupby
from typing import NamedTuple, TypeAlias, assert_never

from sagent.lib.dataclass import dataclass
from sagent.lib.json import Thawed, as_array, as_int, as_object, as_str, canonical_bytes, json_load
from sagent.lib.names import quote_path, unquote_path
from sagent.plugins.proofs.lines import Edit

FORMAT, VERSION = "sagent-proof", 1


@dataclass(frozen=True, slots=True)
class FromLog:
    """A line that a call wrote: `entry` is the one of kind "touched" in the log of an agent."""

    session: str
    agent: str
    entry: str


@dataclass(frozen=True, slots=True)
class FromPerson:
    """A line that is in no log, and that the signer says a person wrote."""

    name: str


@dataclass(frozen=True, slots=True)
class Moved:
    """A line that the same change removed from another file."""

    path: str


Origin: TypeAlias = FromLog | FromPerson | Moved
"""Where a changed line comes from."""


@dataclass(frozen=True, slots=True)
class Side:
    """A path before or after: its mode, as git writes it, and the sha256 of its content."""

    mode: str
    sha256: str


class Run(NamedTuple):
    """A number of lines that have one origin, by its place in the statement's origins."""

    lines: int
    origin: int


@dataclass(frozen=True, slots=True)
class FileClaim:
    """A changed file. `removed` and `added` are the origins of the lines that the `edits` remove and add.

    `whole` is the origin of what has no lines, a file that is not text or a mode, by its place in the statement's
    origins."""

    path: str
    before: Side | None
    after: Side | None
    edits: tuple[Edit, ...] = ()
    removed: tuple[Run, ...] = ()
    added: tuple[Run, ...] = ()
    whole: int | None = None


@dataclass(frozen=True, slots=True)
class LogClaim:
    """A log in the evidence: the session's work trees, its last entry, and its number of entries."""

    session: str
    agent: str
    head: str
    entries: int
    roots: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """A file of the proof. A redacted blob lacks lines that looked like secrets."""

    name: str
    size: int
    sha256: str
    redacted: bool = False


@dataclass(frozen=True, slots=True)
class Quote:
    """Recorded output of a command. `entry` is that of its result; `fresh` if the changed files were then as they are
    proven."""

    session: str
    agent: str
    entry: str
    command: str
    text: str
    outcome: str
    fresh: bool


@dataclass(frozen=True, slots=True)
class Bill:
    """Calls of models in the logs: the models, and USD, a minimum if `unpriced` calls have no price. `cap` is the
    budget that the signer names."""

    models: tuple[str, ...] = ()
    usd: Decimal = Decimal(0)
    unpriced: int = 0
    cap: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """Signed content of a proof. `audience` names the repository that it is for, if the signer named one; `whole` if no
    entry of the logs is sealed; `redacted` are entries without their secrets; `denied` are refused calls."""

    base: str
    head: str
    tree: str
    audience: str = ""
    files: tuple[FileClaim, ...] = ()
    origins: tuple[Origin, ...] = ()
    logs: tuple[LogClaim, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    redacted: frozenset[str] = frozenset()
    quotes: tuple[Quote, ...] = ()
    bill: Bill = field(default_factory=Bill)
    denied: int = 0
    whole: bool = False


def state(statement: Statement) -> bytes:
    """Return the file that is signed: canonical JSON and a new line."""
    bill = statement.bill
    members: dict[str, Thawed] = {
        "format": FORMAT,
        "version": VERSION,
        "base": statement.base,
        "head": statement.head,
        "tree": statement.tree,
        "for": statement.audience,
        "files": [_write_file(file) for file in statement.files],
        "origins": [_write_origin(origin) for origin in statement.origins],
        "logs": [
            {"session": log.session, "agent": log.agent, "head": log.head, "entries": log.entries,
             "roots": [quote_path(root) for root in log.roots]}
            for log in statement.logs
        ],
        "evidence": [
            {"name": each.name, "size": each.size, "sha256": each.sha256, "redacted": each.redacted}
            for each in statement.evidence
        ],
        "redacted": [*sorted(statement.redacted)],
        "quotes": [
            {"session": quote.session, "agent": quote.agent, "entry": quote.entry, "command": quote.command,
             "text": quote.text, "outcome": quote.outcome, "fresh": quote.fresh}
            for quote in statement.quotes
        ],
        "models": [*bill.models],
        "usd": str(bill.usd),
        "unpriced": bill.unpriced,
        "max_budget_usd": None if bill.cap is None else str(bill.cap),
        "denied": statement.denied,
        "whole": statement.whole,
    }  # fmt: skip
    return canonical_bytes(members) + b"\n"


def read_statement(data: bytes) -> Statement:
    """Return the statement of a file. Raises ValueError for what `state` does not write."""
    members = as_object(json_load(data))
    if members.get("format") != FORMAT:
        raise ValueError("it is not the statement of a proof")
    if as_int(members.get("version")) > VERSION:
        raise ValueError("it was written by a newer sagent: update sagent")
    usd = _usd(members.get("usd"))
    bill = Bill(
        _texts(members.get("models")),
        Decimal(0) if usd is None else usd,
        as_int(members.get("unpriced")),
        _usd(members.get("max_budget_usd")),
    )
    found = Statement(
        *(as_str(members.get(name)) for name in ("base", "head", "tree", "for")),
        files=tuple(map(_read_file, _objects(members.get("files")))),
        origins=tuple(map(_read_origin, _objects(members.get("origins")))),
        logs=tuple(
            LogClaim(
                *(as_str(log.get(name)) for name in ("session", "agent", "head")),
                entries=as_int(log.get("entries")),
                roots=tuple(map(unquote_path, _texts(log.get("roots")))),
            )
            for log in _objects(members.get("logs"))
        ),
        evidence=tuple(
            Evidence(
                as_str(each.get("name")),
                as_int(each.get("size")),
                as_str(each.get("sha256")),
                each.get("redacted") is True,
            )
            for each in _objects(members.get("evidence"))
        ),
        redacted=frozenset(_texts(members.get("redacted"))),
        quotes=tuple(
            Quote(
                *(as_str(quote.get(name)) for name in ("session", "agent", "entry", "command", "text", "outcome")),
                fresh=quote.get("fresh") is True,
            )
            for quote in _objects(members.get("quotes"))
        ),
        bill=bill,
        denied=as_int(members.get("denied")),
        whole=members.get("whole") is True,
    )
    if state(found) != data:
        raise ValueError("it is not a statement as sagent writes it")
    return found


def _write_origin(origin: Origin) -> Thawed:
    match origin:
        case FromLog(session, agent, entry):
            return {"session": session, "agent": agent, "entry": entry}
        case FromPerson(name):
            return {"person": name}
        case Moved(path):
            return {"moved": quote_path(path)}
        case _:
            assert_never(origin)


def _read_origin(members: Mapping[str, object]) -> Origin:
    if "person" in members:
        return FromPerson(as_str(members["person"]))
    if "moved" in members:
        return Moved(unquote_path(as_str(members["moved"])))
    return FromLog(*(as_str(members.get(name)) for name in ("session", "agent", "entry")))


def _write_file(file: FileClaim) -> Thawed:
    return {
        "path": quote_path(file.path),
        "before": _write_side(file.before),
        "after": _write_side(file.after),
        "edits": [[*edit] for edit in file.edits],
        "removed": [[*run] for run in file.removed],
        "added": [[*run] for run in file.added],
        "whole": file.whole,
    }


def _read_file(members: Mapping[str, object]) -> FileClaim:
    whole = members.get("whole")
    steps = (tuple(map(as_int, as_array(step))) for step in as_array(members.get("edits")))
    return FileClaim(
        unquote_path(as_str(members.get("path"))),
        _read_side(members.get("before")),
        _read_side(members.get("after")),
        tuple(Edit(*step) for step in steps if len(step) == 3),
        _read_runs(members.get("removed")),
        _read_runs(members.get("added")),
        whole if isinstance(whole, int) and not isinstance(whole, bool) else None,
    )


def _write_side(side: Side | None) -> Thawed:
    return None if side is None else {"mode": side.mode, "sha256": side.sha256}


def _read_side(value: object) -> Side | None:
    side = as_object(value)
    return Side(as_str(side.get("mode")), as_str(side.get("sha256"))) if side else None


def runs(origins: Iterable[int]) -> tuple[Run, ...]:
    """Return the origins of lines, one for each, as runs of equal ones."""
    return tuple(Run(len([*group]), origin) for origin, group in groupby(origins))


def _read_runs(value: object) -> tuple[Run, ...]:
    rows = (tuple(map(as_int, as_array(row))) for row in as_array(value))
    return tuple(Run(*row) for row in rows if len(row) == 2)


def _objects(value: object) -> Iterable[Mapping[str, object]]:
    return map(as_object, as_array(value))


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(as_str, as_array(value)))


def _usd(value: object) -> Decimal | None:
    try:
        usd = Decimal(value) if isinstance(value, str) and len(value) < 60 else None
    except InvalidOperation:
        return None
    return usd if usd is not None and usd.is_finite() and abs(usd.adjusted()) < 30 else None
