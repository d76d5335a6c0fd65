"""An agent's advisors: consultations, their limits, and their effects."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from decimal import Decimal
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from sagent.advisor.account import ZERO, Account, ConsultationBound, Outcome, Outcomes
from sagent.advisor.advisor import Advisor, role_text
from sagent.advisor.consultation import MAX_TOKENS, THOUGHT, Consultation, ended, reason_of, send, why
from sagent.advisor.conversation import TOOL, Asked, Asking, Conversation
from sagent.advisor.quotation import cut
from sagent.advisor.roster import Roster
from sagent.advisor.rules import Rules
from sagent.advisor.signals import Spotter
from sagent.advisor.tool import is_answer, message_of, prompt_text
from sagent.agent.tree import Node
from sagent.errors import SagentError, UsageError
from sagent.events import Advice, AdviceDelta, Advised, AdvisorTally
from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, JsonObject
from sagent.lib.secrets import redact
from sagent.messages import Message, ToolCall
from sagent.model import EFFORTS, Effort, Model, Request, input_budget
from sagent.peer import Stop
from sagent.policy import Ask
from sagent.session.contents import AdviceContent, AdviceRated, ConsultationEntry
from sagent.usage import Usage

UNASKED_HINT_TURNS = 25  # turns after which an advisor that was never asked is mentioned
COMPARED_TURNS = 10  # turns from which on an advisor's cost can be compared with its cost alone
MAX_QUESTION_CHARS = 2_000
_BYTES_PER_TOKEN = 3  # of a request, about
Mode: TypeAlias = Literal["auto", "client", "native"]


@runtime_checkable
class TextProtocolModel(Protocol):
    """A model that may be spoken to in the text protocol."""

    @property
    def protocol(self) -> str:
        """The protocol at this moment: "text" or "native"."""
        ...

    def written(self, request: Request) -> Request:
        """Return a request as it goes out."""
        ...


@dataclass(frozen=True, slots=True)
class Setup:
    """The use of advisors. Relative paths of role files start at `base`."""

    rules: Rules = field(default_factory=Rules)
    mode: Mode = "auto"
    on_stop: Literal["pass", "end"] = "pass"
    panel: Literal["first", "all"] = "first"
    base: Path = field(default_factory=Path)
    spotters: tuple[Spotter, ...] = ()
    resolve: Callable[[Advisor], Model] | None = None  # returns an advisor's model, if not by the agent's own way


class Advisors:
    """The advisors of one agent; an account for all agents counts towards a session's limits."""

    def __init__(self, agent: Node, roster: Sequence[Advisor], setup: Setup, account: Account) -> None:
        self.agent, self.state, self.setup, self.account = agent, agent.state, setup, account
        self.roster = Roster(roster, account.muted, setup.base, self._resolve)
        self._talks: dict[str, Conversation] = {}
        self._one_by_one: dict[str, asyncio.Lock] = {}
        self.running: dict[asyncio.Task[Advice], str] = {}
        self.task_calls: int = 0
        self._turns = 0
        self._last: dict[str, Advice] = {}
        self._questions: dict[str, str] = {}  # last question to each
        self._again: set[str] = set()  # advisors asked again without new evidence
        self.outcomes = Outcomes(account, self.state.journal.record)

    async def consult(self, question: str = "", name: str = "", trigger: str = "asked") -> Sequence[Advice]:
        """Ask one advisor, or all of a panel. Raises UsageError for an unknown name, and otherwise only the caller's
        cancellation."""
        chosen = self.roster.chosen(name, every=self.setup.panel == "all")
        question = cut(redact(question.strip())[0], MAX_QUESTION_CHARS - 600, 400)
        if len(chosen) == 1:
            answers = [await self._ask(chosen[0], question, trigger)]
        else:
            tasks = [asyncio.create_task(self._ask(one, question, trigger)) for one in chosen]
            await ended(tasks)
            answers = [task.result() for task in tasks]
        for advice in answers:
            if is_answer(advice) and advice.verdict == "stop":
                await self._stop(advice)
                break
        return answers

    def recall(self, entries: Sequence[AdviceContent]) -> None:
        """Start every conversation anew, or continue it from the log of an earlier process. Unreadable entries are left
        out."""
        self._talks.clear()
        for entry in entries:
            if not isinstance(entry, ConsultationEntry):
                by = entry.by if isinstance(entry, AdviceRated) else 1
                self.account.note(entry.advisor, entry.outcome, by)
                continue
            self.account.count(entry.advice)
            if is_answer(entry.advice):
                self._remember(entry.advice)
                with suppress(OSError, KeyError, ValueError, SagentError):
                    said = self.state.log.blobs.get(entry.said).decode("utf-8", "replace")
                    self._talk(entry.advice.advisor).restore(entry, said, self.state.context.request().messages)

    def tally(self) -> Mapping[str, AdvisorTally]:
        """Return each advisor's tally, with its bills from the ledger."""
        found: dict[str, AdvisorTally] = {}
        for name, tally in self.account.tallies.items():
            usage, usd = self.state.ledger.billed(f"{TOOL}:{name}")
            found[name] = replace(tally, usage=usage, usd=usd)
        return found

    def remarks(self) -> Sequence[str]:
        """Return a consult rate that has collapsed, or that costs more than the advisor would have alone."""
        remarks: list[str] = []
        if not self.roster.active:
            return remarks
        calls = self.account.calls
        if not calls and self._turns >= UNASKED_HINT_TURNS:
            remarks.append(f"No advisor was asked in {self._turns} turns: [advisor_rules] says when one is.")
        if calls and self._turns >= COMPARED_TURNS:
            cost, first = self.state.ledger.cost(), self.roster.active[0]
            usage = self.state.ledger.usage().get((self.state.path, self.state.role), Usage())
            model = self.roster.model(first)
            alone = self.state.ledger.prices.price(model.provider, model.id, replace(usage, output=usage.output // 2))
            if alone is not None and cost.advisor > 0 and alone < cost.total:
                remarks.append(
                    f"{calls} consultations in {self._turns} turns: {first.model} alone at low effort would have "
                    f"cost about ${alone:.4f}, this cost ${cost.total:.4f}."
                )
        return remarks

    def in_force(self) -> Sequence[Message]:
        """Return each advisor's last advice, for a conversation that has lost it."""
        blobs = self.state.log.blobs
        return [message_of(replace(each, trigger="given earlier", question=""), blobs) for each in self._last.values()]

    def rate(self, good: Literal[1, -1], name: str = "") -> str:
        """Record a person's rating of the last advice; return its advisor. Raises UsageError if there is no advice."""
        given = [each for each in self._last if not name or each == name]
        if not given:
            raise UsageError("there is no advice to rate yet")
        self.account.note(given[-1], "rated", good)
        self.state.journal.record(AdviceRated(given[-1], good))
        return given[-1]

    def triggers(self) -> tuple[str, ...]:
        """Return the current triggers: none if no advisor may be asked; those of plugins too if none are chosen."""
        if not self.roster.active:
            return ()
        fired = self.setup.rules.fired_by(self.state.model.id, text=self.in_text)
        chosen = self.setup.rules.triggers is not None
        return fired if chosen else (*fired, *(spotter.name for spotter in self.setup.spotters))

    @property
    def in_text(self) -> bool:
        """True if the executor is spoken to in the text protocol."""
        return isinstance(self.state.model, TextProtocolModel) and self.state.model.protocol == "text"

    def task(self) -> Message | None:
        """Return the last request of a person or the agent above."""
        asked = (each for each in reversed(self.state.context.history) if each.role == "user" and not each.results)
        return next((each for each in asked if each.sender in ("", self.state.above)), None)

    def turn_over(self) -> None:
        """Close the turn: the next one judges the advice given in it."""
        self._turns += 1
        self.outcomes.turn_over()

    async def _ask(self, advisor: Advisor, question: str, trigger: str) -> Advice:
        """Ask an advisor, one caller at a time, and report, count and log the outcome in any case."""
        begun = time.monotonic()
        blank = Advice(advisor.name, advisor.model, trigger, "failed", question=question, usd=ZERO)
        asked: Asked | None = None
        role = ""
        try:
            async with self._one_by_one.setdefault(advisor.name, asyncio.Lock()):
                model = self.roster.model(advisor)
                role = role_text(advisor, self.setup.base) or prompt_text("system")
                asked, request = self._prepare(advisor, model, role, blank)
                if reason := self._refusal(advisor, blank, model, request):
                    return self.note(replace(blank, status="withheld", reason=reason))
                advice = await self._made(advisor, model, request, blank)
                if is_answer(advice):
                    self._talk(advisor.name).answer(asked, advice.text)
        except asyncio.CancelledError:
            self.note(replace(blank, reason="interrupted", seconds=time.monotonic() - begun))
            raise
        except Exception as error:  # a model's error or a full disk must not end a run because advice failed
            advice = replace(blank, reason=reason_of(error))
        return self.note(replace(advice, seconds=time.monotonic() - begun), asked, role)

    def _prepare(self, advisor: Advisor, model: Model, role: str, blank: Advice) -> tuple[Asked, Request]:
        """Return the request as it would go out."""
        output = MAX_TOKENS + THOUGHT.get(advisor.effort, 0)
        room = input_budget(self.state.neighbours.sizes(model))
        executor, task = self._executor_request(), self.task()
        reason, question = why(blank)
        form = f" {prompt_text('blocks')}" if self.in_text else ""
        closing = prompt_text("request").format(reason=reason, question=question, form=form)
        left = None if room is None else room - output - len(role) // _BYTES_PER_TOKEN
        asking = Asking(executor, task.content if task else "", closing, self._keep, left)
        asked = self._talk(advisor.name).ask(asking)
        name = f"{executor.conversation}:{TOOL}:{advisor.name}:{asked.epoch}"
        effort: Effort | None = next((each for each in EFFORTS if each == advisor.effort), None)
        options = EMPTY if advisor.temperature is None else JsonObject({"temperature": advisor.temperature})
        return asked, Request(name, asked.messages, role, max_output=output, effort=effort, options=options)

    def _executor_request(self) -> Request:
        """Return the executor's next request, with the instructions that it really reads."""
        request, model = self.state.context.request(), self.state.model
        if not isinstance(model, TextProtocolModel) or model.protocol != "text":
            return request
        return replace(request, system=model.written(request).system, tools=())

    async def _made(self, advisor: Advisor, model: Model, request: Request, blank: Advice) -> Advice:
        """Make a permitted call."""
        self.task_calls += 1
        cost, rules = self.state.ledger.cost(), self.setup.rules
        worst, likely = self._may_come_to(model, request)
        budget = self.account.left(advisor, rules, cost) if advisor.tools else None
        held = ConsultationBound(advisor.name, (budget if budget is not None else worst) or ZERO, likely)

        def may(more: Request) -> bool:
            again, tokens = self._may_come_to(model, more)
            bounds = replace(advisor, max_calls=None), replace(rules, max_session_calls=None)
            if self.account.refusal(*bounds, self.state.ledger.cost(), self._used(), (again, tokens)):
                return False
            held.usd, held.tokens = held.usd + (again or ZERO), held.tokens + tokens
            return True

        self.state.journal.emit(AdviceDelta(self.state.path, advisor.name, blank.trigger, ""))
        with self.account.asking(held):
            task = asyncio.create_task(send(self.agent, Consultation(advisor, model, request, blank, budget, may)))
            self.running[task] = advisor.name
            try:
                await ended([task])
                return replace(blank, reason="it was cancelled") if task.cancelled() else task.result()
            finally:
                self.running.pop(task, None)

    def _refusal(self, advisor: Advisor, blank: Advice, model: Model, request: Request) -> str:
        """Return the reason why an advisor may not be asked now, or ""."""
        if advisor.name in self.account.muted:
            return "it is muted"
        rules, person = self.setup.rules, blank.trigger == "person"
        if not person and rules.max_advisor_calls is not None and self.task_calls >= rules.max_advisor_calls:
            return f"the {rules.max_advisor_calls} consultations of this task are used up"
        if not person and not self._is_news(advisor.name, blank):
            return "nothing has happened since its last advice; act on that first"
        ask = self._may_come_to(model, request)
        if reason := self.account.refusal(advisor, rules, self.state.ledger.cost(), self._used(), ask):
            return reason
        self._questions[advisor.name] = blank.question
        return ""

    def _is_news(self, name: str, blank: Advice) -> bool:
        """Return True if there is news since the last advice: results or messages of others, or, only once, the
        executor's own text."""
        talk = self._talk(name)
        if not talk.messages or talk.evidence(self.state.context.history):
            self._again.discard(name)
            return True
        if blank.trigger == "destructive":  # another act is news by itself
            return blank.question != self._questions.get(name)
        own = blank.trigger in ("asked", "need_advice", "reconcile")
        if not own or not blank.question or blank.question == self._questions.get(name) or name in self._again:
            return False
        self._again.add(name)
        return True

    def _may_come_to(self, model: Model, request: Request) -> tuple[Decimal | None, int]:
        """Return the maximum USD of a call, None if unknown, and its approximate tokens."""
        max_input = model.max_input_tokens(request)
        output = max(request.max_output or MAX_TOKENS, model.limits.least_output)
        return self.worst(model, max_input, output), max_input // _BYTES_PER_TOKEN + output

    def worst(self, model: Model, max_input: int, output: int) -> Decimal | None:
        """Return the maximum USD of a call; None if its price is unknown."""
        ceiling = self.state.ledger.prices.ceiling(model.provider, model.id)
        return None if ceiling is None else ceiling.cost(max_input, output)

    def _used(self) -> int:
        return sum(tally.usage.total_input + tally.usage.output for tally in self.tally().values())

    def note(self, advice: Advice, consultation: Asked | None = None, role: str = "") -> Advice:
        """Report a finished consultation, count it, and log it with its request."""
        record = ConsultationEntry(advice)
        if consultation is not None:
            record = consultation.entry(advice)
            with suppress(OSError):  # the log says so by itself, once
                blobs = self.state.log.blobs
                said = blobs.put(consultation.messages[-1].content.encode("utf-8", "replace")).name
                record = replace(record, said=said, system=blobs.put(role.encode("utf-8", "replace")).name)
        entry = self.state.journal.record(record)
        self.account.count(advice)
        if is_answer(advice):
            self._remember(advice)
            self.outcomes.give(Outcome(entry, advice, reconciled=advice.trigger == "reconcile"))
        self.state.journal.emit(Advised(self.state.path, advice))
        return advice

    def _remember(self, advice: Advice) -> None:
        """Keep the last advice of each advisor, the latest of all at the end."""
        self._last.pop(advice.advisor, None)
        self._last[advice.advisor] = advice

    async def _stop(self, advice: Advice) -> None:
        """Handle advice to stop: ask a person whether to continue, or without a person follow the settings."""
        question = Ask(f"{advice.advisor} advises stopping: {advice.text}\nContinue anyway?", agent=self.state.path)
        if (ask := self.state.neighbours.ask) is not None:
            refused = isinstance(await ask(ToolCall("", TOOL), question), str)
        else:
            refused = self.setup.on_stop == "end"
        if refused:
            self.agent.apply(Stop("advisor_stop"))

    def _resolve(self, advisor: Advisor) -> Model:
        own = self.setup.resolve
        return own(advisor) if own is not None else self.state.neighbours.resolve(advisor.model)

    def _talk(self, name: str) -> Conversation:
        return self._talks.setdefault(name, Conversation(name))

    def _keep(self, text: str) -> str:
        """Keep the whole of a long text; the name that the advisor gets."""
        return f"blob {self.state.log.blobs.put(text.encode('utf-8', 'replace')).name[:16]}"
