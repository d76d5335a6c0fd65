"""Settings: defaults < the person's file < a project's < environment < flags. Nothing else reads the environment.

Names are imported on first use: flags only need declarations.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sagent.config.layers import load as load
    from sagent.config.settings import Address as Address
    from sagent.config.settings import CustomProvider as CustomProvider
    from sagent.config.settings import Settings as Settings

__all__ = ["Address", "CustomProvider", "Settings", "load"]


def __getattr__(name: str) -> object:
    if name == "load":
        from sagent.config.layers import load

        return load
    if name == "McpServer":  # an old name
        from sagent.bridges import mcp

        return mcp.McpServer
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sagent.config import settings

    return getattr(settings, name)
