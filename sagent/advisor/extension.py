"""Advisors as an extension of an agent: what its engine asks of them, and what they put into it."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from sagent.advisor.account import Account
from sagent.advisor.advisor import Advisor, parse_advisor, role_text
from sagent.advisor.advisory import Advisors, Setup
from sagent.advisor.conversation import TOOL
from sagent.advisor.policy import AdvisorPolicy
from sagent.advisor.tool import AdvisorTool, is_answer, message_of
from sagent.agent.resources import ExtensionFactory
from sagent.agent.tree import Node
from sagent.engine.extension import Extension, ExtraCost, Report
from sagent.errors import ModelError, UsageError
from sagent.events import Advice, Switched
from sagent.lib.json import as_array, as_object, as_str
from sagent.model import Reply, Request, ToolSpec
from sagent.peer import Action, Cancel, Compact, Consult, Stop, Switch
from sagent.session.contents import AdviceContent, SwitchedEntry


def advise(advisors: Sequence[Advisor | str], setup: Setup | None = None) -> ExtensionFactory:
    """What gives an agent these advisors: `Resources(advisory=advise(["openai/gpt-5.5"]))`.

    Raises UsageError for a text that names no advisor, two of one name, or a role file that cannot be read.
    """
    roster = [parse_advisor(one) if isinstance(one, str) else one for one in advisors]
    if len({one.name for one in roster}) != len(roster):
        raise UsageError(f"two advisors have the same name: {', '.join(one.name for one in roster)}")
    given = setup or Setup()
    for one in roster:
        role_text(one, given.base)
    account = Account()

    def make(agent: Node, above: Extension | None) -> AdvisorExtension:
        if not isinstance(above, AdvisorExtension):
            return AdvisorExtension(agent, Advisors(agent, roster, given, account))
        advising = agent.state.role.startswith(f"{TOOL}:")  # advice has no advisors
        own = () if advising else above.advisors.roster.every
        return AdvisorExtension(agent, Advisors(agent, own, given, account), above.tool if own else None)

    return make


class AdvisorExtension:
    """One agent's advisors, as an Extension of its engine. Its tool and policy are in force once it has advisors."""

    def __init__(self, agent: Node, advisors: Advisors, tool: AdvisorTool | None = None) -> None:
        self._agent, self._state, self.advisors = agent, agent.state, advisors
        self.tool = tool or (AdvisorTool(advisors.roster.names) if advisors.roster.names else None)
        self._for_person: set[asyncio.Task[None]] = set()  # consultations that a person asked for
        self._specs: tuple[tuple[ToolSpec, ...], tuple[ToolSpec, ...]] = ((), ())

    def prepare(self, request: Request) -> Request:
        """Have the provider ask the advisor by itself, where it does: its own tool takes the place of ours."""
        options = self.advisors.options()
        if options is None:
            return request
        if "tools" not in options:
            return replace(request, options=options)
        if self._specs[0] is not request.tools:
            brought = {as_str(as_object(tool).get("name")) for tool in as_array(options.get("tools"))}
            self._specs = (request.tools, tuple(spec for spec in request.tools if spec.name not in brought))
        return replace(request, options=options, tools=self._specs[1])

    def extra_cost(self, max_input: int) -> ExtraCost:
        """What consultations inside one request may cost, and who they are billed as."""
        role = f"{TOOL}:{next(iter(self.advisors.roster.names), TOOL)}"
        return ExtraCost(self.advisors.extra_usd(max_input), {TOOL: role})

    def after_reply(self, reply: Reply) -> None:
        """Take note of advice that came inside it."""
        if reply.advice:
            self.advisors.take(reply.advice)

    def refused(self, error: ModelError) -> bool:
        """Whether a request was refused for the advisor that the provider was to ask."""
        return self.advisors.refused(str(error))

    def plan(self, action: Action) -> Callable[[], None]:
        """Check what an action asks of advisors; call what is returned to do it. Raises UsageError."""
        match action:
            case Switch(advisor=str() as change):
                self.advisors.roster.check(change)
                return lambda: self._switch(change)
            case Consult(question, advisor):
                return lambda: self._consult_for_person(question, advisor)
            case Cancel(""):
                return self.advisors.cancel
            case Compact(clear=True):
                return self._repeat_advice
            case Stop():
                return self._stop
            case _:
                return lambda: None

    async def consult(self, question: str = "", name: str = "") -> Sequence[Advice]:
        """Ask an advisor, by its name, or the first; all of a panel."""
        return await self.advisors.ask(question, name)

    def resume(self, entries: Sequence[AdviceContent]) -> None:
        """Take part in the conversation, if there are advisors; these entries of its log say what came before."""
        if self.tool is not None:
            self._attach()
        self.advisors.resume(entries, self._state.log.blobs.get)

    def report(self) -> Report:
        """Who advises, what each came to, and what is worth a word."""
        return Report(self.advisors.roster.describe(), self.advisors.tally(), self.advisors.remarks())

    def rate(self, good: Literal[1, -1], name: str = "") -> str:
        """A person's word on the last advice; whose it was. Raises UsageError where there is none."""
        return self.advisors.rate(good, name)

    def _attach(self) -> None:
        """Offer the tool from the next call on, where it is not offered already, and put the policy around the agent's.
        The tool stays as it is where there is one: its provider's cache does too."""
        state = self._state
        state.context.extension = self
        if self.advisors.roster.names:
            self.tool = self.tool or AdvisorTool(self.advisors.roster.names)
        if self.tool is not None:
            state.offer(self.tool)
        if state.policy is state.judge:
            state.policy = AdvisorPolicy(self.advisors, state.judge)

    def _switch(self, change: str) -> None:
        what = self.advisors.switch(change)
        self._attach()
        self._state.journal.record(SwitchedEntry(advisor=what))
        self._state.journal.emit(Switched(self._state.path, what))

    def _repeat_advice(self) -> None:
        """Have the last advice of each in a conversation that has lost it."""
        for message in self.advisors.in_force():
            self._state.add(message)

    def _consult_for_person(self, question: str, advisor: str) -> None:
        """Ask at once, whatever goes on; the answer is read when there is a pause."""
        task = asyncio.get_running_loop().create_task(self._ask_for_person(question, advisor))
        self._for_person.add(task)
        task.add_done_callback(self._for_person.discard)

    async def _ask_for_person(self, question: str, advisor: str) -> None:
        try:
            answers = await self.advisors.ask(question, advisor, "person")
        except UsageError as error:
            self._state.journal.notify("warning", str(error))
            return
        for message in (message_of(one) for one in answers if is_answer(one)):
            if self._agent.hears:
                self._state.receive(message, "next")

    def _stop(self) -> None:
        for task in self._for_person:
            task.cancel()
