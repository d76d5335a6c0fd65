"""Old name of `sagent.plugins.mcp`."""

from importlib import import_module

from sagent.lib.renamed import warn_renamed


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    found: object = getattr(import_module("sagent.plugins.mcp"), name)
    warn_renamed("sagent.bridges.mcp", "sagent.plugins.mcp", "0.3")
    return found
