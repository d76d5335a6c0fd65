"""One task in one call, for code that is not async: settings in, an answer and what it cost out."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from decimal import Decimal
from itertools import chain
from pathlib import Path

from sagent.agent import Agent
from sagent.agent.runs import warn_of_own_ledger
from sagent.app.assembly import open_agent
from sagent.config import Settings, load
from sagent.errors import UsageError
from sagent.events import Event, Result
from sagent.lib.dataclass import dataclass
from sagent.session.entries import Entry
from sagent.session.folds import charges
from sagent.session.log import read_agent
from sagent.usage import Charge, Sum


@dataclass(frozen=True, slots=True)
class RoleUsage:
    """What a role has used: calls that were billed, tokens read and written, USD. `usd` is None where a price is not
    known."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: Decimal | None = Decimal(0)


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What a task came to. `usage_summary` is this task's, by role: "executor", "advisor" (all of them together),
    others where there were any, and "total". `result` is the whole of it, each advisor's figures included."""

    final_answer: str
    result: Result
    usage_summary: Mapping[str, RoleUsage] = field(default_factory=dict[str, RoleUsage])


def load_config(path: str | Path | None = None, **settings: object) -> Settings:
    """The settings in force, from a file (TOML, or YAML by its ending) or else the person's own, with the project's and
    the environment's. `settings` come last, as on the command line: `max_turns=5`. Raises ConfigError."""
    return load(settings, file=path)


def run_task(
    task: str, *, config: Settings | None = None, on_event: Callable[[Event], None] | None = None
) -> TaskResult:
    """Have an agent carry out a task, and wait for it. Without `config` the settings are those of `load_config()`.

    A run that was stopped by a limit has an answer so far, and `result.error`. Raises UsageError (inside a running
    event loop too), ModelError and BudgetExceeded.
    """
    with suppress(RuntimeError):  # and not `except`, for then an error of the run would tell of that one too
        asyncio.get_running_loop()
        raise UsageError(
            "run_task waits for its result, so it cannot be called inside a running event loop: await Agent.run() "
            "there (sagent.agent), or await asyncio.to_thread(run_task, ...)."
        )
    return asyncio.run(_run(task, config or load(), on_event or (lambda _: None)))


async def _run(task: str, config: Settings, on_event: Callable[[Event], None]) -> TaskResult:
    if not task.strip():
        raise UsageError("The task is empty: say what is to be done.")
    async with open_agent(config, on_event) as agent:
        warn_of_own_ledger(agent.ledger)
        before = {entry.id for entry in _entries(agent)}
        result = await agent.run(task)
        made = charges(entry for entry in _entries(agent) if entry.id not in before)
        return TaskResult(result.content, result, _by_role(made))


def _by_role(made: Iterable[Charge]) -> Mapping[str, RoleUsage]:
    sums, total = {"executor": Sum(), "advisor": Sum()}, Sum()
    for charge in made:
        for each in (sums.setdefault(charge.role.partition(":")[0] or "executor", Sum()), total):
            each.add(charge)
    return {
        role: RoleUsage(each.charges, each.usage.total_input, each.usage.output, each.price)
        for role, each in (*sums.items(), ("total", total))
    }


def _entries(agent: Agent) -> Iterator[Entry]:
    """The logs of all agents of the session that have spent anything."""
    return chain.from_iterable(read_agent(agent.log, path) for path in agent.ledger.totals().by_agent)
