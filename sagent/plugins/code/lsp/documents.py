"""A file as sent to a server, and the server's reports on it."""

import asyncio
from collections.abc import Sequence

from sagent.plugins.code.lsp.diagnostics import Diagnostic, Found

SETTLED_SECONDS = 0.2  # seconds of silence, for a server that does not name versions
UNSURE_SETTLED_SECONDS = 1.0  # the same, if its report may concern the version before


class Document:
    """`errors` are those of `text`; None while unknown. `base` is known to the agents: a text, and its errors."""

    def __init__(self, uri: str, language: str) -> None:
        self.uri, self.language = uri, language
        self.version, self.text = 0, ""
        self.errors: Sequence[Diagnostic] | None = None
        self.base: Found | None = None
        self._waited: asyncio.Future[None] | None = None
        self._unsure: Sequence[Diagnostic] | None = None
        self._passed = False  # whether the server has read this version, as far as known
        self._timer: asyncio.TimerHandle | None = None

    def change(self, text: str) -> None:
        """Start another version: all reports so far are of the one before."""
        self.version, self.text = self.version + 1, text
        self.errors = self._unsure = None
        self._passed = False
        self.wake()

    def take(self, errors: Sequence[Diagnostic], version: int | None) -> None:
        """Take a server's report on a version, or on an unnamed one."""
        if version == self.version:
            self._accept(errors)
        elif version is None:
            self._unsure = errors
            if self._passed:
                self._settle(SETTLED_SECONDS)

    def passed(self, version: int) -> None:
        """Note that the server has read a version, as it answered a request sent after it."""
        if version == self.version:
            self._passed = True
            if self._unsure is not None:
                self._settle(UNSURE_SETTLED_SECONDS)

    async def known(self) -> None:
        """Return when the errors are known, or no longer expected because there is another version."""
        if self.errors is None:
            if self._waited is None or self._waited.done():
                self._waited = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._waited)

    def _settle(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._accept, None)

    def _accept(self, errors: Sequence[Diagnostic] | None) -> None:
        self.errors = self._unsure if errors is None else errors
        self.wake()

    def wake(self) -> None:
        """Wake all waiters."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waited is not None and not self._waited.done():
            self._waited.set_result(None)
