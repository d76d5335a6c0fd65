"""Going back in a session, at the terminal: before a prompt, to another branch, in a copy; and what became of files."""

from sagent.plugin import Plugin, SlashCommand

_SLASH = f"{__name__}.slash"
plugin = Plugin(
    "branches",
    "goes back in a session, with its files, and shows its branches, at the terminal",
    slash_commands=(
        SlashCommand("rewind", f"{_SLASH}:rewind"),
        SlashCommand("diff", f"{_SLASH}:diff"),
        SlashCommand("tree", f"{_SLASH}:show_tree"),
        SlashCommand("fork", f"{_SLASH}:fork"),
    ),
)
