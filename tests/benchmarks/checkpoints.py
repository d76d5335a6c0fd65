"""What watching over files adds to a call in a git work tree of many: the milliseconds before it and after it.

Prints as JSON the `first` call and the median of the `next` ten, each of which makes a file and changes another.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from sagent.lib.json import JsonObject
from sagent.messages import ToolCall
from sagent.rewind.recorder import Checkpoints
from sagent.session.log import MemoryLog
from sagent.tool import Effect, Workspace
from tests.hands import Hand


def plant(root: Path, files: int) -> None:
    """A committed tree: forty directories of fifteen files in each of its own."""
    for number in range(files):
        directory = root / f"d{number // 600}" / f"e{number // 15 % 40}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"f{number}.py").write_text(f"x = {number}\n" * 20)
    for words in (
        ("init", "-q"),
        ("config", "gc.auto", "0"),
        ("add", "-A"),
        ("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "x"),
    ):
        subprocess.run(["git", *words], cwd=root, check=True)


async def measure(root: Path, files: int) -> dict[str, float]:
    """Make the calls."""
    plant(root, files)
    hand, checkpoints = Hand(MemoryLog(), Workspace(root.resolve())), Checkpoints(looks_around=True)
    took: list[float] = []
    for number in range(12):

        async def change(number: int = number) -> float:
            started = time.perf_counter()
            (root / f"new{number}").write_text("x")
            (root / "d0/e1/f15.py").write_text(str(number))
            return time.perf_counter() - started

        started = time.perf_counter()
        own = await checkpoints.around(hand, ToolCall(str(number), "Bash", JsonObject()), Effect("execute"), change)
        took.append(1000 * (time.perf_counter() - started - own))
    return {"first": took[0], "next": median(took[2:])}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        print(json.dumps(asyncio.run(measure(Path(directory), int(sys.argv[1])))))
