"""An agent's surroundings, as its engine may use them: the tree, a person, models, files."""

from collections.abc import Awaitable, Callable
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from sagent.agent.resources import Resources
from sagent.agent.tree import Node
from sagent.context.prompt import CHANGED
from sagent.engine.neighbours import Asker, Extension
from sagent.lib.json import EMPTY, json_dump
from sagent.messages import Message, ToolCall, user
from sagent.model import Model, ModelLimits, full_name
from sagent.peer import SpawnRequest
from sagent.policy import Allow, Ask
from sagent.tool import Effect

if TYPE_CHECKING:
    from sagent.rewind.recorder import Checkpoints

T = TypeVar("T")


class TreeNeighbours:
    """See sagent.engine.neighbours.Neighbours."""

    def __init__(self, agent: Node, resources: Resources) -> None:
        self._agent, self._resources = agent, resources
        self.ask = None if resources.ask is None else _checked_asker(resources.ask, agent)
        self._spawned = False
        self.deepest: int | None = None  # generation that agents below may be of, as those above requested

        @cache
        def extension() -> Extension | None:
            return None if resources.advisory is None else resources.advisory(agent, None)

        @cache
        def checkpoints() -> "Checkpoints":
            from sagent.rewind.recorder import Checkpoints

            return Checkpoints(looks_around=resources.log is not None)

        self.extension = extension  # once an action switches it on
        self.checkpoints = checkpoints  # of its whole tree, from the first call on that may change a file

    def settle_below(self, parent: "TreeNeighbours", request: SpawnRequest) -> None:
        """Settle below the spawning agent: files have one history, whoever changes them."""
        self._spawned, self.checkpoints = True, parent.checkpoints
        own = None if request.max_depth is None else self._agent.path.count("/") + request.max_depth
        self.deepest = min((most for most in (own, parent.deepest) if most is not None), default=None)

    def close(self) -> None:
        """Stop following file changes. It is resumed when needed."""
        if self.checkpoints.cache_info().currsize:
            self.checkpoints().close()

    @property
    def busy(self) -> bool:
        """True while agents below are working or, for the root, a message is on its way."""
        tree = self._agent.tree
        waits = not self._spawned and tree.post is not None and tree.post.waiting
        return waits or any(agent.busy for agent in tree.below(self._agent.path))

    def resolve(self, name: str) -> Model:
        """Return a model by "provider/id". Raises UsageError."""
        own, resolve = self._agent.state.model, self._resources.resolve
        return own if resolve is None or name == full_name(own) else resolve(name)

    def sizes(self, model: Model) -> ModelLimits:
        listed = self._resources.model_limits
        return model.limits if listed is None else listed(model)

    def deliver(self, path: str, message: Message) -> None:
        self._agent.tree.deliver(path, message)

    def wake_above(self) -> None:
        self._agent.tree.wake_above(self._agent.path)

    async def before_compaction(self, reason: str, hints: str) -> str:
        ask = self._resources.before_compaction
        return hints if ask is None else await ask(self._agent.state, reason, hints)

    async def watch(self, call: ToolCall, effect: Effect, work: Callable[[], Awaitable[T]]) -> T:
        return await self.checkpoints().around(self._agent.state, call, effect, work)


def _checked_asker(ask: Asker, agent: Node) -> Asker:
    """Wrap an asker: an answer that is neither yes nor no becomes a no that explains the valid ones. The model reads a
    change of the call after its results."""

    async def asked(call: ToolCall, question: Ask) -> str | Allow | None:
        given = ask(call, question)
        if not isinstance(given, Awaitable):  # pyright: ignore[reportUnnecessaryIsInstance] -- as below
            return "The function for ask= is not async, so it was not called: write `async def`."
        said = await given
        if isinstance(said, Allow):
            arguments = said.arguments or EMPTY
            changed = {name: value for name, value in arguments.items() if value != call.arguments.get(name)}
            text = f"The person has changed this call of {call.name} before it was made: {json_dump(changed)}"
            if changed:
                agent.state.receive(user(text, sender=CHANGED), "next")
            return said
        if said is None or isinstance(said, str):  # pyright: ignore[reportUnnecessaryIsInstance] -- not everybody has a checker
            return said
        return f"The function for ask= returned {said!r:.60}: return None to allow, or a str with the reason to deny."

    return asked
