"""The REPL in tmux, with a provider on loopback. Everything is waited for by looking at the pane."""

import os
import shlex
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from sagent.testing.server import FakeProviderServer, Received, Script

CHECKOUT = Path(__file__).parents[2]
PATIENCE = 20.0  # seconds
MAX_SETTLE_SECONDS = 2.0  # one that draws all the time hardly ever waits
READY = "│ $0"  # the status line, when the session is open


def last_text(request: Received) -> str:
    """What the newest message of a request says."""
    messages = request.json["messages"]
    assert isinstance(messages, list)
    return str(messages[-1])


def is_busy(pane: int) -> bool:
    """Return True if the program in a pane runs, or would if the machine were not busy."""
    try:
        children = Path(f"/proc/{pane}/task/{pane}/children").read_text().split()
        stat = Path(f"/proc/{(children or [pane])[-1]}/stat").read_text()
    except OSError:  # it has ended, or there is no /proc
        return False
    return stat.rpartition(") ")[2].startswith(("R", "D"))


@dataclass
class Console:
    """A terminal of its own, in a tmux server of its own."""

    socket: Path
    cwd: Path
    environment: dict[str, str]
    stack: ExitStack = field(default_factory=ExitStack)
    program: list[str] = field(default_factory=lambda: [sys.executable, "-m", "sagent.bin.cli"])

    def serve(self, script: Script) -> FakeProviderServer:
        """Start a provider and have the program use it."""
        server = self.stack.enter_context(FakeProviderServer(script, strict=False).in_thread())
        for name in ("ANTHROPIC", "OPENAI"):
            self.environment |= {f"{name}_API_KEY": "k"}
        self.environment |= {"ANTHROPIC_BASE_URL": server.url, "OPENAI_BASE_URL": f"{server.url}/v1"}
        return server

    def tmux(self, *argv: str) -> str:
        """A tmux command."""
        done = subprocess.run(
            ["tmux", "-S", str(self.socket), "-f", "/dev/null", *argv],
            capture_output=True,
            text=True,
            check=False,
            env={
                "PATH": os.environ["PATH"],
                "TMPDIR": os.environ["TMPDIR"],
                "TERM": "xterm-256color",
                "LANG": "C.UTF-8",
                "HOME": self.environment["HOME"],
                "SHELL": shutil.which("bash") or "/bin/sh",  # else the account's, and each ends otherwise at Ctrl-C
            },
        )
        assert not done.returncode, done.stderr
        return done.stdout

    def start(self, *flags: str, width: int = 90, height: int = 30, ready: str = READY, shell: bool = False) -> None:
        """Run the program in a pane, from an interactive shell or without, and wait until it can be used."""
        environment = {"TERM": "tmux-256color", "LANG": "C.UTF-8", **self.environment}
        assignments = [f"{name}={value}" for name, value in environment.items()]
        command = shlex.join(["env", "-i", *assignments, *self.program, *flags])
        if shell:
            self.tmux("new-session", "-d", "-x", "90", "-y", "30", "-c", str(self.cwd), "bash --norc --noprofile -i")
            self.tmux("send-keys", "-l", command)
            self.keys("Enter")
            self.until(ready)
            return
        # what the terminal shows when the program has ended stays there to be read
        self.tmux(
            "new-session", "-d", "-x", str(width), "-y", str(height), "-c", str(self.cwd),
            f"{command}; echo ended $?; exec sleep 1000",
        )  # fmt: skip
        self.until(ready)

    def record(self, file: Path) -> None:
        """Write what the program sends from now on into a file."""
        self.tmux("pipe-pane", "-o", f"cat > {shlex.quote(str(file))}")

    def raw(self, data: bytes) -> None:
        """Send bytes, as a terminal does that has something to tell."""
        self.tmux("send-keys", "-H", *(f"{byte:02x}" for byte in data))

    def keys(self, *keys: str) -> None:
        """Press keys, by tmux's names, once the program waits for them.

        One that is pressed as soon as something is drawn, before the program knows that it is, chooses nothing."""
        pane, end = int(self.tmux("display-message", "-p", "#{pane_pid}")), time.monotonic() + MAX_SETTLE_SECONDS
        while is_busy(pane) and time.monotonic() < end:
            time.sleep(0.01)
        self.tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        """Type a text, and Enter."""
        self.tmux("send-keys", "-l", text)
        self.keys("Enter")

    @property
    def screen(self) -> str:
        """What is to be seen, scrollback included."""
        return self.tmux("capture-pane", "-p", "-J", "-S", "-2000")

    def until(self, *wanted: str, gone: str = "", once: str = "", patience: float = PATIENCE) -> str:
        """Return the screen as soon as it has all of `wanted`, `once` at one place only, and not `gone`."""
        end = time.monotonic() + patience
        while True:
            screen = self.screen
            single = not once or screen.count(once) == 1
            if single and all(text in screen for text in wanted) and (not gone or gone not in screen):
                return screen
            assert time.monotonic() < end, f"{wanted}, {once!r} once, without {gone!r}: not seen in\n{screen}"
            time.sleep(0.1)

    def leave(self) -> None:
        """Close the terminal; the next one is another."""
        self.tmux("kill-server")
        self.socket = self.socket.with_name(f"{self.socket.name}-next")

    def close(self) -> None:
        """End everything."""
        subprocess.run(["tmux", "-S", str(self.socket), "kill-server"], capture_output=True, check=False)
        self.stack.close()
