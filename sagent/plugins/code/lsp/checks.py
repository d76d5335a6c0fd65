"""Reports of the errors that an agent's changes bring: with a call's result, or later, once servers know them."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from sagent.lib.encoding import Text, decode
from sagent.lib.names import quote_path
from sagent.lib.regular import read_regular
from sagent.plugins.code.lsp.connection import ServerError
from sagent.plugins.code.lsp.diagnostics import Diagnostic, new_errors, report
from sagent.plugins.code.lsp.documents import Document
from sagent.plugins.code.lsp.server import LanguageServer
from sagent.plugins.code.lsp.servers import Servers, ServerSlot
from sagent.tool import Workspace
from sagent.tools.paths import short_path

CALL_TIMEOUT_SECONDS = 1.5  # seconds that the result of a call waits for servers that run
TURN_END_TIMEOUT_SECONDS = 3.0  # seconds that the end of a turn waits for checks that have not ended
MAX_REPORTED_FILES = 5  # with shown errors at a time
MAX_MISSED = 3
MAX_CHECKED_BYTES = 1_000_000  # of a file that is checked


class Checks:
    """Checks files after changes. `servers` are those of the session."""

    def __init__(self, servers: Servers) -> None:
        self.servers = servers
        self._running: dict[asyncio.Task[None], tuple[str, str]] = {}  # agent and kind of server
        self._missed = Counter[str]()  # times in a row that a kind was waited for in vain
        self._readers: dict[Path, tuple[str, Workspace]] = {}  # last agent to change a file, which reads its errors
        self._reported: dict[Path, tuple[str | None, dict[tuple[int, int], str]]] = {}  # text; server by place
        self._commands = 0

    async def changed(self, path: Path, before: str, agent: str, workspace: Workspace) -> str:
        """Return the new errors after a change of a file, within the budget; the rest comes later, by `news`."""
        after = await asyncio.to_thread(read_text, path)
        if after is None or after == before:
            return ""
        self._readers.pop(path, None)
        self._readers[path] = agent, workspace
        soon: list[asyncio.Task[None]] = []
        for kind in self.servers.kinds(path):
            ready = self.servers.is_ready(kind, path, workspace.roots)
            task = asyncio.create_task(self._check(kind, path, before, workspace.roots))
            self._running[task] = agent, kind
            task.add_done_callback(lambda task: self._running.pop(task, None))
            soon += [task] if ready else []
        await self._wait(soon, CALL_TIMEOUT_SECONDS)
        return await self.news(agent)

    def command_ran(self) -> None:
        """Record that a command ran, which may have changed any file."""
        self._commands += 1

    async def finish(self, agent: str) -> None:
        """Wait a little for running checks of an agent."""
        await self._wait(
            [task for task, (whose, _) in self._running.items() if whose == agent], TURN_END_TIMEOUT_SECONDS
        )

    async def _wait(self, tasks: Sequence[asyncio.Task[None]], seconds: float) -> None:
        """Wait for checks, but not for servers that were often too slow."""
        kinds = {task: self._running[task][1] for task in tasks if task in self._running}
        if waited := [task for task, kind in kinds.items() if self._missed[kind] < MAX_MISSED]:
            _, late = await asyncio.wait(waited, timeout=seconds)
            self._missed.update({kinds[task] for task in late})

    async def news(self, agent: str) -> str:
        """Return the new errors for an agent since its last report, in files unchanged since the check; "" for none."""
        found: list[tuple[str, Sequence[Diagnostic]]] = []
        for path, (reader, workspace) in reversed(list(self._readers.items())):
            given = list(self._documents(path))
            if reader != agent or not any(_has_news(document) for document in given):
                continue
            text = await asyncio.to_thread(read_text, path)
            errors = [error for document in given if document.text == text for error in _take_news(document)]
            found.append((quote_path(short_path(path, workspace)), self._unreported(path, text, errors)))
        shown = [each for each in found if each[1]]
        more = len(shown) - MAX_REPORTED_FILES
        return report(shown[:MAX_REPORTED_FILES]) + (f"\nand new errors in {more} more files" if more > 0 else "")

    def _unreported(self, path: Path, text: str | None, errors: Sequence[Diagnostic]) -> list[Diagnostic]:
        """Return the errors at places without an error of another server: two servers report the same missing name."""
        before, places = self._reported.get(path, (text, dict[tuple[int, int], str]()))
        if before != text:
            places = dict[tuple[int, int], str]()
        self._reported[path] = text, places
        return [
            error for error in errors if places.setdefault((error.line, error.column), error.server) == error.server
        ]

    async def aclose(self) -> None:
        """End checks and servers."""
        tasks = list(self._running)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.servers.aclose()

    async def _check(self, kind: str, path: Path, before: str, roots: Sequence[Path]) -> None:
        try:
            slot = await self.servers.get(kind, path, roots)
            if slot is None or (server := slot.ready) is None:
                return
            await self.refresh(slot, server)
            async with slot.lock(path):
                after = await asyncio.to_thread(read_text, path)
                if after is not None:
                    await _compare(server, path, before, after)
                    self._missed[kind] = 0
        except (ServerError, OSError):  # a TimeoutError among these
            pass  # the change was made, whatever becomes of its check; `servers` reports a server that is gone

    async def refresh(self, slot: ServerSlot, server: LanguageServer) -> None:
        """Notify a server of changes by commands and the person since its last request."""
        async with slot.turn:
            if not slot.watched.is_due(self._commands):
                return
            changes = await asyncio.to_thread(slot.watched.changes, self._commands)
            server.files_changed(changes)
            for path, _ in changes:
                document = server.documents.get(path)
                text = await asyncio.to_thread(read_text, path) if document is not None else None
                if document is None or text == document.text or slot.lock(path).locked():
                    continue
                document.base = None  # other changes are unknown
                if text is None:
                    server.forget(path)
                else:
                    server.send_text(path, text)

    def _documents(self, path: Path) -> Iterator[Document]:
        for slot in sorted(self.servers.running(), key=lambda slot: slot.row.kind != "types"):
            if slot.server is not None and (document := slot.server.documents.get(path)) is not None:
                yield document


async def _compare(server: LanguageServer, path: Path, before: str, after: str) -> None:
    """Send a server a file's present text, and its earlier one if it was unknown. Raises ServerError and
    TimeoutError."""
    known = server.documents.get(path)
    if known is None and not before:
        document = server.send_text(path, after)
        document.base = before, ()
    elif known is None or known.base is None or known.text not in (before, after):
        document = await server.check(path, before)
        document.base = None if document.errors is None or document.text != before else (before, document.errors)
    document = await server.check(path, after)
    await server.check_others(path)
    if document.base is None and document.errors is not None:  # earlier errors are unknown
        document.base = document.text, document.errors


def _has_news(document: Document) -> bool:
    return document.errors is not None and document.base is not None and document.base[1] != document.errors


def _take_news(document: Document) -> list[Diagnostic]:
    """Return the new errors in a document, and record them as known."""
    if document.errors is None or document.base is None:
        return []
    before, document.base = document.base, (document.text, document.errors)
    return new_errors(before, document.base)


def read_text(path: Path) -> str | None:
    """Return a file's text; None if it is missing, not text, or too large."""
    try:
        decoded = decode(read_regular(path, max_bytes=MAX_CHECKED_BYTES))
    except OSError:
        return None
    return decoded.text if isinstance(decoded, Text) else None
