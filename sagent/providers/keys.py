"""Several keys of one provider: one is used until its limit is reached, then the next."""

import time
from collections.abc import Sequence

from sagent.errors import ModelError

_DEFAULT_PAUSE_SECONDS = 60.0  # seconds to pause a key if its provider names no time
_NO_CREDIT_PAUSE_SECONDS = 3_600.0  # the same for one without credit, which somebody may add


class Keys:
    """The keys of an access. The current one stays while it works, because a cache belongs to an account."""

    def __init__(self, keys: Sequence[str], variable: str) -> None:
        self._keys = tuple(keys) or ("",)
        self._variable = variable
        self._rests = [0.0] * len(self._keys)  # end of each key's pause, on the monotonic clock
        self._at = 0
        self._why = ""

    @property
    def current(self) -> str:
        return self._keys[self._at]

    @property
    def others(self) -> int:
        """The number of keys besides the one in use."""
        return len(self._keys) - 1

    @property
    def variable(self) -> str:
        """The source of the key in use, for messages."""
        place = f"key {self._at + 1} of {len(self._keys)}"
        return f"{self._variable} ({place})" if len(self._keys) > 1 else self._variable

    def pass_on(self, refused: str, error: ModelError) -> bool:
        """Switch to another key after `refused` was rejected; return True if one is usable now. If all are paused, the
        one with the earliest end becomes current, and the error stands."""
        if not self.others or error.kind not in ("rate_limit", "payment"):
            return False
        if refused != self.current:  # another call was refused before this one
            return True
        now = time.monotonic()
        rest = _NO_CREDIT_PAUSE_SECONDS if error.kind == "payment" else error.retry_after or _DEFAULT_PAUSE_SECONDS
        self._rests[self._at], refused_at = now + rest, self._at
        following = [*range(self._at + 1, len(self._keys)), *range(self._at + 1)]
        self._at = min(following, key=lambda at: max(self._rests[at], now))
        what = "has no credit" if error.kind == "payment" else "has reached its limit"
        self._why = f"key {refused_at + 1} of {len(self._keys)} of {self._variable or 'the provider'} {what}"
        return self._rests[self._at] <= now

    def notes(self) -> tuple[str, ...]:
        """Say which key is used instead of the first, and why."""
        return (f"{self._why}: key {self._at + 1} is used",) if self._at and self._why else ()
