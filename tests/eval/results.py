"""Rows of runs in a file, and the tables that are made from them."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from tests.eval.runs import Row

FILE = "rows.jsonl"
START, END = "<!-- table -->", "<!-- end -->"


def append(out: Path, row: Row) -> None:
    """Add a row to the file of a folder."""
    with (out / FILE).open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(row)) + "\n")


def read(out: Path) -> list[Row]:
    """Return the rows of a folder: of each run that was repeated, the last one."""
    file = out / FILE
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []
    made = [
        Row(**{**row, "changed": tuple(row["changed"]), "consultations": tuple(row.get("consultations", ()))})
        for row in rows
    ]
    return list({(row.suite, row.model, row.harness, row.task): row for row in made}.values())


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of the tables, for each suite and model those of its harnesses and of its tasks."""
    for suite, model in dict.fromkeys((row.suite, row.model) for row in rows):
        some = [row for row in rows if (row.suite, row.model) == (suite, model)]
        yield from (
            "",
            f"**{model}**, suite `{suite}`, measured {_range(row.date for row in some)}. Means of a task.",
            "",
        )
        yield from summary(some)
        yield from consultations(some)
        yield ""
        yield from by_task(some)


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a line for each harness: sums of what was done, means of what it took."""
    yield "| harness | done | failed with exit 0 | ended by a limit | requests | prompt tokens (cached) | written | s |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, version in dict.fromkeys((row.harness, row.version) for row in rows):
        own = [row for row in rows if (row.harness, row.version) == (name, version)]
        silent = sum(not row.success and not row.exit and not row.ended for row in own)
        cells = [
            f"{name} {version}",
            f"**{sum(row.success for row in own)} of {len(own)}**",
            str(silent),
            str(sum(bool(row.ended) for row in own)),
            f"{_mean(row.requests for row in own):.1f}",
            f"{_mean(row.prompt for row in own):,.0f} ({_mean(row.cached for row in own):,.0f})",
            f"{_mean(row.written for row in own):.0f}",
            f"{_mean(row.seconds for row in own):.0f}",
        ]
        yield f"| {' | '.join(cells)} |"


def consultations(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a line about advisors, if there was one: how often they were asked and why, and the tokens it took."""
    asked = [each.split() for row in rows for each in row.consultations]
    if made := [each for each in asked if each[1] != "withheld"]:
        triggers = ", ".join(f"{name} {count}" for name, count in Counter(name for name, *_ in made).most_common())
        tokens = f"{_mean(row.advisor_tokens for row in rows):,.0f} tokens of the advisor a task"
        yield ""
        yield f"Consultations: {len(made) / len(rows):.1f} a task ({triggers}), {tokens}."


def by_task(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a line for each task: whether each harness did it, and with how many requests."""
    harnesses = list(dict.fromkeys(row.harness for row in rows))
    found = {(row.task, row.harness): row for row in rows}
    yield f"| task | {' | '.join(harnesses)} |"
    yield "|---" * (len(harnesses) + 1) + "|"
    for task in dict.fromkeys(row.task for row in rows):
        yield f"| {task} | {' | '.join(_cell(found.get((task, harness))) for harness in harnesses)} |"


def write_page(page: Path, rows: Sequence[Row]) -> None:
    """Put the tables between the marks of a page."""
    before, _, rest = page.read_text("utf-8").partition(START)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{START}\n{chr(10).join(tables(rows)).strip()}\n{END}{after}", "utf-8")


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    how = "done" if row.success else f"limit of {row.ended}" if row.ended else "–"
    return f"{how} ({row.requests})"


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers)


def _range(dates: Iterable[str]) -> str:
    first, *_, last = sorted([*dates] * 2)
    return first if first == last else f"{first} to {last}"
