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
"""Wraps tools."""
_PROMISED = (
    *((name, "__call__") for name in ("ask", "listener", "adapters", "layers", "sections", "started")),
    *(("judge", "before_tool"), ("resources", "admit"), ("surface", "brought"), ("sources", "adds")),
)
"""Builder members that parts may change, each with a method that its value, or each item of its list, must have."""
_READ = ("settings", "stack", "policy", "sandbox", "answer", "log", "past", "choice", "workspace", "notices", "shared")
"""Members that parts use as they are."""


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """The outcome of one hook, or of all asked hooks together. `fault` is the reason of a failure.

    `context` is for the model and `message` for the person; `arguments` and `output` replace those of a call. `stop` is
    a reason to end the run; None continues.
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
    """The material of an agent, given to each part before the agent exists.

    A part changes `tools` (or wraps them), `judge`, `ask` and `resources`, adds `sections` to the system prompt and
    functions to `started`, pushes things to close onto `stack`, and adds news for the person to `notices`. `surface` is
    the person's; `sources` may add tools later. `offered` are the tools as `adapters` give them, before wrapping.
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
    """Called with the agent once its history is loaded, before it tells the listener anything."""
    run_event_hooks: "Callable[[str, str, Mapping[str, object], str], Awaitable[HookAnswer]] | None" = None
    """Runs the hooks for an event of a plugin, like `fire`; None if there are none."""
    shared: dict[object, object] = field(default_factory=dict[object, object], repr=False)

    def __post_init__(self) -> None:
        self.notices, self.judge = list(self.settings.warnings), self.policy

    @property
    def plans(self) -> bool:
        """True if a session begins in plan mode and a person is present to decide on plans."""
        return self.settings.plan or (self.answer is not None and self.settings.permission_mode == "plan")

    def knows(self, fact: str) -> bool:
        """Return True if a condition of a part holds: one of those below, or a setting."""
        match fact:
            case "had advisors":
                return bool(self.past.advisors)
            case "resumed":
                return self.past.resumed
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
        """Return the result of this function for the agent. It is called once and shared by parts and tools."""
        if make not in self.shared:
            self.shared[make] = make(self)
        return cast("T", self.shared[make])

    async def fire(
        self, event: str, about: str = "", data: Mapping[str, object] = EMPTY, agent: str = "root"
    ) -> HookAnswer:
        """Run the hooks for an event that a plugin declares, and return their combined answer.

        A matcher is compared to `about`; hooks get `data`, which must be JSON, in addition to the common fields.
        `agent` is the path of the agent concerned. A hook that fails or hangs is reported and has no answer. The
        answer's `decision` is "deny", "ask", "allow" or "", with a `reason`; `context` is added for the model. Raises
        ValueError for an event that no plugin declares, and for one of the hooks plugin itself.
        """
        if event not in self.settings.plugins.named(HookEvent):
            raise ValueError(f"The event {event} is declared by no plugin")
        return await self.run_event_hooks(event, about, data, agent) if self.run_event_hooks else HookAnswer()

    def contents(self) -> Mapping[str, Any]:
        """Return what parts have added so far."""
        own = {name: getattr(self, name) for name in _READ}
        found = {name: getattr(self, name) for name in ("tools", *dict(_PROMISED))}
        return own | {name: copy(value) if hasattr(value, "append") else value for name, value in found.items()}

    def check(self, before: Mapping[str, Any]) -> None:
        """Raise TypeError for a value of the wrong kind, or for a member that may not be replaced."""
        if replaced := [name for name in _READ if getattr(self, name, None) is not before[name]]:
            raise TypeError(f"it replaced builder.{replaced[0]}, which must not be replaced")
        for name, member in _PROMISED:
            value = getattr(self, name)
            for each in value if hasattr(value, "append") else (value,):
                if not hasattr(each, member) and not (name == "ask" and each is None):
                    raise TypeError(f"it put {type(each).__name__} into builder.{name}, which has no {member}")

    def wrap(self, layer: Layer) -> None:
        """Wrap all tools, including those added later."""
        self.tools = layer(self.tools)
        self.layers.append(layer)

    def warn(self, text: str) -> None:
        """Show a warning now."""
        self.listener(Notice("root", "warning", text))

    def expose(self, notes: Sequence[Path] = ()) -> None:
        """Let tools read the session's own files, and write in the directories `notes` too."""
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
