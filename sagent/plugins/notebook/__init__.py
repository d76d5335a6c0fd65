"""Runs code in a Jupyter kernel, which keeps its variables between calls. Needs sagent[notebook]."""

from typing import TYPE_CHECKING

from sagent.plugin import Plugin, ToolEntry

if TYPE_CHECKING:
    from sagent.plugins.notebook.tool import Notebook as Notebook

__all__ = ["Notebook", "plugin"]

PACKAGES = "jupyter-client ipykernel"
"""Packages of the extra notebook."""
plugin = Plugin(
    "notebook",
    "code that is run by a Jupyter kernel, which keeps its variables",
    needs=("programs",),
    tools=(ToolEntry("Notebook", "sagent.plugins.notebook.tool:make", ("notebook",)),),
)


def __getattr__(name: str) -> object:
    if name != "Notebook":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sagent.plugins.notebook.tool import Notebook

    return Notebook
