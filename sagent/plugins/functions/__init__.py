"""Models made from functions, for programs."""

from typing import TYPE_CHECKING

from sagent.plugin import Plugin

if TYPE_CHECKING:
    from sagent.plugins.functions.model import FunctionModel as FunctionModel

__all__ = ["FunctionModel", "plugin"]

plugin = Plugin("functions", "models made from functions, for programs")


def __getattr__(name: str) -> object:
    if name != "FunctionModel":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sagent.plugins.functions.model import FunctionModel

    return FunctionModel
