"""Accounts of sessions in a file beside the sessions, so that a report reads only the logs that have changed.

The file is a cache: it may be deleted at any time, and what does not fit a log, the prices or this version is ignored.
"""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal, DecimalException
from pathlib import Path
from typing import NamedTuple, TypeAlias, cast

from sagent.lib.atomic import put
from sagent.lib.json import canonical_bytes, sha256_hex
from sagent.lib.regular import read_regular
from sagent.plugins.why.account import Account, Day, Row
from sagent.plugins.why.course import State, Subject, ToolUse, What
from sagent.plugins.why.proposals import Basis, Kind, Proposal
from sagent.version import __version__

NAME = "why.json"
"""The file in the state directory."""
MAX_FILE_BYTES = 64 << 20
MAX_KEPT = 5_000
"""Sessions to keep, those that were read last."""
_FORM = 1

Stamp: TypeAlias = list[tuple[str, int, int]]
"""Names, sizes and times of logs."""
_Thawed: TypeAlias = dict[str, object]


class Kept(NamedTuple):
    """The account of a session and its proposals."""

    account: Account
    proposals: list[Proposal]


class KeptAccounts:
    """The accounts of the sessions in a state directory. `prices` names the prices that they were made with."""

    def __init__(self, state: Path, prices: str) -> None:
        self._state, self._file = state, state / NAME
        self._mark = sha256_hex(f"{_FORM} {__version__} {time.tzname} {time.timezone} {prices}".encode())
        self._rows: dict[str, _Thawed] = {}
        self._is_changed = False
        with suppress(OSError, ValueError, TypeError, AttributeError):
            read = cast("_Thawed", json.loads(read_regular(self._file, max_bytes=MAX_FILE_BYTES)))
            if read.get("mark") == self._mark:
                self._rows = {**cast("dict[str, _Thawed]", read["sessions"])}

    def get(self, session: Path, stamp: Stamp) -> Kept | None:
        """Return the account of a session; None if it is not known, or its logs have changed."""
        with suppress(ValueError, KeyError, TypeError, AttributeError, DecimalException):
            row = self._rows[self._key(session)]
            if row.get("stamp") == [list(each) for each in stamp]:
                return _read(row)
        return None

    def put(self, session: Path, stamp: Stamp, kept: Kept) -> None:
        """Keep an account."""
        key = self._key(session)
        self._rows.pop(key, None)
        self._rows[key] = {"stamp": [list(each) for each in stamp], **_written(kept)}
        self._is_changed = True

    def write(self) -> None:
        """Write the file, if anything is new. A full disk is no reason to fail."""
        if self._is_changed:
            rows = dict(list(self._rows.items())[-MAX_KEPT:])
            with suppress(OSError, ValueError):
                put(self._file, canonical_bytes({"mark": self._mark, "sessions": rows}))

    def _key(self, session: Path) -> str:
        return str(session.relative_to(self._state)) if session.is_relative_to(self._state) else str(session)


def _written(kept: Kept) -> _Thawed:
    account = kept.account
    return {
        "session": account.session,
        "project": account.project,
        "problems": list(account.problems),
        "days": {date: _written_day(day) for date, day in account.days.items()},
        "proposals": [
            {
                "kind": proposal.kind,
                "basis": proposal.basis,
                "requests": proposal.requests,
                "days": {date: _written_row(row) for date, row in proposal.days.items()},
            }
            for proposal in kept.proposals
        ],
    }


def _written_day(day: Day) -> _Thawed:
    return {
        "whole": _written_row(day.whole),
        "subjects": [[*subject, *_written_row(row)] for subject, row in day.subjects.items()],
        "models": {name: _written_row(row) for name, row in day.models.items()},
        "agents": {name: _written_row(row) for name, row in day.agents.items()},
        "unpriced": sorted(day.unpriced),
        "unbilled": str(day.unbilled),
        "time": dict(day.time),
        "tools": {name: [use.calls, use.failed, use.seconds] for name, use in day.tools.items()},
    }


def _written_row(row: Row) -> list[object]:
    return [str(row.usd), row.tokens, row.charges, row.unpriced]


def _read(row: Mapping[str, object]) -> Kept:
    account = Account(cast("str", row["session"]), cast("str", row["project"]))
    account.problems = tuple(cast("list[str]", row["problems"]))
    days = cast("dict[str, _Thawed]", row["days"])
    account.days = {date: _read_day(day) for date, day in days.items()}
    proposals: list[Proposal] = []
    for body in cast("list[_Thawed]", row["proposals"]):
        basis = cast("Basis", body["basis"])
        made = Proposal(cast("Kind", body["kind"]), "", "", basis=basis, requests=cast("int", body["requests"]))
        made.days = _read_rows(body["days"])
        proposals.append(made)
    return Kept(account, proposals)


def _read_day(body: _Thawed) -> Day:
    day = Day(_read_row(body["whole"]))
    for what, name, *row in cast("list[list[object]]", body["subjects"]):
        day.subjects[Subject(cast("What", what), cast("str", name))] = _read_row(row)
    day.models, day.agents = _read_rows(body["models"]), _read_rows(body["agents"])
    day.unpriced = set(cast("list[str]", body["unpriced"]))
    day.unbilled = Decimal(cast("str", body["unbilled"]))
    day.time = cast("dict[State, int]", body["time"])
    tools = cast("dict[str, tuple[int, int, float]]", body["tools"])
    day.tools = {name: ToolUse(*use) for name, use in tools.items()}
    return day


def _read_rows(body: object) -> dict[str, Row]:
    return {name: _read_row(row) for name, row in cast("dict[str, object]", body).items()}


def _read_row(body: object) -> Row:
    usd, tokens, charges, unpriced = cast("tuple[str, int, int, int]", body)
    return Row(Decimal(usd), tokens, charges, unpriced)
