"""A call that was cut is never made, by a node that takes over either."""

import pytest

from sagent import Agent
from sagent.messages import assistant, user
from sagent.plugins.mesh.opencalls import answer_open_calls
from sagent.testing import ScriptedModel
from tests.agent.test_cut_calls import CUT_CALL, Wipe


@pytest.mark.parametrize("ran", [True, False])
async def test_new_node_skips_cut_call(ran: bool) -> None:
    wipe = Wipe()
    agent = Agent(ScriptedModel(), tools=[wipe.tool])
    agent.state.add(user("go"))
    agent.state.add(assistant("", CUT_CALL, stop="max_tokens"))
    await answer_open_calls(agent, "n1", lambda path, call: ran)
    assert wipe.paths == []
    assert "was not run" in agent.messages[-1].results[0].text
    await agent.aclose()
