"""The search for tools that are too many to be sent with every request."""

from sagent.plugin import Part, Plugin, ToolEntry

plugin = Plugin(
    "toolsearch",
    "finds tools that are too many to be sent with every request, and calls those that are added later",
    parts=(Part(f"{__name__}.part:add", ("defers tools", "adds tools"), "offered"),),
    tools=(ToolEntry("find_tools"), ToolEntry("call_tool")),
)
