"""A goal of a session: whenever the agent would end, it is checked, and the agent continues until it is reached.

A command reaches it with exit code 0; the session's Bash runs it, so that the sandbox confines it. Words are judged by
a model, which has to quote from the results of calls: what an agent says of its own work proves nothing.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

from sagent.advisor.extension import AdvisorExtension
from sagent.agent import Agent
from sagent.app.builder import AgentBuilder
from sagent.engine.request import make_side_call
from sagent.errors import SagentError, ToolError, UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import json_freeze_object
from sagent.lib.text import head_and_tail, one_line
from sagent.messages import Message, Text, ToolCall, user
from sagent.model import Model, Request
from sagent.peer import Action, Inject, Stop
from sagent.plugins.goals import ATTEMPTS, GOAL
from sagent.plugins.goals.kept import keep
from sagent.policy import Policy, Turn, Verdict
from sagent.surface import Surface
from sagent.tool import Effect, RunContext, ToolOutput, Workspace, foresee

ROLE = "goal"
"""Role of a judge's calls in the ledger, and sender of messages about a goal."""
UNMET = "goal_unmet"
"""Stop reason of a run whose goal was not reached."""
CHECK_TIMEOUT_SECONDS = 600.0
MAX_SHOWN_CHARS = 4_000  # of a check's output
MAX_EVIDENCE_CHARS = 60_000  # of the results that a judge reads, the last ones
MIN_QUOTE_CHARS = 4
MAX_JUDGEMENT_TOKENS = 2_000
_NAME = re.compile(r"(?m)^\[[^\]\n]*\]$")  # of a call, above its result: it proves nothing


@dataclass(frozen=True, slots=True)
class Judgement:
    """The outcome of a check: why in one line, whether the goal is reached, and the output of a command."""

    why: str
    reached: bool = False
    output: str = ""


def command_in(goal: str) -> str:
    """Return the command of a goal; "" for words."""
    goal = goal.strip()
    return goal[1:].strip() if goal.startswith("!") else ""


def prompt_for(goal: str) -> str:
    """Return what the model is told of a goal."""
    if command := command_in(goal):
        return f"Work until the command `{command}` exits with code 0. It is run whenever you end your turn."
    return (
        f"Work until this holds: {goal.strip()}\n\nIt is judged whenever you end your turn, by the results of your "
        "calls alone: make a call whose result proves it."
    )


class Goal:
    """A goal of an agent: a condition in words, or a command after "!". Raises UsageError for one that cannot be
    checked."""

    def __init__(self, agent: Agent, text: str, max_attempts: int) -> None:
        self.agent, self.text, self.max_attempts = agent, text.strip(), max_attempts
        self.attempts = 0
        self.last: Judgement | None = None
        self.command = command_in(self.text)
        if not self.text.strip("! "):
            raise UsageError("A goal needs words or a command: `the tests pass`, or `!make test`.")
        if self.command and "Bash" not in agent.state.tools:
            raise UsageError(f"`{self.command}` cannot be run: there is no Bash in this session.")

    @property
    def progress(self) -> str:
        """Count of its checks, of those that it may have."""
        return f"{self.attempts} of {self.max_attempts} attempts"

    def keep(self) -> None:
        """Keep it for the case that this process ends."""
        keep(self.agent, goal=self.text, attempts=self.attempts, max_attempts=self.max_attempts)

    async def check(self, reply: Message) -> Judgement:
        """Check it once. Raises SagentError if it cannot be checked."""
        self.attempts += 1
        self.keep()
        self.last = await (self._run() if self.command else self._judge(reply))
        return self.last

    def unmet(self, judgement: Judgement) -> str:
        """Return the message for the model that has not reached it."""
        count = f"attempt {self.attempts} of {self.max_attempts}"
        output = f"\n```\n{judgement.output}\n```" if judgement.output else ""
        return f"The goal is not reached ({count}): {judgement.why}{output}\nContinue until it is."

    async def _run(self) -> Judgement:
        state = self.agent.state
        tool = state.tools["Bash"]
        arguments = json_freeze_object({"command": self.command, "timeout": CHECK_TIMEOUT_SECONDS})
        effect = foresee(tool, arguments, state.workspace)
        name = f"goal-{os.urandom(6).hex()}"
        run = RunContext(state.path, name, state.workspace, state.log.blobs, lambda _: None, self.agent, effect=effect)
        try:
            output = ToolOutput.of(await tool(arguments, run))
        except ToolError as error:
            raise UsageError(f"`{self.command}` could not be run: {error}") from error
        said = "".join(part.text for part in output.content if isinstance(part, Text))
        how = one_line(output.summary or ("failed" if output.is_error else "exit 0"), 80)
        why = f"`{one_line(self.command, 80)}`: {how}"
        return Judgement(why, not output.is_error, head_and_tail(said, MAX_SHOWN_CHARS, "run it to see all"))

    async def _judge(self, reply: Message) -> Judgement:
        state = self.agent.state
        results = "\n\n".join(results_in(state.context.history))[-MAX_EVIDENCE_CHARS:]
        words = f"The condition:\n{self.text}\n\nThe results:\n{results or '(none)'}\n\nThe agent's last words:\n"
        system = Path(__file__).with_name("judge.md").read_text("utf-8")
        last = one_line(reply.content, MAX_SHOWN_CHARS)
        request = Request(f"{state.path}:{ROLE}", (user(words + last),), system, max_output=MAX_JUDGEMENT_TOKENS)
        answer, _ = await make_side_call(state, judge_of(self.agent), request, ROLE, lambda _: None)
        return read_judgement(answer.message.content, results)


def judge_of(agent: Agent) -> Model:
    """Return the model that judges: the first active advisor's, or the agent's own."""
    advisory = agent.advisory
    if isinstance(advisory, AdvisorExtension) and (active := advisory.roster.active):
        return advisory.roster.model(active[0])
    return agent.state.model


def results_in(history: Sequence[Message]) -> Iterator[str]:
    """Yield each call of a conversation with its result."""
    calls = {call.id: call for message in history for call in message.calls}
    for message in history:
        for result in message.results:
            call = calls.get(result.call_id)
            yield f"[{call.name if call else 'a call'}{' failed' * result.is_error}]\n{result.text}"


def read_judgement(answer: str, results: str) -> Judgement:
    """Return the judgement in an answer. A goal counts as reached only with quotes, each of them in the results."""
    lines = [line.strip() for line in answer.strip().splitlines() if line.strip()]
    verdict = lines[0].strip("*# ").upper() if lines else ""
    if not verdict.startswith("REACHED"):
        why = answer.strip().partition("MISSING:")[2] or answer
        return Judgement(one_line(why.strip(), 400) or "the judge said nothing")
    known = " ".join(_NAME.sub("", results).split())
    quotes = [" ".join(line.lstrip("> ").strip('`"').split()) for line in lines[1:] if line.startswith(">")]
    invented = next((quote for quote in quotes if quote not in known), "")
    if invented:
        return Judgement(f"the judge quoted what no result says: {one_line(invented, 200)}")
    if not any(len(quote) >= MIN_QUOTE_CHARS for quote in quotes):
        return Judgement("no result was quoted that proves it; make a call whose result does")
    return Judgement(one_line(quotes[0], 200), reached=True)


class GoalPolicy(Policy):
    """A policy around an agent's own, which sends the agent back to work until its goal is reached."""

    def __init__(self, inner: Policy, path: str, surface: Surface) -> None:
        self.goal: Goal | None = None
        self._surface = surface
        self._inner, self._path = inner, path

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        return await self._inner.before_tool(call, effect, workspace)

    async def after_turn(self, turn: Turn) -> Sequence[Action]:
        """Return the inner policy's actions; where these let the turn end, check the goal."""
        actions, goal = await self._inner.after_turn(turn) or (), self.goal
        ends = turn.results is None and turn.reply.stop in (None, "end", "stop_sequence")
        if (
            goal is None
            or turn.agent != self._path
            or not ends
            or any(isinstance(action, Inject | Stop) for action in actions)
        ):
            return actions
        tell = goal.agent.state.journal.notify
        try:
            found = await goal.check(turn.reply)
        except SagentError as error:
            self.end()
            tell("warning", f"The goal could not be checked, so it is not pursued further: {error}")
            return (*actions, Stop(UNMET))
        if found.reached:
            self.end()
            tell("info", f"The goal is reached: {found.why}")
            return actions
        if goal.attempts >= goal.max_attempts:
            self.end()
            tell("warning", f"The goal is not reached after {goal.attempts} attempts: {found.why}")
            return (*actions, Stop(UNMET))
        if not self._surface.where:  # else the message for the model is shown
            tell("warning", f"The goal is not reached yet ({goal.progress}): {found.why}")
        return (*actions, Inject(user(goal.unmet(found), sender=ROLE), "next"))

    def end(self) -> None:
        """Pursue the goal no further."""
        if self.goal is not None:
            keep(self.goal.agent, goal="")
        self.goal = None


def policy_of(surface: Surface, agent: Agent) -> GoalPolicy:
    """Return the policy for goals of a session's agent, which is added at the first call."""
    found = surface.shared.get(GoalPolicy)
    if not isinstance(found, GoalPolicy):
        state = agent.state
        surface.shared[GoalPolicy] = state.policy = found = GoalPolicy(state.policy, state.path, surface)
    return found


async def add(builder: AgentBuilder) -> None:
    """Have the agent work towards the goal of the settings."""
    text, attempts = cast("str", builder.settings.of(GOAL)), cast("int", builder.settings.of(ATTEMPTS))
    builder.sections.append(lambda: f"# Goal\n\n{prompt_for(text)}")

    def pursue(agent: Agent) -> None:
        policy_of(builder.surface, agent).goal = goal = Goal(agent, text, attempts)
        goal.keep()

    builder.started.append(pursue)
