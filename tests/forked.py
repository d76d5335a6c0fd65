"""The program as a fork (`tests/forks.py`) that runs beside a test, with what tests ask of a `subprocess.Popen`."""

import os
import select
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.forks import PATIENCE, Forks


class Forked:
    """A run of the program, with pipes as its streams. It ends with the block it is opened in."""

    def __init__(self, forks: Forks, *argv: str, cwd: Path, environment: Mapping[str, str]) -> None:
        (stdin, to_stdin), (out, stdout), (err, stderr) = os.pipe(), os.pipe(), os.pipe()
        self.pid, self._end = forks.start(*argv, cwd=cwd, environment=environment, streams=(stdin, stdout, stderr))
        self.stdin, self.stdout, self.stderr = open(to_stdin, "wb"), open(out, "rb"), open(err, "rb")  # noqa: SIM115
        self._code: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.kill()
        self.wait()
        for each in (self.stdin, self.stdout, self.stderr, self._end):
            each.close()

    def poll(self) -> int | None:
        """Return its exit code, once it has ended."""
        if self._code is None and select.select([self._end], [], [], 0)[0]:
            self._code = int(self._end.recv(8))
        return self._code

    def wait(self, seconds: float = PATIENCE) -> int:
        """Return its exit code when it has ended. Fails where it does not end in so many seconds."""
        assert self._code is not None or select.select([self._end], [], [], seconds)[0], "it has not ended"
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)
