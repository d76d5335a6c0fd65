"""An agent that is being put together, as its parts see it and change it."""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from copy import copy
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast

from sagent.agent import Agent, Asker, Resources
from sagent.app.arrivals import ToolSource
from sagent.app.models import Choice
from sagent.app.past import Past
from sagent.config import Settings
from sagent.context.places import plugin_folders
from sagent.events import Event, Notice
from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, JsonObject
from sagent.plugin import HookEvent
from sagent.policy import Policy
from sagent.policy.permissions import PermissionPolicy
from sagent.sandbox import Sandbox
from sagent.session.log import Log
from sagent.surface import Surface
from sagent.tool import Tool, Workspace, traits_of

if TYPE_CHECKING:
    from sagent.tools.ask import Answerer

T = TypeVar("T")
Layer: TypeAlias = Callable[[Sequence[Tool]], list[Tool]]
"""Gives tools with something put around them."""
_PROMISED = (
    *((name, "__call__") for name in ("ask", "listener", "adapters", "layers", "sections", "started")),
    *(("judge", "before_tool"), ("resources", "admit"), ("surface", "brought"), ("sources", "adds")),
)
"""Members of a builder that parts may change, and one that the value of each, or each in its list, has."""
_READ = ("settings", "stack", "policy", "sandbox", "answer", "log", "past", "choice", "workspace", "notices", "shared")
"""Members that parts use as they are."""


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """The outcome of one hook, or of all that were asked. `fault` is why it failed.

    `context` is for the model and `message` for the person; `arguments` and `output` take the place of a call's.
    `stop` ends the run, for a reason; None lets it go on.
    """

    decision: Literal["", "allow", "ask", "deny"] = ""
    reason: str = ""
    arguments: JsonObject | None = None
    context: str = ""
    message: str = ""
    output: str | None = None
    stop: str | None = None
    fault: str = ""


@dataclass(slots=True)
class AgentBuilder:
    """The material of an agent, which each part is given before there is the agent.

    A part changes `tools` (or puts a layer around them), `judge`, `ask` and `resources`, adds `sections` to the
    system prompt and functions to `started`, pushes onto `stack` what is to be closed, and puts into `notices` what
    the person should know. `surface` is where the person is; `sources` may add tools later. `offered` are the tools
    as `adapters` give them, before anything is put around them.
    """

    settings: Settings
    listener: Callable[[Event], None]
    stack: AsyncExitStack
    policy: PermissionPolicy
    sandbox: Sandbox
    ask: Asker | None
    answer: "Answerer | None"  # has a person decide on plans, and answer what servers ask
    surface: Surface
    notices: list[str] = field(init=False)
    log: Log = field(init=False)
    past: Past = field(init=False)
    choice: Choice = field(init=False)
    workspace: Workspace = field(init=False)
    resources: Resources = field(init=False)
    judge: Policy = field(init=False)
    tools: list[Tool] = field(init=False)
    offered: Sequence[Tool] = ()
    sources: list[ToolSource] = field(default_factory=list[ToolSource])
    adapters: list[Layer] = field(default_factory=list[Layer])
    layers: list[Layer] = field(default_factory=list[Layer])
    sections: list[Callable[[], str]] = field(default_factory=list[Callable[[], str]])
    started: list[Callable[[Agent], object]] = field(default_factory=list[Callable[[Agent], object]])
    """Called with the agent once its history is there, before it says anything to the listener."""
    fired: "Callable[[str, str, Mapping[str, object], str], Awaitable[HookAnswer]] | None" = None
    """Asks hooks at an event of a plugin, as `fire`; None where there are none."""
    shared: dict[object, object] = field(default_factory=dict[object, object], repr=False)

    def __post_init__(self) -> None:
        self.notices, self.judge = list(self.settings.warnings), self.policy

    @property
    def plans(self) -> bool:
        """True if a session begins in plan mode, with somebody there who decides on plans."""
        return self.settings.plan or (self.answer is not None and self.settings.permission_mode == "plan")

    def knows(self, fact: str) -> bool:
        """Return True if a fact by which parts are chosen is so: one of those below, or one that settings say."""
        match fact:
            case "had advisors":
                return bool(self.past.advisors)
            case "proposes a plan":
                return self.past.proposes or self.plans
            case "defers tools":
                return any(traits_of(tool).deferrable is True for tool in self.tools)
            case "adds tools":
                return any(source.adds for source in self.sources)
            case "an editor brings servers":
                return bool(self.surface.brought)
            case "in a terminal" | "in an editor":
                return fact.rpartition(" ")[2] == self.surface.where
            case "somebody answers":
                return self.answer is not None
            case _ if fact.startswith("tool "):
                return any(fact == f"tool {tool.name}" for tool in self.offered)
            case _:
                return self.settings.says(fact)

    def once(self, make: "Callable[[AgentBuilder], T]") -> T:
        """Return what this function makes for the agent. It is called once: several parts and tools share it."""
        if make not in self.shared:
            self.shared[make] = make(self)
        return cast("T", self.shared[make])

    async def fire(
        self, event: str, about: str = "", data: Mapping[str, object] = EMPTY, agent: str = "root"
    ) -> HookAnswer:
        """Ask the hooks of an event that a plugin declares, and return what they say together.

        A matcher is compared to `about`; hooks get the `data`, which must be JSON, beside what every hook gets. `agent`
        is the path of the agent that it happens to. A hook that fails or hangs is reported, and answers nothing. The
        answer's `decision` is "deny", "ask", "allow" or "", with a `reason`; `context` is what they add for the model.
        Raises ValueError for an event that no plugin declares, and for one of the plugin of hooks itself.
        """
        if event not in self.settings.plugins.named(HookEvent):
            raise ValueError(f"The event {event} is declared by no plugin")
        return await self.fired(event, about, data, agent) if self.fired else HookAnswer()

    def contents(self) -> Mapping[str, Any]:
        """Return what parts have added so far."""
        own = {name: getattr(self, name) for name in _READ}
        found = {name: getattr(self, name) for name in ("tools", *dict(_PROMISED))}
        return own | {name: copy(value) if hasattr(value, "append") else value for name, value in found.items()}

    def check(self, before: Mapping[str, Any]) -> None:
        """Raise TypeError for what is not of the kind that its place takes, or was not to be replaced."""
        if replaced := [name for name in _READ if getattr(self, name, None) is not before[name]]:
            raise TypeError(f"it replaced builder.{replaced[0]}, which is to be used as it is")
        for name, member in _PROMISED:
            value = getattr(self, name)
            for each in value if hasattr(value, "append") else (value,):
                if not hasattr(each, member) and not (name == "ask" and each is None):
                    raise TypeError(f"it put {type(each).__name__} into builder.{name}, which has no {member}")

    def wrap(self, layer: Layer) -> None:
        """Put something around the tools, those that come later too."""
        self.tools = layer(self.tools)
        self.layers.append(layer)

    def warn(self, text: str) -> None:
        """Show a warning now."""
        self.listener(Notice("root", "warning", text))

    def expose(self, notes: Sequence[Path] = ()) -> None:
        """Let tools read what is the session's own, and in the directories `notes` write too."""
        home, kept = self.settings.config_dir, self.log.path
        session = (Path(kept),) if kept else ()
        self.policy.expose(home / "skills", *plugin_folders(home), session=session, notes=notes)


def withheld(settings: Settings) -> set[str]:
    """Variables that hold keys of providers."""
    described = settings.providers.values()
    keys = {each.api_key for each in described if each.api_key}
    names = {variable for each in described for variable in each.row.key.split()}
    names |= {name for name in os.environ if name.startswith("OTEL_EXPORTER_") and name.endswith("_HEADERS")}
    return names | {variable for variable, value in os.environ.items() if value in keys}  # as in api_key = "${CORP}"
