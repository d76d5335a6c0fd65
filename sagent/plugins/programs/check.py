"""A command that checks the result of a run, in the directory of that run."""

import asyncio
import os
import tempfile
from collections.abc import Mapping
from contextlib import aclosing, closing
from pathlib import Path
from typing import IO

from sagent.lib.dataclass import dataclass
from sagent.lib.process import ProcessGroup

CHECK_TIMEOUT_SECONDS = 600.0
MAX_OUTPUT_BYTES = 4_096  # bytes of its output that are looked at
MAX_OUTPUT_LINES = 20  # of the output that are kept


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of a check in a directory: its exit code, None if it did not end or could not run. `said` has its last
    lines, or the reason why there are none."""

    command: str
    code: int | None
    said: str = ""
    directory: str = ""


async def run_check(
    command: str, directory: Path, timeout: float = CHECK_TIMEOUT_SECONDS, environment: Mapping[str, str] | None = None
) -> CheckResult:
    """Run a shell command in a directory, with additions to its `environment`. Its child processes end with it, and
    with this process. The result has no exit code if the command takes longer than `timeout` seconds, or if the
    directory does not exist."""
    where = str(directory)
    if not directory.is_dir():
        return CheckResult(command, None, f"{directory} no longer exists", where)
    shell, more = ["/bin/sh", "-c", command], {**os.environ, **(environment or {})}
    with tempfile.TemporaryFile() as output:
        async with aclosing(ProcessGroup()) as group:
            with closing(group.start(shell, env=more, cwd=directory, output=output.fileno())) as process:
                try:
                    async with asyncio.timeout(timeout):
                        await process.ended()
                except TimeoutError:
                    return CheckResult(command, None, f"it did not end within {timeout:g} s", where)
                finally:
                    await process.kill_tree()
                code = process.code
        return CheckResult(command, code, _end_of(output), where)


def _end_of(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - MAX_OUTPUT_BYTES))
    return "\n".join(output.read().decode("utf-8", "replace").strip().splitlines()[-MAX_OUTPUT_LINES:])
