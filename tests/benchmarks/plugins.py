"""The first request of a run with twenty foreign plugins beside that of one with none, in turn.

Half of them are files of the person's, half are installed distributions. Each adds a command, a setting, a tool and a
part of an agent, and nothing of them is wanted in these runs.
"""

import json
import resource
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.benchmarks.clients import FREE, SAGENT, lean_server, provider_environment

COUNT = 20
ROUNDS = 20
_PLUGIN = '''
from sagent.config.values import text_of
from sagent.plugin import Command, Part, Plugin, Setting, ToolEntry
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
)
'''


@dataclass(frozen=True)
class Starts:
    """Milliseconds to the first request: medians without and with plugins, and the median of the pairs' gaps, also of
    the CPU time of the whole runs; and the gap of the fastest of each, which other work on the machine moves least."""

    without: float
    beside: float
    gap: float
    cpu_gap: float
    best_gap: float


def measure(rounds: int = ROUNDS) -> Starts:
    """Start both in turn; two rounds before that, in which the indexes are written, are left out."""
    with tempfile.TemporaryDirectory() as place:
        homes = [_home(Path(place, "without"), 0), _home(Path(place, "beside"), COUNT)]
        pairs: list[list[tuple[float, float]]] = []
        for number in range(rounds + 2):
            order = homes if number % 2 else homes[::-1]  # neither is always the one after the other
            took = {home: _first(home) for home in order}
            pairs.append([took[home] for home in homes])
        if [_known(home) for home in homes] != [0, COUNT]:
            raise RuntimeError("the plugins were not known")
    without, beside = (median(pair[which][0] for pair in pairs[2:]) for which in range(2))
    gap, cpu_gap = (median(pair[1][what] - pair[0][what] for pair in pairs[2:]) for what in range(2))
    fastest = [min(pair[which][0] for pair in pairs[2:]) for which in range(2)]
    return Starts(without, beside, gap, cpu_gap, fastest[1] - fastest[0])


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


def _first(home: Path) -> tuple[float, float]:
    """Return the milliseconds from a process's start to its first request, and those of CPU of the whole run. It must
    succeed, and say nothing of plugins."""
    with lean_server("anthropic", "0") as (url, seen):
        environment = {**provider_environment(url), "HOME": str(home), "PYTHONPATH": str(home / "site-packages")}
        before, used = time.monotonic(), _cpu()
        done = subprocess.run(
            [*SAGENT, *FREE, "hello"], env=environment, cwd=home / "work", stdin=subprocess.DEVNULL,
            capture_output=True, check=False,
        )  # fmt: skip
        if done.returncode or b"plugin" in done.stderr:
            raise RuntimeError(f"it failed: {done.stderr.decode()[-2000:]}")
        used = _cpu() - used
        first = seen()["first"]
        assert isinstance(first, float)
        return 1000 * (first - before), 1000 * used


def _cpu() -> float:
    """Return the seconds of CPU of the children that have ended."""
    took = resource.getrusage(resource.RUSAGE_CHILDREN)
    return took.ru_utime + took.ru_stime


def _known(home: Path) -> int:
    """Return how many of these plugins a run knows, by its index."""
    index = json.loads((home / ".local/state/sagent/plugins.json").read_bytes())
    return sum(each["name"].startswith("strange") and not each["error"] for each in index["plugins"])
