"""Random histories of a file, by agents, people, commands and git: a line is attributed rightly, or to nobody.

The oracle keeps a second repository, in which each line carries a number of its own: git moves and merges those lines
as it does the real ones, so that their authors are known.
"""

import asyncio
import os
import subprocess
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import HealthCheck, given, settings, target
from hypothesis import strategies as st

from sagent.agent import Agent, Resources
from sagent.messages import ToolCall
from sagent.plugins.blame.attribution import Unknown, WrittenByAgent, attribute
from sagent.session.contents import Opened
from sagent.session.store import Session
from sagent.tool import Workspace
from sagent.tools import Bash, Edit, Read, Write
from tests.agent.cast import Cast
from tests.depth import deep
from tests.messages import call

POOL = ("}", "", "    pass", "    return result", "from pathlib import Path", "if __name__ == '__main__':")
START = datetime(2031, 1, 1, tzinfo=UTC)
Step = tuple[str, int, int, int]
OPERATIONS = (
    "write", "edit", "edit", "bash", "hand", "hand", "commit", "commit",
    "branch", "checkout", "merge", "rebase", "rename", "rewind", "session", "pick",
)  # fmt: skip
STEPS = st.lists(
    st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 40), st.integers(0, 40), st.integers(0, 5)),
    min_size=3,
    max_size=14,
)


@dataclass
class World:
    """A repository with one file, its shadow with marked lines, and agents at work in it. `authors` are the calls that
    wrote the lines, by mark; None is a person."""

    root: Path
    name: str = "file.py"
    clock: datetime = START
    authors: dict[int, str | None] = field(default_factory=dict[int, str | None])
    also: dict[int, set[str | None]] = field(default_factory=lambda: defaultdict[int, set[str | None]](set))
    removed: dict[str, set[str | None]] = field(  # since a call has looked
        default_factory=lambda: defaultdict[str, set[str | None]](set)
    )
    points: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    sessions: list[Session] = field(default_factory=list[Session])
    calls: int = 0
    said: list[str] = field(default_factory=list[str])

    @property
    def real(self) -> Path:
        return self.root / "real"

    @property
    def shadow(self) -> Path:
        return self.root / "shadow"

    @property
    def file(self) -> Path:
        return self.real / self.name

    def marked(self) -> list[tuple[str, int]]:
        """The lines of the shadow with their marks."""
        rows = (self.shadow / self.name).read_text().splitlines()
        return [(text, int(mark)) for text, _, mark in (row.rpartition("\t") for row in rows)]

    def put(self, lines: Sequence[tuple[str, int]]) -> None:
        (self.shadow / self.name).write_text("".join(f"{text}\t{mark}\n" for text, mark in lines))

    def agrees(self) -> bool:
        return (
            (self.shadow / self.name).is_file()
            and self.file.is_file()
            and ([text for text, _ in self.marked()] == self.file.read_text().splitlines())
        )

    def git(self, *words: str) -> bool:
        """Do the same in both repositories; False, with nothing done, if one refuses."""
        at = f"{int(self.clock.timestamp())} +0000"
        named = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        environment = {**os.environ, **named, "GIT_CONFIG_GLOBAL": os.devnull}
        environment |= {"GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}
        codes = [
            subprocess.run(["git", *words], cwd=place, env=environment, capture_output=True, check=False).returncode
            for place in (self.real, self.shadow)
        ]
        return codes == [0, 0]

    def branches(self) -> list[str]:
        out = subprocess.run(
            ["git", "branch", "--format=%(refname:short)"], cwd=self.real, capture_output=True, text=True, check=True
        )
        return [line for line in out.stdout.splitlines() if "(" not in line]

    def clean(self) -> bool:
        out = subprocess.run(["git", "status", "--porcelain"], cwd=self.real, capture_output=True, check=True)
        return not out.stdout


def texts(lines: Sequence[tuple[str, int]]) -> str:
    return "".join(f"{text}\n" for text, _ in lines)


class Player:
    """Carries out steps in a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.agent: Agent | None = None
        self.script: list[tuple[ToolCall, ...] | str] = []
        self.number = 0

    def new(self, by: str | None, text: str) -> tuple[str, int]:
        mark = len(self.world.authors)
        self.world.authors[mark] = by
        self.world.also[mark] |= self.world.removed[text]  # typed again before anybody looked: the same line
        return text, mark

    def text_of(self, number: int) -> str:
        if number % 4 == 0:
            return POOL[number // 4 % len(POOL)]
        self.number += 1
        return f"value_{self.number:04d} = compute_the_value_of({self.number})" if number % 2 else f"x{self.number}"

    def changed(self, by: str | None, a: int, b: int, kind: int) -> tuple[list[tuple[str, int]], int, int, int]:
        """The lines after one insertion, replacement or removal: with the place, and how many went and came."""
        lines = self.world.marked()
        at = a % (len(lines) + 1)
        gone = 0 if kind % 3 == 0 else min(1 + b % 3, len(lines) - at)
        for text, mark in lines[at : at + gone]:
            self.world.removed[text] |= {self.world.authors[mark], *self.world.also[mark]}
        come = [self.new(by, self.text_of(b + i)) for i in range(0 if kind % 3 == 2 else 1 + a % 3)]
        return [*lines[:at], *come, *lines[at + gone :]], at, gone, len(come)

    async def begin(self) -> None:
        world = self.world
        await self.end()
        session = Session.create(world.root / "state", world.real)
        self.tick(session)
        session.log().append(Opened(session.id, "root", str(world.real), {}))
        world.sessions.append(session)
        tools = (Bash(), Edit(), Read(), Write())
        model = Cast(root=lambda _: self.script.pop(0))
        resources = Resources(log=session.log(), workspace=Workspace(world.real))
        self.agent = Agent(model, tools=tools, resources=resources)

    async def end(self) -> None:
        if self.agent is not None:
            await self.agent.aclose()
            self.world.sessions[-1].close()

    def tick(self, session: Session | None = None) -> None:
        self.world.clock += timedelta(seconds=10)
        for each in [session] if session else self.world.sessions[-1:]:
            each._logs.latest = self.world.clock.isoformat(timespec="microseconds")[:-6] + "Z"

    async def do(self, name: str, arguments: dict[str, object], lines: Sequence[tuple[str, int]]) -> None:
        """Make a call that should lead to these lines."""
        world, agent = self.world, self.agent
        assert agent is not None
        head, before = agent.log.head, (world.shadow / world.name).read_text()
        made = (
            call(f"c{world.calls}r", "Read", file_path=world.name),
            call(f"c{world.calls}", name, **arguments),
        )
        self.script += [made, "done"]
        await agent.run("do it")
        world.calls += 1
        if world.file.read_text() == texts(lines):
            world.put(lines)
            world.points.append((head, before, world.name))
        assert world.agrees(), (name, arguments, agent.messages[-2:])
        world.removed.clear()

    async def step(self, step: Step) -> None:
        what, a, b, kind = step
        self.tick()
        await getattr(self, f"_{what}")(a, b, kind)
        self.world.said.append(f"{what} {a} {b} {kind}")

    def by(self) -> str:
        return f"{self.world.sessions[-1].id} c{self.world.calls}"

    async def _session(self, *_: int) -> None:
        await self.begin()
        self.world.points.clear()

    async def _write(self, a: int, b: int, kind: int) -> None:
        lines, *_ = self.changed(self.by(), a, b, kind)
        await self.do("Write", {"file_path": self.world.name, "content": texts(lines)}, lines)

    async def _edit(self, a: int, b: int, kind: int) -> None:
        before = self.world.marked()
        lines, at, gone, come = self.changed(self.by(), a, b, kind)
        content = texts(before)
        for more in range(len(before) + 1):
            start, end = max(0, at - more), min(len(before), at + gone + more)
            old, new = texts(before[start:end]), texts(lines[start : end - gone + come])
            if old and content.count(old) == 1 and old != new:
                await self.do("Edit", {"file_path": self.world.name, "old_string": old, "new_string": new}, lines)
                return

    async def _bash(self, a: int, b: int, kind: int) -> None:
        lines, at, gone, come = self.changed(self.by(), a, b, kind)
        (self.world.root / "part").write_text(texts(lines[at : at + come]))
        name = self.world.name
        command = (
            f"head -n {at} {name} > ../new; cat ../part >> ../new; tail -n +{at + gone + 1} {name} >> ../new; "
            f"cat ../new > {name}"
        )
        await self.do("Bash", {"command": command}, lines)

    async def _hand(self, a: int, b: int, kind: int) -> None:
        lines, *_ = self.changed(None, a, b, kind)
        self.world.file.write_text(texts(lines))
        self.world.put(lines)

    async def _commit(self, a: int, *_: int) -> None:
        self.world.git("add", "-A")
        self.world.git("commit", "-q", "-m", f"step {a}")

    async def _branch(self, a: int, *_: int) -> None:
        self.world.git("checkout", "-q", "-b", f"b{len(self.world.branches())}-{a}")

    async def _checkout(self, a: int, *_: int) -> None:
        self.switch("checkout", "-q", self.other(a))

    async def _merge(self, a: int, *_: int) -> None:
        self.switch("merge", "-q", "--no-edit", self.other(a), undo=("merge", "--abort"))

    async def _rebase(self, a: int, *_: int) -> None:
        self.switch("rebase", "-q", self.other(a), undo=("rebase", "--abort"))

    async def _pick(self, a: int, *_: int) -> None:
        self.switch("cherry-pick", self.other(a), undo=("cherry-pick", "--abort"))

    async def _rename(self, a: int, *_: int) -> None:
        name = f"file{a % 3}.py"
        if not (self.world.real / name).exists() and self.world.git("mv", self.world.name, name):
            self.world.name = name
            await self._commit(a)

    async def _rewind(self, a: int, *_: int) -> None:
        world = self.world
        if not world.points or self.agent is None:
            return
        entry, shadow, name = world.points[a % len(world.points)]
        if name != world.name:
            return
        await self.agent.rewind_files(entry)
        if world.file.read_text() == "".join(row.rpartition("\t")[0] + "\n" for row in shadow.splitlines()):
            (world.shadow / name).write_text(shadow)
        assert world.agrees()
        world.removed.clear()

    def other(self, number: int) -> str:
        names = self.world.branches()
        return names[number % len(names)]

    def switch(self, *words: str, undo: Sequence[str] = ()) -> None:
        """Move the work tree, if it is clean and both repositories can."""
        world = self.world
        heads = [(place, git_head(place)) for place in (world.real, world.shadow)]
        if not world.clean():
            return
        done = world.git(*words)
        if not done and undo:
            world.git(*undo)
        names = [name for name in ("file.py", "file0.py", "file1.py", "file2.py") if (world.real / name).exists()]
        world.name = names[0] if len(names) == 1 else world.name
        if not done or len(names) != 1 or not world.agrees():
            for place, (ref, branch) in heads:
                for words_back in (("checkout", "-q", "-f", branch or ref), ("reset", "-q", "--hard", ref)):
                    subprocess.run(["git", *words_back], cwd=place, capture_output=True, check=False)
            world.name = next(name for name in ("file.py", "file0.py", "file1.py", "file2.py")
                              if (world.real / name).exists())  # fmt: skip


def git_head(place: Path) -> tuple[str, str]:
    def ask(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=place, capture_output=True, text=True, check=True).stdout.strip()

    return ask("rev-parse", "HEAD"), ask("branch", "--show-current")


def make_world(root: Path) -> World:
    world = World(root)
    first = [
        "# a file",
        "def first():",
        "    value_of_the_first = 1",
        "}",
        "",
        "def second():",
        "    pass",
        "}",
        "",
        "end",
    ]
    lines: list[tuple[str, int]] = []
    for text in first:
        world.authors[len(world.authors)] = None
        lines.append((text, len(world.authors) - 1))
    for place in (world.real, world.shadow):
        place.mkdir()
        subprocess.run(["git", "init", "-q", "-b", "main"], cwd=place, check=True, capture_output=True)
    world.file.write_text(texts(lines))
    world.put(lines)
    world.git("add", "-A")
    assert world.git("commit", "-q", "-m", "first")
    return world


@dataclass
class Tally:
    """Lines of agents' calls, and how many of them were attributed; lines of people, and those that were not."""

    written: int = 0
    attributed: int = 0
    by_hand: int = 0
    distinct: int = 0
    distinct_attributed: int = 0


async def play(root: Path, steps: Sequence[Step], tally: Tally) -> None:
    world = make_world(root)
    player = Player(world)
    await player.begin()
    try:
        for step in steps:
            await player.step(step)
    finally:
        await player.end()
    check(world, tally)


def check(world: World, tally: Tally) -> None:
    lines = world.marked()
    found = attribute(world.file, world.file.read_bytes(), [session.path for session in world.sessions])
    assert len(found) == len(lines)
    counts = Counter(text for text, _ in lines)
    for place, ((text, mark), origin) in enumerate(zip(lines, found, strict=True), 1):
        author = world.authors[mark]
        tally.written += author is not None
        tally.by_hand += author is None
        distinct = author is not None and counts[text] == 1 and text not in POOL
        tally.distinct += distinct
        match origin:
            case WrittenByAgent(session=session, call=name):
                allowed = {author, *world.also[mark]}
                assert f"{session} {name}" in allowed, (place, text, author, origin.call, world.said)
                tally.attributed += 1
                tally.distinct_attributed += distinct
            case Unknown():
                pass


def run(steps: Sequence[Step], tally: Tally) -> None:
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(play(Path(directory).resolve(), steps, tally))


@settings(max_examples=deep(12, 600), deadline=None, suppress_health_check=list(HealthCheck))  # pyright: ignore[reportArgumentType]
@given(STEPS)
def test_lines_are_attributed_rightly_or_to_nobody(steps: Sequence[Step]) -> None:
    tally = Tally()
    run(steps, tally)
    target(float(tally.attributed))
