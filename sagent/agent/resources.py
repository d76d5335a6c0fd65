"""What an agent holds that outlives a turn or is shared with others of its tree."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from sagent.agent.tree import Node, Tree
from sagent.cost.ledger import Ledger
from sagent.engine.extension import Extension
from sagent.engine.neighbours import Asker
from sagent.engine.state import EXECUTOR
from sagent.lib.dataclass import dataclass
from sagent.model import Model, ModelLimits
from sagent.session.log import Log
from sagent.tool import Workspace

ExtensionFactory: TypeAlias = Callable[[Node, Extension | None], Extension]
"""Makes an agent's extension; that of the agent which spawned it, where it has one, is taken over."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What an agent holds that outlives a turn or is shared with others of its tree. None: the agent makes its own."""

    log: Log | None = None
    ledger: Ledger | None = None
    workspace: Workspace | None = None
    ask: Asker | None = None
    path: str = "root"
    resolve: Callable[[str], Model] | None = None  # "provider/id" -> Model, for Switch
    model_limits: Callable[[Model], ModelLimits] | None = None  # what is known of sizes beyond the model
    fallbacks: Sequence[Model] = ()  # take over, one after the other, when the model cannot be reached
    finish: Callable[[], Awaitable[str]] | None = None  # awaited before a run's result; says what held its commands
    tree: Tree | None = None
    catalog: Callable[[], str] | None = None  # the models that can be switched to, in words
    advisory: ExtensionFactory | None = None  # gives it advisors
    advised: bool = True  # from the start; else when it is first switched to one
    role: str = EXECUTOR  # who its calls are billed as
    compactor: Model | None = None  # who sums up a conversation that is cut
