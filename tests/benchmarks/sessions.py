"""Long sessions: how fast they are verified, exported and listed, by commands."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from statistics import median

from sagent.codec import encode_message, encode_result_part
from sagent.lib.json import JsonObject
from sagent.messages import Message, Text, ToolCall, ToolResult, user
from sagent.session.entries import Bill, opened, spent
from sagent.session.store import Session
from sagent.usage import Usage

RUNS = 5
ROOT = Path(__file__).parents[2]
COMMAND = "import sys; from sagent.cli.{0} import run_{0}; sys.exit(run_{0}(sys.argv[1:]))"


@dataclass(frozen=True)
class Speeds:
    """MB/s of `sagent verify`, its start left out; seconds and MB of a page; seconds of a listing."""

    verify: float
    page: float
    page_size: float
    listing: float


def measure() -> Speeds:
    """Every figure."""
    with sessions(1, turns=10_000, size=8_000, blobs=500) as (environment, (session,)):
        size = sum(file.stat().st_size for file in session.rglob("*") if file.is_file()) / 1e6
        whole = median(timed(["verify", str(session)], environment) for _ in range(RUNS))
    with sessions(1, turns=1, size=100) as (environment, (session,)):
        verify = size / (whole - median(timed(["verify", str(session)], environment) for _ in range(RUNS)))
    with sessions(1, turns=2_000, size=3_000) as (environment, (session,)):
        out = session.parent / "page.html"
        page = median(
            timed(["export", str(session), "--format", "html", "--out", str(out)], environment) for _ in range(RUNS)
        )
        page_size = out.stat().st_size / 1e6
    with sessions(100, turns=100, size=8_000) as (environment, _):
        listing = median(timed(["sessions", "list"], environment) for _ in range(RUNS))
    return Speeds(verify, page, page_size, listing)


@contextmanager
def sessions(count: int, *, turns: int, size: int, blobs: int = 0) -> Iterator[tuple[dict[str, str], list[Path]]]:
    """Sessions of one directory, each of so many turns with results of `size` characters, and an environment in which
    commands see them."""
    texts = code(size)
    with tempfile.TemporaryDirectory() as home:
        made: list[Path] = []
        for _ in range(count):
            with Session.create(Path(home, "state"), Path(home)) as session:
                log = session.log()
                log.append("opened", opened(session.id, "root", home, {}))
                log.append("message", encode_message(user("Go."), None))
                for number in range(turns):
                    call = ToolCall(f"c{number}", "Bash", JsonObject({"command": f"pytest -q tests/test_{number}.py"}))
                    said = Message("assistant", (Text(texts[0][:300]), call), model="a/b", stop="tool_use")
                    log.append("message", encode_message(said, None))
                    log.append("spent", spent(Bill("root", "executor", "a", "b", Usage(9, 9), Decimal("0.01"))))
                    answer = ToolResult(call.id, (Text(texts[number % 20]),))
                    log.append("result", {"result": encode_result_part(answer, None), "seconds": 1.0})
                    log.append("message", encode_message(Message("user", (answer,)), None))
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
