"""A language server that runs for one directory: its capabilities, files and answers."""

import asyncio
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

from sagent.lib.json import Json, JsonObject, as_array, as_int, as_object, as_str
from sagent.lib.process import ProcessGroup
from sagent.plugins.code.lsp.connection import METHOD_NOT_FOUND, Connection, ServerError
from sagent.plugins.code.lsp.diagnostics import read_errors
from sagent.plugins.code.lsp.documents import Document
from sagent.plugins.code.lsp.rows import ServerRow

START_TIMEOUT_SECONDS = 30.0  # seconds to be ready
ANSWER_TIMEOUT_SECONDS = 20.0  # seconds for an answer
_SCAN_SECONDS = 20.0
_MAX_OPEN_FILES = 50  # files that a server has at a time
_MAX_PULLED_FILES = 5  # other files to ask about after a change
_TRIES, _PAUSE = 3, 0.2  # to pull diagnostics, if a change has made the server give up
_GAVE_UP = (-32801, -32802)  # ContentModified, ServerCancelled
_DYNAMIC = {"dynamicRegistration": True}
_ANSWERS: Mapping[str, object] = {
    "workspace/applyEdit": {"applied": False, "failureReason": "only a rename that was asked for changes files"},
    "window/showDocument": {"success": False},
    "window/showMessageRequest": None,
    "window/workDoneProgress/create": None,
}
"""Answers to requests of any server."""
_CAPABILITIES: Mapping[str, object] = {
    "general": {"positionEncodings": ["utf-16"]},
    "textDocument": {
        "synchronization": {"didSave": True},
        "publishDiagnostics": {"versionSupport": True},
        "diagnostic": _DYNAMIC,
        "definition": {"linkSupport": True},
        "references": {},
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
        "rename": {},
    },
    "workspace": {
        "configuration": True,
        "workspaceFolders": True,
        "didChangeConfiguration": _DYNAMIC,
        "didChangeWatchedFiles": _DYNAMIC,
        "symbol": {},
        "workspaceEdit": {"documentChanges": True},
    },
}


class LanguageServer:
    """Started by `open`, which may be awaited once; then asked. Unsupported requests raise ServerError."""

    def __init__(self, row: ServerRow, root: Path, processes: ProcessGroup, settings: Json) -> None:
        self.row, self.root, self._settings = row, root, settings
        self.documents: dict[Path, Document] = {}  # the last used at the end
        self._connection = Connection(processes, self._answer, self._hear)
        self._abilities: dict[str, object] = {}
        self._registered: dict[str, str] = {}  # methods, by the ids of their registrations
        self._names_versions = False
        self._began = 0.0

    @property
    def may_be_scanning(self) -> bool:
        """True if it may still be scanning the project: answers about several files may be incomplete."""
        return time.monotonic() - self._began < _SCAN_SECONDS

    @property
    def fault(self) -> str:
        """The reason why the server is gone; "" while it runs."""
        return self._connection.fault

    async def open(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start it, and introduce ourselves. Raises OSError, ValueError, ServerError and TimeoutError."""
        await self._connection.start(argv, environment, self.root)
        self._began = time.monotonic()
        uri = self.root.as_uri()
        about: dict[str, object] = {
            "processId": None,  # our number does not exist in the sandbox: it would exit
            "clientInfo": {"name": "sagent"},
            "rootUri": uri,
            "rootPath": str(self.root),
            "workspaceFolders": [{"uri": uri, "name": self.root.name}],
            "capabilities": _CAPABILITIES,
        }
        if self.row.options:
            about["initializationOptions"] = self.row.options
        result = as_object(await self._connection.request("initialize", about, START_TIMEOUT_SECONDS))
        self._abilities = dict(as_object(result.get("capabilities")))
        self._connection.notify("initialized", {})
        self._connection.notify("workspace/didChangeConfiguration", {"settings": self._settings})

    async def aclose(self) -> None:
        for document in self.documents.values():
            document.wake()
        await self._connection.aclose()

    def supports(self, method: str) -> bool:
        """Return True if it supports a method, as announced so far."""
        ability = "workspaceSymbolProvider" if method == "workspace/symbol" else f"{method.rpartition('/')[2]}Provider"
        return self._abilities.get(ability) not in (None, False) or method in self._registered.values()

    async def ask(self, method: str, params: Mapping[str, object]) -> object:
        """Return an answer. Raises ServerError, also without an answer."""
        try:
            return await self._connection.request(method, params, ANSWER_TIMEOUT_SECONDS)
        except TimeoutError:
            raise ServerError(f"it has not answered within {ANSWER_TIMEOUT_SECONDS:g} s") from None

    def send_text(self, path: Path, text: str) -> Document:
        """Send it a file's text, which is on disk by now; the same text is not sent twice."""
        document = self.documents.pop(path, None)
        known = document is not None
        if document is None:
            document = Document(path.as_uri(), self.row.language(path))
        self.documents[path] = document
        while len(self.documents) > _MAX_OPEN_FILES:
            self.forget(next(iter(self.documents)))
        if known and document.text == text:
            return document
        document.change(text)
        item: dict[str, object] = {"uri": document.uri, "version": document.version}
        if not known:
            opened = {**item, "languageId": document.language, "text": text}
            self._connection.notify("textDocument/didOpen", {"textDocument": opened})
        else:
            changed = {"textDocument": item, "contentChanges": [{"text": text}]}
            self._connection.notify("textDocument/didChange", changed)
            self._connection.notify("textDocument/didSave", {"textDocument": {"uri": document.uri}})
        return document

    def forget(self, path: Path) -> None:
        """Take a file from it."""
        if (document := self.documents.pop(path, None)) is not None:
            document.wake()
            self._connection.notify("textDocument/didClose", {"textDocument": {"uri": document.uri}})

    def files_changed(self, changes: Iterable[tuple[Path, int]]) -> None:
        """Files on disk that were created (1), changed (2) or deleted (3)."""
        events = [{"uri": path.as_uri(), "type": kind} for path, kind in changes]
        if events:
            self._connection.notify("workspace/didChangeWatchedFiles", {"changes": events})

    async def check(self, path: Path, text: str) -> Document:
        """Send it a file, and wait for its errors. Raises ServerError, and TimeoutError."""
        document = self.send_text(path, text)
        if document.errors is not None:
            return document
        async with asyncio.timeout(START_TIMEOUT_SECONDS):
            if self.row.pulls and self.supports("textDocument/diagnostic"):
                await self._pull(document)
            else:
                await self._wait(document)
        return document

    async def check_others(self, path: Path) -> None:
        """Ask for errors in other files after a change of one. Servers without this report them unasked."""
        if self.row.pulls and self.supports("textDocument/diagnostic"):
            others = [each for other, each in self.documents.items() if other != path][-_MAX_PULLED_FILES:]
            await asyncio.gather(*map(self._pull, others))

    async def _pull(self, document: Document) -> None:
        version = document.version
        for left in reversed(range(_TRIES)):
            try:
                answer = await self.ask("textDocument/diagnostic", {"textDocument": {"uri": document.uri}})
            except ServerError as error:
                if error.code == METHOD_NOT_FOUND:  # it says that it can, and cannot
                    self._abilities.pop("diagnosticProvider", None)
                    self._registered = {}
                    await self._wait(document)
                    return
                if error.code not in _GAVE_UP or not left:
                    raise
                await asyncio.sleep(_PAUSE)
            else:
                document.take(read_errors(as_object(answer).get("items"), self.row.name), version)
                return

    async def _wait(self, document: Document) -> None:
        """Wait for published errors; or until it has registered pull diagnostics, and then pull."""
        version = document.version
        tasks = [asyncio.create_task(document.known()), asyncio.create_task(self._connection.ended.wait())]
        if not self._names_versions:
            tasks.append(asyncio.create_task(self._pass(document, version)))
        try:
            await asyncio.wait(tasks[:2], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
        if self.fault:
            raise ServerError(self.fault)
        if document.errors is None and document.version == version:
            await self._pull(document)

    async def _pass(self, document: Document, version: int) -> None:
        """Wait until it has read all messages so far: it answers in order, and must answer an unknown "$/" request with
        an error, by the protocol."""
        try:
            await self.ask("$/sagent/read", {})
        except ServerError:
            if self.fault:
                return
        document.passed(version)

    def _hear(self, method: str, params: Mapping[str, object]) -> None:
        if method != "textDocument/publishDiagnostics":
            return
        version = params.get("version")
        self._names_versions = self._names_versions or isinstance(version, int)
        document = self.documents.get(path_of(as_str(params.get("uri"))))
        if document is not None:
            errors = read_errors(params.get("diagnostics"), self.row.name)
            document.take(errors, as_int(version) if isinstance(version, int) else None)

    def _answer(self, method: str, params: Mapping[str, object]) -> object:
        """Answer a request of the server, which waits for it."""
        match method:
            case "workspace/configuration":
                items = map(as_object, as_array(params.get("items")))
                return [self._setting(as_str(item.get("section"))) for item in items]
            case "client/registerCapability":
                for each in map(as_object, as_array(params.get("registrations"))):
                    self._registered[as_str(each.get("id"))] = as_str(each.get("method"))
                if self.row.pulls and self.supports("textDocument/diagnostic"):
                    for document in self.documents.values():
                        document.wake()
                return None
            case "client/unregisterCapability":
                for each in map(as_object, as_array(params.get("unregisterations"))):  # the protocol's spelling
                    self._registered.pop(as_str(each.get("id")), None)
                return None
            case "workspace/workspaceFolders":
                return [{"uri": self.root.as_uri(), "name": self.root.name}]
            case _ if method in _ANSWERS or (method.startswith("workspace/") and method.endswith("/refresh")):
                return _ANSWERS.get(method)
            case _:
                raise ServerError(f"{method} is not known", METHOD_NOT_FOUND)

    def _setting(self, section: str) -> Json:
        found: Json = self._settings
        for name in filter(None, section.split(".")):
            found = found.get(name) if isinstance(found, JsonObject) else None
        return found


def path_of(uri: str) -> Path:
    """Return the file of a URI; /dev/null for a URI of anything else."""
    parts = urlsplit(uri)
    return Path(os.fsdecode(unquote_to_bytes(parts.path))) if parts.scheme == "file" else Path("/dev/null")
