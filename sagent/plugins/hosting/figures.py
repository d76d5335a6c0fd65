"""The figures that followers of a session see in addition to its events: its agents, their cost, the node's policy."""

from decimal import Decimal
from typing import cast

from sagent.agent import Agent
from sagent.lib.dataclass import dataclass
from sagent.peer import Status
from sagent.plugins.hosting.typed import adapter
from sagent.policy.permissions import MODES, Mode, PermissionPolicy
from sagent.usage import Cost

FIGURES = "figures"
"""The kind of their line among the events."""


@dataclass(slots=True)
class Judgement:
    """The policy of a session on a node, and the freest mode that clients may choose: the node's own."""

    policy: PermissionPolicy
    freest: Mode

    @property
    def modes(self) -> tuple[Mode, ...]:
        known = self.freest in MODES
        return MODES[: MODES.index(self.freest) + 1] if known else ("plan", "ask", self.freest)


@dataclass(frozen=True, slots=True)
class Figures:
    """The present figures: the living agents, root first; and the available modes. `node` works on the session."""

    node: str
    agents: tuple[Status, ...]
    cost: Cost
    cap: Decimal | None = None
    mode: str = ""
    modes: tuple[str, ...] = ()

    @classmethod
    def of(cls, agent: Agent, node: str, judgement: Judgement | None) -> "Figures":
        agents = tuple(each.status() for each in agent.tree.living)
        mode, modes = (judgement.policy.mode, judgement.modes) if judgement else ("", ())
        return cls(node, agents, agent.cost(), agent.ledger.cap, mode, modes)


def read_figures(value: object) -> Figures:
    """Validate figures. Raises ValueError."""
    return cast("Figures", adapter(Figures).validate_python(value))
