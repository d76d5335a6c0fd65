"""Built-in tools and the `@tool` decorator. Names load their module when first used, so that start-up stays cheap."""

from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from sagent.tool import Tool
    from sagent.tools.agents import AgentSelf, AgentSend, AgentSpawn
    from sagent.tools.background import BackgroundTask
    from sagent.tools.bash import Bash
    from sagent.tools.decorator import FunctionTool, tool
    from sagent.tools.edit import Edit
    from sagent.tools.glob import Glob
    from sagent.tools.grep import Grep
    from sagent.tools.list import List
    from sagent.tools.read import Read
    from sagent.tools.todo import TodoWrite
    from sagent.tools.write import Write

__all__ = [
    "AgentSelf", "AgentSend", "AgentSpawn", "BackgroundTask", "Bash", "Edit", "FunctionTool", "Glob", "Grep",
    "List", "Read", "TodoWrite", "Write", "agent_tools", "coding_tools", "tool",
]  # fmt: skip

_CODING = ("Read", "Write", "Edit", "Glob", "Grep", "List", "Bash")
_AGENTS = ("AgentSpawn", "AgentSend", "AgentSelf", "BackgroundTask")
_MODULES = {
    **dict.fromkeys(("AgentSelf", "AgentSend", "AgentSpawn"), "agents"),
    **dict.fromkeys(("FunctionTool", "tool"), "decorator"),
    "BackgroundTask": "background",
    "TodoWrite": "todo",
}  # the modules of names; else a tool's is called as it is, in lower case


def agent_tools() -> "tuple[Tool, ...]":
    """Return one of each tool that concerns agents: spawn others, write to them, change oneself, manage jobs."""
    return tuple(map(_make, _AGENTS))


def coding_tools() -> "tuple[Tool, ...]":
    """One of each built-in tool that works on files and runs commands."""
    return tuple(map(_make, _CODING))


def _make(name: str) -> "Tool":
    return cast("Callable[[], Tool]", __getattr__(name))()


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, name.lower())}"), name)
