"""Ours and the others in turn, A B C D A B C D, so that whatever else the machine does is done to all of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from tests.benchmarks.clients import FREE, Client, attend, peak_memory, peers, raw, sagent

ROUNDS = 11
OUTPUT = 300_000_000
LOUD = f"yes 0123456789012345678901234567890123456789012345678901234567890 | head -c {OUTPUT}"


@dataclass(frozen=True)
class Comparison:
    """What each client took in each round, and what is to be reached: at most so much, or so much of another's."""

    name: str
    unit: str
    rounds: Mapping[str, Sequence[float]]
    reach: float | None = None
    of: str = ""
    names: Sequence[str] = field(default=("sagent", "raw loop", "codex", "pi"))

    def value(self, name: str) -> float | None:
        """A client's median."""
        return median(self.rounds[name]) if self.rounds.get(name) else None

    def ratio(self, name: str) -> float | None:
        """How often ours goes into another's: the median of the rounds' ratios."""
        others = self.rounds.get(name, ())
        pairs = zip(self.rounds["sagent"], others, strict=False)
        return median(ours / theirs for ours, theirs in pairs) if others else None

    def verdict(self) -> str:
        """Whether it is reached."""
        found = self.ratio(self.of) if self.of else self.value("sagent")
        return (
            "" if self.reach is None else "not measured" if found is None else "met" if found <= self.reach else "short"
        )

    def line(self) -> str:
        """The row of the table: each one's median, and in brackets what ours is of it."""
        cells = list[str]()
        for name in self.names:
            value, ratio = self.value(name), self.ratio(name)
            told = "" if value is None else f"{value:.3g} {self.unit}" if value < 1000 else f"{value:,.0f} {self.unit}"
            cells.append(told if name == "sagent" or ratio is None else f"{told} ({ratio:.2f})")
        unit = f"of {self.of}" if self.of else self.unit
        reach = "" if self.reach is None else f"≤ {self.reach:g} {unit}"
        return f"| {self.name} | {' | '.join(cells)} | {reach} | {self.verdict()} |"


def in_turn(clients: Sequence[Client], rounds: int, measure: Callable[[Client], float]) -> dict[str, list[float]]:
    """A measure of every client, in each round; a first round, with nothing in the page cache, is left out."""
    found: dict[str, list[float]] = {client.name: [] for client in clients}
    for number in range(rounds + 1):
        for client in clients:
            value = measure(client)
            if number:
                found[client.name].append(value)
    return found


def compare() -> Iterator[Comparison]:
    """Every figure in which there is something to compare with. Commands run without a sandbox, as pi and the raw loop
    have none, but where it says so."""
    ours, loop, others = sagent(*FREE), raw(), peers()
    every = [ours, loop, *others]
    bodies: dict[str, float] = {}

    def first(client: Client) -> float:
        seen = attend(client, 0)
        bodies[client.name] = seen.body / 1000
        return seen.first

    starts = in_turn([sagent(), loop, *others], ROUNDS, first)
    yield Comparison("process start to first request", "ms", starts, 0.8, "codex")
    yield Comparison("its body", "kB", {name: [size] for name, size in bodies.items()}, 9)
    wholes: dict[str, list[float]] = {client.name: [] for client in every}
    means: dict[str, list[float]] = {client.name: [] for client in every}

    def turn(client: Client) -> float:
        seen = attend(client, 20)
        wholes[client.name].append(seen.whole)
        means[client.name].append(seen.turn)
        return median(seen.gaps)

    yield Comparison("a tool turn, median of the first 20", "ms", in_turn(every, 5, turn), 2, "raw loop")
    for name, rounds in (("their mean", means), ("start to end of 20 tool turns", wholes)):
        yield Comparison(name, "ms", {client: found[1:] for client, found in rounds.items()})
    boxed = [sagent(), *peers(sandboxed=True)]
    held = in_turn(boxed, 5, lambda client: median(attend(client, 20).gaps))
    yield Comparison("a tool turn in the program's own sandbox, median of the first 20", "ms", held)
    yield Comparison("peak memory of the process tree, 20 turns", "MB", in_turn(every, 3, peak_memory), 50)
    bounded = [ours, *others]  # the raw loop sends all of it back
    loud = in_turn(bounded, 3, lambda client: attend(client, 1, LOUD).turn / 1000)
    yield Comparison("a command that prints 300 MB", "s", loud, 0.5)
    growth = in_turn([ours, loop], 1, lambda client: later(attend(client, 1000).gaps))
    yield Comparison("turn 1,000 over turn 20", "×", growth, 1.2)


def later(gaps: list[float]) -> float:
    """How much longer a turn takes at 1,000 than at 20."""
    return median(gaps[950:]) / median(gaps[10:60])
