"""A script as a real bash runs it, to the end of all that it has started."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

PATIENCE = 20.0  # seconds


def run_bash(script: str, place: Path, environment: Mapping[str, str]) -> None:
    """Wait for whatever holds the output open, not for bash alone. Raises TimeoutExpired, and leaves nothing behind."""
    with subprocess.Popen(
        ["/bin/bash", "-c", script], cwd=place, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, start_new_session=True,
    ) as bash:  # fmt: skip
        try:
            bash.communicate(timeout=PATIENCE)
        finally:
            with contextlib.suppress(ProcessLookupError):  # `subprocess.run` would wait for these without end
                os.killpg(bash.pid, signal.SIGKILL)
