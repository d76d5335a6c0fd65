"""Savings that a session keeps beside its log, so that a long one is not priced anew by each process.

The file is a cache: it may be deleted at any time, and what does not fit the log or the prices is ignored.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from decimal import Decimal, DecimalException
from pathlib import Path
from typing import cast

from sagent.lib.atomic import put
from sagent.lib.json import Thawed, canonical_bytes, sha256_hex
from sagent.lib.regular import read_regular
from sagent.plugins.audit.savings import FOLLOWED, ConversationState, Price, Savings
from sagent.session.contents import RequestSent
from sagent.session.view import FileLogView, LogView
from sagent.usage import Saving, Usage

NAME = "root.jsonl.savings"
"""The file beside the root's log."""
MIN_NEW_ENTRIES = 2_000  # that a log must have grown by before the file is written again
MAX_FILE_BYTES = 1 << 20
_VERSION = 1
_PROBE = Usage(10**6, 10**6, 10**6, 10**6, 10**6)
_PROBED_AT = datetime(2026, 1, 1, tzinfo=UTC)


class KeptSavings(Savings):
    """Savings of a log that continue from what an earlier process has counted."""

    def __init__(self, price: Price, more: int = 0) -> None:
        super().__init__(price, more)
        self._entries = 0  # of the log when the file was read or written

    def follow(self, log: LogView) -> Saving:
        if not isinstance(log, FileLogView) or log.file.name != "root.jsonl":
            return super().follow(log)
        file = log.file.with_name(NAME)
        if not self._last:
            self._load(file, log)
        found = super().follow(log)
        if log.count - self._entries >= MIN_NEW_ENTRIES and self._last and not self._forks:
            self._entries = log.count
            with suppress(OSError, ValueError):
                put(file, seal(self._state()))
        return found

    def _load(self, file: Path, log: LogView) -> None:
        """Take over the state that an earlier process kept, if it is one of this log, at these prices."""
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, DecimalException):
            state = unseal(read_regular(file, max_bytes=MAX_FILE_BYTES))
            fits = state["version"] == _VERSION and state["more"] == self._more
            if not fits or not any(entry.id == state["last"] for entry in log.latest(*FOLLOWED)):
                return
            fresh = KeptSavings(self._price, self._more)
            fresh._restore(state)
            if fresh._prices() == state["prices"]:
                self._restore(state)

    def _prices(self) -> list[list[str]]:
        """Return what a probe costs by each known tariff: other prices would have given another sum."""
        return [
            [*tariff, str(self._price(tariff[0], tariff[1], _PROBE, _PROBED_AT, tariff[2]))]
            for tariff in sorted(self._tariffs)
        ]

    def _state(self) -> dict[str, object]:
        return {
            "version": _VERSION,
            "more": self._more,
            "entries": self._entries,
            "last": self._last,
            "prices": self._prices(),
            "compactions": self._compactions,
            "tokens": self._tokens,
            "usd": None if self._usd is None else str(self._usd),
            "stand": asdict(self._stand),
            "asked": None if self._asked is None else self._asked.model,
            "role": self._role,
            "caching": sorted(self._caching),
            "writing": sorted(self._writing),
            "stored": {model: [tokens, at.isoformat()] for model, (tokens, at) in self._stored.items()},
            "counts": [[*models, share] for models, share in self._counts.items()],
            "known": {kind: list(pair) for kind, pair in self._known.items()},
            "tariffs": sorted(self._tariffs),
        }

    def _restore(self, state: Mapping[str, Thawed]) -> None:
        read = cast("dict[str, object]", state)
        stand = cast("Callable[..., ConversationState]", ConversationState)
        self._stand = stand(**cast("dict[str, object]", read["stand"]))
        self._compactions, self._tokens = cast("int", read["compactions"]), cast("int", read["tokens"])
        self._usd = None if read["usd"] is None else Decimal(cast("str", read["usd"]))
        asked = cast("str | None", read["asked"])
        self._asked = None if asked is None else RequestSent("", 0, asked)
        self._role = cast("str", read["role"])
        self._caching, self._writing = set(cast("list[str]", read["caching"])), set(cast("list[str]", read["writing"]))
        stored = cast("dict[str, tuple[int, str]]", read["stored"])
        self._stored = {model: (tokens, datetime.fromisoformat(at)) for model, (tokens, at) in stored.items()}
        counts = cast("list[tuple[str, str, float]]", read["counts"])
        self._counts = {(model, other): share for model, other, share in counts}
        known = cast("dict[str, tuple[float, int]]", read["known"])
        self._known = {kind: (tokens, size) for kind, (tokens, size) in known.items()}
        self._tariffs = {(one, two, tier) for one, two, tier in cast("list[tuple[str, str, str]]", read["tariffs"])}
        self._entries, self._last = cast("int", read["entries"]), cast("str", read["last"])


def seal(state: Mapping[str, object]) -> bytes:
    """Return the file's bytes: the sha256 of the state, and the state."""
    text = canonical_bytes(state)
    return b"%b %b\n" % (sha256_hex(text).encode(), text)


def unseal(data: bytes) -> Mapping[str, Thawed]:
    """Return the state in a file. Raises ValueError for changed bytes."""
    digest, _, text = data.removesuffix(b"\n").partition(b" ")
    if digest != sha256_hex(text).encode() or not data.endswith(b"\n"):
        raise ValueError("its content does not match its sha256")
    return cast("Mapping[str, Thawed]", json.loads(text))
