"""Pins of approved MCP tools: a hash of each definition, stored for all sessions."""

import json
from contextlib import suppress
from pathlib import Path

from sagent.lib.filelock import rewrite
from sagent.lib.json import as_object, as_str, json_load, sha256_hex, wire_bytes
from sagent.lib.regular import read_given
from sagent.plugins.mcp.server import McpServer

FILE = "approved.json"


class Pins:
    """Hashes by server and tool, in a file of a directory shared by all sessions; in memory without one."""

    def __init__(self, directory: Path | None) -> None:
        self._path = directory / FILE if directory is not None else None
        self._known: dict[str, dict[str, str]] | None = None

    def of(self, server: McpServer, tool: str) -> str | None:
        """Return the hash of a tool's definition at its last approval."""
        if self._known is None:
            self._known = self._read()
        return self._known.get(_key(server), {}).get(tool)

    def approve(self, server: McpServer, tool: str, fingerprint: str) -> None:
        """Save a tool's present definition. If the file cannot be written, it applies to this session."""
        if self.of(server, tool) == fingerprint:
            return
        assert self._known is not None
        self._known.setdefault(_key(server), {})[tool] = fingerprint
        with suppress(OSError):
            self._write(_key(server), tool, fingerprint)

    def _read(self) -> dict[str, dict[str, str]]:
        if self._path is None:
            return {}
        try:
            data = as_object(json_load(read_given(self._path)))
        except (OSError, ValueError):
            return {}
        return {
            key: {tool: as_str(fingerprint) for tool, fingerprint in as_object(tools).items()}
            for key, tools in data.items()
        }

    def _write(self, key: str, tool: str, fingerprint: str) -> None:
        """Add one hash to the file's present contents, because another session may have added its own."""
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)

        def changed() -> bytes:
            known = self._read()
            known.setdefault(key, {})[tool] = fingerprint
            return json.dumps(known, indent=1, sort_keys=True).encode()

        rewrite(self._path, self._path.with_suffix(".lock"), changed)


def _key(server: McpServer) -> str:
    """Return a server's identity by its command or address: its name does not matter."""
    return sha256_hex(wire_bytes([server.url or [server.command, *server.args]]))[:32]
