"""What a likeness of an agent may do below another: what both may."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from sagent.agent import spawn
from sagent.agent.resources import Resources
from sagent.agent.tree import Node
from sagent.engine.limits import limits_of, with_limits
from sagent.engine.state import EXECUTOR
from sagent.messages import ToolCall
from sagent.peer import Action
from sagent.policy import Allow, Ask, Deny, Hold, Policy, Turn, Verdict
from sagent.tool import Effect, PathFilter, Workspace


def parts_like(model: Node, given: Resources, above: Node, path: str) -> spawn.AgentParts:
    """What a likeness of an agent is made of below another."""
    own = model.state
    workspace = spawn.workspace_for(own, seen=False)
    workspace.hidden = _either(own.workspace.hidden, above.state.workspace.hidden)
    resources = spawn.resources_for(above, given, path, workspace)
    most, least = limits_of(above.state.limits), limits_of(own.limits)  # its own bounds, where they are not wider
    return spawn.AgentParts(
        model=own.model,
        system=own.context.system,
        tools=tuple(own.tools.values()),
        policy=Both(own.policy, above.state.policy),
        limits=with_limits(own.limits, {name: min(value, least.get(name, value)) for name, value in most.items()}),
        effort=own.context.effort,
        resources=replace(resources, advisory=None, role=EXECUTOR, compactor=None),
    )


class Both:
    """Two policies: a call is made when neither objects."""

    def __init__(self, own: Policy, above: Policy) -> None:
        self._policies = (own, above) if own is not above else (own,)

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        """The stricter word: a denial, else a question, else yes."""
        verdicts = [await policy.before_tool(call, effect, workspace) for policy in self._policies]
        return min(verdicts, key=lambda verdict: (Deny, Hold, Ask, Allow).index(type(verdict)))

    async def after_turn(self, turn: Turn) -> Sequence[Action]:
        """What follows for either."""
        return [action for policy in self._policies for action in await policy.after_turn(turn)]


def _either(own: PathFilter | None, above: PathFilter | None) -> PathFilter | None:
    """What either hides is hidden."""
    if own is None or above is None:
        return own or above

    def path_filter(tool: str, directory: Path) -> Callable[[str], bool]:
        first, second = own(tool, directory), above(tool, directory)
        return lambda name: first(name) or second(name)

    return path_filter
