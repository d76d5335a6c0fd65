"""By handing on: each agent may pass the conversation to another."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sagent.agent.agent import Agent
from sagent.agent.agent_tool import Stage, offer
from sagent.errors import ToolError, UsageError
from sagent.events import Failure, Result
from sagent.lib.json import JsonObject, as_str, json_freeze_object
from sagent.messages import Message, user
from sagent.patterns.pattern import Pattern, media_of
from sagent.peer import Stop
from sagent.tool import Effect, RunContext, ToolOutput, Workspace

TOOL = "handoff"


def handoff(agents: Mapping[str, Agent], *, start: str = "", most: int = 8) -> Pattern:
    """Agents that pass a conversation on to each other, until one answers: each is given a tool `handoff`.

    `start`, or the first, is asked; whom it hands on to reads the request, what was said since, and a message. After
    `most` times the last one's words are the result, with error kind "max_handoffs". Raises UsageError for fewer than
    two agents, and for one that is in another hand-off or runs.
    """
    return _Handoff(agents, start or next(iter(agents), ""), most)


class _Handoff(Pattern):
    name = "handoff"

    def __init__(self, agents: Mapping[str, Agent], start: str, most: int) -> None:
        super().__init__(tuple(agents.values()))
        if len(self.agents) < 2 or len(self.agents) < len(agents):
            raise UsageError("a hand-off needs at least two agents, each of them once")
        if start not in agents:
            raise UsageError(f"the start {start!r} is not one of the agents: {', '.join(agents)}")
        self._by_name, self._start, self._most = dict(agents), start, most
        self._wishes: dict[str, tuple[str, str]] = {}  # by the reason for which a turn ended: to whom, saying what
        for name, agent in agents.items():
            offer(agent, _HandoffTool([other for other in agents if other != name], self._wishes))

    async def perform(self, prompt: Message, stage: Stage) -> Result:
        name, request = self._start, prompt
        said, seen, times = [f"The request:\n{prompt.content}"], {name}, 0
        while True:
            result = await stage.run(self._by_name[name], request)
            to, message = self._wishes.pop(result.stop_reason, ("", ""))
            if not to:
                return result
            if times == self._most:
                loop = f"the conversation was handed on {times} times and not answered; raise most, or say who decides"
                return replace(result, stop_reason="max_handoffs", error=Failure("max_handoffs", loop))
            times += 1
            said.append(f"{name}:\n{result.content}".rstrip() + f"\n{name} to {to}:\n{message}")
            media = () if to in seen else media_of(prompt)
            request = user(
                "\n\n".join([f"{name} hands this conversation on to you. Answer in its place.", *said]), *media
            )
            name = to
            seen.add(to)


class _HandoffTool:
    """Ends the turn of the agent that calls it, and says who is next."""

    quick = True
    name = TOOL

    def __init__(self, others: Sequence[str], wishes: dict[str, tuple[str, str]]) -> None:
        self._wishes = wishes
        names = ", ".join(others)
        self.description = (
            f"Hand this conversation on to another agent, who answers in your place: {names}. It ends your turn."
        )
        self.parameters = json_freeze_object(
            {
                "type": "object",
                "properties": {
                    "to": {"type": "string", "enum": list(others)},
                    "message": {"type": "string", "description": "what the other needs to know"},
                },
                "required": ["to", "message"],
            }
        )

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        del arguments, workspace
        return Effect("none")

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """The turn ends with a reason that is this agent's; of two calls in one turn the last counts."""
        if run.caller is None:
            raise ToolError("only an agent can hand a conversation on")
        reason, to = f"{TOOL} by {run.agent}", as_str(arguments.get("to"))
        self._wishes[reason] = (to, as_str(arguments.get("message")))
        run.caller.apply(Stop(reason))
        return ToolOutput.of(f"{to} goes on from here.", summary=f"to {to}")
