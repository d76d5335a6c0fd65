"""Patterns with one member at a time: in order, by choice, by hand-off, and in a loop."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Never, TypeAlias

from sagent.agent.agent import Agent
from sagent.agent.agent_tool import Runnable, Stage
from sagent.agent.resources import check_whole
from sagent.agent.tree import Node
from sagent.errors import SagentError, ToolError, UsageError
from sagent.events import Failure, Result
from sagent.lib.json import JsonObject, as_str
from sagent.lib.renamed import warn_renamed
from sagent.messages import Message, Text, user
from sagent.peer import Stop
from sagent.plugins.hosting.choosing import choose
from sagent.plugins.teams.pattern import FunctionPattern, Pattern, check_judge, check_named, made_by, media_of
from sagent.tool import Harmless, RunContext, ToolOutput, arguments_schema

TOOL = "handoff"
APPROVED = re.compile(r"\W*approved\b", re.IGNORECASE)
Opinion: TypeAlias = bool | str
Until: TypeAlias = Runnable | Callable[[Result], Opinion | Awaitable[Opinion]]


def sequential(*steps: Runnable) -> Pattern:
    """Run the steps in order: each is asked with the answer of the one before; the last answer is the result.

    A step that fails, or is stopped by a limit, ends it: later steps do not run, and the result has the error and the
    answers so far. An exception of the first step is raised. Raises UsageError without steps.
    """

    async def perform(prompt: Message, stage: Stage) -> Result:
        answers: list[str] = []
        while True:
            result, error = await stage.attempt(steps[len(answers)], answers[-1] if answers else prompt)
            if error is not None and not (answers and isinstance(error, SagentError)):
                raise error
            if not result.is_error and not result.content and len(answers) + 1 < len(steps):
                empty = f"step {len(answers) + 1} of {len(steps)} had an empty answer, so nothing to ask the next step"
                result = replace(result, error=Failure("empty", empty))
            if result.is_error:
                return _with_answers(result, answers, len(steps))
            answers.append(result.content)
            if len(answers) == len(steps):
                return result

    return FunctionPattern("sequential", steps, perform)


def _with_answers(failed: Result, answers: Sequence[str], steps: int) -> Result:
    """Return the result of a step that failed, with what those before it had answered: that was paid for."""
    if not answers:
        return failed
    said = [*answers, failed.content] if failed.content else answers
    text = "\n\n".join(f"Step {number} of {steps}:\n{each}" for number, each in enumerate(said, 1))
    return replace(failed, content=text, parts=(Text(text),))


def triage(chooser: Runnable, agents: Mapping[str, Runnable], *, default: str | None = None) -> Pattern:
    """Return a pattern whose chooser names one agent, which answers the unchanged request. The chooser can be a cheap
    model.

    If its answer does not name exactly one agent, it is asked once more; after that, `default` answers. If the chooser
    fails, the pattern fails. Raises UsageError if `default` is not one of the agents, and in a run where no agent was
    named and there is no default.
    """
    check_named("triage", agents)
    if not agents:
        raise UsageError("triage needs at least one agent to choose from")
    if default is not None and default not in agents:
        raise UsageError(f"the default {default!r} is not one of the agents: {', '.join(agents)}")
    choices = dict(agents)

    async def perform(prompt: Message, stage: Stage) -> Result:
        return await choose(chooser, choices, prompt, stage, default)

    return FunctionPattern("triage", (chooser, *choices.values()), perform)


def loop_until(agent: Runnable, done: Until, *, rounds: int = 5) -> Pattern:
    """Ask an agent again, with what is wrong, until its answer is approved.

    `done` is a function of the result, which may be async: True approves, a string says what is wrong, and False only
    that it is not good enough yet. Or it is an agent that judges: it is asked to answer APPROVED or what must change;
    if it fails, the pattern fails. After `rounds` rounds the last answer is the result, with error kind "max_rounds".
    Raises UsageError for fewer than one round.
    """
    check_judge("done", done)
    check_whole(f"rounds={rounds!r:.60}", rounds, 1)

    async def judge(prompt: Message, result: Result, stage: Stage) -> Opinion | Result:
        """Return the opinion of the function or the judge. If the judge fails, return its result."""
        if not isinstance(done, Runnable):
            return await made_by("done", done(result), (bool, str), "True approves, and a string says what is wrong")
        asked = (
            "Judge whether the answer below completes the task. If it does, say APPROVED and nothing else; if not, "
            f"say what must change.\n\nThe task:\n{prompt.content}\n\nThe answer:\n{result.content}"
        )
        judged = await stage.run(done, user(asked, *media_of(prompt)))
        return judged if judged.is_error else bool(APPROVED.match(judged.content)) or judged.content

    async def perform(prompt: Message, stage: Stage) -> Result:
        result, number = await stage.run(agent, prompt), 1
        while not result.is_error:
            opinion = await judge(prompt, result, stage)
            if isinstance(opinion, Result):
                return opinion
            if opinion is True:
                break
            wrong = opinion or "it does not meet the conditions yet"
            if number == rounds:
                rejected = f"not approved after {number} rounds; the last objection: {wrong}"
                return replace(result, error=Failure("max_rounds", rejected))
            again = user(f"That is not good yet: {wrong}\n\nGive the whole answer again, with this fixed.")
            if not isinstance(agent, Node):  # an agent remembers the task and its answer
                context = f"The task:\n{prompt.content}\n\nThe answer so far:\n{result.content}"
                again = user(f"{context}\n\n{again.content}", *media_of(prompt))
            result, number = await stage.run(agent, again), number + 1
        return result

    return FunctionPattern("loop_until", (agent, done) if isinstance(done, Runnable) else (agent,), perform)


def handoff(
    agents: Mapping[str, Agent[Never]], *, start: str = "", max_handoffs: int = 8, most: int | None = None
) -> Pattern:
    """Agents that pass a conversation on to each other until one answers. Each is given a tool `handoff`.

    `start`, or the first agent, is asked. The agent that it hands on to reads the request, what was said since, and a
    message. After `max_handoffs` hand-offs the last agent's words are the result, with error kind "max_handoffs".
    Raises UsageError for fewer than two agents, and for an agent that is in another hand-off or is running.
    """
    check_named("handoff", agents)
    if most is not None:
        warn_renamed("handoff(most=)", "handoff(max_handoffs=)", "0.3")
        max_handoffs = most
    check_whole(f"max_handoffs={max_handoffs!r:.60}", max_handoffs)
    start, by_name = start or next(iter(agents), ""), dict(agents)
    handed_to: dict[str, tuple[str, str]] = {}  # by the reason for a turn's end: the next agent, and the message for it

    async def perform(prompt: Message, stage: Stage) -> Result:
        name, request = start, prompt
        said, seen, times = [f"The request:\n{prompt.content}"], {name}, 0
        while True:
            result = await stage.run(by_name[name], request)
            to, message = handed_to.pop(result.stop_reason, ("", ""))
            if not to:
                return result
            if times == max_handoffs:
                loop = (
                    f"the conversation was handed on {times} times unanswered; raise `max_handoffs`, or say who decides"
                )
                return replace(result, stop_reason="max_handoffs", error=Failure("max_handoffs", loop))
            times += 1
            said.append(f"{name}:\n{result.content}".rstrip() + f"\n{name} to {to}:\n{message}")
            media = () if to in seen else media_of(prompt)
            head = f"{name} hands this conversation on to you. Answer in its place."
            request = user("\n\n".join([head, *said]), *media)
            name = to
            seen.add(to)

    made = FunctionPattern("handoff", tuple(agents.values()), perform)
    if len(made.agents) < 2 or len(made.agents) < len(agents):
        raise UsageError("a hand-off needs at least two agents, each of them once")
    if start not in agents:
        raise UsageError(f"the start {start!r} is not one of the agents: {', '.join(agents)}")
    for name, agent in agents.items():
        if agent.running:
            raise UsageError(f"agent {agent.path} is running; wait until it has finished: it needs the tool {TOOL}")
        if TOOL in agent.state.tools:
            raise UsageError(f"agent {agent.path} already has a tool {TOOL!r}; use another agent in its place")
        agent.state.offer(_HandoffTool([other for other in agents if other != name], handed_to))
    return made


class _HandoffTool(Harmless):
    """Ends the turn of the agent that calls it, and says who is next."""

    quick = True
    name = TOOL

    def __init__(self, others: Sequence[str], handed_to: dict[str, tuple[str, str]]) -> None:
        self._handed_to = handed_to
        names = ", ".join(others)
        self.description = (
            f"Hand this conversation on to another agent, who answers in your place: {names}. It ends your turn."
        )
        message = {"type": "string", "description": "what the other needs to know"}
        to = {"type": "string", "enum": list(others)}
        self.parameters = arguments_schema("to", "message", to=to, message=message)

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """End the turn with this tool's own reason. The last of two calls in one turn counts."""
        if run.caller is None:
            raise ToolError("only an agent can hand a conversation on")
        reason, to = f"{TOOL} by {run.agent}", as_str(arguments.get("to"))
        self._handed_to[reason] = (to, as_str(arguments.get("message")))
        run.caller.apply(Stop(reason))
        return ToolOutput.of(f"{to} continues from here.", summary=f"to {to}")
