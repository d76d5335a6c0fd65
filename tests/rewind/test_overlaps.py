"""Calls, jobs and children that overlap: any point comes back as a model has it, or it is said that it does not."""

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sagent.messages import ToolCall
from sagent.rewind.recorder import Checkpoints
from sagent.rewind.restore import restore_files
from sagent.session.contents import Spawned, Unknown
from sagent.session.log import MemoryLog
from sagent.tool import Effect, Workspace
from tests.depth import deep
from tests.hands import Hand
from tests.messages import call

NAMES = ("a", "b", "d/c")
CALLS = 4
Step = tuple[str, int, str]
Work = Callable[[], Coroutine[None, None, None]]
STEPS = st.lists(
    st.tuples(st.sampled_from(("turn", "write", "write", "delete")), st.integers(0, CALLS - 1), st.sampled_from(NAMES)),
    min_size=2,
    max_size=14,
)
KINDS = st.tuples(*[st.sampled_from(("command", "command", *NAMES))] * CALLS)


class Running:
    """A call, from its beginning to its end."""

    def __init__(
        self, start: Callable[[Callable[[], Coroutine[None, None, None]]], Coroutine[None, None, None]]
    ) -> None:
        self._begun, self._over = asyncio.Event(), asyncio.Event()
        self._task = asyncio.create_task(start(self._work))

    async def _work(self) -> None:
        self._begun.set()
        await self._over.wait()

    async def begun(self) -> None:
        await self._begun.wait()

    async def end(self) -> None:
        self._over.set()
        await self._task


def state_of(cwd: Path) -> Mapping[str, str | None]:
    return {name: (cwd / name).read_text() if (cwd / name).exists() else None for name in NAMES}


async def overlap(cwd: Path, kinds: Sequence[str], steps: Sequence[Step], back: int) -> None:
    """Let calls begin, change files and end in some order; then go back to before one of the steps."""
    log = MemoryLog()
    log.append(Unknown("opened", {}))
    child = log.child("root/a")
    log.append(Spawned("root/a", child.append(Unknown("opened", {})).id))
    root, below = Hand(log, Workspace(cwd)), Hand(child, Workspace(cwd))
    checkpoints, running = Checkpoints(looks_around=True), dict[int, Running]()
    points: list[tuple[str, Mapping[str, str | None], Sequence[Mapping[str, str | None]], bool]] = []
    begun = ended = state_of(cwd)  # when a call did last: what comes and goes in between nobody sees
    for number, (what, which, name) in enumerate(steps):
        entry = log.append(Unknown("label", {"number": number})).id
        points.append((entry, state_of(cwd), (begun, ended) if running else (), bool(running)))
        kind = kinds[which]
        if what == "turn" and which in running:
            await running.pop(which).end()
            ended = state_of(cwd)
            continue
        if which not in running:
            made: ToolCall = call(f"{which}-{number}", "Change")
            effect = Effect("execute") if kind == "command" else Effect("write", (cwd / kind,))
            hand = below if which % 2 else root
            running[which] = Running(lambda work, h=hand, m=made, e=effect: checkpoints.around(h, m, e, work))
            await running[which].begun()
            begun = state_of(cwd)
        path = cwd / (name if kind == "command" else kind)
        if what == "write":
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"{number}\n")
        elif what == "delete":
            path.unlink(missing_ok=True)
    for each in running.values():
        await each.end()
    entry, wanted, looked, open_ = points[back % len(points)]
    done = await restore_files(root, checkpoints, entry)
    said = {each.path for each in (*done.left, *done.omitted)}
    found = state_of(cwd)
    for name in NAMES:
        told = any(str(cwd / name) == path or str(cwd / name).startswith(path + os.sep) for path in said)
        assert told or found[name] in [each[name] for each in (wanted, *looked)], (name, found, wanted, said)
    if not open_ and set(kinds) == {"command"}:  # a file that a call named is left where others changed it meanwhile
        assert (found, said) == (wanted, set())
    log.close()


@settings(max_examples=deep(40, 1000), deadline=None, suppress_health_check=list(HealthCheck))  # pyright: ignore[reportArgumentType]
@given(kinds=KINDS, steps=STEPS, back=st.integers(0, 13), in_git=st.booleans())
def test_what_overlapped_comes_back_or_is_said_not_to(
    kinds: Sequence[str], steps: Sequence[Step], back: int, *, in_git: bool
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        cwd = Path(directory).resolve()
        for name in NAMES[:2]:
            (cwd / name).write_text("first\n")
        if in_git:
            subprocess.run(["git", "init", "-q"], cwd=cwd, check=True)
            subprocess.run(["git", "add", "."], cwd=cwd, check=True)
        asyncio.run(overlap(cwd, kinds, steps, back))
