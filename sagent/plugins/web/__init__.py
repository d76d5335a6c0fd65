"""Searches of the web and its pages, as tools. Needs sagent[web] for pages and for searches without a key."""

from typing import TYPE_CHECKING

from sagent.plugin import Part, Plugin, Setting, Table, ToolEntry, choice

if TYPE_CHECKING:
    from sagent.plugins.web.access import WebAccess as WebAccess
    from sagent.plugins.web.fetch import WebFetch as WebFetch
    from sagent.plugins.web.search import WebSearch as WebSearch

__all__ = ["WebAccess", "WebFetch", "WebSearch", "plugin"]

WEB_TOOLS = Setting(
    "web_tools",
    choice("off", "auto"),
    "auto",
    'Literal["auto", "off"]',
    project="lower",
    metavar="WHEN",
    uses=("shared", "acting"),
    help="have WebSearch and WebFetch found where no tools are chosen: auto (default) or off",
)
WEB = Table("web", "sagent.plugins.web.services:read_services")
PACKAGES = "html-to-markdown selectolax ddgs"
"""Packages of the extra web."""
plugin = Plugin(
    "web",
    "searches of the web and its pages, as tools",
    tools=(
        ToolEntry("WebSearch", "sagent.plugins.web.search:make", ("web",)),
        ToolEntry("WebFetch", "sagent.plugins.web.fetch:make", ("web",)),
    ),
    parts=(Part("sagent.plugins.web.part:add", ("somebody answers", "allow", "permission_mode=full")),),
    settings=(WEB_TOOLS,),
    tables=(WEB,),
    needs=("gateway",),
)


def __getattr__(name: str) -> object:
    match name:
        case "WebAccess":
            from sagent.plugins.web import access as home
        case "WebFetch":
            from sagent.plugins.web import fetch as home
        case "WebSearch":
            from sagent.plugins.web import search as home
        case _:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(home, name)
