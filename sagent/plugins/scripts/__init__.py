"""Scripts that call the tools: fifty reads are one turn."""

from typing import TYPE_CHECKING

from sagent.plugin import Plugin, ToolEntry

if TYPE_CHECKING:
    from sagent.plugins.scripts.tool import Script as Script

__all__ = ["Script", "plugin"]

plugin = Plugin(
    "scripts",
    "Python scripts in the sandbox that call the tools",
    tools=(ToolEntry("Script", f"{__name__}.tool:make", ("script",)),),
)


def __getattr__(name: str) -> object:
    if name != "Script":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sagent.plugins.scripts.tool import Script

    return Script
