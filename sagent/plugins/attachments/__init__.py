"""Files that a person attaches to a message with `@path`: the agent has read them."""

from sagent.plugin import Part, Plugin

plugin = Plugin(
    "attachments",
    "files attached whole to a message count as read, so that they can be changed at once",
    parts=(Part("sagent.plugins.attachments.reading:add", ("somebody answers",)),),
)
