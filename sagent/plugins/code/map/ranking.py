"""The ranking of files and definitions: a graph of references between files, ranked like web pages.

A file passes its rank to those that define the names it uses (PageRank). With a focus the walk restarts there, so that
nearby files rank first. The same files give the same ranks.
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from math import sqrt
from typing import TypeAlias

from sagent.lib.dataclass import dataclass

ROUNDS = 15
MAX_EDGES = 50  # from one file: the strongest
STAYS = 0.85  # share of the rank that follows the graph; the rest restarts
BACK = 0.2  # weight of an edge from a definition to its user
COMMON = 8  # a name that more files define carries no information
NEAR = 1e-4  # remainder of a walk that is no longer followed
MIN_DISTINCTIVE_CHARS = 8  # of a name that is hardly chosen twice by chance


@dataclass(frozen=True, slots=True)
class Graph:
    """Files by number: the start of each one's edges, their targets, and the share of rank along each."""

    starts: "array[int]" = field(default_factory=lambda: array("i", [0]))
    targets: "array[int]" = field(default_factory=lambda: array("i"))
    shares: "array[float]" = field(default_factory=lambda: array("d"))

    @property
    def size(self) -> int:
        return len(self.starts) - 1


Weighted: TypeAlias = Mapping[int, float]
"""Edges: targets and weights."""
Weights: TypeAlias = Mapping[str, float]
"""Weight of each name that a file defines, by its uses in others."""


def link(defined: Sequence[Iterable[str]], named: Sequence[Iterable[str]]) -> tuple[Graph, Sequence[Weights]]:
    """Return the graph of files that define and use these names; and the weight of each definition."""
    homes: dict[str, list[int]] = defaultdict(list)
    for number, names in enumerate(defined):
        for name in dict.fromkeys(names):
            homes[name].append(number)
    known = {name for name, files in homes.items() if len(files) <= COMMON}
    meant = [sorted(known.intersection(names)) for names in named]
    uses = Counter(name for names in meant for name in names)
    worth = {name: _worth(name) / len(homes[name]) / sqrt(count) for name, count in uses.items()}
    edges: list[Weighted] = []
    for number, names in enumerate(meant):
        out: dict[int, float] = defaultdict(float)
        for name in names:
            if number not in (files := homes[name]):
                for home in files:
                    out[home] += worth[name]
        edges.append(_strongest(out))
    back: list[dict[int, float]] = [{} for _ in edges]
    for number, forth in enumerate(edges):
        for target, weight in forth.items():
            back[target][number] = weight * BACK
    graph = Graph()
    for number, forth in enumerate(edges):
        both = back[number]
        for target, weight in forth.items():
            both[target] = both.get(target, 0.0) + weight
        kept = _strongest(both)
        whole = sum(kept.values())
        graph.targets.extend(kept)
        graph.shares.extend(weight / whole for weight in kept.values())
        graph.starts.append(len(graph.targets))
    return graph, [{name: _named(name, homes, uses, worth) for name in names} for names in defined]


def _strongest(out: Weighted) -> Weighted:
    """Return the strongest edges of a file."""
    return dict(sorted(out.items(), key=lambda edge: (-edge[1], edge[0]))[:MAX_EDGES])


def _named(name: str, homes: Mapping[str, Sequence[int]], uses: Mapping[str, int], worth: Mapping[str, float]) -> float:
    """Weigh a name by its uses in files that do not define it."""
    return worth[name] * (uses[name] - len(homes[name])) if uses.get(name, 0) > len(homes[name]) else 0.0


def _worth(name: str) -> float:
    """Weigh a name by its form: a name of several words is worth more than a common word."""
    if name.startswith("_"):
        return 0.1
    several = "_" in name.strip("_") or (not name.islower() and not name.isupper())
    return 10.0 if several and len(name) >= MIN_DISTINCTIVE_CHARS else 1.0


def rank(graph: Graph) -> "array[float]":
    """Return each file's rank; they add up to one."""
    size = graph.size
    ranks = array("d", [1 / size] * size) if size else array("d")
    starts, targets, shares = graph.starts, graph.targets, graph.shares
    for _ in range(ROUNDS):
        fresh, kept = [0.0] * size, 0.0
        for number in range(size):
            first, last = starts[number], starts[number + 1]
            if first == last:
                kept += ranks[number]
                continue
            moved = ranks[number] * STAYS
            for at in range(first, last):
                fresh[targets[at]] += moved * shares[at]
        everywhere = (1 - STAYS + STAYS * kept) / size if size else 0.0
        ranks = array("d", [value + everywhere for value in fresh])
    return ranks


def rank_near(graph: Graph, focus: Sequence[int]) -> Mapping[int, float]:
    """Return ranks near some files, by pushing the remainder of the walk (Andersen, Chung and Lang)."""
    near: dict[int, float] = defaultdict(float)
    left: dict[int, float] = {number: 1 / len(focus) for number in sorted(set(focus))}
    queue = list(left)
    for number in queue:
        rest = left.pop(number, 0.0)
        near[number] += rest * (1 - STAYS)
        first, last = graph.starts[number], graph.starts[number + 1]
        for at in range(first, last):
            target, moved = graph.targets[at], rest * STAYS * graph.shares[at]
            before = left.get(target, 0.0)
            left[target] = before + moved
            if before < NEAR <= before + moved:
                queue.append(target)
    return near
