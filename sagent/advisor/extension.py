"""Advisors as an extension of an agent: the engine's interface to them, and their tool and policy."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from decimal import Decimal

from sagent.advisor.account import ZERO, Account
from sagent.advisor.advisor import Advisor, parse_advisor, role_text
from sagent.advisor.advisory import Advisors, Setup
from sagent.advisor.consultation import MAX_TOKENS, read
from sagent.advisor.conversation import TOOL
from sagent.advisor.native import DEFAULT_USES, Native
from sagent.advisor.policy import AdvisorPolicy
from sagent.advisor.tool import AdvisorTool, is_answer, message_of
from sagent.agent.tree import Node
from sagent.engine.neighbours import Extension, ExtraCost, Report
from sagent.errors import ModelError, UsageError
from sagent.events import Switched
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_object, as_str, json_freeze_object
from sagent.model import Model, Reply, Request, ToolSpec, full_name
from sagent.peer import Action, Cancel, Compact, Consult, Stop, Switch
from sagent.providers.aliases import spelled_out
from sagent.session.contents import AdviceContent, SwitchedEntry


@dataclass(frozen=True, slots=True)
class Advising:
    """Gives an agent its advisors, and those below it the same; `models` are theirs."""

    roster: Sequence[Advisor]
    setup: Setup
    models: Sequence[Model | str]
    account: Account = field(default_factory=Account)

    def __call__(self, agent: Node, above: Extension | None) -> "AdvisorExtension":
        """Return the extension of an agent, given that of the agent above it, if any."""
        if not isinstance(above, AdvisorExtension):
            return AdvisorExtension(agent, self.roster, self.setup, self.account)
        advising = agent.state.role.startswith(f"{TOOL}:")  # an advisor has no advisors
        own = () if advising else above.roster.every
        return AdvisorExtension(agent, own, self.setup, self.account, above.tool if own else None)


def advise(advisors: Sequence[Advisor | Model | str], setup: Setup | None = None) -> Advising:
    """Give an agent these advisors: `Resources(advisory=advise(["openai/gpt-5.5"]))`.

    Raises UsageError for an invalid advisor, two of one name, or an unreadable role file.
    """
    roster, models, given = list[Advisor](), list[Model | str](), setup or Setup()
    for one in advisors:
        advisor = (
            parse_advisor(one if isinstance(one, str) else full_name(one)) if not isinstance(one, Advisor) else one
        )
        if advisor.name in {each.name for each in roster}:
            raise UsageError(f"two advisors have the same name: {advisor.name}: write one as 'critic={advisor.model}'")
        role_text(advisor, given.base)
        if "/" not in advisor.model and given.resolve is None:
            advisor = replace(advisor, model=spelled_out(advisor.model))
        roster.append(advisor)
        models.append(advisor.model if isinstance(one, Advisor | str) else one)
    return Advising(tuple(roster), given, tuple(models))


class AdvisorExtension(Advisors):
    """The advisors of one agent, as an Extension of its engine. Tool and policy are active once it has some."""

    def __init__(
        self, agent: Node, roster: Sequence[Advisor], setup: Setup, account: Account, tool: AdvisorTool | None = None
    ) -> None:
        super().__init__(agent, roster, setup, account)
        self.tool = tool or (AdvisorTool(self.roster.names) if roster else None)
        self._native = Native(setup.mode)
        self._uses = setup.rules.max_advisor_calls or DEFAULT_USES  # per request; never raised again, for the cache
        self._max_input = 0  # tokens that the request may have
        self._for_person: set[asyncio.Task[None]] = set()  # consultations requested by a person
        self._specs: tuple[tuple[ToolSpec, ...], tuple[ToolSpec, ...]] = ((), ())
        self._judges = False  # its policy is around the agent's

    def prepare(self, request: Request) -> Request:
        """Let the provider ask the advisor itself, if it can: its own tool replaces ours."""
        rules, model, advisor = self.setup.rules, self.state.model, self._asked_by_provider()
        over = rules.max_advisor_calls is not None and self.task_calls >= rules.max_advisor_calls
        if rules.max_session_calls is not None:
            over = over or self.account.calls >= rules.max_session_calls
        if advisor is None or over:
            options = self._native.after(model)
        else:
            self._uses = self._affordable(request, advisor)
            options = self._native.options(model, advisor, self._uses) if self._uses else self._native.after(model)
        if options is None:
            return request
        own, more = request.options, options
        joined = {name: (*as_array(own[name]), *as_array(more[name])) for name in more if name in own}
        options = json_freeze_object({**own, **more, **joined})
        if "tools" not in options:
            return replace(request, options=options)
        if self._specs[0] is not request.tools:
            brought = {as_str(as_object(tool).get("name")) for tool in as_array(options.get("tools"))}
            self._specs = (request.tools, tuple(spec for spec in request.tools if spec.name not in brought))
        return replace(request, options=options, tools=self._specs[1])

    def extra_cost(self, max_input: int) -> ExtraCost:
        """Return the maximum cost of a provider's own consultations inside one request, and the roles to bill."""
        usd, advisor, self._max_input = ZERO, self._asked_by_provider(), max_input
        if advisor is not None and self._uses and self._native.max_uses(self.state.model, advisor, self._uses):
            usd = (self._worst_advice(advisor) or ZERO) * self._uses
        return ExtraCost(usd, {TOOL: f"{TOOL}:{next(iter(self.roster.names), TOOL)}"})

    def _affordable(self, request: Request, advisor: Advisor) -> int:
        """Return how often the provider may ask inside this request: at most half of the remaining money pays for it.
        If none is affordable, or the price is unknown, sagent asks and reserves money for one consultation."""
        model, room = self.state.model, self.state.ledger.room(self.state.path)
        wanted = self._native.max_uses(model, advisor, self._uses) if self._uses else 0
        if not wanted or room is None:
            return wanted
        self._max_input = self.state.context.meter.bound(request, model.max_input_tokens(request), model).tokens
        one = self._worst_advice(advisor)
        if one is None:
            return 0
        return min(wanted, int(room / 2 / one)) if one else wanted

    def _worst_advice(self, advisor: Advisor) -> Decimal | None:
        """Return the maximum USD of one consultation and the executor's next round, which reads everything again."""
        read = self._max_input + 4_096
        own = self.worst(self.state.model, read + MAX_TOKENS, 0)
        its = self.worst(self.roster.model(advisor), read, MAX_TOKENS)
        return None if own is None or its is None else own + its

    def _asked_by_provider(self) -> Advisor | None:
        """Return the advisor that a provider may ask itself: the only one, without limits that the provider ignores."""
        rules = self.setup.rules
        bounds = (rules.max_usd, rules.max_share, rules.max_tokens)
        return None if any(bound is not None for bound in bounds) else self.roster.alone

    def after_reply(self, reply: Reply) -> None:
        """Take note of advice that came inside it."""
        name = next(iter(self.roster.names), TOOL)
        for one in reply.advice:
            self.task_calls += 1
            provider, model = self.state.model.provider, one.model
            usd = self.state.ledger.prices.price(provider, model, one.usage) if model else ZERO
            self.note(read(replace(one, advisor=name, model=f"{provider}/{model}", usd=usd)))

    def refused(self, error: ModelError) -> bool:
        """Return True if a request was refused because of the provider's own advisor: from now on sagent asks."""
        return self._native.give_up(self.state.model, str(error))

    def plan(self, action: Action) -> Callable[[], None]:
        """Check an action's changes to advisors; return the function that makes them. Raises UsageError."""
        match action:
            case Switch(advisor=str() as change):
                make = self.roster.plan(change)
                return lambda: self._switch(*make())
            case Consult(question, advisor):
                return lambda: self._consult_for_person(question, advisor)
            case Cancel(""):
                return lambda: _cancel(self.running)
            case Compact(clear=True):
                return self._repeat_advice
            case Stop():
                return lambda: _cancel(self._for_person)
            case _:
                return lambda: None

    def resume(self, entries: Sequence[AdviceContent]) -> None:
        """Join the conversation, if there are advisors; these log entries are its past."""
        if self.tool is not None:
            self._attach()
        self.recall(entries)

    def report(self) -> Report:
        """Return the advisors, the tally of each, and remarks."""
        return Report(self.roster.describe(), self.tally(), self.remarks())

    def _switch(self, names: str, ended: Sequence[str]) -> None:
        _cancel(task for task, whom in self.running.items() if whom in ended)
        self._attach()
        self.state.journal.record(SwitchedEntry(advisor=names))
        self.state.journal.emit(Switched(self.state.path, names))

    def _attach(self) -> None:
        """Offer the tool from the next call on, unless it is offered already, and wrap the agent's policy. An existing
        tool is kept, and so is its provider's cache."""
        state = self.state
        state.context.extension = self
        if self.roster.names:
            self.tool = self.tool or AdvisorTool(self.roster.names)
        if self.tool is not None:
            state.offer(self.tool)
        if not self._judges:
            state.policy, self._judges = AdvisorPolicy(self, state.policy), True

    def _repeat_advice(self) -> None:
        """Have the last advice of each in a conversation that has lost it."""
        for message in self.in_force():
            self.state.add(message)

    def _consult_for_person(self, question: str, advisor: str) -> None:
        """Ask at once, whatever is going on; the answer is read at the next pause."""
        task = asyncio.get_running_loop().create_task(self._ask_for_person(question, advisor))
        self._for_person.add(task)
        task.add_done_callback(self._for_person.discard)

    async def answered(self) -> None:
        """Wait for consultations that a person requested; if cancelled meanwhile, cancel them too."""
        try:
            if self._for_person:
                await asyncio.wait(self._for_person)
        except asyncio.CancelledError:
            _cancel(self._for_person)
            raise

    async def _ask_for_person(self, question: str, advisor: str) -> None:
        try:
            answers = await self.consult(question, advisor, "person")
        except UsageError as error:
            self.state.journal.notify("warning", str(error))
            return
        for message in (message_of(answer, self.state.log.blobs) for answer in answers if is_answer(answer)):
            if self.agent.hears:
                self.agent.inform(message)


def _cancel(tasks: "Iterable[asyncio.Task[object]]") -> None:
    for task in tuple(tasks):
        task.cancel()
