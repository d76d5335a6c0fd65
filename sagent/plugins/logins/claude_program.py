"""The installed `claude` program as a child process: JSON lines in, JSON lines out, without leftovers."""

import asyncio
import contextlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Self

from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_object
from sagent.lib.process import ProcessGroup, system_path
from sagent.model import Effort
from sagent.plugins.programs.piped import PipedProcess

SERVER = "sagent"
"""The name of our MCP server, through which the program calls our tools."""

INSTALL = "npm install -g @anthropic-ai/claude-code"

_EXIT_TIMEOUT_SECONDS = 0.5  # to end by itself: it may be in the middle of renewing its login
_MAX_LINE_BYTES = 256 * 1024 * 1024  # a line may hold every image of a turn
_MAX_STDERR_BYTES = 4_096  # bytes of its standard error to keep

# Ours to set, not to inherit: keys and addresses that would win over the program's login, and the marks of a program
# that we may have been started by.
_OWN_PREFIXES = ("ANTHROPIC_", "CLAUDE")
_INHERITED = ("CLAUDE_CONFIG_DIR", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_SECURESTORAGE_CONFIG_DIR")
# A model and nothing else: no memory files, retries, fall-backs, compaction, updates or reports of its own (names from
# code.claude.com/docs/en/env-vars, and from the program, 2.1.197 and 2.1.330).
_BARE = {
    "CLAUDE_AGENT_SDK_MCP_NO_PREFIX": "1",  # our tools keep their names
    "CLAUDE_AGENT_SDK_DISABLE_BUILTIN_AGENTS": "1",
    "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
    "CLAUDE_CODE_DISABLE_LEGACY_MODEL_REMAP": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
    "CLAUDE_CODE_DISABLE_REFUSAL_FALLBACK": "1",
    "CLAUDE_CODE_ENTRYPOINT": "sdk-py",
    "CLAUDE_CODE_MAX_RETRIES": "0",
    "CLAUDE_CODE_SKIP_PROMPT_HISTORY": "1",
    "DISABLE_AUTO_COMPACT": "1",
    "DISABLE_COMPACT": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_UPDATES": "1",
    "ENABLE_CLAUDEAI_MCP_SERVERS": "false",
    "ENABLE_MCP_LARGE_OUTPUT_FILES": "false",
    "ENABLE_TOOL_SEARCH": "false",
    "MAX_MCP_OUTPUT_TOKENS": "1000000000",
    "MCP_TOOL_TIMEOUT": "1000000000",  # milliseconds: our tools have their own limits
    "XDG_CACHE_HOME": "/dev/null/none",  # it would log our tools' traffic there
}
_FLAGS = (
    *("-p", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json"),
    *("--include-partial-messages", "--no-session-persistence", "--disable-slash-commands", "--strict-mcp-config"),
    *("--setting-sources", "", "--tools", "", "--allowedTools", f"mcp__{SERVER}"),
)
_EFFORTS: Mapping[Effort, tuple[str, ...]] = {
    "none": ("--thinking", "disabled"),
    "minimal": ("--effort", "low"),
    **{level: ("--effort", level) for level in ("low", "medium", "high", "xhigh", "max")},
}


@dataclass(frozen=True, slots=True)
class Program:
    """The program on this machine, the environment it gets, and what to call it with."""

    path: str
    environ: Mapping[str, str] = field(repr=False)

    @classmethod
    def find(cls, path: str | None, environ: Mapping[str, str], variables: Mapping[str, str]) -> Self:
        """Find the program by its path or on PATH. `variables` override its environment. Raises UsageError."""
        found = shutil.which(path or "claude", path=system_path(environ))
        if found is None:
            raise UsageError(
                f"The program {path or 'claude'} is missing, and anthropic-cli uses its login. Install it"
                f" ({INSTALL}), run `claude` and log in with /login; or use the provider anthropic with a key."
            )
        inherited = {
            name: value for name, value in environ.items() if name in _INHERITED or not name.startswith(_OWN_PREFIXES)
        }
        return cls(found, {**inherited, **_BARE, **variables})

    def arguments(self, model: str, effort: Effort | None) -> tuple[str, ...]:
        """Return the command line. An empty model means the default of the login's plan."""
        named = ("--model", model) if model else ()
        thinking = _EFFORTS[effort] if effort else ()
        shown = () if effort == "none" else ("--thinking-display", "summarized")
        return (self.path, *_FLAGS, *named, *thinking, *shown)


class ClaudeProcess:
    """One run of the program."""

    def __init__(self, group: ProcessGroup, program: PipedProcess) -> None:
        self._group, self._program = group, program

    @classmethod
    async def start(cls, argv: Sequence[str], environ: Mapping[str, str]) -> Self:
        """Start it in the current directory, which it reports to the model. Raises OSError."""
        group = ProcessGroup()
        program = await PipedProcess.start(
            group, argv, environ, max_line_bytes=_MAX_LINE_BYTES, max_stderr_bytes=_MAX_STDERR_BYTES
        )
        return cls(group, program)

    async def send(self, line: bytes) -> bool:
        """Write a line; return False if the program no longer reads."""
        try:
            self._program.writer.write(line + b"\n")
            await self._program.writer.drain()
        except (ConnectionError, RuntimeError):
            return False
        return True

    async def receive(self) -> Mapping[str, object] | None:
        """Receive the program's next object; None when it has ended. Lines that are not JSON are skipped."""
        while line := await self._program.reader.readline():
            with contextlib.suppress(ValueError, RecursionError):
                said: object = json.loads(line)
                if fields := as_object(said):
                    return fields
        return None

    async def complaint(self) -> str:
        """Return the end of its standard error, once it has ended."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._program.stderr_task), 1.0)
        return self._program.stderr

    def abort(self) -> None:
        """Kill it at once, before it does anything more."""
        self._program.process.kill()

    async def stopped(self) -> None:
        """Let it end, within a second, with all its child processes, and wait for that even if cancelled."""
        ending = asyncio.ensure_future(self._end())
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await ending
            raise

    async def _end(self) -> None:
        process = self._program.process
        process.terminate()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.ended(), _EXIT_TIMEOUT_SECONDS)
        process.kill()
        await process.ended()
        self._program.close()
        await self._group.aclose()
