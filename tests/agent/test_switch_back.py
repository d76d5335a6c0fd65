"""A switch to a model that turns out not to answer: the one before it goes on, and is told."""

import pytest

from sagent.agent import Agent, Resources
from sagent.errors import ModelError, ModelErrorKind
from sagent.events import Notice, Switched
from sagent.peer import Switch
from sagent.testing import ScriptedModel


@pytest.mark.parametrize("kind", ["not_found", "auth", "permission", "payment", "invalid_request"])
async def test_unusable_model_switch_is_undone(kind: ModelErrorKind) -> None:
    before = ScriptedModel("one", lambda request: request.messages[-1].content)
    wrong = ScriptedModel(ModelError(kind, "no such model", provider="scripted", model="nonsense"))
    wrong.id = "nonsense"
    agent = Agent(before, resources=Resources(resolve=lambda _: wrong))
    heard: list[str] = []
    agent.listen(lambda event: heard.append(event.text) if isinstance(event, Notice) else None)
    await agent.run("go")
    agent.apply(Switch(model="scripted/nonsense"))
    result = await agent.run("and now?")
    assert result.content.endswith("scripted/nonsense: no such model")
    assert heard == [result.content]
    assert agent.model is before


async def test_answered_model_keeps_its_place() -> None:
    before, after = ScriptedModel("one"), ScriptedModel("two", ModelError("auth", "expired", provider="scripted"))
    agent = Agent(before, resources=Resources(resolve=lambda _: after))
    switched: list[str] = []
    agent.listen(lambda event: switched.append(event.what) if isinstance(event, Switched) else None)
    agent.apply(Switch(model="scripted/other"))
    assert (await agent.run("go")).content == "two"
    with pytest.raises(ModelError, match="expired"):
        await agent.run("again")
    assert agent.model is after
    assert len(switched) == 1
