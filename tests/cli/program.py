"""The program as a process, led to a provider on loopback."""

import json
import os
import pty
import struct
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ
from typing import Any

from sagent.testing.server import FakeProviderServer, Script
from tests.forks import Forks, needs_a_start
from tests.walls import without_shortfall

PROGRAM = [sys.executable, "-m", "sagent.bin.cli"]
CHECKOUT = Path(__file__).parents[2]


@dataclass
class Outcome:
    """What a run of the program came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, object]:
        """Its one JSON object."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[dict[str, object]]:
        """Its JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass
class Shell:
    """Where the program is run."""

    cwd: Path
    environment: dict[str, str]
    stack: ExitStack
    forks: Forks
    server: FakeProviderServer | None = None
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def serve(self, script: Script, **options: object) -> FakeProviderServer:
        """Start a provider and lead the program to it."""
        server = self.stack.enter_context(FakeProviderServer(script, **options).in_thread())  # pyright: ignore[reportArgumentType]
        self.environment |= {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "k"}
        self.server = server
        return server

    def run(self, *argv: str, stdin: str | bytes = b"", model: str = "anthropic/claude-sonnet-4-6") -> Outcome:
        """Run it to its end, as a fork of a process that has it loaded."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        flags = ["--model", model] if model else []
        done = self.forks.run(*flags, *argv, cwd=self.cwd, environment=self.environment, stdin=data)
        return Outcome(done.returncode, done.stdout.decode(), without_shortfall(done.stderr.decode()))

    def start(
        self,
        *argv: str,
        model: str = "anthropic/claude-sonnet-4-6",
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
        program: Sequence[str] = PROGRAM,
    ) -> subprocess.Popen[bytes]:
        """Start it as a user does; whatever is left of it ends with the test."""
        words = [*program, *(["--model", model] if model else []), *argv]
        child = subprocess.Popen(words, cwd=self.cwd, env=self.environment, stdin=stdin, stdout=stdout, stderr=stderr)
        self.children.append(child)
        return child

    def announced(self, *argv: str) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
        """Start a command that serves; what it says once it does."""
        child = self.start(*argv, model="")
        assert child.stdout is not None
        return child, json.loads(child.stdout.readline())

    def on_terminal(self, *argv: str, columns: int = 0, program: Sequence[str] = PROGRAM, quiet: bool = False) -> str:
        """What it writes to a terminal on either stream, or `quiet` on standard output alone, however it ends. It runs
        as a fork, where it is the program."""
        ours, theirs = pty.openpty()
        if columns:
            ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        stderr = os.open(os.devnull, os.O_WRONLY) if quiet else os.dup(theirs)
        if program is PROGRAM and not needs_a_start(self.environment):
            streams = os.open(os.devnull, os.O_RDONLY), theirs, stderr
            _, end = self.forks.start(*argv, cwd=self.cwd, environment=self.environment, streams=streams)
            said = read_terminal(ours)
            with end:
                end.recv(8)
            return said
        child = self.start(*argv, model="", stdout=theirs, stderr=stderr, program=program)
        os.close(theirs)
        os.close(stderr)
        said = read_terminal(ours)
        child.wait()
        return said


def read_terminal(fd: int) -> str:
    """What was written to a terminal, once its other end is closed."""
    said = b""
    with suppress(OSError):  # it is closed
        while more := os.read(fd, 65536):
            said += more
    os.close(fd)
    return said.decode().replace("\r\n", "\n")
