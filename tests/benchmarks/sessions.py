"""Long sessions: how fast they are verified, exported, listed, gone on with and compacted, by commands."""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from statistics import median
from typing import NamedTuple

from sagent.lib.json import JsonObject
from sagent.messages import Message, Text, ToolCall, ToolResult, user
from sagent.session.contents import (
    ChargeEntry,
    Compacted,
    Content,
    MessageEntry,
    Opened,
    RequestSent,
    ResultEntry,
    StoredMessage,
    StoredResult,
)
from sagent.session.entries import seal
from sagent.session.store import Session
from sagent.testing.server import FakeProviderServer, Turn
from sagent.usage import Charge, Usage

RUNS = 5
ROOT = Path(__file__).parents[2]
COMMAND = "import sys; from sagent.cli.commands.{0} import run_{0}; sys.exit(run_{0}(sys.argv[1:]))"


# A small process between: the kernel counts as a child's peak what its parent had when it was started.
LAUNCH = """
import json, resource, subprocess, sys
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3]))
sys.exit(code)
"""


class Used(NamedTuple):
    """What a run took: CPU in seconds, and its peak in MB."""

    cpu: float
    memory: float


@dataclass(frozen=True)
class Speeds:
    """MB/s of `sagent verify`, its start left out, of a log with results of 5 kB, and of one with blobs too; MB/s of
    sha256 alone, line by line, of the first. Seconds and MB of a page; seconds of a listing, of 100 sessions and of
    1,000.

    Of a log of a million entries: seconds from start to end of a run that goes on with it, its peak in MB, the size in
    MB, and what `json.loads` of each line and sha256 of all of it take alone, in seconds. Of a session of 500,000
    tokens: seconds of CPU by which a run that compacts it first takes longer than one that does not.
    """

    verify: float
    verify_sha256: float
    verify_blobs: float
    page: float
    page_size: float
    listing: float
    listing_thousand: float
    million: float
    million_memory: float
    million_size: float
    million_loads: float
    million_sha256: float
    compaction: float


def measure() -> Speeds:
    """Every figure."""
    verify = verifying(turns=10_000, size=5_000)
    verify_blobs, _ = verifying(turns=10_000, size=8_000, blobs=500)
    with sessions(1, turns=2_000, size=3_000) as (environment, (session,)):
        out = session.parent / "page.html"
        page = median(
            timed(["export", str(session), "--format", "html", "--out", str(out)], environment) for _ in range(RUNS)
        )
        page_size = out.stat().st_size / 1e6
    with sessions(100, turns=100, size=8_000) as (environment, _):
        listing = median(timed(["sessions", "list"], environment) for _ in range(RUNS))
    with sessions(1_000, turns=20, size=2_000) as (environment, _):
        thousand = median(timed(["sessions", "list"], environment) for _ in range(RUNS))
    return Speeds(*verify, verify_blobs, page, page_size, listing, thousand, *go_on_with_a_million(), compaction())


def verifying(*, turns: int, size: int, blobs: int = 0) -> tuple[float, float]:
    """MB/s of `sagent verify`, its start left out, and of sha256 line by line of the log alone."""
    with sessions(1, turns=1, size=100) as (environment, (session,)):
        start = median(timed(["verify", str(session)], environment) for _ in range(RUNS))
    with sessions(1, turns=turns, size=size, blobs=blobs) as (environment, (session,)):
        whole = sum(file.stat().st_size for file in session.rglob("*") if file.is_file()) / 1e6
        taken = median(timed(["verify", str(session)], environment) for _ in range(RUNS)) - start
        lines = (session / "root.jsonl").read_bytes().splitlines(keepends=True)
    started = time.monotonic()
    for line in lines:
        hashlib.sha256(line)
    return whole / taken, sum(map(len, lines)) / 1e6 / (time.monotonic() - started)


def go_on_with_a_million(entries: int = 1_000_000) -> tuple[float, float, float, float, float]:
    """Seconds and MB of a run that goes on with a log of so many entries, its size, and what is raw beside it."""
    with tempfile.TemporaryDirectory() as home, FakeProviderServer([Turn(text="on")]).in_thread() as server:
        session = Path(home, "session")
        file = long_log(session, entries)
        started = time.monotonic()
        used = go_on(session, server, [])
        taken = time.monotonic() - started
        with file.open("rb") as lines:
            started = time.monotonic()
            for line in lines:
                json.loads(line)
            loads = time.monotonic() - started
        started = time.monotonic()
        with file.open("rb") as whole:
            hashlib.file_digest(whole, "sha256")
        return taken, used.memory, file.stat().st_size / 1e6, loads, time.monotonic() - started


def compaction(tokens: int = 500_000) -> float:
    """Extra CPU seconds of a run that compacts a session of so many tokens."""
    parts = ("Goal", "Decisions", "Done", "Open", "Files")
    summary = Turn(text="\n".join(f"## {part}\nWhat there is to say of it, in a line." for part in parts))
    costs: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(RUNS):
        for compact, found in costs.items():
            with sessions(1, turns=tokens * 4 // 8_000, size=8_000) as (_, (session,)):
                script = [summary, Turn(text="on")] if compact else [Turn(text="on")]
                with FakeProviderServer(script).in_thread() as server:
                    used = go_on(session, server, ["/compact"] if compact else [])
                    if len(server.requests) != len(script):
                        raise RuntimeError(f"{len(server.requests)} requests, not {len(script)}")
                found.append(used.cpu)
    return median(costs[True]) - median(costs[False])


def go_on(session: Path, server: FakeProviderServer, first: list[str]) -> Used:
    """A run that goes on with a session, after some prompts; what it used."""
    environment = {
        **os.environ, "HOME": str(session.parent), "GEMINI_API_KEY": "k", "GEMINI_BASE_URL": server.url,
    }  # fmt: skip
    flags = ["--model", "google/gemini-3.8-flash", "--session", str(session), "--input-format", "stream-json"]
    said = "".join(json.dumps(text) + "\n" for text in (*first, "go on"))
    argv = [sys.executable, "-c", LAUNCH, sys.executable, "-m", "sagent.bin.cli", *flags]
    done = subprocess.run(
        argv, env=environment, cwd=session.parent, input=said, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"the run failed: {done.stderr[-2000:]}")
    return Used(*json.loads(done.stdout))


def long_log(session: Path, entries: int) -> Path:
    """A session whose root's log has so many entries, compacted every 400 turns; the log's file."""
    texts = code(600)
    with Session.create_at(session) as made:
        file = made.log().file
        with file.open("ab", buffering=1 << 20) as out:
            head = ""

            def put(content: Content) -> None:
                nonlocal head
                entry = seal(head, content)
                out.write(entry.line)
                head = entry.id

            put(Opened(made.id, "root", str(session.parent), {}))
            put(MessageEntry(StoredMessage.of(user("Go."), None)))
            live = 1
            for number in range(entries // 4):
                call = ToolCall(f"c{number}", "Bash", JsonObject({"command": f"pytest -q tests/test_{number}.py"}))
                put(RequestSent("0" * 64, 9, "a/b", {"max_tokens": 9}))
                said = Message("assistant", (Text(texts[number % 20][:250]), call), model="a/b", stop="tool_use")
                put(MessageEntry(StoredMessage.of(said, None)))
                put(
                    ChargeEntry(
                        Charge("b", Usage(9, 9), usd=Decimal("0.01"), role="executor", provider="a", agent="root")
                    )
                )
                answer = ToolResult(call.id, (Text(texts[number % 20]),))
                put(ResultEntry(StoredResult.of(answer, None), 1.0))
                live += 2
                if live > 800:
                    kept = tuple(range(live - 100, live))
                    put(Compacted((), 9, 5, "full", kept, (0, texts[0])))
                    live = 101
    return file


@contextmanager
def sessions(count: int, *, turns: int, size: int, blobs: int = 0) -> Generator[tuple[dict[str, str], list[Path]]]:
    """Sessions of one directory, each of so many turns with results of `size` characters, and an environment in which
    commands see them."""
    texts = code(size)
    with tempfile.TemporaryDirectory() as home:
        made: list[Path] = []
        for _ in range(count):
            with Session.create(Path(home, "state"), Path(home)) as session:
                log = session.log()
                log.append(Opened(session.id, "root", home, {}))
                log.append(MessageEntry(StoredMessage.of(user("Go."), None)))
                for number in range(turns):
                    call = ToolCall(f"c{number}", "Bash", JsonObject({"command": f"pytest -q tests/test_{number}.py"}))
                    said = Message("assistant", (Text(texts[0][:300]), call), model="a/b", stop="tool_use")
                    log.append(MessageEntry(StoredMessage.of(said, None)))
                    log.append(
                        ChargeEntry(
                            Charge("b", Usage(9, 9), usd=Decimal("0.01"), role="executor", provider="a", agent="root")
                        )
                    )
                    answer = ToolResult(call.id, (Text(texts[number % 20]),))
                    log.append(ResultEntry(StoredResult.of(answer, None), 1.0))
                    log.append(MessageEntry(StoredMessage.of(Message("user", (answer,)), None)))
                for number in range(blobs):
                    log.blobs.put(f"{number} {texts[number % 20] * 16}".encode())
            made.append(session.path)
        yield {**os.environ, "HOME": home, "SAGENT_STATE_DIR": str(Path(home, "state"))}, made


def code(size: int) -> list[str]:
    """Pieces of this project's own code: what a tool shows."""
    whole = "".join(file.read_text("utf-8") for file in sorted(ROOT.glob("sagent/**/*.py")))
    return [whole[start : start + size] for start in range(0, 20 * size, size)]


def timed(argv: list[str], environment: dict[str, str]) -> float:
    """Wall seconds of a command; it must succeed."""
    command = [sys.executable, "-c", COMMAND.format(argv[0]), *argv[1:]]
    started = time.monotonic()
    done = subprocess.run(command, env=environment, cwd=environment["HOME"], capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{argv} failed: {done.stderr.decode()[-2000:]}")
    return time.monotonic() - started


if __name__ == "__main__":
    found = measure()
    sys.stdout.write(json.dumps({name: round(getattr(found, name), 2) for name in Speeds.__dataclass_fields__}) + "\n")
