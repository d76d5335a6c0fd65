"""The program as a process, led to a provider on loopback."""

import json
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from sagent.testing.server import FakeProviderServer, Script
from tests.forks import Forks

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
        return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *argv: str) -> subprocess.Popen[bytes]:
        """Start it as a user does; whatever is left of it ends with the test."""
        child = subprocess.Popen(
            [*PROGRAM, "--model", "anthropic/claude-sonnet-4-6", *argv],
            cwd=self.cwd,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.children.append(child)
        return child
