"""A kernel for its tool: a process that answers questions, and ends with the session and with this process."""

import asyncio
import contextlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from sagent.errors import ToolError
from sagent.lib import isolated
from sagent.lib.json import as_object, as_str, wire_bytes
from sagent.lib.process import ProcessGroup
from sagent.lib.text import one_line
from sagent.plugins.programs.piped import PipedProcess
from sagent.sandbox import Confined

MAX_LINE_BYTES = 1 << 27  # of an answer
CLOSE_TIMEOUT_SECONDS = 2.0  # seconds to end by itself
CALL_EXIT_SECONDS = 10.0  # that an interrupted call has to end, before its kernel is


def command(python: str) -> Sequence[str]:
    """Return the command line of what starts a kernel of a Python."""
    return [*isolated.command("sagent.plugins.notebook.driver", "main"), python]


class Kernel:
    """A kernel that serves one call at a time."""

    def __init__(self, program: PipedProcess, confined: Confined) -> None:
        self.confined = confined
        self._program = program
        self._count = 0

    @classmethod
    async def start(
        cls, processes: ProcessGroup, confined: Confined, environment: Mapping[str, str], cwd: Path
    ) -> Self:
        """Start the kernel's program. Raises ToolError."""
        try:
            program = await PipedProcess.start(
                processes, *confined.launched(environment), cwd, max_line_bytes=MAX_LINE_BYTES
            )
        except BaseException as error:
            confined.finish()
            if isinstance(error, OSError | ValueError):
                raise ToolError(f"The kernel could not be started: {error}") from error
            raise
        return cls(program, confined)

    @property
    def alive(self) -> bool:
        return self._program.process.alive

    async def run(self, code: str, seconds: float, progress: Callable[[str], None]) -> Mapping[str, object]:
        """Run code and return the last answer. A cancelled call interrupts the code. Raises ToolError if the kernel has
        ended."""
        self._count += 1
        self._send({"id": self._count, "code": code, "seconds": seconds})
        try:
            return await self._answer(self._count, progress)
        except asyncio.CancelledError:
            await self._interrupt(progress)
            raise

    async def close(self) -> None:
        """End it, with all it has started."""
        self._program.hang_up()
        with contextlib.suppress(TimeoutError):  # at the end of its input it removes its kernel and its files
            async with asyncio.timeout(CLOSE_TIMEOUT_SECONDS):
                await self._program.process.ended()
        await self._program.process.kill_tree()
        self._program.close()
        self.confined.finish()

    async def _interrupt(self, progress: Callable[[str], None]) -> None:
        """Have the call in progress end, or else its kernel."""
        try:
            self._send({"interrupt": True})
            async with asyncio.timeout(CALL_EXIT_SECONDS):
                await self._answer(self._count, progress)
        except (TimeoutError, ToolError):
            await self.close()

    def _send(self, question: Mapping[str, object]) -> None:
        if not self.alive or self._program.writer.is_closing():
            raise self._gone()
        self._program.writer.write(wire_bytes(question) + b"\n")

    async def _answer(self, number: int, progress: Callable[[str], None]) -> Mapping[str, object]:
        while True:
            try:
                line = await self._program.reader.readuntil(b"\n")
            except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
                await self.close()
                raise self._gone() from None
            answer = as_object(json.loads(line))
            if answer.get("id") != number:
                continue
            if "parts" in answer:
                return answer
            progress(as_str(answer.get("progress")))

    def _gone(self) -> ToolError:
        lines = self._program.stderr_lines
        said = f": {one_line(lines[-1], 300)}" if lines else ""
        return ToolError(f"The kernel has ended{said}. Its variables are gone; the next call starts another.")


def python_of(directory: Path) -> str:
    """Return the Python whose kernel is used: that of a project's virtual environment if there is one, else ours."""
    for name in (".venv", "venv"):
        python = directory / name / "bin" / "python"
        with contextlib.suppress(OSError):
            if python.exists() and any((directory / name).glob("lib/python3*/site-packages/ipykernel_launcher.py")):
                return str(python)
    return sys.executable
