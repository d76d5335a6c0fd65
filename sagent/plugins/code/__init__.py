"""Language servers, which report errors in changes, find and rename; and a map of the project.

The map needs sagent[code].
"""

from typing import TYPE_CHECKING

from sagent.plugin import Check, Part, Plugin, Setting, Table, ToolEntry, choice

if TYPE_CHECKING:
    from sagent.plugins.code.lsp.tool import Code as Code
    from sagent.plugins.code.map.tool import RepoMap as RepoMap

__all__ = ["Code", "RepoMap", "plugin"]

DIAGNOSTICS = Setting(
    "diagnostics",
    choice("off", "auto", "on"),
    "auto",
    'Literal["auto", "on", "off"]',
    project="lower",
    metavar="WHEN",
    help="report errors after edits, from language servers: auto (default: in a terminal), on or off",
)
LANGUAGE_SERVERS = Table(
    "language_servers",
    "sagent.plugins.code.settings:read_servers",
    "ask",
    show="sagent.plugins.code.settings:show_servers",
)
PACKAGES = (
    "tree-sitter-c tree-sitter-cpp tree-sitter-go tree-sitter-java tree-sitter-javascript "
    "tree-sitter-python tree-sitter-ruby tree-sitter-rust tree-sitter-typescript"
)
"""Packages of the extra code."""
plugin = Plugin(
    "code",
    "language servers, which report errors, find and rename; a map of the project",
    needs=("programs",),
    parts=(Part("sagent.plugins.code.part:add", ("diagnostics=on", "somebody answers", "tool Code"), "around"),),
    settings=(DIAGNOSTICS,),
    tools=(
        ToolEntry("Code", "sagent.plugins.code.lsp.tool:Code", ("code",)),
        ToolEntry("RepoMap", "sagent.plugins.code.map.tool:make", ("code",)),
    ),
    tables=(LANGUAGE_SERVERS,),
    checks=(Check("language servers", "sagent.plugins.code.settings:check_servers"),),
)


def __getattr__(name: str) -> object:
    match name:
        case "Code":
            from sagent.plugins.code.lsp import tool as home
        case "RepoMap":
            from sagent.plugins.code.map import tool as home
        case _:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(home, name)
