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
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

from sagent.lib.json import JsonObject
from sagent.messages import Message, Text, ToolCall, ToolResult, assistant, user
from sagent.session.contents import ChargeEntry, MessageEntry, Opened, StoredMessage
from sagent.session.store import Session
from sagent.testing.server import Call, FakeProviderServer, Received, Script, Step, Turn
from sagent.usage import Charge, Usage
from tests.warm import warm

ROWS, COLUMNS = 40, 120
ROOT = Path(__file__).parents[2]
PROGRAM = [str(Path(sys.executable).with_name("sagent"))]
PLAIN = """
from prompt_toolkit import PromptSession
PromptSession("\\u203a ").prompt()
"""
STREAMING = """
import asyncio, sys
from prompt_toolkit import PromptSession
from prompt_toolkit.patch_stdout import patch_stdout

async def stream():
    reader, _ = await asyncio.open_connection("127.0.0.1", int(sys.argv[1]))
    while data := await reader.read(4096):
        print(data.decode(), end="", flush=True)

async def main():
    session = PromptSession("\\u203a ")
    with patch_stdout():
        await session.prompt_async()
        streaming = asyncio.create_task(stream())
        await session.prompt_async()

asyncio.run(main())
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
PIECE, GAP = 40, 0.0042  # characters of a long answer that come at once, and the seconds between two of them


def markdown(size: int) -> str:
    """About so many characters."""
    text = ""
    while len(text) < size:
        text += SECTION.format(number=text.count("##") // 1 + 1)
    return text[:size]


@contextmanager
def provider(script: Script, text: str) -> Generator[tuple[str, int]]:
    """A process of its own, so that who measures waits for no lock of Python's: the address of a provider, and a port
    at which a text is streamed as it is."""
    here, there = Pipe()
    process = get_context("fork").Process(target=_provide, args=(script, text, there), daemon=True)
    process.start()
    try:
        yield here.recv()
    finally:
        process.terminate()
        process.join()


def _provide(script: Script, text: str, there: "Connection[object, object]") -> None:
    with FakeProviderServer(script, strict=False).in_thread() as server, socket.create_server(("127.0.0.1", 0)) as bare:
        there.send((server.url, bare.getsockname()[1]))
        while True:
            client = bare.accept()[0]
            with client, suppress(OSError):
                for at in range(0, len(text), PIECE):
                    client.sendall(text[at : at + PIECE].encode())
                    time.sleep(GAP)


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
        self.cwd, self.state = Path(cwd), Path(environment["SAGENT_STATE_DIR"])
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
def terminal(url: str, argv: list[str] | None = None) -> Generator[Terminal]:
    """The REPL, led to a provider, in a home in which it has run before."""
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
        warm(state := Path(home, "state"))
        opened = Terminal(argv or PROGRAM, {**environment, "SAGENT_STATE_DIR": str(state)}, cwd)
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


def start(url: str, argv: list[str] | None = None) -> float:
    """Milliseconds to the prompt; a key typed then must be echoed."""
    with terminal(url, argv) as opened:
        took = 1000 * (opened.until(PROMPT, start=0) - opened.started)
        opened.type("q")
        opened.until(b"q")
        return took


def echo(opened: Terminal, count: int, gap: float = 0.02) -> list[float]:
    """Milliseconds from a key to its letter on the screen, one after the other: letters that neither the answer nor
    what drives a terminal has. The line is cleared now and then, as long lines are not what people type."""
    found: list[float] = []
    for number in range(count):
        letter = "zjZQXW"[number % 6]
        before = time.monotonic()
        opened.type(letter)
        found.append(1000 * (opened.until(letter.encode(), start=len(opened.received)) - before))
        if number % 50 == 49:
            opened.type("\x15")
        end = time.monotonic() + gap
        while (left := end - time.monotonic()) > 0:
            opened.read(left)
    return found


def settled(opened: Terminal) -> None:
    """Wait until the session is open."""
    opened.until(b"claude-sonnet", start=0)
    opened.quiet(0.5)


def resumed(url: str, runs: int) -> float:
    """Milliseconds from Enter after `/resume` of a session of 10,000 messages to its last words on the screen."""
    found: list[float] = []
    for _ in range(runs):
        with terminal(url) as opened:
            session = long_session(opened.state, opened.cwd)
            settled(opened)
            opened.type(f"/resume {session}")
            opened.quiet(0.5)
            before = time.monotonic()
            opened.type("\r")
            found.append(1000 * (opened.until(b"These are the last words.") - before))
            opened.until(b"resumed.")
    return median(found)


def long_session(state: Path, cwd: Path) -> str:
    """The id of a session of 10,000 messages, four of five with a call or its result."""
    whole = "".join(file.read_text("utf-8") for file in sorted(ROOT.glob("sagent/repl/**/*.py")))
    with Session.create(state, cwd) as session:
        log = session.log()
        log.append(Opened(session.id, "root", str(cwd), {}))

        def say(message: Message) -> None:
            log.append(MessageEntry(StoredMessage.of(message, None)))

        for turn in range(1000):
            say(user(f"Please do step {turn}."))
            for number in range(4):
                call = ToolCall(f"c{turn}-{number}", "Bash", JsonObject({"command": f"pytest -q tests/{turn}.py"}))
                say(assistant(whole[:300], call, model="anthropic/claude-sonnet-4-6", stop="tool_use"))
                log.append(ChargeEntry(Charge("claude-sonnet-4-6", Usage(9, 9), provider="anthropic", agent="root")))
                say(Message("user", (ToolResult(call.id, (Text(whole[number * 2000 :][:2000]),)),)))
            say(assistant(f"Step {turn} is done. These are the last words.", model="anthropic/claude-sonnet-4-6"))
        return session.id


def p99(delays: list[float]) -> float:
    """What 99 % of them are no longer than."""
    return sorted(delays)[int(len(delays) * 0.99)]


@dataclass(frozen=True)
class Streamed:
    """What a long answer took: seconds of CPU; bytes to the terminal for each character; milliseconds to each echo of a
    key that was typed while another came; and MB at the prompt before."""

    cpu: float
    written: float
    echoes: list[float]
    memory: float


def while_it_streams(url: str, size: int, keys: int, argv: list[str] | None = None) -> Streamed:
    """Stream an answer of so many characters, and another while keys are typed."""
    with terminal(url, argv) as opened:
        settled(opened) if argv is None else opened.until(PROMPT, start=0)
        opened.quiet(0.5)
        memory, before, count = opened.memory(), opened.cpu(), len(opened.received)
        opened.type("a long one\r")
        opened.until(b"Section", start=count)
        opened.quiet(2.5)  # a bare prompt waits for where the cursor is, up to 2 s in a terminal that does not say
        spent, written = opened.cpu() - before, len(opened.received) - count
    with terminal(url, argv) as opened:
        settled(opened) if argv is None else opened.until(PROMPT, start=0)
        opened.type("a long one\r")
        opened.until(b"Section")
        return Streamed(spent, written / size, echo(opened, keys), memory)


def beside_a_bare_prompt(url: str, port: int, size: int, keys: int, rounds: int) -> Iterator[Figure]:
    """The same of a program that is nothing but prompt_toolkit's prompt and prints the same text above it, which comes
    from the same process in the same pieces. Both take turns, and a figure is the median of the rounds, but for p99: of
    one round it is the third or fourth slowest key, and one that another program has delayed would decide it."""
    argv = [sys.executable, "-c", STREAMING, str(port)]
    pairs = [(while_it_streams(url, size, keys), while_it_streams(url, size, keys, argv)) for _ in range(rounds)]

    def compared(what: str, name: str, reach: float, unit: str, digits: int = 0) -> Figure:
        found = [(getattr(ours, what), getattr(bare, what)) for ours, bare in pairs]
        sides = " and ".join(f"{median(side):.{digits}f}" for side in zip(*found, strict=True))
        return Figure(name, median(ours / bare for ours, bare in found), reach, "×", f"{sides} {unit}")

    told = f"{size // 1000} kB streamed"
    yield compared("cpu", f"CPU, {told}, over a bare prompt", 1.1, "s", 2)
    beside = f"{median(bare.written for _, bare in pairs):.2f} B, bare prompt"
    yield Figure(f"bytes per character, {told}", median(ours.written for ours, _ in pairs), 2.5, "B", beside)
    ours, bare = (p99([one for side in sides for one in side.echoes]) for sides in zip(*pairs, strict=True))
    name = f"key to echo, p99, {told}, over a bare prompt"
    yield Figure(name, ours / bare, 1.1, "×", f"{ours:.1f} and {bare:.1f} ms")
    yield compared("memory", "memory at the prompt over a bare prompt", 1.6, "MB")


def measure(*, quick: bool) -> Iterator[Figure]:
    """Every figure, as soon as it is known."""
    runs, size, idle, turns = (2, 2_000, 2.0, 100) if quick else (7, 8_000, 10.0, 2_000)
    seconds, long, keys, rounds = size / 4 * 0.0042, 15 * size, 20 if quick else 300, 1 if quick else 5
    text, streamed = markdown(size), markdown(long)

    def script(request: Received) -> Step:
        messages = request.json.get("messages")
        done = (len(messages) - 1) // 2 if isinstance(messages, list) else 0
        body = str(request.json)
        if "a long one" in body:
            return Turn(text=streamed, pieces=PIECE, gap=GAP)
        if "many turns" not in body:
            return Turn(text=text, pieces=4, gap=0.0042)
        if done >= turns:
            return Turn(text="That was all.")
        place = "./" * (done % 9 + 1)  # the same call with the same result would be stopped after some turns
        return Turn(text="On.", calls=(Call("List", {"path": place}, id=f"toolu_{done:06d}"),))

    with provider(script, streamed) as (url, port):
        starts = [(start(url), start(url, [sys.executable, "-c", PLAIN])) for _ in range(runs)]
        beside = f"{median(plain for _, plain in starts):.0f} ms, plain prompt_toolkit"
        yield Figure("start to usable prompt", median(ours for ours, _ in starts), 200, "ms", beside)
        yield Figure("start over a bare prompt", median(ours / plain for ours, plain in starts), 1.1, "×")
        with terminal(url) as opened:
            settled(opened)
            yield Figure("memory at the prompt (PSS)", opened.memory(), 60, "MB")
            yield Figure("key to echo, median", median(echo(opened, 40)), 5, "ms")
            opened.quiet(0.5)
            before = opened.cpu()
            time.sleep(idle)
            yield Figure(f"CPU in {idle:g} s idle", opened.cpu() - before, 0.02 * idle / 10, "s")
        with terminal(url) as opened:
            settled(opened)
            before, count = opened.cpu(), len(opened.received)
            opened.type("tell me\r")
            end = time.monotonic() + seconds + 2
            while time.monotonic() < end:
                opened.read(0.1)
            spent = opened.cpu() - before
            yield Figure(f"CPU for {size} characters streamed", spent, 0.5 * size / 8_000, "s")
            written = len(opened.received) - count
            yield Figure("bytes to the terminal per character", written / size, 3, "B")
        with terminal(url) as opened:
            settled(opened)
            opened.type("tell me\r")
            opened.until(b"Section")
            yield Figure("key to echo while streaming, p99", p99(echo(opened, keys)), 30, "ms")
        yield from beside_a_bare_prompt(url, port, long, keys, rounds)
        opening = resumed(url, min(runs, 3))
        yield Figure("`/resume` of 10,000 messages: first paint", opening, 300, "ms")
        with terminal(url) as opened:
            settled(opened)
            opened.type("many turns\r")
            opened.until(b"That was all.", 1_200)
            yield Figure(f"memory after {turns} turns (PSS)", opened.memory(), 120, "MB")


def main() -> None:
    """Measure and tell; 1 when something is not reached."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--quick", action="store_true")
    missed = False
    for figure in measure(quick=parser.parse_args().quick):
        print(figure, flush=True)
        missed |= not figure.met
    sys.exit(missed)


if __name__ == "__main__":
    main()
