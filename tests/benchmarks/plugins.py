"""A start up to its first connection with twenty foreign plugins beside one with none.

Half of them are files of the person's, half are installed distributions. Each adds a command, a setting, a flag, a tool
and a part of an agent, and nothing of them is wanted in these runs.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple

from tests.benchmarks.clients import FREE, PYTHON, SAGENT, lean_server, provider_environment

COUNT = 20
ROUNDS = 100
_PLUGIN = '''
from sagent.config.values import text_of
from sagent.plugin import Command, Flag, Part, Plugin, Setting, ToolEntry
from sagent.tools import tool

@tool(name="Look{number}")
def look(place: str) -> str:
    """Look somewhere.

    Args:
        place: where
    """
    return place

def run(words):
    return 0

async def add(builder):
    raise RuntimeError("nobody asked for it")

plugin = Plugin(
    "strange{number}",
    "is one of many",
    commands=(Command("strange{number}", "do nothing", ":run"),),
    parts=(Part(":add", ("strange{number}",)),),
    settings=(Setting("strange{number}", text_of, metavar="X", help="is never given"),),
    tools=(ToolEntry("Look{number}", ":look", ("strange",)),),
    flags=(Flag("odd{number}", "is never given", of="serve"),),
)
'''


class Start(NamedTuple):
    """Milliseconds from a process's start to its first connection: by the clock, and those of CPU."""

    wall: float
    cpu: float


class Gap(NamedTuple):
    """Milliseconds that plugins add to a start: between the lower quartiles and between the fastest. What others do on
    the machine only adds to a start, so that these say most of what it costs itself. `doubt` is the gap between the
    lower quartiles of two that are alike."""

    quarter: float
    least: float
    doubt: float


@dataclass(frozen=True)
class Starts:
    """What plugins add to a start: to its time by the clock and of CPU, millions of instructions, and calls that open
    or look at files; 0 where these cannot be counted."""

    wall: Gap
    cpu: Gap
    millions: float
    files: int


def _gap(without: Sequence[float], again: Sequence[float], beside: Sequence[float]) -> Gap:
    bare = (*without, *again)
    quarter = _quarter(beside) - _quarter(bare)
    return Gap(quarter, min(beside) - min(bare), abs(_quarter(without) - _quarter(again)))


def _quarter(values: Sequence[float]) -> float:
    return quantiles(values, n=4)[0]


def measure(rounds: int = ROUNDS) -> Starts:
    """Start all in turn, and in the next round from the last to the first, on one processor and before other work where
    that is allowed. Two whole runs before that write the indexes."""
    with tempfile.TemporaryDirectory() as place, _undisturbed():
        homes = [_home(Path(place, name), count) for name, count in (("bare", 0), ("again", 0), ("beside", COUNT))]
        for home in (*homes, *homes):
            _run_whole(home)
        if [_known(home) for home in homes] != [0, 0, COUNT]:
            raise RuntimeError("the plugins were not known")
        found: list[list[Start]] = [[], [], []]
        for number in range(rounds):
            for which in (0, 2, 1) if number % 2 else (1, 2, 0):
                found[which].append(_start(homes[which]))
        wall = _gap(*([each.wall for each in starts] for starts in found))
        cpu = _gap(*([each.cpu for each in starts] for starts in found))
        bare, _, beside = homes
        return Starts(wall, cpu, _millions(beside) - _millions(bare), _files(beside) - _files(bare))


@contextmanager
def _undisturbed() -> Generator[None]:
    """Have this process and its children run on one processor and before others', where that is allowed."""
    allowed, policy, before = os.sched_getaffinity(0), os.sched_getscheduler(0), os.sched_getparam(0)
    os.sched_setaffinity(0, {max(allowed)})
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(10))
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, before)
        os.sched_setaffinity(0, allowed)


def _home(home: Path, count: int) -> Path:
    """Write a home directory with plugins, and a place for packages beside it."""
    own, site = home / ".config/sagent/plugins", home / "site-packages"
    for folder in (own, site, home / ".local/state/sagent", home / "work"):
        folder.mkdir(parents=True)
    for number in range(count):
        source = _PLUGIN.replace("{number}", str(number))
        if number % 2:
            (own / f"strange{number}.py").write_text(source)
            continue
        (site / f"strange{number}.py").write_text(source)
        info = site / f"strange{number}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: strange{number}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[sagent.plugins]\nstrange{number} = strange{number}\n")
    return home


def _argv(*before: str) -> Sequence[str]:
    return [*before, PYTHON, str(Path(__file__).with_name("first_connection.py")), *FREE, "hello"]


def _environment(home: Path, url: str) -> dict[str, str]:
    return {**provider_environment(url), "HOME": str(home), "PYTHONPATH": str(home / "site-packages")}


def _run_whole(home: Path) -> None:
    """Make a whole run. It must succeed, and say nothing of plugins."""
    with lean_server("anthropic", "0") as (url, seen):
        done = subprocess.run(
            [*SAGENT, *FREE, "hello"], env=_environment(home, url), cwd=home / "work", stdin=subprocess.DEVNULL,
            capture_output=True, check=False,
        )  # fmt: skip
        seen()
    if done.returncode or b"plugin" in done.stderr:
        raise RuntimeError(f"it failed: {done.stderr.decode()[-2000:]}")


def _start(home: Path, *before: str) -> Start:
    """Start a run that ends at its first connection."""
    with Path(home, "said").open("wb") as said:
        started = time.perf_counter()
        process = subprocess.Popen(
            _argv(*before), env=_environment(home, "http://127.0.0.1:9"), cwd=home / "work",
            stdin=subprocess.DEVNULL, stdout=said, stderr=said,
        )  # fmt: skip
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"it failed: {Path(home, 'said').read_text()[-2000:]}")
    return Start(1000 * wall, 1000 * (used.ru_utime + used.ru_stime))


def _files(home: Path) -> int:
    """Return how often a start opens or looks at a file; 0 without strace."""
    if not (strace := shutil.which("strace")):
        return 0
    log = home / "strace"
    _start(home, strace, "-f", "-o", str(log), "-e", "trace=%file")
    return len(log.read_text("utf-8", "replace").splitlines())


def _millions(home: Path) -> float:
    """Return the least millions of instructions of three starts; 0 without valgrind."""
    if not (valgrind := shutil.which("valgrind")):
        return 0
    flags = ("--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", f"--log-file={home}/valgrind")
    counts: list[int] = []
    for _ in range(3):
        _start(home, valgrind, *flags)
        told = re.search(r"I +refs: +([0-9,]+)", Path(home, "valgrind").read_text())
        counts += [int(told[1].replace(",", ""))] if told else []
    return min(counts, default=0) / 1e6


def _known(home: Path) -> int:
    """Return how many of these plugins a run knows, by its index."""
    index = json.loads((home / ".local/state/sagent/plugins.json").read_bytes())
    return sum(head[0].startswith("strange") and not head[-1] for head in index["heads"])
