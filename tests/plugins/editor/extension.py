"""An editor that offers the link of a lock file: a WebSocket server on loopback plays its extension."""

import asyncio
import json
import os
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response

TOKEN = "a-token"


@dataclass
class Extension:
    """An editor. It sees an error in each line with BUG; `decisions` are what the person says to diffs."""

    home: Path
    folder: Path
    decisions: list[list[str] | None] = field(default_factory=list[list[str] | None])
    called: list[tuple[str, dict[str, Any]]] = field(default_factory=list[tuple[str, dict[str, Any]]])
    sockets: list[ServerConnection] = field(default_factory=list[ServerConnection])

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[Server]:
        async with serve(self._serve, "127.0.0.1", 0, process_request=self._admit) as server:
            place = self.home / ".claude" / "ide"
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{server.sockets[0].getsockname()[1]}.lock").write_text(json.dumps(self.lock()))
            yield server

    def lock(self, **other: object) -> dict[str, object]:
        return {
            "pid": os.getpid(), "workspaceFolders": [str(self.folder)], "ideName": "Fake", "transport": "ws",
            "authToken": TOKEN, **other,
        }  # fmt: skip

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        if request.headers.get("x-claude-code-ide-authorization") != TOKEN:
            return connection.respond(401, "no")
        return None

    async def _serve(self, socket: ServerConnection) -> None:
        self.sockets.append(socket)
        waiting: set[asyncio.Task[None]] = set()
        async for text in socket:
            message = json.loads(text)
            if "id" in message:
                waiting.add(task := asyncio.create_task(self._answer(socket, message)))
                task.add_done_callback(waiting.discard)
        for task in waiting:
            task.cancel()

    async def _answer(self, socket: ServerConnection, message: dict[str, Any]) -> None:
        result: dict[str, Any] = {"protocolVersion": "2025-03-26", "capabilities": {"tools": {}}}
        if message["method"] == "tools/call":
            name, arguments = message["params"]["name"], message["params"]["arguments"]
            self.called.append((name, arguments))
            texts = await self._tool(name, arguments)
            result = {"content": [{"type": "text", "text": text} for text in texts]}
        await socket.send(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}))

    async def _tool(self, name: str, arguments: dict[str, Any]) -> list[str]:
        match name:
            case "getDiagnostics":
                path = Path(arguments["uri"].removeprefix("file://"))
                lines = path.read_text().splitlines() if path.exists() else []
                seen = [
                    {"message": f"bad: {line}", "severity": "Error", "range": {"start": {"line": at, "character": 0}}}
                    for at, line in enumerate(lines)
                    if "BUG" in line
                ]
                return [json.dumps([{"uri": arguments["uri"], "diagnostics": seen}])]
            case "openDiff":
                decision = self.decisions.pop(0)
                if decision is None:
                    await asyncio.Event().wait()
                return decision or []
            case _:
                return ["TAB_CLOSED"]

    async def select(self, path: Path, text: str, line: int = 2) -> None:
        span = {"start": {"line": line, "character": 0}, "end": {"line": line + 1, "character": 0}, "isEmpty": not text}
        params = {"text": text, "filePath": str(path), "fileUrl": path.as_uri(), "selection": span}
        await self.sockets[-1].send(json.dumps({"jsonrpc": "2.0", "method": "selection_changed", "params": params}))
        await (await self.sockets[-1].ping())  # what came before it has arrived

    @contextmanager
    def in_thread(self) -> Iterator[asyncio.AbstractEventLoop]:
        """The same in a thread with a loop of its own."""
        loop, ready, end = asyncio.new_event_loop(), threading.Event(), asyncio.Event()

        async def listen() -> None:
            async with self.listening():
                ready.set()
                await end.wait()

        thread = threading.Thread(target=lambda: loop.run_until_complete(listen()), daemon=True)
        thread.start()
        assert ready.wait(60)
        try:
            yield loop
        finally:
            loop.call_soon_threadsafe(end.set)
            thread.join(30)
            loop.close()
