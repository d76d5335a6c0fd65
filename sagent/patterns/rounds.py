"""Again and again, until it is good."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

from sagent.agent.agent import Agent
from sagent.agent.agent_tool import Runnable, Stage
from sagent.errors import UsageError
from sagent.events import Failure, Result
from sagent.messages import Message, user
from sagent.patterns.pattern import Pattern, media_of

APPROVED = re.compile(r"\W*approved\b", re.IGNORECASE)
Opinion: TypeAlias = bool | str
Until: TypeAlias = Runnable | Callable[[Result], Opinion | Awaitable[Opinion]]


def loop_until(agent: Runnable, done: Until, *, rounds: int = 5) -> Pattern:
    """An agent is asked again, with what is wrong, until its answer is approved.

    `done` is a function of the result: True approves, a text says what is wrong, False only that it is not yet good; it
    may be async. Or it is an agent that judges: it is asked to answer APPROVED, or what must change. After so many
    rounds the last answer is the result, with error kind "max_rounds". Raises UsageError for fewer rounds than one.
    """
    return _Loop(agent, done, rounds)


class _Loop(Pattern):
    name = "loop_until"

    def __init__(self, agent: Runnable, done: Until, rounds: int) -> None:
        super().__init__((agent, done) if isinstance(done, Runnable) else (agent,))
        if rounds < 1:
            raise UsageError(f"loop_until needs at least one round, not {rounds}")
        self._agent, self._done, self._rounds = agent, done, rounds

    async def perform(self, prompt: Message, stage: Stage) -> Result:
        """Round by round. A judge that fails ends it with its failure."""
        result, number = await stage.run(self._agent, prompt), 1
        while not result.is_error:
            opinion = await self._judge(prompt, result, stage)
            if isinstance(opinion, Result):
                return opinion
            if opinion is True:
                break
            wrong = opinion or "it does not meet the conditions yet"
            if number == self._rounds:
                rejected = f"not approved after {number} rounds; the last objection: {wrong}"
                return replace(result, error=Failure("max_rounds", rejected))
            result, number = await stage.run(self._agent, self._again(prompt, result, wrong)), number + 1
        return result

    async def _judge(self, prompt: Message, result: Result, stage: Stage) -> Opinion | Result:
        """What the function or the judge says; a judge's own failure as it is."""
        if not isinstance(self._done, Runnable):
            opinion = self._done(result)
            return opinion if isinstance(opinion, bool | str) else await opinion
        asked = (
            "Judge whether the answer below does the task. If it does, say APPROVED and nothing else; if not, say what "
            f"must change.\n\nThe task:\n{prompt.content}\n\nThe answer:\n{result.content}"
        )
        judged = await stage.run(self._done, user(asked, *media_of(prompt)))
        return judged if judged.is_error else bool(APPROVED.match(judged.content)) or judged.content

    def _again(self, prompt: Message, result: Result, wrong: str) -> Message:
        """The next request; an agent remembers the task and what it said."""
        again = f"That is not good yet: {wrong}\n\nGive the whole answer again, with this put right."
        if isinstance(self._agent, Agent):
            return user(again)
        context = f"The task:\n{prompt.content}\n\nThe answer so far:\n{result.content}"
        return user(f"{context}\n\n{again}", *media_of(prompt))
