"""The first request of a run with twenty foreign plugins beside that of one with none, in turn.

Half of them are files of the person's, half are installed distributions. Each adds a command, a setting, a flag, a tool
and a part of an agent, and nothing of them is wanted in these runs.
"""

import json
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Literal, NamedTuple

from tests.benchmarks.clients import FREE, SAGENT, lean_server, provider_environment

COUNT = 20
ROUNDS = 20
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
    """Milliseconds from a process's start to its first request, those of CPU of the whole run, and how often the run
    opened or looked at a file, 0 where it was not counted."""

    wall: float
    cpu: float
    files: int = 0


@dataclass(frozen=True)
class Starts:
    """The same runs without plugins, without them again, and with them, in turn. On a busy machine the
    gap of CPU time says more than that of the clock."""

    without: Sequence[Start]
    again: Sequence[Start]
    beside: Sequence[Start]

    def gap(self, what: Literal["wall", "cpu"]) -> tuple[float, float]:
        """Return the median of what plugins add in each round, and its standard error, from the quartiles."""
        pairs = zip(self.without, self.again, self.beside, strict=True)
        added = [(getattr(last, what) - (getattr(one, what) + getattr(two, what)) / 2) for one, two, last in pairs]
        first, _, third = quantiles(added, n=4)
        return median(added), 0.93 * (third - first) / len(added) ** 0.5

    def least(self, what: Literal["wall", "cpu"]) -> float:
        """Return the gap of the fastest runs, which other work on the machine moves least."""
        bare = [getattr(one, what) for one in (*self.without, *self.again)]
        return min(getattr(one, what) for one in self.beside) - min(bare)

    @property
    def more_files(self) -> int:
        """How many more files a run with plugins opens or looks at."""
        return self.beside[0].files - self.without[0].files


def measure(rounds: int = ROUNDS) -> Starts:
    """Start all in turn; two rounds before that, in which the indexes are written, are left out."""
    with tempfile.TemporaryDirectory() as place:
        homes = [_home(Path(place, name), count) for name, count in (("bare", 0), ("again", 0), ("beside", COUNT))]
        found: list[list[Start]] = [[], [], []]
        for number in range(rounds + 2):
            order = (0, 1, 2) if number % 2 else (2, 1, 0)  # none is always the one after another
            for which in order:
                took = _first(homes[which])
                if number >= 2:
                    found[which].append(took)
        if [_known(home) for home in homes] != [0, 0, COUNT]:
            raise RuntimeError("the plugins were not known")
        for which, home in enumerate(homes):
            found[which][0] = found[which][0]._replace(files=_files(home))
    return Starts(*found)


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


def _first(home: Path, *before: str) -> Start:
    """Start a run and wait for its end. It must succeed, and say nothing of plugins."""
    with lean_server("anthropic", "0") as (url, seen):
        environment = {**provider_environment(url), "HOME": str(home), "PYTHONPATH": str(home / "site-packages")}
        started, used = time.monotonic(), _cpu()
        done = subprocess.run(
            [*before, *SAGENT, *FREE, "hello"], env=environment, cwd=home / "work", stdin=subprocess.DEVNULL,
            capture_output=True, check=False,
        )  # fmt: skip
        if done.returncode or b"plugin" in done.stderr:
            raise RuntimeError(f"it failed: {done.stderr.decode()[-2000:]}")
        used = _cpu() - used
        first = seen()["first"]
        assert isinstance(first, float)
        return Start(1000 * (first - started), 1000 * used)


def _files(home: Path) -> int:
    """Return how often a run opens or looks at a file; 0 without strace."""
    if not (strace := shutil.which("strace")):
        return 0
    log = home / "strace"
    _first(home, strace, "-f", "-o", str(log), "-e", "trace=%file")
    return len(log.read_text("utf-8", "replace").splitlines())


def _cpu() -> float:
    """Return the seconds of CPU of the children that have ended."""
    took = resource.getrusage(resource.RUSAGE_CHILDREN)
    return took.ru_utime + took.ru_stime


def _known(home: Path) -> int:
    """Return how many of these plugins a run knows, by its index."""
    index = json.loads((home / ".local/state/sagent/plugins.json").read_bytes())
    return sum(head[0].startswith("strange") and not head[-1] for head in index["heads"])
