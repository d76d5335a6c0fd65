"""Quotes plans wherever a person decides on one: proposed by a call, or under a heading in an answer.

Nothing is read before a session plans: the quote needs the logs of earlier ones.
"""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from sagent.agent import Agent
from sagent.app.builder import AgentBuilder
from sagent.context.plan import EXIT_PLAN, plan_in
from sagent.events import Event, Finished, Received
from sagent.plugins.spending import QUOTE

if TYPE_CHECKING:
    from collections.abc import Callable

    from sagent.plugins.spending.quote import Quoting

_ORDER = "Carry out the plan"  # as PlanDecision begins the prompt for an accepted plan


class PlannedAnswers:
    """Follows an agent's answers: a plan under a heading is quoted, and keeps to the quote once it is accepted."""

    def __init__(self, builder: AgentBuilder) -> None:
        self._builder, self._policy = builder, builder.policy
        self._agent: Agent | None = None
        self._quoting: asyncio.Task[Quoting | None] | None = None
        self._proposed = False

    def attend(self, agent: Agent) -> None:
        """Follow the agent."""
        self._agent = agent
        agent.listen(self._on_event)

    async def quoting(self) -> "Quoting | None":
        """Return the quote of the session's tasks, read once; None if there are too few earlier tasks."""
        return await asyncio.shield(self._reading())

    async def aclose(self) -> None:
        """End what is still being read."""
        if self._quoting is not None:
            self._quoting.cancel()
            with suppress(asyncio.CancelledError):
                await self._quoting

    def _reading(self) -> "asyncio.Task[Quoting | None]":
        if self._quoting is None:
            self._quoting = asyncio.create_task(self._read())
        return self._quoting

    async def _read(self) -> "Quoting | None":
        from sagent.plugins.spending.limits import project_at
        from sagent.plugins.spending.quote import Quoting, task_costs

        settings, own = self._builder.settings, self._builder.log.session_id
        quoting = Quoting(await asyncio.to_thread(task_costs, settings.state_dir, project_at(str(settings.cwd)), own))
        if quoting.quote is None or self._agent is None:
            return None
        quoting.attend(self._agent)
        return quoting

    def _on_event(self, event: Event) -> None:
        if self._agent is None or event.agent != self._agent.path:
            return
        planning = self._policy.mode == "plan"
        match event:
            case Received() if planning:
                self._when_read(lambda _: None)
            case Received(_, message) if self._proposed and not message.sender:
                self._proposed = False
                if message.content.startswith(_ORDER):
                    self._when_read(lambda quoting: quoting.keep_to_it())
            case Finished() if planning and (messages := self._agent.messages) and plan_in(messages[-1]):
                self._proposed = True
                self._when_read(lambda quoting: quoting.tell())
            case _:
                pass

    def _when_read(self, act: "Callable[[Quoting], None]") -> None:
        """Act on the quote: now, or as soon as it is read."""
        task = self._reading()

        def then(_: object) -> None:
            if not task.cancelled() and not task.exception() and (quoting := task.result()) is not None:
                act(quoting)

        then(task) if task.done() else task.add_done_callback(then)


async def add(builder: AgentBuilder) -> None:
    """Quote plans."""
    if not builder.settings.of(QUOTE):
        return
    answers = PlannedAnswers(builder)
    builder.stack.push_async_callback(answers.aclose)
    builder.started.append(answers.attend)
    if any(tool.name == EXIT_PLAN for tool in builder.tools):
        from sagent.plugins.spending.quote import QuotedPlan

        builder.wrap(
            lambda tools: [
                QuotedPlan(tool, answers.quoting, builder) if tool.name == EXIT_PLAN else tool for tool in tools
            ]
        )
