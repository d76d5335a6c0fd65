"""The tools that the settings choose, made as for an agent."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from sagent.app.assembly import policy_of
from sagent.app.builder import AgentBuilder
from sagent.app.toolset import choose_tools, make_tools
from sagent.config import Settings, load
from sagent.plugin import ToolEntry
from sagent.sandbox import Sandbox
from sagent.surface import Surface
from sagent.tool import Tool


def made(*names: str) -> Sequence[Tool]:
    """Return the tools by these names, of their groups too."""
    settings = load({"tools": ",".join(names)}, {}, Path.cwd())
    return make_tools(choose_tools(settings), builder_of(settings))


def builder_of(settings: Settings) -> AgentBuilder:
    """Return the builder of an agent that nobody watches."""
    policy, sandbox = policy_of(settings), Sandbox("off")
    return AgentBuilder(settings, print, AsyncExitStack(), policy, sandbox, None, None, Surface())


def entries(group: str = "") -> Sequence[ToolEntry]:
    """Return what all plugins have of tools that can be chosen, or of one group."""
    every = load({}, {}, Path.cwd()).plugins.every(ToolEntry)
    return [each for each in every if (group in each.groups if group else each.tool)]
