"""Agents on one task side by side, until the first passes the check.

They are agents below one root, so that one ledger holds the budget of all and one session has all of them.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import Literal, TypeAlias, cast

from sagent.agent import Agent
from sagent.errors import SagentError
from sagent.events import Result
from sagent.lib.dataclass import dataclass
from sagent.lib.text import head_and_tail, one_line
from sagent.messages import user
from sagent.peer import SpawnRequest
from sagent.plugins.programs.check import CHECK_TIMEOUT_SECONDS, CheckResult, run_check
from sagent.policy.permissions import PermissionPolicy
from sagent.usage import Cost

Standing: TypeAlias = Literal["running", "won", "unsolved", "failed", "budget", "late", "stopped"]
SENDER = "race"
MAX_SHOWN_CHARS = 4_000  # of a check's output, for a model
OWN_DOING = frozenset(
    {"max_turns", "max_tool_call_rounds", "max_tokens", "context_overflow", "repeated_calls", "refusal"}
)
"""Errors that come from the model or a limit: its files are checked as usual, once."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a race: the task, the check that decides, the seconds that it may take, how often an agent may try,
    and the seconds that it has for all, None for no limit."""

    task: str
    check: str
    check_timeout: float = CHECK_TIMEOUT_SECONDS
    attempts: int = 3
    time_limit: float | None = None

    @property
    def prompt(self) -> str:
        """The first message of each agent."""
        return (
            f"{self.task}\n\nYour work is done when `{self.check}` exits with code 0. It is run whenever you end your "
            "turn."
        )


@dataclass(slots=True, eq=False)
class Racer:
    """An agent in a race: its name and model, the directory in which it works, and the root of that work tree."""

    name: str
    model: str
    directory: Path
    standing: Standing = "running"
    reason: str = ""
    attempts: int = 0
    turns: int = 0
    seconds: float = 0.0
    check: int | None = None
    path: str = ""
    cost: Cost = field(default_factory=Cost)


class Race:
    """A race of agents below a root, which itself does nothing. `report` receives a sentence for each event, and
    `policy` anchors what searches may not show."""

    def __init__(
        self,
        root: Agent,
        rules: Rules,
        racers: Sequence[Racer],
        report: Callable[[str], object] = bool,
        policy: PermissionPolicy | None = None,
    ) -> None:
        self.racers = racers
        self._root, self._rules, self._report, self._policy = root, rules, report, policy

    async def run(self) -> Racer | None:
        """Return the winner, if any. All others have then ended, with all that they had started; also when this is
        cancelled."""
        tasks = {asyncio.create_task(self._drive(racer)): racer for racer in self.racers}
        winner: Racer | None = None
        waiting = set(tasks)
        try:
            while waiting and winner is None:
                ended, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                passed = [tasks[task] for task in ended if not task.cancelled() and task.result()]
                winner = min(passed, key=lambda racer: racer.seconds, default=None)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for racer in self.racers:
                racer.standing = "stopped" if racer.standing == "running" else racer.standing
                if racer.path:
                    racer.cost = self._root.ledger.cost(racer.path)
        if winner is not None:
            winner.standing = "won"
        return winner

    async def _drive(self, racer: Racer) -> bool:
        """Have one agent work until it passes; return True if it does."""
        began, agent = time.monotonic(), None
        try:
            async with asyncio.timeout(self._rules.time_limit):
                agent = await self._begin(racer)
                passed = await self._work(racer, agent)
        except TimeoutError:
            racer.standing, racer.reason, passed = "late", f"not done within {self._rules.time_limit:g} s", False
        except (SagentError, OSError) as error:
            racer.standing, racer.reason, passed = "failed", one_line(str(error), 300), False
        except asyncio.CancelledError:
            racer.standing, racer.reason = "stopped", ""
            raise
        finally:
            racer.seconds = time.monotonic() - began
            # not interrupted first, as by a person: its call then counts with the most that a provider may bill for it
            if agent is not None and (ending := agent.end()) is not None:
                await asyncio.wait([ending])
        if not passed:
            self._report(f"{racer.name}: {racer.reason}")
        return passed

    async def _begin(self, racer: Racer) -> Agent:
        root, place = self._root, str(racer.directory)
        prompt: object = root.preparation.prompt(root.state)
        system = prompt.replace(f": {root.state.workspace.cwd}\n", f": {place}\n") if isinstance(prompt, str) else None
        order = SpawnRequest(
            self._rules.prompt, racer.name, system, racer.model, persistent=True, directory=place, role=""
        )
        agent = cast("Agent", await root.spawn(order))
        if self._policy is not None:
            agent.state.workspace.hidden = self._policy.hidden(agent.state.workspace)
        racer.path = agent.path
        return agent

    async def _work(self, racer: Racer, agent: Agent) -> bool:
        rules = self._rules
        for attempt in range(1, rules.attempts + 1):
            result = await agent.wait()
            racer.turns += result.turns
            if _is_over(racer, result):
                return False
            found = await run_check(rules.check, racer.directory, rules.check_timeout)
            racer.attempts, racer.check = attempt, found.code
            if found.code == 0:
                racer.standing, racer.reason = "running", ""
                return True
            racer.standing, racer.reason = "unsolved", _why(found)
            if result.error is not None:
                return False
            if attempt < rules.attempts:
                self._report(f"{racer.name}: {racer.reason}, attempt {attempt} of {rules.attempts}")
                shown = head_and_tail(found.said, MAX_SHOWN_CHARS, "run it to see all")
                agent.send(
                    user(f"`{rules.check}`: {_why(found)}.\n```\n{shown}\n```\nContinue.", sender=SENDER), "next"
                )
        return False


def _is_over(racer: Racer, result: Result) -> bool:
    """Return True if an agent failed for a reason that no check can judge, and note that."""
    if (error := result.error) is None or error.kind in OWN_DOING:
        return False
    racer.standing = "budget" if error.kind == "budget" else "failed"
    racer.reason = one_line(error.message, 300)
    return True


def _why(result: CheckResult) -> str:
    return (
        f"the check {result.said.removeprefix('it ')}" if result.code is None else f"the check exits with {result.code}"
    )
