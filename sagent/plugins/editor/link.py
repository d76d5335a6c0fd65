"""A connection to an editor: its selection, the errors that it sees, and diffs for the person to decide."""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import unquote, urlsplit

from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_int, as_object, as_str, json_parse
from sagent.lib.text import one_line, printable
from sagent.plugins.editor.lockfile import LockFile
from sagent.plugins.hosting.jsonrpc import Connection, Params, RpcError
from sagent.version import __version__

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

ANSWER_TIMEOUT_SECONDS = 2.0  # for an answer that no person gives
MAX_SELECTION_CHARS = 8_000
_MAX_ERRORS = 20
_MAX_MESSAGE_BYTES = 1 << 24  # of one message
_REVISION = "2025-03-26"  # of MCP, as the extensions speak it
_SETTLING_SECONDS = 1.5  # seconds for an editor to look at a file that was changed
_POLL_INTERVAL_SECONDS = 0.25

Problem: TypeAlias = tuple[str, int, str]
"""An error in a file: its severity, its line from 1, and its message."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Text that is selected in a file; lines count from 1."""

    path: Path
    first: int
    last: int
    text: str


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's decision on a diff in the editor: whether they accept it, and the final text."""

    accepted: bool
    text: str


class EditorLink:
    """The link to one editor. A late or wrong answer counts as none."""

    def __init__(self, socket: "ClientConnection", lock: LockFile) -> None:
        self._socket, self.editor, self._folder = socket, lock.editor, lock.folder
        self._out: asyncio.Queue[bytes] = asyncio.Queue()
        notices = {"selection_changed": self._selected}
        self._connection = Connection({}, notices, self._out.put_nowait)
        self._selection: Selection | None = None
        self._read: Selection | None = None
        self._diffs = 0

    async def greet(self) -> None:
        """Introduce sagent to the editor. Raises RpcError and TimeoutError."""
        info = {"name": "sagent", "version": __version__}
        hello = {"protocolVersion": _REVISION, "capabilities": {}, "clientInfo": info}
        async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS):
            await self._connection.request("initialize", hello)
        self._connection.notify("notifications/initialized", {})
        self._connection.notify("ide_connected", {"pid": os.getpid()})

    async def read(self) -> None:
        """Read the editor's messages until the connection ends."""
        async for message in self._socket:
            self._connection.receive(message if isinstance(message, bytes) else message.encode())

    async def write(self) -> None:
        while True:
            line = await self._out.get()
            await self._socket.send(line.decode().rstrip("\n"))

    async def _selected(self, params: Params) -> Mapping[str, object]:
        self._selection = _selection(params)
        return {}

    def context(self) -> str:
        """Return the selection for a model to read with the next prompt; "" if it was read already, or if there is
        none."""
        found = self._selection
        if found is None or found == self._read or not found.path.is_relative_to(self._folder):
            return ""
        self._read = found
        where = f"lines {found.first}-{found.last}" if found.last > found.first else f"line {found.first}"
        cut = "\n(more is selected than this)" if len(found.text) > MAX_SELECTION_CHARS else ""
        who = f"The person has selected {where} of {found.path} in {printable(self.editor)}"
        return f"{who}:\n{found.text[:MAX_SELECTION_CHARS]}{cut}"

    async def problems(self, path: Path) -> set[Problem] | None:
        """Return the errors that the editor sees in a file; None if it does not answer."""
        said = await self._call("getDiagnostics", {"uri": path.as_uri()}, ANSWER_TIMEOUT_SECONDS)
        if said is None:
            return None
        with suppress(ValueError, RecursionError):
            return set(_problems(json_parse(said[0]), path))
        return None

    async def new_problems(self, path: Path, before: set[Problem]) -> Sequence[Problem]:
        """Return the problems that a change has brought, once the editor has looked at it; lines may have moved."""
        known = {(severity, text) for severity, _, text in before}
        waited = 0.0
        while waited < _SETTLING_SECONDS:
            await asyncio.sleep(_POLL_INTERVAL_SECONDS)
            waited += _POLL_INTERVAL_SECONDS
            found = await self.problems(path)
            if found is None:
                return ()
            if new := [each for each in sorted(found, key=lambda one: one[1]) if (each[0], each[2]) not in known]:
                return new[:_MAX_ERRORS]
        return ()

    async def review(self, path: Path, text: str) -> Decision | None:
        """Show a file with its changes, and wait for the person's decision; None if they only close it."""
        self._diffs += 1
        name = f"sagent: {path.name} ({self._diffs})"
        paths = dict.fromkeys(("old_file_path", "new_file_path"), str(path))
        arguments = {**paths, "new_file_contents": text, "tab_name": name}
        try:
            said = await self._call("openDiff", arguments, None)
        finally:
            closing = asyncio.ensure_future(self._call("close_tab", {"tab_name": name}, ANSWER_TIMEOUT_SECONDS))
            closing.add_done_callback(lambda task: task.cancelled() or task.exception())
        match said:
            case ("FILE_SAVED", *rest):
                return Decision(accepted=True, text=rest[0] if rest else text)
            case ("DIFF_REJECTED", *_):
                return Decision(accepted=False, text=text)
            case _:
                return None

    async def _call(self, tool: str, arguments: Mapping[str, object], timeout: float | None) -> Sequence[str] | None:
        """Return the texts of an answer from an editor's tool; None if it fails."""
        try:
            async with asyncio.timeout(timeout):
                answer = await self._connection.request("tools/call", {"name": tool, "arguments": arguments})
        except (RpcError, TimeoutError):
            return None
        texts = [as_str(as_object(each).get("text")) for each in as_array(answer.get("content"))]
        return None if answer.get("isError") is True or not texts else texts


@asynccontextmanager
async def open_link(lock: LockFile) -> AsyncGenerator[EditorLink | None]:
    """Yield the link to an editor for as long as it is needed; None if the editor does not answer."""
    from websockets.asyncio.client import connect
    from websockets.exceptions import WebSocketException
    from websockets.typing import Subprotocol

    header = {"x-claude-code-ide-authorization": lock.token}
    tasks: list[asyncio.Task[None]] = []
    try:
        socket = await connect(
            f"ws://127.0.0.1:{lock.port}", additional_headers=header, subprotocols=[Subprotocol("mcp")], proxy=None,
            open_timeout=ANSWER_TIMEOUT_SECONDS, close_timeout=ANSWER_TIMEOUT_SECONDS, compression=None,
            max_size=_MAX_MESSAGE_BYTES,
        )  # fmt: skip
    except (OSError, WebSocketException, TimeoutError):
        yield None
        return
    link = EditorLink(socket, lock)
    try:
        tasks += [asyncio.create_task(_until_gone(work)) for work in (link.read(), link.write())]
        try:
            await link.greet()
        except (RpcError, TimeoutError):
            yield None
        else:
            yield link
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await socket.close()


async def _until_gone(work: Awaitable[None]) -> None:
    from websockets.exceptions import WebSocketException

    with suppress(WebSocketException, OSError):
        await work


def _selection(params: Params) -> Selection | None:
    """Read the selection in a notification; lines there count from 0."""
    span, path = as_object(params.get("selection")), as_str(params.get("filePath"))
    text = as_str(params.get("text"))
    start, end = as_object(span.get("start")), as_object(span.get("end"))
    if not text or not path or span.get("isEmpty") is True:
        return None
    return Selection(Path(path), as_int(start.get("line")) + 1, as_int(end.get("line")) + 1, text)


def _problems(answer: object, path: Path) -> list[Problem]:
    found: list[Problem] = []
    for file in map(as_object, as_array(answer)):
        uri = as_str(file.get("uri")) or as_str(file.get("filePath"))
        named = Path(unquote(urlsplit(uri).path) if uri.startswith("file:") else uri)
        if named != path:
            continue
        for each in map(as_object, as_array(file.get("diagnostics"))):
            severity = each.get("severity")
            if severity in ("Error", 1, "error"):
                start = as_object(as_object(each.get("range")).get("start"))
                text = one_line(printable(as_str(each.get("message"))), 400)
                found.append(("error", as_int(start.get("line")) + 1, text))
    return found
