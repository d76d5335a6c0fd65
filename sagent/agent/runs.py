"""An agent's runs: one at a time, each with a result whatever happens."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from sagent.agent.asking import answer_of
from sagent.agent.tree import Tree
from sagent.context.calls import REPEATED
from sagent.engine.actions import apply_pending
from sagent.engine.loop import take_turn
from sagent.engine.neighbours import Report
from sagent.engine.state import AgentState, Arrived, Run, caller
from sagent.errors import BudgetExceeded, ModelError, SagentError, UsageError
from sagent.events import Failure, Finished, Result, SessionOpened
from sagent.lib.json import EMPTY
from sagent.lib.money import EXACT, ZERO
from sagent.messages import Message, user
from sagent.model import full_name
from sagent.session.contents import FailedEntry, RequestSent
from sagent.session.log import read_contents
from sagent.session.names import log_file
from sagent.session.view import LogView
from sagent.tool import Tool
from sagent.usage import Saving

if TYPE_CHECKING:
    from sagent.agent.resources import Admit
    from sagent.agent.structured import Output
    from sagent.cost.ledger import Ledger
    from sagent.session.savings import Savings

LIMIT_REASONS = {
    "max_turns": "the limit of {turns} is reached; raise max_turns (--max-turns)",
    "max_tool_call_rounds": "the limit of {rounds} is reached; raise max_tool_call_rounds (--max-tool-call-rounds)",
    "repeated_calls": "the same calls came five times in a row with the same results; ask in other words",
    "failed_check": "the check that the request names fails, or was not run after the last change",
    "unfinished": "the model ended with words, and what was asked for was not done",
    "goal_unmet": "the goal was not reached; what is missing was reported",
    "max_tokens": "the reply ended at its output limit{limit}ask it to continue",
    "context_overflow": "the model's context window is full",
    "max_exchanges": "its agents or jobs went on too long without you; raise max_exchanges (--max-exchanges)",
    "refusal": "the model refused to continue",
    "advisor_stop": "an advisor said to stop; its advice is in the session",
    "hook_stop": "a hook ended the run; it was reported why",
    "guardrail": "its answer was rejected",
    "need_advice": "it asks for advice, and there is no advisor; set one (--advisor), or answer it",
    "content_filter": "the provider's content filter stopped the answer",
    "error": "the provider reported a broken reply, or several replies in a row were cut within their calls",
}

NO_ADVISOR = "You asked for advice, but there is no advisor here. Continue by yourself, or say what you need."
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_NEED = re.compile(r"\[NEED[_ ]ADVICE\b[:\s]*([^\]]*)\]", re.IGNORECASE)


def wanted_advice(text: str) -> str | None:
    """Return the question for its advisor in a reply, "" without one; None if it asks for no advice. A marker inside
    code does not count."""
    plain = _CODE.sub("", text) if "[" in text else ""
    match = _NEED.search(plain, 0, plain.rfind("]") + 1)  # else each beginning is searched to the end of the text
    return match and match[1].strip()


def warn_of_own_ledger(ledger: "Ledger") -> None:
    """Warn if a tool runs an agent with its own ledger while the agent that called it has a budget."""
    state = caller()
    if state is None or state.ledger.shares_budget(ledger):
        return
    if (cap := state.ledger.cap_of(state.path)) is not None:
        state.journal.notify(
            "warning",
            f"A tool of {state.path} runs another agent, whose cost is not counted in the budget of ${cap:.2f}. "
            "Use run.caller.spawn() or agent.as_tool() to count it.",
        )


def _output_of(form: object) -> "Output":
    from sagent.agent.output import output_of

    return output_of(form)


def _limit_words(state: AgentState, reason: str) -> str:
    """Describe the limit that ended the run, and the remedy."""
    from sagent.lib.text import count

    if reason == "max_tokens" and (cut := [note for note in state.noted if REPEATED in note]):
        return cut[0]
    limit = _output_limit(state) if reason == "max_tokens" else ""
    turns, rounds = count(state.run.turns, "turn"), count(state.run.rounds, "tool call round")
    return LIMIT_REASONS[reason].format(turns=turns, rounds=rounds, limit=limit)


def _output_limit(state: AgentState) -> str:
    """Return the output limit of the last request, from the log, and what sets it."""
    from sagent.agent.options import output_limit  # for few runs

    sent = (entry.content for entry in state.log.contents().latest("request"))
    own = (each.parameters for each in sent if isinstance(each, RequestSent) and not each.role)
    if (limit := output_limit(next(own, EMPTY))) is None:
        return ": "
    wanted, most = state.limits.max_response_tokens, state.model_limits.max_output
    size = f" of {limit:,} tokens"
    if most is not None and limit >= most:
        return f"{size}, the most that {full_name(state.model)} writes in one: "
    if (wanted is None or limit < wanted) and state.ledger.cap_of(state.path) is not None:
        return f"{size}, as the budget or the window left no room for more: raise the budget (max_budget_usd), or "
    return f"{size}: raise max_response_tokens (--max-response-tokens), or "


def _wants_advice(state: AgentState, reason: str) -> bool:
    """Return True if a turn ended in an unanswered question for advice, which is not an answer."""
    replies = state.run.replies
    return reason == "end" and bool(replies) and wanted_advice(replies[-1].content) is not None


class _Outcome(NamedTuple):
    """The outcome of a run. `cancelled` is raised at the end, because whoever cancelled the task waits for it."""

    reason: str
    data: object = None
    failure: Failure | None = None
    error: SagentError | None = None
    cancelled: asyncio.CancelledError | None = None


class Runner:
    """Makes an agent's runs, interrupts them, and keeps the last result. If `contained`, every error is in the result,
    and only a cancellation is raised."""

    def __init__(
        self,
        state: AgentState,
        tree: Tree,
        finish: Callable[[], Awaitable[str]] | None,
        prepare: "Callable[[AgentState, Sequence[Tool]], Awaitable[None]]",
        admit: "Admit | None" = None,
    ) -> None:
        self._state, self._tree, self._finishing, self._prepare = state, tree, finish, prepare
        self._admit = admit
        self.last: Result | None = None
        self.contained = False
        self.closing = False  # the current or last run reads no more messages
        self._task: asyncio.Task[object] | None = None  # task of a run
        self.life: asyncio.Task[None] | None = None  # task of a spawned agent, which contains all its runs
        self._claim = Lock()  # of two threads that begin a run
        self._ended: asyncio.Event | None = None  # end of the current or last run
        self._cancelled = 0  # number of earlier cancellations of that task
        self._interrupted = False
        self._ahead = False  # the next run is interrupted before it begins
        self._announced = self._remarked = False
        self._payer = state.path if "/" in state.path else ""  # agent whose costs a result has; "" is the session
        self._before = ZERO  # its tree's spending before the run
        self._savings: Savings | None = None

    @property
    def running(self) -> bool:
        """True while a run is in progress."""
        return self._task is not None

    def interrupt(self) -> None:
        """Stop the model call and the tools of the run in progress; it returns with error kind "interrupted"."""
        if self._task is not None and not self._interrupted:
            self._interrupted = self._state.run.interrupted = True
            loop = self.loop_elsewhere()
            loop.call_soon_threadsafe(self._task.cancel) if loop else self._task.cancel()

    def check_here(self) -> None:
        """Raise UsageError if a run is in progress in another thread."""
        if self.loop_elsewhere():
            raise UsageError(f"agent {self._state.path} is running in another thread: make one agent per thread")

    def loop_elsewhere(self) -> asyncio.AbstractEventLoop | None:
        """Return the event loop of the run in progress, or of the agent's life, if it belongs to another thread."""
        task = self._task or self.life
        loop = None if task is None else task.get_loop()
        with suppress(RuntimeError):  # in a thread without a loop
            return None if loop is asyncio.get_running_loop() else loop
        return loop

    def interrupt_ahead(self) -> None:
        """Interrupt a run that is about to begin: it ends before any work."""
        self._ahead = True

    async def ended(self) -> None:
        """Wait for the end of the current run."""
        if self._ended is not None:
            await self._ended.wait()

    async def released(self) -> None:
        """Wait until the run has ended, unless it is in this very task."""
        if self._task is not None and self._task is not asyncio.current_task():
            await self.ended()

    async def take(
        self, message: Message | None, form: object = None, deps: object = None, tools: Sequence[Tool] = ()
    ) -> tuple[Result, SagentError | None]:
        """Run on a prompt, or only on the inbox; `form` is the form of the answer, `deps` and `tools` are for this run
        only. Returns the result, and the error if there is no result or only a part."""
        output = None if form is None else _output_of(form)
        self.check_here()
        await self._await_closing_stream()
        state = self._begin(deps)
        try:
            try:
                if (refused := await self._admitted(message, tools)) is not None:
                    outcome = refused
                elif output is not None:
                    from sagent.agent.structured import take_structured_turn

                    outcome = self._limited(*await take_structured_turn(state, output))
                else:
                    reason = await take_turn(state)
                    if _wants_advice(state, reason):
                        state.receive(user(NO_ADVISOR, sender="sagent"), "next")
                        reason = await take_turn(state)
                        reason = "need_advice" if _wants_advice(state, reason) else reason
                    outcome = self._limited(reason)
                if self._interrupted:  # in the turn's last step, so the cancellation is still to come
                    await asyncio.sleep(0)
            except (asyncio.CancelledError, Exception) as error:
                outcome = self._outcome_of(error)
            finally:
                self.closing = True
            self._interrupted = True  # nothing is left to interrupt
            result = await self._finish(outcome)
            if outcome.cancelled is not None:
                raise outcome.cancelled
            return result, outcome.error
        finally:
            self._task, self._ahead = None, False
            apply_pending(state)
            if self._ended is not None:
                self._ended.set()
            self._tree.wake_above(state.path)

    def _begin(self, deps: object) -> AgentState:
        """Claim the agent for a run in this task. Raises UsageError if another run has it."""
        with self._claim:
            if self._task is not None:
                self.check_here()
                path, how = self._state.path, "send() it the message, wait, or make another for another conversation"
                raise UsageError(f"agent {path} is running: {how}")
            self._task = asyncio.current_task()
        self._interrupted = self.closing = False
        self._cancelled = self._task.cancelling() if self._task is not None else 0
        if self._ended is None or self._ended.is_set():
            self._ended = asyncio.Event()
        self._state.run = Run(deps=deps)
        self._before = self._state.ledger.spent_below(self._state.path)
        return self._state

    async def _admitted(self, message: Message | None, tools: Sequence[Tool]) -> "_Outcome | None":
        """Prepare the turn and put its messages into the inbox; return the outcome if there is to be no turn."""
        state = self._state
        await self._prepare(state, tools)
        self._announce()
        prompt = () if message is None else (message,)
        read = prompt if self._admit is None else await self._admit(state, message)
        if isinstance(read, Failure):
            return _Outcome("error", failure=read)
        for each in read:
            state.inbox.put(Arrived(each))
        if self._ahead:
            return _Outcome("interrupted", failure=Failure("interrupted", "it was interrupted before it began"))
        return None

    def _limited(self, reason: str, data: object = None, failure: Failure | None = None) -> "_Outcome":
        """Return the outcome of a turn, with a failure if a limit ended it."""
        kind, _, why = reason.partition(": ")
        if failure is None and kind in LIMIT_REASONS:
            reason, failure = kind, Failure(kind, why or _limit_words(self._state, kind))
        return _Outcome(reason, data, failure)

    def _outcome_of(self, error: asyncio.CancelledError | Exception) -> "_Outcome":
        """Return the outcome of a turn that raised an error. Raises a program's own error."""
        match error:
            case ModelError() | BudgetExceeded():
                reason = "budget" if isinstance(error, BudgetExceeded) else "error"
                return _Outcome(reason, failure=Failure(error.kind, str(error)), error=error)
            case asyncio.CancelledError():
                if self._interrupted and self._task is not None and self._task.uncancel() <= self._cancelled:
                    return _Outcome("interrupted", failure=Failure("interrupted", "the run was interrupted"))
                # cancelled by another task as well, not only interrupted
                for agent in self._tree.below(self._state.path):
                    agent.interrupt("self")
                failure = Failure("interrupted", "the run was cancelled")
                return _Outcome("interrupted", failure=failure, cancelled=error)
            case _ if self.contained and not isinstance(error, BrokenPipeError):
                # a child's defect is its parent's to read, not the end of both
                kind = error.kind if isinstance(error, SagentError) else "crashed"
                return _Outcome("error", failure=Failure(kind, f"{type(error).__name__}: {error}"))
            case _:
                raise error

    async def _await_closing_stream(self) -> None:
        """Wait for a stream that its reader has left: the loop closes it soon. Raises UsageError."""
        for _ in range(3):
            if self._task is None:
                return
            await asyncio.sleep(0)
        if self._task is not None and self._ended is not None and self._task.cancelling():
            await self._ended.wait()

    def _announce(self) -> None:
        state = self._state
        if not self._announced:
            self._announced = True
            name, log, resumed = full_name(state.model), state.log, bool(state.context.history)
            state.journal.emit(SessionOpened(state.path, log.session_id, log.path, name, resumed))

    async def _finish(self, outcome: "_Outcome") -> Result:
        """Finish a run: make the log durable, report the result."""
        state, failure = self._state, outcome.failure
        held = "" if self._finishing is None else await self._finishing()
        if failure is not None:
            state.journal.record(FailedEntry(failure.kind, failure.message))
        await state.journal.make_durable()
        extension, replies = state.context.extension, state.run.replies
        report = Report() if extension is None else extension.report()
        last = replies[-1] if replies else None
        self.last = Result(
            content=last.content if last else "",
            parts=last.parts if last else (),
            stop_reason=outcome.reason,
            error=failure,
            usage=state.run.usage,
            cost=state.ledger.cost(self._payer),
            run_usd=EXACT.subtract(state.ledger.spent_below(state.path), self._before),
            turns=state.run.turns,
            duration=time.monotonic() - state.run.started,
            model=full_name(state.model),
            session_id=state.log.session_id,
            session_path=state.log.path,
            head=state.log.head,
            denials=tuple(state.run.denials),
            data=outcome.data,
            saving=self._saving(),
            advisors=report.tallies,
            sandbox=held,
        )
        for text in () if self._remarked else report.remarks:
            state.journal.notify("warning", text)
            self._remarked = True
        if self.contained and failure is not None and not self.last.content:  # the answer so far
            said = next((reply.content for reply in reversed(replies) if reply.content), "")
            self.last = replace(self.last, content=said)
        state.answer_askers(answer_of(state.path, self.last))
        state.journal.emit(Finished(state.path, self.last))
        return self.last

    def _saving(self) -> Saving:
        """Add up the savings of compactions for this agent and those below, as far as their logs are readable."""
        state, known = self._state, self._tree.savings
        with suppress(SagentError, OSError):
            known[state.path] = self._saving_in(state.log.contents(), own=True)
        agents = {state.path, *state.ledger.totals(state.path).by_agent}
        for agent in agents - known.keys():
            if state.log.path and self._tree.get(agent) is None:  # of an earlier process
                known[agent] = Saving()
                with suppress(SagentError, OSError, ValueError):
                    known[agent] = self._saving_in(read_contents(log_file(Path(state.log.path), agent)))
        return sum((known[agent] for agent in agents & known.keys()), Saving())

    def _saving_in(self, log: LogView, *, own: bool = False) -> Saving:
        """Return what compactions saved by this agent's own log, or by another. Raises SessionCorrupt and OSError."""
        savings = self._savings if own else None
        if savings is None and next(log.of("compacted"), None) is not None:
            from sagent.session.savings import new_savings  # for few sessions

            savings = new_savings(self._state.ledger.prices.price)
            self._savings = savings if own else self._savings
        return Saving() if savings is None else savings.follow(log)
