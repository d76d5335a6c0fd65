"""Servers that do not want to end: nothing of them is left, and no connection has to be cut for it."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from sagent.lib.process import ProcessGroup
from sagent.plugins.mcp import link, pipes
from sagent.plugins.programs.piped import PipedProcess
from tests.depth import later

IGNORE = "import signal, time, os, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
SERVERS = {
    "ignores SIGTERM": f"{IGNORE}print('up', flush=True); time.sleep(600)",
    "ignores SIGTERM, reads on": f"{IGNORE}print('up', flush=True); [line for line in sys.stdin]; time.sleep(600)",
    "has a child that ignores it": f"{IGNORE}pid = os.fork(); pid and print('up', flush=True); time.sleep(600)",
    "has a child with its stderr": f"{IGNORE}pid = os.fork(); pid or os.setsid(); pid and print('up', flush=True); "
    "time.sleep(0 if pid else 600)",
}


@later
@pytest.mark.costly
@pytest.mark.parametrize("name", SERVERS)
async def test_stubborn_server_stops_first(name: str, tmp_path: Path) -> None:
    group = ProcessGroup()
    argv = [sys.executable, "-I", "-c", SERVERS[name]]
    program = await PipedProcess.start(group, argv, dict(os.environ), cwd=tmp_path)
    try:
        assert await program.reader.readline() == b"up\n"
        async with asyncio.timeout(60):
            await pipes._end(program)
        assert not program.process.alive
        assert program.stderr_task.done()  # nobody holds its standard error any more
    finally:
        program.close()
        await group.aclose()


def test_end_time_fits_connection_time() -> None:
    signals = 0.4 + 0.4  # of the sweep in process.sh
    assert pipes._END_SECONDS + signals < link._CLOSE_TIMEOUT_SECONDS
