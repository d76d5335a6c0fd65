"""Maps of a large project: the first one, the one after it, and the one after a file was changed."""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from sagent.lib.json import EMPTY
from sagent.plugins.code import RepoMap
from sagent.tool import RunContext, Workspace

FILES = 10_000


@dataclass(frozen=True)
class Speeds:
    """Seconds of a map of 10,000 files: the first, with nothing changed, with one file changed; their size in MB."""

    first: float
    again: float
    changed: float
    size: float


def measure() -> Speeds:
    """Every figure."""
    with _project() as (root, folder, size):
        first = _seconds(root, folder)
        again = min(_seconds(root, folder) for _ in range(3))
        (root / "part7" / "module70.py").write_text("class Changed:\n    pass\n", "utf-8")
        return Speeds(first, again, _seconds(root, folder), size)


def _seconds(root: Path, folder: Path) -> float:
    run = RunContext("root", "call", Workspace(root), None, lambda _: None)  # type: ignore[arg-type] -- it keeps nothing
    began = time.perf_counter()
    asyncio.run(RepoMap(folder)(EMPTY, run))
    return time.perf_counter() - began


@contextmanager
def _project() -> Iterator[tuple[Path, Path, float]]:
    """Modules in a hundred directories, each with a class, functions and calls of what other modules define."""
    chance, size = Random(7), 0
    with tempfile.TemporaryDirectory() as place:
        root = Path(place, "project")
        for number in range(FILES):
            file = root / f"part{number % 100}" / f"module{number}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            text = f"class Model{number}Holder:\n    pass\n"
            for which in range(20):
                other = int(FILES * chance.random() ** 3)  # some are named by many
                text += (
                    f"def compute_{number}_{which}(value: int, scale: float = 1.0) -> float:\n"
                    f'    """Computes what is wanted of the value."""\n'
                    f"    holder = Model{other}Holder()\n"
                    f"    return compute_{other}_{which}(value) * scale + len(str(holder))\n\n"
                )
            size += len(text)
            file.write_text(text, "utf-8")
        yield root, Path(place, "maps"), size / 1e6
