"""The tools of an agent: selected by name, group or Python file, and made for it."""

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, cast

from sagent.agent.resources import tools_of
from sagent.config.declared import CORE
from sagent.config.values import is_file
from sagent.errors import SagentError, UsageError
from sagent.lib.raised import advice, ends, reason
from sagent.lib.text import unlike
from sagent.plugin import Plugin, ToolEntry, load_file, resolve

if TYPE_CHECKING:
    from sagent.app.builder import AgentBuilder
    from sagent.config import Settings
    from sagent.tool import Tool


def choose_tools(settings: "Settings") -> tuple[ToolEntry, ...]:
    """Return the selected tools, by default the group "default"; a file's tool has its path as its name. Raises
    UsageError with the nearest names."""
    by_name = _by_name(settings.plugins.every(ToolEntry))
    chosen: dict[ToolEntry, None] = {}
    for name in ("default",) if settings.tools is None else settings.tools:
        if is_file(name):
            chosen[ToolEntry(name)] = None
        elif known := by_name.get(name.lower(), ()):
            chosen |= dict.fromkeys(known)
        else:
            raise _unknown(name, by_name, settings.plugins.former_owner(f"--tools {name.lower()}"))
    return tuple(chosen)


def _by_name(tools: Sequence[ToolEntry]) -> Mapping[str, Sequence[ToolEntry]]:
    """Return the tools that a name stands for, in lower case: one tool, or a group."""
    found: dict[str, list[ToolEntry]] = {tool.name.lower(): [tool] for tool in tools if tool.tool}
    for group in dict.fromkeys(group for tool in tools for group in tool.groups):
        found[group] = [tool for tool in tools if group in tool.groups]
    return found


def _unknown(name: str, by_name: Mapping[str, Sequence[ToolEntry]], owner: str) -> UsageError:
    import difflib

    if owner:
        return UsageError(f"--tools: {name} is of the plugin {owner}, which is not loaded.")
    near = difflib.get_close_matches(name.lower(), by_name, 1, 0.4)
    meant = ", ".join(each.name for each in by_name[near[0]]) if near else ""
    hint = f" Did you mean {meant}?{unlike(name.lower(), near)}" if near else ""
    names = dict.fromkeys(entry.name for entries in by_name.values() for entry in entries)
    return UsageError(f"--tools: there is no tool {name!r}.{hint} The tools are {', '.join(names)}.")


def make_tools(chosen: Sequence[ToolEntry], builder: "AgentBuilder") -> "list[Tool]":
    """Make the tools for an agent. Notices name unavailable ones: a package is missing, or their plugin fails."""
    made: dict[str, Tool] = {}
    for entry in chosen:
        for tool in _made(entry, builder):
            if made.setdefault(tool.name, tool) is not tool:
                raise UsageError(f"--tools: there are two tools called {tool.name}: leave one of them out.")
    origin = builder.settings.origins.get("tools", "--tools")
    for tool in [*made.values()]:
        extra, command = cast("Callable[[], tuple[str, str]]", getattr(tool, "lacking", lambda: ("", "")))()
        if extra:
            del made[tool.name]
            lacks = f"it needs the extra {extra}, which is not installed. To install it: {command}"
            builder.notices.append(f"{tool.name} ({origin}) is left out: {lacks}")
    return [*made.values()]


def _made(entry: ToolEntry, builder: "AgentBuilder") -> "Sequence[Tool]":
    """Return a plugin's tool, the tool of its function, or those of a file. Raises UsageError if a file has none."""
    if not entry.tool:
        return _of_file(entry.name)
    plugin = builder.settings.plugins.owner(ToolEntry, entry.name)
    try:
        found = resolve(entry.tool)
        (tool,) = tools_of([found(builder) if isinstance(found, FunctionType) else found])
        if tool.name != entry.name:
            raise UsageError(f"it is called {tool.name}")
    except BaseException as error:  # third-party code
        if plugin == CORE.name or ends(error):
            raise
        why = str(error) if isinstance(error, SagentError) else reason(error)
        builder.warn(f"The tool {entry.name} of the plugin {plugin} is left out: {why}. {advice(plugin)}")
        return ()
    return (tool,)


def _of_file(path: str) -> "Sequence[Tool]":
    """Return the tools of a Python file. Raises UsageError if it cannot be loaded or has none."""
    try:
        module = load_file(path)
    except (Exception, SystemExit) as error:  # third-party code
        raise UsageError(f"--tools: {path} cannot be loaded: {type(error).__name__}: {error}") from error
    if isinstance(getattr(module, "plugin", None), Plugin):
        raise UsageError(f"--tools: {path} is a plugin: give --plugin {path}, and choose its tools by their names.")
    if not (found := _tools_in(module)):
        raise UsageError(f"--tools: {path} has no tool: write a function with a docstring, or one under @tool.")
    try:
        return tools_of(found)
    except UsageError as error:
        raise UsageError(f"--tools: {path}: {error}") from error


def _tools_in(module: ModuleType) -> Sequence[object]:
    """Return a module's tool objects and tool classes; if there are none, its functions."""
    public = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    own = [value for value in public.values() if getattr(value, "__module__", None) == module.__name__]
    made = [value for value in public.values() if _is_tool(value) and not isinstance(value, type)]
    classes = [value for value in own if _is_tool(value) and isinstance(value, type)]
    return [*made, *classes] or [value for value in own if isinstance(value, FunctionType)]


def _is_tool(value: object) -> bool:
    return callable(value) and hasattr(value, "parameters") and hasattr(value, "description")
