"""`/why`: where the money, tokens and time of the open session went."""

import asyncio
from pathlib import Path

from sagent.errors import UsageError
from sagent.repl.commands.command import CommandContext, command
from sagent.repl.view.lines import Line, Span, table


@command(here=True)
async def why(context: CommandContext, model: str = "") -> None:
    """Show where this session's money, tokens and time went.

    And at most three changes that would have made it cheaper, each checked against the requests in its log. With a
    model's name, also what its list price is for as many tokens.
    """
    from sagent.app.models import price_book
    from sagent.lib.text import Table
    from sagent.plugins.why.blocks import NARROW_COLUMNS, session_blocks
    from sagent.plugins.why.command import explain, without_secrets_in
    from sagent.plugins.why.pages import as_lines
    from sagent.transcript.redaction import Redaction

    log, settings, width = context.opened.agent.log, context.settings, max(context.width - 2, 20)
    if not log.path:
        raise UsageError("This session is not saved, so there is no log to read.")
    models = (model,) if model else ()
    found = await asyncio.to_thread(lambda: explain(Path(log.path), price_book(settings), models, settings.rows))
    redaction = Redaction()
    blocks = (without_secrets_in(block, redaction) for block in session_blocks(*found, narrow=width < NARROW_COLUMNS))
    lines: list[Line] = []
    for block in as_lines(blocks, width):
        if isinstance(block, Table):
            rows: list[list[Span]] = [[("class:dim", title) for title in block.titles]]
            rows += ([("", cell) for cell in row] for row in block.rows)
            lines += table(rows, right=block.right)
        else:
            lines.append((("", f"  {block}" if block else ""),))
    context.write(lines)
