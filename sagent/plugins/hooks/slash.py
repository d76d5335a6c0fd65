"""The command that lists hooks."""

from sagent.errors import UsageError
from sagent.plugin import HookEvent
from sagent.plugins.hooks import HOOKS
from sagent.repl.commands.command import CommandContext, command
from sagent.repl.view.lines import table


@command(name="hooks", here=True)
async def show_hooks(context: CommandContext) -> None:
    """List the hooks, and where they come from."""
    from sagent.config.report import table_rows

    rows = list(table_rows(context.settings, HOOKS))
    if not rows:
        raise UsageError(
            "There are no hooks: add [[hooks.PreToolUse]] to your config.toml, with a command or a url. Events: "
            f"{', '.join(context.settings.plugins.named(HookEvent))}."
        )
    context.write(table([("", row.value), ("class:dim", row.origin)] for row in rows))
