"""Resources of an agent, which outlive a turn or are shared, and the short forms that a program may pass."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from decimal import Decimal, InvalidOperation
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from types import CodeType, MethodType
from typing import TYPE_CHECKING, NewType, Protocol, TypeAlias, TypeVar, cast, get_origin

from sagent.agent.tree import Node, Tree, TreeLimits
from sagent.context.calls import Forms, own_forms
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.engine.context import RunLimits
from sagent.engine.neighbours import Asker, Extension
from sagent.engine.state import AgentState
from sagent.errors import UsageError
from sagent.events import Failure
from sagent.lib.dataclass import Deps_contra, dataclass
from sagent.lib.json import json_freeze_object
from sagent.lib.money import TOO_MUCH
from sagent.lib.names import why_no_path
from sagent.lib.schema import strange_type
from sagent.messages import Message
from sagent.model import Model, ModelLimits
from sagent.session.contents import EXECUTOR
from sagent.session.log import Log
from sagent.tool import Tool, Workspace, traits_of

if TYPE_CHECKING:
    from sagent.tools import FunctionTool


class Function(Protocol):
    """A function or a method, made with `def`, as type checkers see it. No other tool matches it."""

    @property
    def __code__(self) -> CodeType: ...


GivenTool: TypeAlias = Tool[Deps_contra] | type[Tool[Deps_contra]] | Function | partial[object]
Amount: TypeAlias = Decimal | int | float | str
Admit: TypeAlias = Callable[[AgentState, Message | None], Awaitable[Sequence[Message] | Failure]]
"""Called before a run with its prompt, if any; returns the messages for the agent, or why there is no run."""
BeforeCompaction: TypeAlias = Callable[[AgentState, str, str], Awaitable[str]]
"""Called before an agent's context is made smaller, with the reason and hints for a summary; returns the hints to
use."""
ExtensionFactory: TypeAlias = Callable[[Node, Extension | None], Extension]
"""Makes an agent's extension, given that of the spawning agent, if any."""


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources of an agent that outlive a turn, or that its tree shares. None: the agent creates its own."""

    log: Log | None = None
    ledger: Ledger | None = None
    workspace: Workspace | None = None
    ask: Asker | None = None
    path: str = "root"
    resolve: Callable[[str], Model] | None = None  # "provider/id" -> Model, for Switch; None: those that it was given
    model_limits: Callable[[Model], ModelLimits] | None = None  # known sizes beyond the model's own data
    fallbacks: Sequence[Model | str] = ()  # replace an unreachable model, one after the other
    finish: Callable[[], Awaitable[str]] | None = None  # awaited before a run's result; returns the sandbox's name
    tree: Tree | None = None
    catalog: Callable[[], str] | None = None  # the models to switch to, as text
    advisory: ExtensionFactory | None = None  # gives it advisors
    advised: bool = True  # from the start; otherwise after a first switch
    role: str = EXECUTOR  # who its calls are billed as
    compactor: Model | str | None = None  # who sums up a conversation that is cut
    call_forms: Forms = own_forms  # forms of calls that are recognized in text
    admit: "Admit | None" = None  # called before each run
    before_compaction: "BeforeCompaction | None" = None


_FUNCTIONS = (
    *("ask", "resolve", "model_limits", "finish", "catalog", "advisory", "admit", "before_compaction", "call_forms"),
)
_KINDS: Mapping[str, tuple[type, str]] = {
    "ledger": (Ledger, "a Ledger"),
    "workspace": (Workspace, 'a Workspace, as Workspace(Path("src"))'),
    "tree": (Tree, "a Tree"),
    "path": (str, 'a name, as "reviewer"'),
    "role": (str, "a name"),
    "fallbacks": (Sequence, "a list of models"),
}


def check_resources(resources: Resources) -> None:
    """Raise UsageError for unusable resources: otherwise the error would only occur when they are needed."""
    for field in fields(resources):
        name, each = field.name, cast("object", getattr(resources, field.name))
        if each is None and field.default is None:
            continue
        kind, wanted = _KINDS.get(name, (object, "a function"))
        if not isinstance(each, kind) or (name in _FUNCTIONS and not callable(each)):
            raise UsageError(f"Resources({name}={each!r:.60}): give {wanted}")
    if resources.log is not None and not hasattr(resources.log, "session_id"):
        raise UsageError(f"Resources(log={resources.log!r:.60}): give a log, as MemoryLog()")
    if not all(part.strip(". ") for part in resources.path.split("/")):
        raise UsageError(f'Resources(path={resources.path!r:.60}): give a name, as "reviewer"')
    if resources.tree is not None:
        check_kind("the tree's limits", resources.tree.limits, TreeLimits, "TreeLimits(...)")
        for name in ("max_depth", "max_live", "max_spawns", "max_exchanges"):
            most: object = getattr(resources.tree.limits, name)
            if most is not None or name != "max_exchanges":
                check_whole(f"TreeLimits({name}={most!r:.60})", most)


def check_kind(name: str, value: object, kind: type, expected: str) -> None:
    """Raise UsageError for an argument of the wrong type, for programs without a type checker."""
    if not isinstance(value, kind | None) or isinstance(value, str):  # a string is iterable, too
        raise UsageError(f"{name} is {type(value).__name__}: give {expected}")


def session_at(value: object) -> Path:
    """Return the path of a session's directory. Raises UsageError for an invalid path."""
    if isinstance(value, str | PathLike) and not why_no_path(path := fspath(cast("str", value))):
        with suppress(RuntimeError):  # the home directory is unknown
            return Path(path).expanduser()
    raise UsageError(f'session={value!r:.60}: give the path of its directory, as "chats/ann"')


def check_whole(label: str, value: object, minimum: int = 0) -> None:
    """Raise UsageError for anything but a whole number that is at least the minimum."""
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise UsageError(f"{label}: give a whole number from {minimum}")


def check_type(value: object) -> None:
    """Raise UsageError for a `deps_type` that is not a type."""
    if not (value is None or isinstance(value, type | TypeVar | NewType) or get_origin(value) is not None):
        raise UsageError(f"deps_type is {value!r:.60}: give the type of what run(..., deps=) is given")


def check_limits(limits: RunLimits | None) -> None:
    """Raise UsageError for an invalid limit: a negative one, a string, seconds that are not a number."""
    check_kind("limits", limits, RunLimits, "RunLimits(...)")
    for bound in () if limits is None else fields(limits):
        given: object = getattr(limits, bound.name)
        if given is None and bound.default is None:
            continue
        number = given if isinstance(given, int | float) and not isinstance(given, bool) else -1
        match bound.name:
            case "wait_for_jobs":
                fits, wanted = isinstance(given, bool), "True or False"
            case "compact_at":
                fits, wanted = 0 <= number <= 1, "a share from 0 to 1"
            case "longest_wait" | "foreground_seconds":
                fits, wanted = number >= 0, "seconds from 0"
            case _:
                fits, wanted = isinstance(number, int) and number >= 0, "a whole number from 0"
        if not fits:
            other = ", or None" if bound.default is None else ""
            raise UsageError(f"RunLimits({bound.name}={given!r}): give {wanted}{other}")


def tools_of(tools: Sequence[object]) -> list[Tool]:
    """Convert to tools; some may be functions, or classes without arguments. Raises UsageError for anything else."""
    check_kind("tools", tools, Iterable, "a list of tools and functions, tools=[...]")
    return [_tool_of(each) for each in tools]


def _tool_of(value: object) -> Tool:
    if isinstance(value, MethodType) and hasattr(value.__func__, "is_method"):  # from Python 3.13 on, of a classmethod
        return _tool_of(cast("FunctionTool[[object], object, object]", value.__func__).__get__(value.__self__))
    if isinstance(value, type) and not _is_record(value):
        return _tool_of_class(value)
    if not isinstance(value, type) and hasattr(value, "parameters") and (name := getattr(value, "name", None)):
        if getattr(value, "is_method", False):
            raise UsageError(f"{name} is an unbound method: take it from an object, as in kit.{name}")
        return _checked(cast("Tool", value))
    if isinstance(value, Node):
        raise UsageError('an agent is not a tool: give agent.as_tool("name", "what it is for")')
    if not callable(value):
        name = f"{value!r:.60}" if isinstance(value, str) else type(value).__name__
        raise UsageError(f"{name} is not a tool: give one of sagent.tools, or a function")
    from sagent.tools.decorator import tool

    try:
        return _tool_of(tool(cast("Callable[[], object]", value)))
    except TypeError as error:
        raise UsageError(f"it cannot be made into a tool: {error}") from error


def _is_record(cls: type) -> bool:
    """Return True for a class whose objects are JSON data: making one is a call like any other."""
    named = tuple in cls.__mro__ and hasattr(cls, "_fields")
    marked = any(hasattr(cls, mark) for mark in ("__dataclass_fields__", "model_fields"))
    return (marked or named) and "__call__" not in vars(cls)


def _tool_of_class(cls: type) -> Tool:
    """Make a tool of a class whose objects can be called: each object is a tool."""
    try:
        made = cls()
    except Exception as error:
        name, why = cls.__name__, f"{type(error).__name__}: {error}"
        raise UsageError(f"{name} is a class: give an instance, {name}(...), for {name}() raised {why}") from error
    return _tool_of(made)


def _checked(tool: Tool) -> Tool:
    """Return the tool if its schema and traits are valid. Raises UsageError that names the invalid one."""
    try:
        schema = json_freeze_object(tool.parameters, f"{tool.name}.parameters")
        traits_of(tool)
    except TypeError as error:
        raise UsageError(str(error)) from error
    if strange := strange_type(schema):
        raise UsageError(f"{tool.name}.parameters has the type {strange}, which JSON Schema does not have there")
    return tool


def ledger_of(ledger: Ledger | None, path: str, cap: Amount | None) -> Ledger:
    """Return the given ledger, for the root of a tree a branch of it, or a new one with this budget in USD. Raises
    UsageError for both, and for an invalid amount."""
    if cap is None and ledger is not None:
        return ledger if "/" in path else ledger.branch(path)
    if cap is None:
        return Ledger(None, PriceBook())
    if ledger is not None:
        raise UsageError("max_budget_usd and the ledger of resources are two budgets: give only one")
    try:
        usd = Decimal(-1) if isinstance(cap, bool) else Decimal(str(cap))
    except InvalidOperation:
        usd = Decimal(-1)
    if not (usd.is_finite() and 0 <= usd < TOO_MUCH):
        raise UsageError(f"max_budget_usd={cap!r}: give USD as a number, at least 0")
    return Ledger(usd, PriceBook())
