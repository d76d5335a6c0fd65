"""Old name of `sagent.plugins.mcp`."""

from importlib import import_module
from warnings import warn


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    found: object = getattr(import_module("sagent.plugins.mcp"), name)
    warn("sagent.bridges.mcp is sagent.plugins.mcp now.", DeprecationWarning, stacklevel=2)
    return found
