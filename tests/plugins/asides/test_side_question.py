"""`/btw`: read and billed with the conversation, and no part of it."""

import pytest

from sagent.errors import UsageError
from sagent.lib.json import EMPTY
from sagent.messages import Message, ToolCall, ToolResult, user
from sagent.plugins.asides.slash import ROLE, answered
from sagent.testing import ScriptedModel
from tests.repl.recorded import RecordingContext


async def test_side_question_leaves_no_trace(context: RecordingContext) -> None:
    agent = context.opened.agent
    model = agent.state.model
    assert isinstance(model, ScriptedModel)
    await agent.run("a question")
    before, spent = tuple(agent.messages), agent.cost().total
    assert "The answer." in await context.do("/btw why is that?")
    assert tuple(agent.messages) == before
    asked = model.requests[-1].messages
    assert [one.content for one in asked[:-1]] == [one.content for one in before]
    assert "why is that?" in asked[-1].content
    assert agent.cost().total > spent and agent.ledger.totals().by_role[ROLE].charges == 1
    await agent.run("and now?")
    assert not any("why is that?" in one.content for one in model.requests[-1].messages)


async def test_side_question_needs_a_person(context: RecordingContext) -> None:
    context.has_person = False
    with pytest.raises(UsageError, match="person"):
        await context.do("/btw why?")
    assert not context.opened.agent.messages


def test_open_calls_are_left_out() -> None:
    first, second = ToolCall("a", "Read", EMPTY), ToolCall("b", "Read", EMPTY)
    done = [user("x"), Message("assistant", (first,)), Message("user", (ToolResult("a", ()),))]
    assert answered([*done, Message("assistant", (second,))]) == done
    assert answered(done) == done
    assert answered([]) == []
