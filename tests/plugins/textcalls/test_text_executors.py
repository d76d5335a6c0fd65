"""Executors in the text protocol, and their advisors."""

from sagent.advisor.advisory import Advisors
from sagent.advisor.rules import Rules
from sagent.advisor.tool import prompt_text
from sagent.plugins.textcalls.model import TextModel
from tests.advisor.cast import Rig, act, oracle, seen, worker


async def test_small_text_executor_not_nudged() -> None:
    steps = [(act(f"c{n}", n=n),) for n in range(6)]
    rig = Rig(TextModel(worker(*steps, "done", model_id="qwen2.5-coder-1.5b")), oracle(), rules=Rules())
    await rig.run()
    assert len(rig.agent.messages) > 8
    assert not [m for m in rig.agent.messages if m.sender == "sagent"], "a tool that it was not told of"


async def test_advisor_told_of_blocks_for_text_only() -> None:
    model, other = oracle("VERDICT: adjust"), oracle("VERDICT: adjust")
    rules = Rules(triggers=("no_calls",))
    rig = Rig(TextModel(worker("It is 4.", "It is 5.")), model, rules=rules)
    await rig.run()
    (advice,) = [m.content for m in rig.agent.messages if m.sender.startswith("advisor:")]
    assert advice.endswith(f"VERDICT: adjust\n\n{prompt_text('advised')}")
    assert isinstance(advisory := rig.agent.advisory, Advisors)
    assert all(prompt_text("advised") not in m.content for m in advisory.in_force()), "it was given earlier"
    await Rig(worker("It is 4.", "It is 5."), other, rules=rules).run()
    assert prompt_text("blocks") in seen(model.requests[0])
    assert prompt_text("blocks") not in seen(other.requests[0])
    assert "```" not in seen(other.requests[0])
    assert "You work on the files of a person's project" in seen(model.requests[0])
    assert "- Act: Acts." not in seen(model.requests[0]), "tools that it is not offered"
    assert "- Act: Acts." in seen(other.requests[0])
