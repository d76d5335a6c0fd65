"""The REPL in tmux, with a provider on loopback. Everything is waited for by looking at the pane."""

import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from sagent.testing.server import FakeProviderServer, Received, Script
from tests.forks import Forks, needs_a_start

CHECKOUT = Path(__file__).parents[2]
PATIENCE = 20.0  # seconds
MAX_SETTLE_SECONDS = 2.0  # one that draws all the time hardly ever waits
READY = "│ $0"  # the status line, when the session is open
PROGRAM = (sys.executable, "-m", "sagent.bin.cli")

# What holds a pane whose program is a fork: it gives the terminal away, tells that the program has ended, and stays
# until the terminal is closed, for what is shown to be read.
HOLDER = """
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGHUP, signal.SIG_IGN)
fcntl.ioctl(0, termios.TIOCNOTTY)
code = open(sys.argv[1]).read()
try:
    os.write(1, f"ended {code}\\r\\n".encode())
    while os.read(0, 4096): pass
except OSError: pass
"""


def last_text(request: Received) -> str:
    """What the newest message of a request says."""
    messages = request.json["messages"]
    assert isinstance(messages, list)
    return str(messages[-1])


def is_busy(program: int) -> bool:
    """Return True if a process runs, or would if the machine were not busy."""
    try:
        stat = Path(f"/proc/{program}/stat").read_text()
    except OSError:  # it has ended, or there is no /proc
        return False
    return stat.rpartition(") ")[2].startswith(("R", "D"))


@dataclass
class Console:
    """A terminal of its own, in a tmux server of its own."""

    socket: Path
    cwd: Path
    environment: dict[str, str]
    forks: Forks | None = None  # or the program is started as a user does
    stack: ExitStack = field(default_factory=ExitStack)
    program: list[str] = field(default_factory=lambda: [*PROGRAM])
    child: int = 0  # the program, where it is a fork

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
        pane = ("new-session", "-d", "-x", str(width), "-y", str(height), "-c", str(self.cwd))
        set_early = {name: value for name, value in environment.items() if (name, value) != ("LANG", "C.UTF-8")}
        if self.forks and self.program == [*PROGRAM] and sys.platform == "linux" and not needs_a_start(set_early):
            self._fork(self.forks, pane, *flags, **environment)
        else:
            self.child = 0
            self.tmux(*pane, f"{command}; echo ended $?; exec sleep 1000")
        self.until(ready)

    def _fork(self, forks: Forks, pane: Sequence[str], *flags: str, **environment: str) -> None:
        """Run the program in a pane as a fork, which costs a third of a start."""
        told = self.socket.with_name(f"{self.socket.name}-ended")
        os.mkfifo(told)
        self.tmux(*pane, f"exec {shlex.join([sys.executable, '-I', '-S', '-c', HOLDER, str(told)])}")
        name = self.tmux("display-message", "-p", "#{pane_tty}").strip()
        ending = open(told, "w")  # noqa: SIM115 -- a thread closes it. From here on the terminal is nobody's.
        streams = [os.open(name, os.O_RDWR | os.O_NOCTTY) for _ in range(3)]
        self.child, end = forks.start(*flags, cwd=self.cwd, environment=environment, streams=streams, controls=True)

        def tell() -> None:
            with end, ending:
                code = int(end.recv(8))
                ending.write(str(code if code >= 0 else 128 - code))  # as a shell says it

        threading.Thread(target=tell, daemon=True).start()

    @property
    def process(self) -> int:
        """The process id of the program, or of what was started last in the pane."""
        if self.child:
            return self.child
        pane = int(self.tmux("display-message", "-p", "#{pane_pid}"))
        with suppress(OSError):  # it has ended, or there is no /proc
            return int([pane, *Path(f"/proc/{pane}/task/{pane}/children").read_text().split()][-1])
        return pane

    def record(self, file: Path) -> None:
        """Write what the program sends from now on into a file."""
        self.tmux("pipe-pane", "-o", f"cat > {shlex.quote(str(file))}")

    def raw(self, data: bytes) -> None:
        """Send bytes, as a terminal does that has something to tell."""
        self.tmux("send-keys", "-H", *(f"{byte:02x}" for byte in data))

    def keys(self, *keys: str) -> None:
        """Press keys, by tmux's names, once the program waits for them.

        One that is pressed as soon as something is drawn, before the program knows that it is, chooses nothing."""
        program, end = self.process, time.monotonic() + MAX_SETTLE_SECONDS
        while is_busy(program) and time.monotonic() < end:
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
