"""Built-in tools and the `@tool` decorator. Names load their module when first used, so that start-up stays cheap."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sagent.tool import Tool
    from sagent.tools.bash import Bash
    from sagent.tools.decorator import FunctionTool, tool
    from sagent.tools.edit import Edit
    from sagent.tools.glob import Glob
    from sagent.tools.grep import Grep
    from sagent.tools.list import List
    from sagent.tools.read import Read
    from sagent.tools.write import Write

__all__ = [
    "BUILTIN",
    "Bash",
    "Edit",
    "FunctionTool",
    "Glob",
    "Grep",
    "List",
    "Read",
    "Write",
    "coding_tools",
    "tool",
]

BUILTIN = ("Read", "Write", "Edit", "Glob", "Grep", "List", "Bash")
"""Names of the built-in tools, in the order in which a model sees them."""

_HOMES = {"FunctionTool": "decorator", "tool": "decorator"}


def coding_tools() -> "tuple[Tool, ...]":
    """One of each built-in tool: what a coding agent works with."""
    from sagent.tools.bash import Bash
    from sagent.tools.edit import Edit
    from sagent.tools.glob import Glob
    from sagent.tools.grep import Grep
    from sagent.tools.list import List
    from sagent.tools.read import Read
    from sagent.tools.write import Write

    return (Read(), Write(), Edit(), Glob(), Grep(), List(), Bash())


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, name.lower())}"), name)
