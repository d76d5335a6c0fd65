"""A llama-server on loopback, for as long as a block runs."""

import contextlib
import os
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sagent.plugins.local.llamacpp_server import Launch

CONTEXT_TOKENS = 16_384
MAX_START_SECONDS = 300.0
MAX_STOP_SECONDS = 10.0


class ServerError(Exception):
    """A llama-server that does not start, with its last words."""


@contextmanager
def served(launch: Launch) -> Iterator[str]:
    """Yield the address of a server with one slot. Raises ServerError."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    listening = ["--host", "127.0.0.1", "--port", str(port), "--alias", launch.name]
    size = ["--ctx-size", str(CONTEXT_TOKENS), "--parallel", "1", "--threads", str(min(8, os.cpu_count() or 2))]
    argv = [launch.program, "--model", str(launch.model), *listening, *size, "--jinja"]
    libraries = [str(Path(launch.program).parent), os.environ.get("LD_LIBRARY_PATH", "")]
    environment = {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(filter(None, libraries))}
    with tempfile.TemporaryFile() as said:
        null = subprocess.DEVNULL
        with subprocess.Popen(argv, env=environment, stdin=null, stdout=said, stderr=said) as process:
            try:
                url = f"http://127.0.0.1:{port}"
                end = time.monotonic() + MAX_START_SECONDS
                while not _healthy(url):
                    if process.poll() is not None or time.monotonic() > end:
                        said.seek(0)
                        last = said.read().decode(errors="replace")[-600:]
                        raise ServerError(
                            f"{launch.program} does not start with {launch.model}. Its last words:\n{last}"
                        )
                    time.sleep(0.2)
                yield url
            finally:
                process.terminate()
                try:
                    process.wait(MAX_STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()


def _healthy(url: str) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=2) as reply:
        return reply.status == 200
    return False
