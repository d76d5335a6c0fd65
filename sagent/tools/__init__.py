"""Built-in tools and the `@tool` decorator. Names load their module when first used, so that start-up stays cheap."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
    from sagent.tools.write import Write

__all__ = [
    "AGENTS",
    "BUILTIN",
    "AgentSelf",
    "AgentSend",
    "AgentSpawn",
    "BackgroundTask",
    "Bash",
    "Edit",
    "FunctionTool",
    "Glob",
    "Grep",
    "List",
    "Read",
    "Write",
    "agent_tools",
    "coding_tools",
    "tool",
]

AGENTS = ("AgentSpawn", "AgentSend", "AgentSelf", "BackgroundTask")
"""Names of the tools that concern agents and what they leave running."""
BUILTIN = ("Read", "Write", "Edit", "Glob", "Grep", "List", "Bash", *AGENTS)
"""Names of the built-in tools, in the order in which a model sees them."""


def agent_tools() -> "tuple[Tool, ...]":
    """One of each tool that concerns agents: spawn others, write to them, change oneself, look after jobs."""
    from sagent.tools.agents import AgentSelf, AgentSend, AgentSpawn
    from sagent.tools.background import BackgroundTask

    return (AgentSpawn(), AgentSend(), AgentSelf(), BackgroundTask())


def coding_tools() -> "tuple[Tool, ...]":
    """One of each built-in tool that works on files and runs commands."""
    from sagent.tools.bash import Bash
    from sagent.tools.edit import Edit
    from sagent.tools.glob import Glob
    from sagent.tools.grep import Grep
    from sagent.tools.list import List
    from sagent.tools.read import Read
    from sagent.tools.write import Write

    return (Read(), Write(), Edit(), Glob(), Grep(), List(), Bash())


def __getattr__(name: str) -> object:
    match name:
        case "AgentSelf" | "AgentSend" | "AgentSpawn":
            from sagent.tools import agents as home
        case "BackgroundTask":
            from sagent.tools import background as home
        case "Bash":
            from sagent.tools import bash as home
        case "FunctionTool" | "tool":
            from sagent.tools import decorator as home
        case "Edit":
            from sagent.tools import edit as home
        case "Glob":
            from sagent.tools import glob as home
        case "Grep":
            from sagent.tools import grep as home
        case "List":
            from sagent.tools import list as home
        case "Read":
            from sagent.tools import read as home
        case "Write":
            from sagent.tools import write as home
        case _:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(home, name)
