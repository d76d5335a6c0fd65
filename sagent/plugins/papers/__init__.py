"""Scientific papers as tools: found, described and read. Needs sagent[web] for their text."""

from typing import TYPE_CHECKING

from sagent.plugin import Plugin, ToolEntry

if TYPE_CHECKING:
    from sagent.plugins.papers.author import PaperAuthor as PaperAuthor
    from sagent.plugins.papers.details import PaperDetails as PaperDetails
    from sagent.plugins.papers.fetch import PaperFetch as PaperFetch
    from sagent.plugins.papers.search import PaperSearch as PaperSearch

__all__ = ["PaperAuthor", "PaperDetails", "PaperFetch", "PaperSearch", "plugin"]

plugin = Plugin(
    "papers",
    "scientific papers, as tools that find, describe and read them",
    tools=(
        ToolEntry("PaperSearch", "sagent.plugins.papers.search:make", ("papers",)),
        ToolEntry("PaperDetails", "sagent.plugins.papers.details:make", ("papers",)),
        ToolEntry("PaperAuthor", "sagent.plugins.papers.author:make", ("papers",)),
        ToolEntry("PaperFetch", "sagent.plugins.papers.fetch:make", ("papers",)),
    ),
    needs=("gateway", "web"),
)


def __getattr__(name: str) -> object:
    match name:
        case "PaperAuthor":
            from sagent.plugins.papers import author as home
        case "PaperDetails":
            from sagent.plugins.papers import details as home
        case "PaperFetch":
            from sagent.plugins.papers import fetch as home
        case "PaperSearch":
            from sagent.plugins.papers import search as home
        case _:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(home, name)
