"""Slash commands for going back: checked, completed and run without a terminal."""

import pytest

from tests.repl.recorded import RecordingContext
from tests.repl.test_slash_commands import Row, check_row

COMMANDS = (
    Row("/rewind [prompt]", "/rewind 1", wrong="77"),
    Row("/fork [prompt]", "/fork", refuses="not saved", wrong="77"),
    Row("/diff [file] [what]", "/diff", "This session has changed no files"),
    Row("/tree", "/tree", "1 ● a question", wrong="x"),
)


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.headless)
async def test_headless_branch_command(context: RecordingContext, row: Row) -> None:
    await check_row(context, row)
