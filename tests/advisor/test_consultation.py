"""Whatever an advisor answers, or does not, is told to the executor as what it is; the run goes on."""

import asyncio
import math

import pytest

from sagent.errors import ModelError, ModelErrorKind
from sagent.events import Advice
from sagent.messages import Message, Text, Thinking, ToolCall, assistant
from sagent.model import Billed
from sagent.peer import Cancel
from sagent.usage import Charge, Usage
from tests.advisor.cast import OK, Rig, act, ask, oracle, sage, seen, worker
from tests.messages import call


async def one(*lines: object, advisor: str = "strong/oracle", **given: object) -> tuple[Rig, Advice]:
    """A run in which the executor asks once."""
    rig = Rig(worker((ask(),), "done"), oracle(*lines), advisors=[advisor], **given)  # pyright: ignore[reportArgumentType]
    result = await rig.run()
    assert result.content == "done"
    assert result.error is None
    (advice,) = rig.advice
    return rig, advice


async def test_advice_is_an_ordinary_tool_result() -> None:
    rig, advice = await one("VERDICT: adjust\nGAP: no lock\nNEXT: add it\nCHECK: make test")
    assert rig.told() == "advisor advises:\nVERDICT: adjust\nGAP: no lock\nNEXT: add it\nCHECK: make test"
    assert (advice.status, advice.verdict, advice.gaps, advice.next, advice.check) == (
        "answered",
        "adjust",
        ("no lock",),
        "add it",
        "make test",
    )
    assert (advice.advisor, advice.model, advice.trigger) == ("advisor", "strong/oracle", "asked")
    assert rig.deltas[0] == ""
    assert "".join(rig.deltas) == advice.text


async def test_free_text_is_fine() -> None:
    rig, advice = await one("I would add a lock around the cache before anything else.")
    assert (advice.status, advice.verdict) == ("answered", "")
    assert "I would add a lock" in rig.told()


FAILURES: list[tuple[ModelErrorKind, str]] = [
    ("rate_limit", "rate limit"),
    ("overloaded", "overloaded"),
    ("context_overflow", "too long"),
    ("auth", "does not accept the key"),
    ("payment", "requires payment"),
    ("not_found", "does not know the model"),
    ("server", "server"),
    ("network", "network"),
    ("stalled", "stalled"),
    ("cut", "cut"),
    ("protocol", "protocol"),
    ("permission", "permission"),
    ("invalid_request", "invalid_request"),
]


@pytest.mark.parametrize(("kind", "said"), FAILURES)
async def test_failure_ends_no_run_and_says_which(kind: ModelErrorKind, said: str) -> None:
    rig, advice = await one(ModelError(kind, "the words of the provider", provider="strong", model="oracle"))
    assert advice.status == "failed"
    assert said in advice.reason
    assert "the words of the provider" in advice.reason
    assert rig.told() == f"advisor could not be asked: {advice.reason}. Go on without it."
    tally = (await rig.agent.wait()).advisors["advisor"]
    assert (tally.calls, tally.failed, tally.answered) == (1, 1, 0)


async def test_defective_model_ends_no_run() -> None:
    rig, advice = await one(RuntimeError("a defect"))
    assert (advice.status, advice.reason) == ("failed", "RuntimeError: a defect")
    assert "a defect" in rig.told()


async def test_advisor_without_model_ends_no_run() -> None:
    rig = Rig(worker((ask(),), "done"), oracle())
    rig.models.pop("strong/oracle")
    assert (await rig.run()).content == "done"
    assert rig.advice[0].reason == "no model strong/oracle"


async def test_full_disk_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(worker((act("c1", says="x" * 9_000),), (ask(),), "done"), oracle(OK))

    def put(data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(rig.log.blobs, "put", put)
    assert (await rig.run()).content == "done"
    assert rig.statuses == ["failed"]
    assert "No space left" in rig.told()


@pytest.mark.parametrize("stop", ["refusal", "content_filter"])
async def test_refusal_is_declined_and_not_repeated(stop: str) -> None:
    rig, advice = await one(assistant("I cannot help with that.", stop=stop))  # pyright: ignore[reportArgumentType]
    assert (advice.status, advice.text) == ("declined", "I cannot help with that.")
    assert stop in advice.reason
    assert "declined to advise" in rig.told()
    assert (await rig.agent.wait()).advisors["advisor"].declined == 1


@pytest.mark.parametrize("said", ["", "   \n", "Ok."])
async def test_empty_answer_is_declined(said: str) -> None:
    _, advice = await one(Message("assistant", (Text(said),) if said else (), stop="end"))
    assert advice.status == "declined"
    assert "its answer was" in advice.reason


@pytest.mark.parametrize(
    "said",
    [
        "[1] person: Fix the parser.\n[2] executor: I look.",
        "The conversation so far:\n[1] person: Fix",
        "Its instructions, in short:\nYou write code.",
        "Since then:\n[4] call c2: Act {}",
    ],
)
async def test_conversation_echo_is_no_advice(said: str) -> None:
    rig, advice = await one(said)
    assert advice.status == "failed" and "repeated" in advice.reason
    assert said not in rig.told()


async def test_last_message_is_the_request() -> None:
    model = oracle(OK, OK)
    rig = Rig(worker((ask(),), (act("c1"),), (ask("a2", question="And now?"),), "done"), model)
    await rig.run()
    for request in model.requests:
        assert request.messages[-1].role == "user"
        assert "Give your advice" in request.messages[-1].content.rpartition("---")[2]
    assert model.requests[1].messages[-1].content.endswith("The question: And now?")


async def test_proceed_is_a_full_answer() -> None:
    model = oracle("VERDICT: proceed")
    rig = Rig(worker((ask(),), "done"), model)
    await rig.run()
    assert (rig.advice[0].status, rig.advice[0].verdict, rig.advice[0].gaps) == ("answered", "proceed", ())
    system = " ".join(model.requests[0].system.split())
    assert '"proceed" is a full answer' in system
    assert "at most three" in system
    assert "give the command" in system
    assert "never an instruction" in system
    assert model.requests[0].max_output == 2_048


async def test_all_thinking_answer_gets_room_once() -> None:
    eaten = Message("assistant", (Thinking("hm " * 50),), stop="max_tokens")
    model = oracle((eaten, Usage(input=10, output=2_048)), (OK, Usage(input=10, output=90)))
    rig = Rig(worker((ask(),), "done"), model)
    await rig.run()
    (advice,) = rig.advice
    assert advice.status == "answered"
    assert [request.max_output for request in model.requests] == [2_048, 10_240]
    assert advice.usage == Usage(input=20, output=2_138)
    assert advice.usd == rig.ledger.cost().advisor > 0
    assert (await rig.agent.wait()).advisors["advisor"].calls == 1


async def test_second_all_thinking_answer_fails() -> None:
    eaten = Message("assistant", (Thinking("hm"),), stop="max_tokens")
    rig = Rig(worker((ask(),), "done"), oracle(eaten, eaten))
    await rig.run()
    assert rig.statuses == ["failed"]
    assert "cut before it said anything" in rig.told()


async def test_cut_answer_is_told_as_cut() -> None:
    rig, advice = await one(assistant("VERDICT: adjust\nNEXT: first add", stop="max_tokens"))
    assert (advice.status, advice.verdict) == ("cut", "adjust")
    assert "(cut at its length limit)" in rig.told()


async def test_effort_gets_room_for_thinking() -> None:
    model = oracle(OK)
    rig = Rig(worker((ask(),), "done"), model, advisors=["strong/oracle,effort=high"])
    await rig.run()
    assert (model.requests[0].effort, model.requests[0].max_output) == ("high", 16_384)


async def test_role_file_is_the_system_prompt(tmp_path) -> None:
    (tmp_path / "role.md").write_text("You are the security reviewer.")
    model = oracle(OK)
    rig = Rig(worker((ask(),), "done"), model, advisors=["strong/oracle,role=role.md"], setup={"base": tmp_path})
    await rig.run()
    assert model.requests[0].system == "You are the security reviewer."


async def test_advisor_sees_prompt_tools_and_results() -> None:
    """hivemind's saw the task and three texts; advisor-middleware's nothing."""
    model = oracle(OK)
    rig = Rig(worker(("I look.", act("c1", says="the file says 42")), (ask(),), "done"), model, system="Be careful.")
    await rig.run()
    said = seen(model.requests[0])
    for piece in ("Be careful.", "- Act: Acts.", "Fix the parser.", "I look.", "call c1: Act", "the file says 42"):
        assert piece in said
    assert all(not message.calls and not message.results for message in model.requests[0].messages)
    assert model.requests[0].tools == ()


@pytest.mark.parametrize(
    "arguments",
    [{}, {"question": ""}, {"question": "Why?", "context": ["x"], "confidence": 3}, {"question": 42}, {"reason": "x"}],
)
async def test_junk_arguments_are_ignored(arguments: dict[str, object]) -> None:
    rig = Rig(worker((ask(**arguments),), "done"), oracle(OK))  # pyright: ignore[reportArgumentType]
    await rig.run()
    assert rig.statuses == ["answered"]


@pytest.mark.parametrize("junk", [{"question": ["x"]}, {"question": {"text": "x"}}, {"name": [1]}])
async def test_junk_of_wrong_type_is_ignored(junk: dict[str, object]) -> None:
    rig = Rig(worker((ask(**junk),), "done"), oracle(OK))  # pyright: ignore[reportArgumentType]
    await rig.run()
    assert rig.statuses == ["answered"]


async def test_non_object_arguments_are_ignored() -> None:
    rig = Rig(worker((ToolCall("a1", "advisor", malformed="what should I do?"),), "done"), oracle(OK))
    await rig.run()
    assert rig.statuses == ["answered"]


async def test_other_calls_of_turn_are_answered() -> None:
    """LiteLLM answered only the advisor's, and lost the rest."""
    rig = Rig(worker((act("c1", says="one"), ask(), act("c2", says="two")), "done"), oracle((0.01, OK)))
    await rig.run()
    assert [r.call_id for m in rig.agent.messages for r in m.results] == ["c1", "a1", "c2"]
    assert (rig.told("c1"), rig.told("c2")) == ("one", "two")
    assert rig.told().startswith("advisor advises")


async def test_two_questions_in_turn_are_one() -> None:
    model = oracle((0.01, OK))
    rig = Rig(worker((ask(), ask("a2")), "done"), model)
    await rig.run()
    assert len(model.requests) == 1
    assert "nothing has happened since" in rig.told("a2")


async def test_unknown_name_lists_the_advisors() -> None:
    rig = Rig(worker((ask(name="nobody"),), "done"), oracle())
    await rig.run()
    assert "'nobody'; there are advisor" in rig.told()


async def test_broken_off_consultation_is_billed() -> None:
    told = Billed((Charge("oracle", Usage(input=100, output=7)),))
    rig, advice = await one((told, "VERD", ModelError("cut", "gone", provider="strong")))
    assert advice.status == "failed"
    tally = (await rig.agent.wait()).advisors["advisor"]
    assert tally.usage == Usage(input=100, output=7)
    assert tally.usd == rig.ledger.cost().advisor > 0


async def test_unknown_price_is_told_as_unknown() -> None:
    """clawcodex billed 0 USD for 92 % of the cost."""
    rig, advice = await one(OK, prices={"cheap/worker": {"input": 1, "output": 1}})
    assert advice.usd is None
    result = await rig.agent.wait()
    assert result.advisors["advisor"].usd is None
    assert result.advisors["advisor"].usage.output > 0
    assert result.cost.unpriced == ("strong/oracle",)


async def test_advisor_tokens_are_not_in_usage() -> None:
    """Claude Code counted them, and compacted long before its window was full."""
    dear = (OK, Usage(input=150_000, output=900))
    lines = [(ask(), Usage(input=50, output=5)), ("done", Usage(input=60, output=5))]
    rig = Rig(worker(*lines), oracle(dear))
    result = await rig.run()
    assert result.usage == Usage(input=110, output=10)
    assert rig.agent.status().context_tokens < 2_000
    assert result.advisors["advisor"].usage == Usage(input=150_000, output=900)


async def test_cancelled_consultation_keeps_turn() -> None:
    rig = Rig(worker((ask(), act("c1", says="one")), "done"), oracle(("VERD", math.inf)))
    run = asyncio.create_task(rig.run())
    while "VERD" not in rig.deltas:
        await asyncio.sleep(0)
    rig.agent.apply(Cancel())
    result = await asyncio.wait_for(run, 60)
    assert (result.content, result.error) == ("done", None)
    assert all(part in rig.told() for part in ("it was cancelled", "Go on without it"))
    assert rig.told("c1") == "one"
    assert len(asyncio.all_tasks()) == 1


async def test_interruption_ends_consultation() -> None:
    rig = Rig(worker((ask(),), "again"), oracle(("VERD", math.inf)))
    run = asyncio.create_task(rig.run())
    while "VERD" not in rig.deltas:
        await asyncio.sleep(0)
    rig.agent.interrupt()
    result = await asyncio.wait_for(run, 60)
    assert result.stop_reason == "interrupted"
    assert (rig.advice[0].status, rig.advice[0].reason) == ("failed", "interrupted")
    assert (await rig.run("And now?")).content == "again"
    assert len(asyncio.all_tasks()) == 1


async def test_advisor_may_be_executors_model() -> None:
    model = worker((ask(),), OK, "done")
    rig = Rig(model, advisors=["cheap/worker"])
    assert (await rig.run()).content == "done"
    assert rig.statuses == ["answered"]
    assert model.requests[0].conversation != model.requests[1].conversation


async def test_advisor_with_tools_is_billed_to_its_role() -> None:
    look = call("l1", "Act", says="the file says 42")
    child = sage((look, Usage(input=30, output=3)), ("VERDICT: adjust\nNEXT: read it", Usage(input=40, output=4)))
    rig = Rig(worker((ask(),), "done"), child)
    from sagent.advisor.advisor import Advisor
    from sagent.advisor.extension import advise

    with_tools = Advisor("advisor", "other/sage", tools=("Act",))
    advise([with_tools])(rig.agent, None).resume(())  # Read and its like are what a text can name
    assert (await rig.run()).content == "done"
    (advice,) = rig.advice
    assert (advice.status, advice.next) == ("answered", "read it")
    assert advice.usage == Usage(input=70, output=7)
    cost = rig.ledger.cost()
    assert cost.by_role["advisor:advisor"] == cost.advisor == advice.usd > 0  # pyright: ignore[reportOptionalOperand]
    assert [spec.name for spec in child.requests[0].tools] == ["Act"], "advice has no advisors"
    assert "Fix the parser." in seen(child.requests[0])
    assert (await rig.agent.wait()).advisors["advisor"].usage == Usage(input=70, output=7)


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ((Message("assistant", (), stop="end"),) * 2, "declined"),  # it is asked again once
        ((assistant("No.", stop="refusal"),), "declined"),
        ((ModelError("overloaded", "busy", provider="other"),), "failed"),
        (("[1] person: Fix the parser.",), "failed"),
    ],
)
async def test_advisor_with_tools_fails_alike(lines: tuple[object, ...], status: str) -> None:
    from sagent.advisor.advisor import Advisor
    from sagent.advisor.extension import advise

    rig = Rig(worker((ask(),), "done"), sage(*lines))  # pyright: ignore[reportArgumentType]
    advise([Advisor("advisor", "other/sage", tools=("Act",))])(rig.agent, None).resume(())
    assert (await rig.run()).content == "done"
    assert rig.statuses == [status]
    assert rig.advice[0].reason
