"""`/blame`: the origin of a file's lines, in the open session's project."""

import asyncio
from typing import Annotated

from sagent.errors import UsageError
from sagent.repl.commands.command import CommandContext, command
from sagent.repl.view.lines import Line, printable, wrap

MAX_WIDTH = 100  # columns of a card


@command(here=True)
async def blame(context: CommandContext, text: Annotated[str, "FILE[:LINE]"] = "") -> None:
    """Show which prompt and call of an agent wrote the lines of a file.

    FILE:LINE shows one line's prompt, model, approver, cost and proof. A line that nobody can tell is unknown.
    """
    from sagent.plugins.blame.attribution import WrittenByAgent
    from sagent.plugins.blame.card import read_card
    from sagent.plugins.blame.command import make_blame
    from sagent.plugins.blame.report import card_rows, table

    if not text.strip():
        raise UsageError("Give a file, or a line of it: /blame FILE:12")
    settings = context.settings
    made = await asyncio.to_thread(make_blame, text.strip(), settings.cwd, settings.state_dir, "", ())
    lines: list[Line] = []
    if len(made.chosen) == 1:
        for number, line, origin in made.rows():
            card = await asyncio.to_thread(read_card, origin) if isinstance(origin, WrittenByAgent) else None
            for name, value in card_rows(line, origin, card, made.claims.get(number, ())):
                label, shown = ("class:dim", f"{name:11}"), ("", printable(value))
                lines += wrap([shown], min(context.width, MAX_WIDTH), (label,))
    else:
        lines = [(("class:dim", head), ("", f" {row}")) for head, row in table(made)]
    context.write(lines)
