"""The explanation of a call that the person is asked about: paid for, and nowhere in the conversation."""

from collections.abc import Sequence

import pytest
from samples import CALL

from sagent.advisor.extension import advise
from sagent.agent import Agent, Resources
from sagent.errors import ModelError
from sagent.policy import Ask
from sagent.repl.explaining import ROLE, explain
from sagent.repl.view.lines import plain
from sagent.testing import ScriptedModel
from sagent.testing.scripted import Line


def agent_with(models: Sequence[ScriptedModel], advisor: str) -> "Agent[object]":
    by_name = {f"{model.provider}/{model.id}": model for model in models}
    advisory = advise([advisor]) if advisor else None
    return Agent(models[0], resources=Resources(resolve=by_name.__getitem__, advisory=advisory))


@pytest.mark.parametrize("advisor", ["", "scripted/strong"])
async def test_explanation_leaves_no_trace(advisor: str) -> None:
    own, strong = ScriptedModel("Hello.", "It runs the tests."), ScriptedModel("It runs the tests.", model_id="strong")
    agent = agent_with([own, strong], advisor)
    await agent.run("go")
    before = agent.messages
    shown = plain(await explain(agent, CALL, Ask("Why."), 80))
    assert "It runs the tests." in shown
    assert (advisor or "/") in shown
    assert agent.messages == before
    asked = (strong if advisor else own).requests[-1]
    assert "make test" in asked.messages[-1].content
    assert not asked.tools
    assert ROLE in agent.ledger.totals().by_role


async def test_failed_explanation_is_said() -> None:
    failed: Line = ModelError("auth", "no such key", provider="scripted")
    agent = agent_with([ScriptedModel(failed)], "")
    assert "no such key" in plain(await explain(agent, CALL, Ask("Why."), 80))
