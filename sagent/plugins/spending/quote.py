"""What a task is likely to cost: an interval from earlier tasks of the project. A plan that is accepted keeps to it.

A task is a person's prompt with all that follows until the next one. The interval has at least nine of ten tasks if
the next one is like the earlier ones: its ends are order statistics of their costs, so no distribution is assumed.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from math import ceil, floor
from pathlib import Path
from typing import NamedTuple

from sagent.agent import Agent
from sagent.app.builder import AgentBuilder
from sagent.errors import SagentError
from sagent.events import Event, Finished
from sagent.lib.figures import money
from sagent.lib.json import JsonObject
from sagent.lib.money import EXACT, ZERO, show
from sagent.plugins.spending.book import cost_of
from sagent.plugins.spending.ledger import StandingLedger
from sagent.plugins.spending.limits import project_at
from sagent.session.contents import ChargeEntry, MessageEntry
from sagent.session.folds import origin
from sagent.session.log import read_log
from sagent.session.store import log_files, sessions
from sagent.tool import RunContext, Tool, ToolOutput
from sagent.tools.wrapped import WrappedTool

COVERAGE = 0.9
MIN_TASKS = 9
"""Tasks from which an upper end with this coverage is known; a lower end needs 19."""
MAX_TASKS = 200


class Quote(NamedTuple):
    """USD that nine of ten tasks cost, by so many earlier ones. `low` is 0 if they are too few for a lower end."""

    low: Decimal
    high: Decimal
    tasks: int

    def __str__(self) -> str:
        span = f"{money(self.low)} to {money(self.high)}" if self.low else f"up to {money(self.high)}"
        return f"Nine of ten tasks in this project have cost {span} (by the last {self.tasks})."


def quote_of(costs: Sequence[Decimal]) -> Quote | None:
    """Return the interval for the next task, None if there are too few earlier ones."""
    known, number = sorted(costs), len(costs)
    if number < MIN_TASKS:
        return None
    low = floor((number + 1) * (1 - COVERAGE) / 2 + 1e-9)  # the rank of the lower end
    share = (1 + COVERAGE) / 2 if low else COVERAGE
    return Quote(known[low - 1] if low else ZERO, known[ceil((number + 1) * share - 1e-9) - 1], number)


def task_costs(state: Path, project: str, skip: str = "") -> Sequence[Decimal]:
    """Return what the tasks of a project's sessions have cost, the latest last. The session `skip` is left out."""
    found: list[tuple[str, Decimal]] = []
    for session in sessions(state):
        if session.name != skip:
            with suppress(OSError, SagentError, ValueError):
                found += _tasks(session, project)
    return [usd for _, usd in sorted(found)][-MAX_TASKS:]


def _tasks(session: Path, project: str) -> Iterator[tuple[str, Decimal]]:
    """Yield the begin and the cost of each task of a session."""
    entries = list(read_log(session / "root.jsonl"))
    if project_at(origin(entries).cwd or str(session.parent)) != project:
        return
    begins = [entry.at for entry in entries if isinstance(entry.content, MessageEntry) and _is_prompt(entry.content)]
    every = (entry for file in log_files(session) for entry in read_log(file))
    paid = [(entry.at, entry.content.charge) for entry in every if isinstance(entry.content, ChargeEntry)]
    for begin, end in zip(begins, (*begins[1:], "~"), strict=True):
        if usd := cost_of(charge for at, charge in paid if begin <= at < end):
            yield begin, usd


def _is_prompt(entry: MessageEntry) -> bool:
    stored = entry.message
    with suppress(ValueError, SagentError, OSError):
        return stored.role == "user" and not stored.sender and not stored.load(None).results
    return False


class Quoting:
    """The quote of a session's task. From the acceptance of its plan until its end the session's cap is the upper end,
    which is set aside in the standing budgets."""

    def __init__(self, costs: Sequence[Decimal]) -> None:
        self.quote = quote_of(costs)
        self._agent: Agent | None = None
        self._start = ZERO  # counted when the task began
        self._caps: tuple[Decimal | None, Decimal] | None = None  # the session's own, and that of the quote

    def attend(self, agent: Agent) -> None:
        """Follow the tasks of an agent."""
        self._agent, self._start = agent, agent.ledger.whole.counted
        agent.listen(self._on_event)

    def tell(self) -> None:
        """Show the quote."""
        if self._agent is not None and self.quote is not None:
            self._agent.state.journal.notify("info", str(self.quote))

    def keep_to_it(self) -> None:
        """Stop at the upper end."""
        if self._agent is None or self.quote is None or self._caps is not None:
            return
        ledger = self._agent.ledger
        own, most = ledger.cap, EXACT.add(self._start, self.quote.high)
        if own is not None and own <= most:
            return
        self._caps, ledger.cap = (own, most), most
        rest = EXACT.subtract(most, ledger.whole.counted)
        if isinstance(ledger, StandingLedger) and rest > 0 and (why := ledger.set_aside(rest)):
            self._agent.state.journal.notify("warning", f"{show(rest)} cannot be set aside for the plan: {why}.")

    def _on_event(self, event: Event) -> None:
        if self._agent is None or not isinstance(event, Finished) or event.agent != self._agent.path:
            return
        ledger = self._agent.ledger
        if self._caps is not None:
            own, most = self._caps
            if ledger.cap == most:  # the person has not raised it
                ledger.whole.cap = own
            if isinstance(ledger, StandingLedger):
                ledger.free_aside()
        self._caps, self._start = None, ledger.whole.counted


class QuotedPlan(WrappedTool):
    """The tool that proposes a plan, with a quote before it. `quoting` returns the session's, None if it has none."""

    def __init__(self, tool: Tool, quoting: Callable[[], Awaitable[Quoting | None]], builder: AgentBuilder) -> None:
        super().__init__(tool)
        self._quoting, self._policy = quoting, builder.policy

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        quoting = await self._quoting() if self._policy.mode == "plan" else None
        if quoting is not None:
            quoting.tell()
        output = ToolOutput.of(await self.tool(arguments, run))
        if quoting is not None and self._policy.mode != "plan":
            quoting.keep_to_it()
        return output
