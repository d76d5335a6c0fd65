"""`/agents` and its like: the agents and jobs of the open session."""

import pytest

from sagent.errors import UsageError
from tests.repl.recorded import RecordingContext
from tests.repl.test_slash_commands import Row, check_row

COMMANDS = (
    Row("/agents", "/agents", "root  idle", wrong="x"),
    Row("/enter [agent]", "/enter root", refuses="no terminal to follow", completes="root", wrong="nobody"),
    Row("/send <agent> <message>", "/send nobody hello", refuses="There is no agent 'nobody'"),
    Row("/stop [name]", "/stop", refuses="No turn is in progress", wrong="nobody"),
    Row("/tasks", "/tasks", "no background jobs", wrong="x"),
    Row("/detach <job>", "/detach job:9", refuses="no job 'job:9'; running: none"),
)


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.headless)
async def test_tree_command_row_works(context: RecordingContext, row: Row) -> None:
    await check_row(context, row)


async def test_message_needs_agent_and_text(context: RecordingContext) -> None:
    for line in ("/send root/a", "/send nobody hello"):
        with pytest.raises(UsageError):
            await context.do(line)
