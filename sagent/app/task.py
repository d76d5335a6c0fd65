"""Settings for programs that embed sagent: an agent like that of the command line, or one task in one call."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import field
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Unpack

from sagent.agent import Agent, Asker
from sagent.agent.resources import GivenTool, check_kind, tools_of
from sagent.agent.runs import warn_of_own_ledger
from sagent.app import assembly
from sagent.config import Settings, load
from sagent.config.typed import Overrides
from sagent.errors import UsageError
from sagent.events import Event, Result
from sagent.lib.dataclass import dataclass
from sagent.session.entries import Entry
from sagent.session.folds import charges
from sagent.session.log import read_agent
from sagent.usage import Charge, Sum


@dataclass(frozen=True, slots=True)
class RoleUsage:
    """The usage of a role: billed calls, tokens read and written, USD. `usd` is None if a price is unknown."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: Decimal | None = Decimal(0)


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of a task. `usage_summary` is its usage by role: "executor", "advisor" (all of them together), others
    if there were any, and "total". `result` is complete and has each advisor's figures."""

    final_answer: str
    result: Result
    usage_summary: Mapping[str, RoleUsage] = field(default_factory=dict[str, RoleUsage])


def load_config(path: str | Path | None = None, **settings: Unpack[Overrides]) -> Settings:
    """Return the effective settings, from a file (TOML, or YAML by its suffix) or by default the user's, with the
    project's and the environment's. `settings` come last, as on the command line, and are read the same way:
    `load_config(executor="openai/gpt-5.5", advisor="anthropic/claude-opus-4-8", max_budget_usd=0.5)`.

    Nothing is opened or asked: `open_agent` and `run_task` check that a model is available. Raises ConfigError that
    names the place and, for an unknown name, the nearest known one.
    """
    return load({**settings}, file=path)


@asynccontextmanager
async def open_agent(
    config: Settings | None = None,
    *,
    tools: Sequence[GivenTool] = (),
    on_event: Callable[[Event], None] | None = None,
    ask: Asker | None = None,
) -> AsyncGenerator[Agent]:
    """Yield the agent that the command line would build: with model, advisors, session, instructions, tools, policy and
    budget from `config`, by default that of `load_config()`. `tools` are added to it. `ask` answers the policy's
    questions; without it they are denied. The agent is closed at the end.

    Raises UsageError for an unavailable model, key or tool, SessionBusy and SessionCorrupt for a session.
    """
    check_kind("config", config, Settings, "load_config(...)")
    for name, given in (("on_event", on_event), ("ask", ask)):
        if given is not None and not callable(given):
            raise UsageError(f"{name} is {type(given).__name__}: give a function")
    async with assembly.open_agent(config or load(), on_event or (lambda _: None), ask, more=tools_of(tools)) as agent:
        yield agent


def run_task(
    task: str, *, config: Settings | None = None, on_event: Callable[[Event], None] | None = None
) -> TaskResult:
    """Run a task with an agent and wait for the result. Without `config` the settings are those of `load_config()`.

    A run that a limit stopped has its answer so far, and `result.error`. Raises UsageError (also inside a running event
    loop), ModelError and BudgetExceeded.
    """
    with suppress(RuntimeError):  # not `except`: the run's errors would get this one as context
        asyncio.get_running_loop()
        raise UsageError(
            "run_task waits for its result, so it cannot be called inside a running event loop: await Agent.run() "
            "there (sagent.agent), or await asyncio.to_thread(run_task, ...)."
        )
    return asyncio.run(_run(task, config or load(), on_event))


async def _run(task: str, config: Settings, on_event: Callable[[Event], None] | None) -> TaskResult:
    check_kind("config", config, Settings, "load_config(...)")
    if not isinstance(task, str):  # pyright: ignore[reportUnnecessaryIsInstance] -- not everybody has a type checker
        raise UsageError(f"a task must be a str, not {type(task).__name__}")
    if not task.strip():
        raise UsageError("The task is empty: say what to do.")
    async with open_agent(config, on_event=on_event) as agent:
        warn_of_own_ledger(agent.ledger)
        before = {entry.id for entry in _entries(agent)}
        result = await agent.run(task)
        made = charges(entry for entry in _entries(agent) if entry.id not in before)
        return TaskResult(result.content, result, _by_role(made))


def _by_role(charges: Iterable[Charge]) -> Mapping[str, RoleUsage]:
    sums, total = {"executor": Sum(), "advisor": Sum()}, Sum()
    for charge in charges:
        for each in (sums.setdefault(charge.role.partition(":")[0] or "executor", Sum()), total):
            each.add(charge)
    return {
        role: RoleUsage(each.charges, each.usage.total_input, each.usage.output, each.price)
        for role, each in (*sums.items(), ("total", total))
    }


def _entries(agent: Agent) -> Iterator[Entry]:
    """Return the logs of all agents of the session that have charges."""
    return chain.from_iterable(read_agent(agent.log, path) for path in agent.ledger.totals().by_agent)
