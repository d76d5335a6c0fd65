"""`/agents` and its like: the agents and jobs of the open session."""

import pytest

from sagent.errors import UsageError
from sagent.peer import SpawnRequest
from sagent.plugins.tree import slash
from tests.repl.recorded import RecordingContext
from tests.repl.test_slash_commands import Row, check_row

COMMANDS = (
    Row("/agents [cost|state|report|words]", "/agents", "root  idle", completes="cost"),
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


async def fleet(context: RecordingContext, size: int) -> None:
    """Agents below the root that have answered; each got a longer task than the one before, and cost more."""
    for number in range(size):
        task = f"Check file {number}. " + "word " * 40 * number
        request = SpawnRequest(task, name=f"check-{number:02}", model="other", persistent=True)
        child = await context.opened.agent.spawn(request)
        await child.wait()


async def test_many_agents_are_summed_up(context: RecordingContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slash, "MAX_LISTED", 10)
    await fleet(context, 15)
    shown = await context.do("/agents")
    rows = [line.split()[0] for line in shown.splitlines() if "check-" in line]
    assert shown.startswith("  16 agents: 16 idle; $")
    assert rows == [f"root/check-{number:02}" for number in range(14, 4, -1)]
    assert "6 more: /agents WORDS" in shown


async def test_agents_are_filtered_and_sorted(context: RecordingContext) -> None:
    await fleet(context, 12)
    shown = await context.do("/agents check-1 idle")
    assert [line.split()[0] for line in shown.splitlines()[1:]] == ["root/check-10", "root/check-11"]
    dearest = [line.split()[0] for line in (await context.do("/agents cost")).splitlines()]
    assert dearest[:2] == ["root/check-11", "root/check-10"]
    assert (await context.do("/agents")).splitlines()[0].split()[0] == "root"
    with pytest.raises(UsageError, match="None of the 13 agents has 'nobody'"):
        await context.do("/agents nobody")


async def test_report_tells_task_and_cost(context: RecordingContext) -> None:
    await fleet(context, 3)
    once = await context.opened.agent.spawn(SpawnRequest("Look once.", name="once", model="other"))
    await once.wait()
    rows = [row.split() for row in (await context.do("/agents report")).splitlines()]
    assert [row[0] for row in rows[:3]] == ["root/check-02", "root/check-01", "root/check-00"]
    assert rows[0][1:4] == ["idle", "1", "call"]
    assert rows[2][-3:] == ["Check", "file", "0."]
    assert next(row for row in rows if row[0] == "root/once")[1] == "ended"
    assert rows[-1][:4] == [str(len(rows) - 1), "agents,", "4", "calls:"]


async def test_enter_offers_agents_by_state(context: RecordingContext) -> None:
    await fleet(context, 2)
    with pytest.raises(UsageError):
        await context.do("/enter")
    assert [option.value for option in context.offered] == ["root", "root/check-00", "root/check-01"]
    assert all("idle $" in option.hint for option in context.offered)
