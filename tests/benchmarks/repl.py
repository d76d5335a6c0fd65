"""The REPL in a pseudo-terminal: start, memory, the cost of a streamed answer, the echo of a key. Needs Linux.

python -m tests.benchmarks.repl          every figure beside what it is to reach
python -m tests.benchmarks.repl --quick  the same with less of everything, in some twenty seconds
"""

import argparse
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from sagent.testing.server import Call, FakeProviderServer, Received, Step, Turn

ROWS, COLUMNS = 40, 120
ROOT = Path(__file__).parents[2]
PROGRAM = [str(Path(sys.executable).with_name("sagent"))]
PLAIN = """
from prompt_toolkit import PromptSession
PromptSession("\\u203a ").prompt()
"""
SECTION = """## Section {number}

A paragraph of some length with **strong words**, `code`, and a [link](https://example.org/{number}) in it, so that it
is wrapped over several lines of the terminal, as the paragraphs of real answers are.

- the first item, which is short
- the second item has *emphasis* and goes on for a while, until it is longer than one line can be
- the third

```python
def answer(question: str) -> int:  # number {number}
    return 42 if question else {number}
```

"""
PROMPT = "\u203a".encode()


def markdown(size: int) -> str:
    """About so many characters."""
    text = ""
    while len(text) < size:
        text += SECTION.format(number=text.count("##") // 1 + 1)
    return text[:size]


class Terminal:
    """A program in a pseudo-terminal."""

    def __init__(self, argv: list[str], environment: dict[str, str], cwd: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            argv, stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=cwd, start_new_session=True
        )
        os.close(slave)
        self.received = bytearray()

    def read(self, seconds: float) -> bytes:
        """What comes within a time, at the first moment that something does."""
        if not select.select([self.master], [], [], max(seconds, 0))[0]:
            return b""
        try:
            data = os.read(self.master, 1 << 16)
        except OSError:
            return b""
        self.received += data
        return data

    def until(self, wanted: bytes, seconds: float = 30.0, start: int | None = None) -> float:
        """The time at which the output holds some bytes."""
        place = len(self.received) if start is None else start
        end = time.monotonic() + seconds
        while wanted not in self.received[place:]:
            self.read(end - time.monotonic())
            if time.monotonic() > end:
                raise TimeoutError(f"{wanted!r} did not come; the last was {bytes(self.received[-600:])!r}")
        return time.monotonic()

    def quiet(self, seconds: float) -> None:
        """Read until nothing comes for a time."""
        while self.read(seconds):
            pass

    def type(self, text: str) -> None:
        """Keys."""
        os.write(self.master, text.encode())

    def cpu(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """PSS in MB."""
        for line in Path(f"/proc/{self.process.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1000
        raise RuntimeError("no Pss")

    def close(self) -> None:
        """End it."""
        os.close(self.master)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()


@contextmanager
def terminal(url: str, argv: list[str] | None = None) -> Iterator[Terminal]:
    """The REPL, led to a provider."""
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as cwd:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": home,
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT),
            "SAGENT_MODEL": "anthropic/claude-sonnet-4-6",
            "SAGENT_PERMISSION_MODE": "full",
            "ANTHROPIC_API_KEY": "k",
            "ANTHROPIC_BASE_URL": url,
        }
        opened = Terminal(argv or PROGRAM, environment, cwd)
        try:
            yield opened
        finally:
            opened.close()


@dataclass(frozen=True)
class Figure:
    """One row of the table."""

    name: str
    value: float
    reach: float
    unit: str
    beside: str = ""  # the same of something that others know

    @property
    def met(self) -> bool:
        """Whether it is reached."""
        return self.value <= self.reach

    def __str__(self) -> str:
        met = "ok  " if self.met else "MISS"
        return f"{met} {self.name:44} {self.value:9.3f} {self.unit:6} (reach {self.reach:g})  {self.beside}".rstrip()


def start(url: str, runs: int, argv: list[str] | None = None) -> float:
    """Milliseconds to the prompt; a key typed then must be echoed."""
    found: list[float] = []
    for _ in range(runs):
        with terminal(url, argv) as opened:
            found.append(1000 * (opened.until(PROMPT, start=0) - opened.started))
            opened.type("q")
            opened.until(b"q")
    return median(found)


def echo(opened: Terminal, count: int, gap: float = 0.02) -> list[float]:
    """Milliseconds from a key to its letter on the screen, one after the other."""
    found: list[float] = []
    for number in range(count):
        letter = "zqjxkv"[number % 6]
        before = time.monotonic()
        opened.type(letter)
        found.append(1000 * (opened.until(letter.encode(), start=len(opened.received)) - before))
        end = time.monotonic() + gap
        while (left := end - time.monotonic()) > 0:
            opened.read(left)
    return found


def settled(opened: Terminal) -> None:
    """Wait until the session is open."""
    opened.until(b"claude-sonnet", start=0)
    opened.quiet(0.5)


def measure(*, quick: bool) -> list[Figure]:
    """Every figure."""
    runs, size, idle, turns = (2, 2_000, 2.0, 100) if quick else (7, 8_000, 10.0, 2_000)
    text = markdown(size)
    seconds = size / 4 * 0.0042

    def script(request: Received) -> Step:
        messages = request.json.get("messages")
        done = (len(messages) - 1) // 2 if isinstance(messages, list) else 0
        body = str(request.json)
        if "many turns" not in body:
            return Turn(text=text, pieces=4, gap=0.0042)
        if done >= turns:
            return Turn(text="That was all.")
        return Turn(text="On.", calls=(Call("List", {"path": "."}, id=f"toolu_{done:06d}"),))

    figures: list[Figure] = []
    with FakeProviderServer(script, strict=False).in_thread() as server:
        plain = start(server.url, runs, [sys.executable, "-c", PLAIN])
        beside = f"{plain:.0f} ms, plain prompt_toolkit"
        figures.append(Figure("start to usable prompt", start(server.url, runs), 200, "ms", beside))
        with terminal(server.url) as opened:
            settled(opened)
            figures.append(Figure("memory at the prompt (PSS)", opened.memory(), 60, "MB"))
            figures.append(Figure("key to echo, median", median(echo(opened, 40)), 5, "ms"))
            opened.quiet(0.5)
            before = opened.cpu()
            time.sleep(idle)
            figures.append(Figure(f"CPU in {idle:g} s idle", opened.cpu() - before, 0.02 * idle / 10, "s"))
        with terminal(server.url) as opened:
            settled(opened)
            before, count = opened.cpu(), len(opened.received)
            opened.type("tell me\r")
            end = time.monotonic() + seconds + 2
            while time.monotonic() < end:
                opened.read(0.1)
            spent = opened.cpu() - before
            figures.append(Figure(f"CPU for {size} characters streamed", spent, 0.5 * size / 8_000, "s"))
            written = len(opened.received) - count
            figures.append(Figure("bytes to the terminal per character", written / size, 3, "B"))
        with terminal(server.url) as opened:
            settled(opened)
            opened.type("tell me\r")
            opened.until(b"Section")
            delays = sorted(echo(opened, 20 if quick else 150))
            figures.append(Figure("key to echo while streaming, p99", delays[int(len(delays) * 0.99)], 30, "ms"))
        with terminal(server.url) as opened:
            settled(opened)
            opened.type("many turns\r")
            opened.until(b"That was all.", 300)
            figures.append(Figure(f"memory after {turns} turns (PSS)", opened.memory(), 120, "MB"))
    return figures


def main() -> None:
    """Measure and tell; 1 when something is not reached."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--quick", action="store_true")
    figures = measure(quick=parser.parse_args().quick)
    for figure in figures:
        print(figure, flush=True)
    sys.exit(any(not figure.met for figure in figures))


if __name__ == "__main__":
    main()
