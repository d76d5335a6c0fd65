"""Settings: defaults < the person's file < a project's < environment < flags. Nothing else reads the environment."""

from sagent.config.layers import load
from sagent.config.settings import Address, CustomProvider, McpServer, Settings

__all__ = ["Address", "CustomProvider", "McpServer", "Settings", "load"]
