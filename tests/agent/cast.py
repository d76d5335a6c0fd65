"""A model that many agents share, and a root agent with the tools that concern agents."""

from sagent.agent import Agent, Resources
from sagent.agent.tree import Tree
from sagent.model import Delta, Model, ModelLimits, Reply, Request
from sagent.testing import ScriptedModel
from sagent.tools.agents import AgentSelf, AgentSend, AgentSpawn
from sagent.tools.background import BackgroundTask
from tests.messages import Player

PRICES = {"scripted/scripted": {"input": "1", "output": "1"}}


class Cast:
    """A model that many agents share: each conversation has a player of its own, by the agent's path."""

    provider = id = "scripted"
    limits = ModelLimits(200_000, 8_000)

    def __init__(self, **players: Player) -> None:
        self.players = {name.replace("__", "/"): player for name, player in players.items()}
        self.requests: dict[str, list[Request]] = {}

    def max_input_tokens(self, request: Request) -> int:
        return ScriptedModel().max_input_tokens(request)

    def stream(self, request: Request):
        path = request.conversation.partition(":")[2]
        self.requests.setdefault(path, []).append(
            Request(request.conversation, tuple(request.messages), request.system, request.tools)
        )
        return self._play(path, request)

    async def _play(self, path: str, request: Request):
        model = ScriptedModel(self.players[path])
        deltas: list[Delta | Reply] = []
        async for item in model.stream(request):
            deltas.append(item)
            yield item


def results(request: Request) -> str:
    return "\n".join(result.text for message in request.messages[-2:] for result in message.results)


def tree_tools() -> list:
    return [AgentSpawn(), AgentSend(), AgentSelf(), BackgroundTask()]


def root_of(model: Model, **given: object) -> Agent:
    resources = Resources(tree=Tree(given.pop("limits", None)), **given)  # pyright: ignore[reportArgumentType]
    return Agent(model, system="be brief", tools=tree_tools(), resources=resources)
