"""The plan of a rewind, made from log entries alone: the changes that calls made to files, and the steps that undo
them.

Files have one history, however the conversation branches. So a rewind undoes all later changes in order, including
those of abandoned branches. A rewind is recorded in this history too, so it can be undone in the same way.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TypeAlias

from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.session.contents import Spawned
from sagent.session.entries import Entry
from sagent.session.touches import NOT_SEEN, Omission, Snapshot, Touch, Touched

Read: TypeAlias = Callable[[str], Iterable[Entry]]
"""The entries of an agent's log, in the order written."""

REWIND = "rewind"  # stands for the tool when files were rewound
BETWEEN = "somebody else changed it in between"
ELSE = "somebody else has changed it since"
EARLIER = "a call that had begun earlier changed files there, and may have done so before this"


@dataclass(frozen=True, slots=True)
class Item:
    """A file of a plan: its target, and its expected present state. With a `why` it is left alone."""

    path: str
    target: Snapshot
    expected: tuple[Snapshot, ...]
    why: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of a rewind. `made` are directories to remove if they become empty, deepest first; `gone` are
    directories to make again; `commands` is True if any call ran that may have changed anything."""

    items: tuple[Item, ...] = ()
    made: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    omitted: tuple[Omission, ...] = ()
    commands: bool = False


# -- rewinding ---------------------------------------------------------------------------------------------------------


def since(read: Read, agent: str, entry: str) -> tuple[Touched, ...]:
    """Return the changes of an agent and those below it to files after an entry of its log, in order; "" is the
    beginning.

    Of an agent that was spawned earlier, later changes count by the clock. Raises UsageError if there is no such entry.
    """
    logs: list[list[tuple[str, Touched]]] = []
    moment = _collect(read, agent, entry, "", logs)
    if moment is None:
        raise UsageError(f"no entry {entry!r} in the log of {agent}")
    return tuple(each for _, each in heapq.merge(*logs, key=lambda pair: pair[0]))


def _collect(read: Read, agent: str, entry: str, moment: str, logs: list[list[tuple[str, Touched]]]) -> str | None:
    """Read a log from an entry or a moment on, and the logs below it. Return None if there is no such entry."""
    own = _Log(passed=not entry and not moment)
    logs.append(own.found)
    children: list[tuple[str, bool]] = []
    at = ""
    for each in read(agent):
        at = max(at, each.at)  # a clock that went back does not change the order
        if moment and not own.passed:
            own.passed = at > moment
        if each.kind in ("touched", "spawned"):
            content = each.content
            if isinstance(content, Touched):
                own.read(at, content)
            elif isinstance(content, Spawned):
                children.append((content.agent, own.passed))
        if entry and each.id == entry:
            own.passed, moment = True, at
    if entry and not own.passed:
        return None
    own.close()
    for child, later in dict(children).items():
        if child.startswith(f"{agent}/"):
            _collect(read, child, "", "" if later else moment or at, logs)
    return moment


@dataclass(slots=True)
class _Log:
    """The changes to files in one log after a point in it."""

    passed: bool
    found: list[tuple[str, Touched]] = field(default_factory=list[tuple[str, Touched]])
    begun: dict[str, tuple[str, Touched, bool]] = field(default_factory=dict[str, tuple[str, Touched, bool]])

    def read(self, at: str, touched: Touched) -> None:
        if not touched.ended:
            self.begun[touched.call] = (at, touched, self.passed)
            return
        _, _, later = self.begun.pop(touched.call, ("", touched, True))
        if self.passed:
            if touched.files and not later:
                places = touched.trees or tuple(touch.path for touch in touched.files)
                early = tuple(Omission(path, EARLIER) for path in places)
                touched = replace(touched, omitted=(*touched.omitted, *early))
            self.found.append((at, touched))

    def close(self) -> None:
        """Add the calls that began and did not end: they may have changed something."""
        for at, what, passed in self.begun.values():
            if passed:
                self.found.append((at, what))
            else:  # it may have gone on for long
                self.found.append((at, replace(what, files=(), omitted=_unseen(what))))
        self.found.sort(key=lambda pair: pair[0])


def cut_off(entries: Iterable[Entry], now: Callable[[str], Snapshot]) -> Iterator[Touched]:
    """Yield the calls without a recorded end, as if they had ended. If a file's intended content is known, `now` says
    whether it has it; everything else is unknown."""
    begun: dict[str, Touched] = {}
    for entry in entries:
        if entry.kind == "touched" and isinstance(what := entry.content, Touched):
            begun.pop(what.call, None)
            if not what.ended:
                begun[what.call] = what
    for what in begun.values():
        stands = {touch: now(touch.path) for touch in what.files if touch.after.kind != "unknown"}
        done = tuple(touch for touch, found in stands.items() if found == touch.after)
        open_ = tuple(touch for touch in what.files if stands.get(touch) not in (touch.before, touch.after))
        unseen = _unseen(replace(what, files=open_))
        yield replace(what, ended=True, files=(*done, *open_), omitted=(*what.omitted, *unseen))


def _unseen(touched: Touched) -> tuple[Omission, ...]:
    return tuple(Omission(path, NOT_SEEN) for path in (*touched.trees, *(touch.path for touch in touched.files)))


def plan(touches: Iterable[Touched]) -> Plan:
    """Plan the steps that bring the files back to their state before these touches."""
    items: dict[str, Item] = {}
    directories: dict[str, bool] = {}  # whether each existed before
    omitted: dict[tuple[str, str], Omission] = {}
    commands = False
    for what in touches:
        commands = commands or bool(what.trees or what.omitted)
        for touch in what.files:
            items[touch.path] = _follow(items.get(touch.path), touch, what)
        for path in what.made:
            directories.setdefault(path, False)
        for path in what.gone:
            directories.setdefault(path, True)
        for each in (*what.omitted, *(() if what.ended else (Omission(path, NOT_SEEN) for path in what.trees))):
            omitted.setdefault((each.path, each.why), each)
    return Plan(
        tuple(items.values()),
        tuple(sorted((path for path, there in directories.items() if not there), key=len, reverse=True)),
        tuple(sorted((path for path, there in directories.items() if there), key=len)),
        tuple(omitted.values()),
        commands,
    )


def _follow(item: Item | None, touch: Touch, touched: Touched) -> Item:
    """Return a file's item extended by one change."""
    after = (touch.after,) if touched.ended else (touch.before, touch.after)
    expected = tuple(each for each in after if each.kind != "unknown")
    why = "" if expected else touch.after.why
    if item is None:
        return Item(touch.path, touch.before, expected, touch.before.why or why)
    if not item.why and touch.before not in item.expected:
        why = touch.before.why or BETWEEN
    return Item(touch.path, item.target, expected, item.why or why)


def settle(plan: Plan, now: Mapping[str, Snapshot]) -> tuple[Sequence[Touch], Sequence[Omission]]:
    """Return the steps to take, with the files as they are now, and the files that should change but are left alone."""
    steps: list[Touch] = []
    left: list[Omission] = []
    for item in plan.items:
        there = now[item.path]
        if there == item.target and there.kind != "unknown":
            continue
        if item.why:
            left.append(Omission(item.path, item.why))
        elif there not in item.expected:
            left.append(Omission(item.path, there.why or ELSE))
        else:
            steps.append(Touch(item.path, there, item.target))
    return steps, left
