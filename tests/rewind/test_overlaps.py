"""Calls, jobs and children that overlap: any point comes back as a model has it, or it is said that it does not."""

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
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


def steps_of(*kinds: str) -> st.SearchStrategy[list[Step]]:
    one = st.tuples(st.sampled_from(kinds), st.integers(0, CALLS - 1), st.sampled_from(NAMES))
    return st.lists(one, min_size=2, max_size=14)


STEPS = steps_of("turn", "write", "write", "delete")
BACK_AND_FORTH = steps_of("turn", "write", "write", "delete", "back")
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


def seen(cwd: Path, kind: str, *others: str) -> Mapping[str, str | None]:
    """What a call looks at when it begins and ends: a command at all, one that names its file at that, and either at
    those that others name."""
    state = state_of(cwd)
    return state if kind == "command" else {name: state[name] for name in NAMES if name in (kind, *others)}


def change(path: Path, what: str, number: int) -> None:
    if what == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{number}\n")
    elif what == "delete":
        path.unlink(missing_ok=True)


async def overlap(cwd: Path, kinds: Sequence[str], steps: Sequence[Step], back: int) -> None:
    """Let calls begin, change files and end in some order; then go back to before one of the steps."""
    log = MemoryLog()
    log.append(Unknown("opened", {}))
    child = log.child("root/a")
    log.append(Spawned("root/a", child.append(Unknown("opened", {})).id))
    root, below = Hand(log, Workspace(cwd)), Hand(child, Workspace(cwd))
    checkpoints, running = Checkpoints(looks_around=True), dict[int, Running]()
    points: list[tuple[str, Mapping[str, str | None], Sequence[Mapping[str, str | None]], bool]] = []
    begun = ended = state_of(cwd)  # when a call did last that looked: what comes and goes in between nobody sees
    for number, (what, which, name) in enumerate(steps):
        entry = log.append(Unknown("label", {"number": number})).id
        points.append((entry, state_of(cwd), (begun, ended) if running else (), bool(running)))
        kind = kinds[which]
        if what == "turn" and which in running:
            await running.pop(which).end()
            ended = {**ended, **seen(cwd, kind, *(kinds[each] for each in running))}
            continue
        if which not in running:
            made: ToolCall = call(f"{which}-{number}", "Change")
            effect = Effect("execute") if kind == "command" else Effect("write", (cwd / kind,))
            hand = below if which % 2 else root
            running[which] = Running(lambda work, h=hand, m=made, e=effect: checkpoints.around(h, m, e, work))
            await running[which].begun()
            begun = {**begun, **seen(cwd, kind, *(kinds[each] for each in running))}
        change(cwd / (name if kind == "command" else kind), what, number)
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


async def go_back_meanwhile(cwd: Path, kinds: Sequence[str], steps: Sequence[Step]) -> None:
    """The same, but go back to points at which nothing ran, also while calls go on, and at the end to each of them."""
    log = MemoryLog()
    log.append(Unknown("opened", {}))
    child = log.child("root/a")
    log.append(Spawned("root/a", child.append(Unknown("opened", {})).id))
    root, below = Hand(log, Workspace(cwd)), Hand(child, Workspace(cwd))
    checkpoints, running = Checkpoints(looks_around=True), dict[int, Running]()
    points: list[tuple[str, Mapping[str, str | None]]] = []

    async def go_back(entry: str, wanted: Mapping[str, str | None], *, quiet: bool) -> None:
        done = await restore_files(root, checkpoints, entry)
        said = {each.path for each in (*done.left, *done.omitted)}
        found = state_of(cwd)
        for name in NAMES:
            told = any(str(cwd / name) == path or str(cwd / name).startswith(path + os.sep) for path in said)
            assert told or found[name] == wanted[name], (name, found, wanted, said)
        if quiet and set(kinds) == {"command"}:
            assert (found, said) == (wanted, set())

    for number, (what, which, name) in enumerate(steps):
        kind = kinds[which]
        if not running:
            points.append((log.append(Unknown("label", {"number": number})).id, state_of(cwd)))
        if what == "back":
            await go_back(*points[(which + number) % len(points)], quiet=not running)
            continue
        if what == "turn" and which in running:
            await running.pop(which).end()
            continue
        if which not in running:
            made: ToolCall = call(f"{which}-{number}", "Change")
            effect = Effect("execute") if kind == "command" else Effect("write", (cwd / kind,))
            hand = below if which % 2 else root
            running[which] = Running(lambda work, h=hand, m=made, e=effect: checkpoints.around(h, m, e, work))
            await running[which].begun()
        change(cwd / (name if kind == "command" else kind), what, number)
    for each in running.values():
        await each.end()
    for entry, wanted in reversed(points):
        await go_back(entry, wanted, quiet=False)
    log.close()


@settings(max_examples=deep(40, 400), deadline=None, suppress_health_check=list(HealthCheck))  # pyright: ignore[reportArgumentType]
@given(kinds=KINDS, steps=STEPS, back=st.integers(0, 13), in_git=st.booleans())
@example(  # a file of a command, while a call that names another begins and ends
    kinds=("a", "command", "command", "command"),
    steps=[("write", 3, "d/c"), ("turn", 0, "a"), ("turn", 0, "a"), ("delete", 3, "d/c")],
    back=3,
    in_git=False,
)
def test_overlap_returns_or_is_said(kinds: Sequence[str], steps: Sequence[Step], back: int, *, in_git: bool) -> None:
    with directory(in_git=in_git) as cwd:
        asyncio.run(overlap(cwd, kinds, steps, back))


@settings(max_examples=deep(25, 600), deadline=None, suppress_health_check=list(HealthCheck))  # pyright: ignore[reportArgumentType]
@given(kinds=KINDS, steps=BACK_AND_FORTH, in_git=st.booleans())
def test_rewind_while_calls_run(kinds: Sequence[str], steps: Sequence[Step], *, in_git: bool) -> None:
    with directory(in_git=in_git) as cwd:
        asyncio.run(go_back_meanwhile(cwd, kinds, steps))


@contextmanager
def directory(*, in_git: bool) -> Generator[Path]:
    with tempfile.TemporaryDirectory() as made:
        cwd = Path(made).resolve()
        for name in NAMES[:2]:
            (cwd / name).write_text("first\n")
        if in_git:
            subprocess.run(["git", "init", "-q"], cwd=cwd, check=True)
            subprocess.run(["git", "add", "."], cwd=cwd, check=True)
        yield cwd
