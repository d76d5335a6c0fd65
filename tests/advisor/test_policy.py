"""When an advisor is asked unbidden: the rule that fired is told, the advice is a message, and nothing is bought that
nobody reads."""

from pathlib import Path

import pytest

from sagent.advisor.conversation import HELD
from sagent.advisor.policy import AdvisorPolicy
from sagent.advisor.rules import Rules, Trigger
from sagent.agent import RunLimits
from sagent.context.calls import MAX_OUTPUT_CHARS
from sagent.errors import ModelError
from sagent.messages import ToolCall
from sagent.model import Request
from sagent.peer import Switch
from sagent.policy import Ask, Policy, Turn
from sagent.testing.scripted import Line
from sagent.tool import Effect, Workspace
from tests.advisor.cast import OK, Act, Rig, act, ask, oracle, seen, worker
from tests.messages import call


def rules(*triggers: Trigger, **given: object) -> Rules:
    return Rules(triggers=triggers, **given)  # pyright: ignore[reportArgumentType]


def advice_messages(rig: Rig) -> list[str]:
    return [m.content for m in rig.agent.messages if m.sender.startswith("advisor:")]


def fired(rig: Rig) -> list[tuple[str, str]]:
    return [(advice.trigger, advice.status) for advice in rig.advice]


FAIL = {"error": True, "says": "exit 1"}


async def test_failed_turns_bring_advice_message() -> None:
    model = oracle("VERDICT: adjust\nNEXT: read the log")
    rig = Rig(worker((act("c1", **FAIL),), (act("c2", n=2, **FAIL),), "done"), model, rules=rules("failures"))
    await rig.run()
    assert fired(rig) == [("failures", "answered")]
    assert rig.advice[0].question.startswith("2 turns in a row")
    (message,) = advice_messages(rig)
    assert message.startswith("Advice, unasked (2 turns in a row")
    assert "advisor advises:\nVERDICT" in message
    assert all(c.name != "advisor" for m in rig.agent.messages for c in m.calls)
    assert [m.role for m in rig.agent.messages][-3:] == ["user", "user", "assistant"]
    assert "you are asked because 2 turns" in seen(model.requests[0])


async def test_failures_count_during_cooldown() -> None:
    """hivemind returned before its bookkeeping, and never counted what failed in a cooldown."""
    steps = [(act(f"c{n}", n=n, **FAIL),) for n in range(6)]
    rig = Rig(
        worker(*steps, "done"),
        oracle(OK, OK),
        rules=rules("failures", cooldown_turns=2, failure_threshold=2),
    )
    await rig.run()
    # asked after turn 2; 3 and 4 are the pause, and count, so that the fifth turn needs no second failure after it
    assert [len(a.question) > 0 for a in rig.advice] == [True, True]
    assert rig.advice[1].question.startswith("3 turns in a row")


async def test_marker_with_done_buys_read_advice() -> None:
    """hivemind bought it after the answer that ended the turn."""
    executor = worker("[DONE] It works. [NEED_ADVICE: is it?]", "Then it is.")
    rig = Rig(executor, oracle(OK), rules=rules("need_advice"))
    result = await rig.run()
    assert result.content == "Then it is."
    assert fired(rig) == [("need_advice", "answered")]
    assert "advisor advises" in executor.requests[1].messages[-1].content


async def test_nothing_is_bought_for_last_turn() -> None:
    rig = Rig(
        worker(("[NEED_ADVICE] [CONFIDENCE:0.1] [CONTRADICTED: x]", act("c1"))),
        oracle(),
        rules=rules("need_advice", "confidence", "done"),
        limits=RunLimits(max_turns=1),
    )
    assert (await rig.run()).stop_reason == "max_turns"
    assert rig.advice == []


async def test_first_write_waits_for_advice() -> None:
    write = Act("Write", "write")
    executor = worker(
        (act("c1"),),
        (call("w1", "Write", path="a"), call("w2", "Write", path="b"), act("c2")),
        (call("w3", "Write", path="a"),),
        (call("w4", "Write", path="b"),),
        "done",
    )
    model = oracle("VERDICT: adjust\nNEXT: write it to b")
    rig = Rig(executor, model, rules=rules("first_write"), tools=[write])
    await rig.run()
    assert fired(rig) == [("first_write", "answered")]
    assert (rig.told("w1"), rig.told("w2")) == (HELD, HELD), "nothing is changed before the advice is read"
    assert rig.told("c2") == "done"
    assert len(write.done) == 2
    assert executor.requests[2].messages[-1].content.startswith("Advice, unasked")


async def test_second_task_has_its_first_write() -> None:
    write = Act("Write", "write")
    steps = [(call(f"w{n}", "Write", n=n),) for n in range(4)]
    rig = Rig(
        worker(steps[0], steps[1], "one", steps[2], steps[3], "two"),
        oracle(OK, OK),
        rules=rules("first_write"),
        tools=[write],
    )
    await rig.run("First.")
    await rig.run("Second.")
    assert fired(rig) == [("first_write", "answered")] * 2
    assert [advice.verdict for advice in rig.advice] == ["proceed", "proceed"]


async def test_changing_shell_command_is_first_write() -> None:
    shell = Act("Bash", "execute")
    steps = [("pytest -q",), ("echo x > f",), ("echo x > f",)]
    executor = worker(*((call(f"b{n}", "Bash", command=c),) for n, (c,) in enumerate(steps)), "done")
    rig = Rig(executor, oracle(OK), rules=rules("first_write"), tools=[shell])
    await rig.run()
    assert [str(done["command"]) for done in shell.done] == ["pytest -q", "echo x > f"]
    assert rig.told("b1") == HELD


async def test_asked_before_first_write_is_enough() -> None:
    write = Act("Write", "write")
    rig = Rig(worker((ask(),), (call("w1", "Write"),), "done"), oracle(OK), rules=rules("first_write"), tools=[write])
    await rig.run()
    assert fired(rig) == [("asked", "answered")]
    assert len(write.done) == 1


async def test_change_beside_question_waits() -> None:
    write = Act("Write", "write")
    executor = worker((ask(), call("w1", "Write")), (call("w2", "Write"),), "done")
    rig = Rig(executor, oracle(OK), rules=rules("first_write"), tools=[write])
    await rig.run()
    assert fired(rig) == [("asked", "answered")]
    assert rig.told("w1") == HELD
    assert len(write.done) == 1


async def test_destructive_act_is_asked_about_once() -> None:
    shell = Act("Bash", "execute")
    commands = ["git commit -m 'rm -rf old'", "rm -rf build", "rm -rf build", "rm -rf dist", "rm -rf build"]
    executor = worker(*((call(f"b{n}", "Bash", command=c),) for n, c in enumerate(commands)), "done")
    rig = Rig(executor, oracle(OK, OK), rules=rules("destructive"), tools=[shell])
    await rig.run()
    assert [advice.question.rpartition(": ")[2] for advice in rig.advice] == ["rm -rf build", "rm -rf dist"]
    assert [rig.told(f"b{n}") == HELD for n in range(5)] == [False, True, False, True, False]


async def test_gate_holds_every_other_act() -> None:
    """Nothing has happened since the advice, so that it used to be withheld, and the other command was run."""
    shell = Act("Bash", "execute")
    commands = ["rm -rf a", "ls | xargs rm", "python -c 'import shutil; shutil.rmtree(\"b\")'", "git clean -fd", "ls"]
    executor = worker(*((call(f"b{n}", "Bash", command=c),) for n, c in enumerate(commands)), "done")
    model = oracle(*["VERDICT: stop\nGAP: it deletes the data"] * 4)
    rig = Rig(executor, model, rules=rules("destructive"), tools=[shell])
    await rig.run()
    assert fired(rig) == [("destructive", "answered")] * 4
    assert [done["command"] for done in shell.done] == ["ls"]


async def test_rewritten_script_is_another_act(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    texts = ["rm a\n", "rm a\n", "rm b\n", "rm b\n", "ls\n"]

    def running(number: int) -> Line:
        def play(request: Request) -> tuple[ToolCall, ...]:
            del request
            (tmp_path / "s.sh").write_text(texts[number])
            return (call(f"b{number}", "Bash", command="sh s.sh"),)

        return play

    executor = worker(*map(running, range(5)), "done")
    rig = Rig(executor, oracle(OK, OK), rules=rules("destructive"), tools=[Act("Bash", "execute")])
    await rig.run()
    assert [rig.told(f"b{n}") == HELD for n in range(5)] == [True, False, True, False, False]


@pytest.mark.costly
@pytest.mark.parametrize(
    ("given", "script", "why"),
    [
        (rules("destructive", max_advisor_calls=0), (), "the 0 consultations of this task are used up"),
        (rules("destructive"), (ModelError("overloaded", "busy", provider="strong"),), "could not be asked"),
    ],
)
async def test_unadvised_act_is_held_once(given: Rules, script: tuple[Line, ...], why: str) -> None:
    shell = Act("Bash", "execute")
    executor = worker(*((call(f"b{n}", "Bash", command="rm -rf a"),) for n in range(2)), "done")
    rig = Rig(executor, oracle(*script), rules=given, tools=[shell])
    await rig.run()
    assert rig.told("b0").startswith("Not done yet: ")
    assert why in rig.told("b0")
    assert len(shell.done) == 1


async def test_deleting_tool_is_held_too() -> None:
    tool = Act("mcp__files__delete_file", "execute")
    executor = worker((call("m", "mcp__files__delete_file", path="a"),), "done")
    rig = Rig(executor, oracle(OK), rules=rules("destructive"), tools=[tool])
    await rig.run()
    assert (rig.told("m"), tool.done) == (HELD, [])


@pytest.mark.parametrize("reply", ["[NEED_ADVICE: a or b?]", "It is done, I think. [NEED_ADVICE]"])
async def test_unanswerable_question_returns_reason(reply: str) -> None:
    executor = worker(reply, "b, then.")
    rig = Rig(executor, oracle(), rules=rules("need_advice", max_advisor_calls=0))
    result = await rig.run()
    assert (result.content, result.error) == ("b, then.", None)
    said = executor.requests[1].messages[-1].content
    assert all(part in said for part in ("there is none", "the 0 consultations"))


@pytest.mark.parametrize("advisors", [(), ("strong/oracle",)])
async def test_question_is_never_the_answer(advisors: tuple[str, ...]) -> None:
    rig = Rig(worker("[NEED_ADVICE: a or b?]", "b, then."), oracle(), advisors=advisors)
    assert (await rig.run()).content == "b, then."
    rig = Rig(worker(*["[NEED_ADVICE]"] * 9), oracle(), advisors=advisors)
    result = await rig.run()
    assert (result.is_error, result.stop_reason) == (True, "need_advice")
    assert result.turns < 9


async def test_mention_of_marker_is_an_answer() -> None:
    text = "Write `[NEED_ADVICE: what]` to ask:\n```\n[NEED_ADVICE]\n```"
    assert (await Rig(worker(text), oracle(), rules=Rules()).run()).content == text


async def test_unasked_advice_has_same_length_limit() -> None:
    long = f"VERDICT: adjust\n{'word ' * 20_000}"
    rig = Rig(
        worker((act("c1", **FAIL),), (act("c2", n=2, **FAIL),), (ask(),), "done"),
        oracle(long, long),
        rules=rules("failures"),
    )
    await rig.run()
    (message,) = advice_messages(rig)
    assert len(message) < MAX_OUTPUT_CHARS + 200
    assert len(rig.told()) < MAX_OUTPUT_CHARS + 200


async def test_asked_call_is_advised_on_first() -> None:
    class Asks:
        async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Ask:
            return Ask("May it?")

        async def after_turn(self, turn: Turn) -> tuple[()]:
            return ()

    asked: list[str] = []

    async def person(call: ToolCall, question: object) -> None:
        asked.append(call.id)

    shell = Act("Bash", "execute")
    policy: Policy = Asks()
    executor = worker((call("b0", "Bash", command="rm -rf x"),), (call("b1", "Bash", command="rm -rf x"),), "done")
    rig = Rig(executor, oracle(OK), rules=rules("destructive"), tools=[shell], ask=person)
    rig.agent.state.judge = policy
    rig.agent.state.policy = AdvisorPolicy(rig.agent.advisory, policy)  # pyright: ignore[reportArgumentType]
    await rig.run()
    assert fired(rig) == [("destructive", "answered")]
    assert asked == ["b1"]


async def test_failed_checkpoint_holds_nothing() -> None:
    write = Act("Write", "write")
    failing = oracle(ModelError("overloaded", "busy", provider="strong"))
    rig = Rig(worker((call("w1", "Write"),), "done"), failing, rules=rules("first_write"), tools=[write])
    await rig.run()
    assert fired(rig) == [("first_write", "failed")]
    assert len(write.done) == 1


async def test_done_is_asked_once_after_a_change() -> None:
    write = Act("Write", "write")
    rig = Rig(worker((call("w1", "Write"),), "Done.", "Done indeed."), oracle(OK), rules=rules("done"), tools=[write])
    assert (await rig.run()).content == "Done indeed."
    assert fired(rig) == [("done", "answered")]
    other = Rig(worker("An answer."), oracle(), rules=rules("done"))
    assert (await other.run()).content == "An answer."


async def test_answer_without_calls_is_asked_once() -> None:
    rig = Rig(worker("It is 4.", "It is 5."), oracle("VERDICT: adjust\nNEXT: count them"), rules=rules("no_calls"))
    assert (await rig.run()).content == "It is 5."
    assert fired(rig) == [("no_calls", "answered")]
    other = Rig(worker((act("c1"),), "It is 5."), oracle(), rules=rules("no_calls"))
    assert (await other.run()).content == "It is 5."
    assert other.advice == []


@pytest.mark.costly
@pytest.mark.parametrize("trigger", ["done", "no_change", "no_calls"])
async def test_answer_the_advisor_agrees_with_stays(trigger: Trigger) -> None:
    """A small model that is asked once more says that it is done, and no longer what was asked."""
    calls = {"done": [(call("w1", "Write"),)], "no_change": [(act("c1"),)], "no_calls": []}
    steps = [*calls[trigger], "It is 5."]
    given = rules("done", "no_change", "no_calls")
    rig = Rig(worker(*steps), oracle("VERDICT: proceed"), rules=given, tools=[Act("Write", "write")])
    result = await rig.run()
    assert (result.content, result.turns) == ("It is 5.", len(steps))
    assert fired(rig) == [(trigger, "answered")]
    assert advice_messages(rig) == []


async def test_benign_words_bring_no_advice() -> None:
    text = "error: this failed with an exception; I need advice; confidence 0.1; done; stop; rejected"
    steps = [(f"{text} {'x' * n}", act(f"c{n}", n=n, says="Traceback: error: FAILED")) for n in range(3)]
    rig = Rig(worker(*steps, text), oracle(), rules=Rules(triggers=("failures", "confidence", "need_advice")))
    await rig.run()
    assert rig.advice == []


async def test_cooldown_delays_unasked_advice() -> None:
    steps = [(f"[CONFIDENCE:0.1] step {n}", act(f"c{n}", n=n)) for n in range(7)]
    rig = Rig(worker(*steps, "done"), oracle(*[OK] * 7), rules=rules("confidence", cooldown_turns=2))
    await rig.run()
    assert len(rig.advice) == 3, "after turns 1, 4 and 7"


async def test_without_triggers_nobody_is_asked() -> None:
    steps = [("[NEED_ADVICE] [CONFIDENCE:0]", act(f"c{n}", **FAIL)) for n in range(4)]
    rig = Rig(worker(*steps, "done"), oracle())
    await rig.run()
    assert rig.advice == []


async def test_small_executor_is_nudged_once() -> None:
    steps = [(act(f"c{n}", n=n),) for n in range(6)]
    small = worker(*steps, "done", model_id="claude-haiku-4-5")
    rig = Rig(small, oracle(), rules=Rules())
    await rig.run()
    nudges = [m.content for m in rig.agent.messages if m.sender == "sagent"]
    assert len(nudges) == 1
    assert "call `advisor` first" in nudges[0]
    assert rig.agent.messages[7].sender == "sagent", "after its third turn"


@pytest.mark.parametrize("model_id", ["claude-haiku-4-5", "llama-3.1-70b", "claude-opus-4-6"])
@pytest.mark.parametrize("kind", ["failures", "stagnation", "confidence"])
async def test_default_twelve_bad_turns_bring_advice(model_id: str, kind: str) -> None:
    steps = {
        "failures": [(act(f"c{n}", n=n, **FAIL),) for n in range(12)],
        "stagnation": [(act(f"c{n}"),) for n in range(12)],
        "confidence": [("[CONFIDENCE:0.2]", act(f"c{n}", n=n)) for n in range(12)],
    }
    rig = Rig(worker(*steps[kind], "done", model_id=model_id), oracle(*[OK] * 5), rules=Rules())
    await rig.run()
    assert (kind, "answered") in fired(rig)


async def test_executor_is_told_how_to_ask() -> None:
    executor = worker("done", model_id="claude-opus-4-6")
    await Rig(executor, oracle(), rules=Rules()).run()
    (told,) = [spec.description for spec in executor.requests[0].tools if spec.name == "advisor"]
    assert "[NEED_ADVICE: what about]" in told
    assert "[CONFIDENCE: 0.3]" in told
    alone = worker("done")
    await Rig(alone, advisors=()).run()
    assert "[NEED_ADVICE" not in repr(alone.requests[0]), "who has nobody to ask pays for no word about it"


@pytest.mark.parametrize("model_id", ["claude-sonnet-4-6", "claude-opus-4-6"])
async def test_larger_executors_are_not_nudged(model_id: str) -> None:
    rig = Rig(worker(*((act(f"c{n}", n=n),) for n in range(6)), "done", model_id=model_id), oracle(), rules=Rules())
    await rig.run()
    assert [m for m in rig.agent.messages if m.sender == "sagent"] == []


async def test_muted_advisors_are_asked_by_no_rule() -> None:
    steps = [("[NEED_ADVICE]", act(f"c{n}", n=n, **FAIL)) for n in range(4)]
    rig = Rig(worker(*steps, "done"), oracle(), rules=rules("need_advice", "failures"))
    rig.agent.apply(Switch(advisor="off"))
    await rig.run()
    assert rig.advice == []


async def test_rule_buys_nothing_twice_without_news() -> None:
    """An answer, and again the same doubt: nothing has happened since."""
    rig = Rig(
        worker("[CONFIDENCE:0.1] a", "[CONFIDENCE:0.1] b"), oracle(OK), rules=rules("confidence", cooldown_turns=0)
    )
    await rig.run()
    assert [advice.status for advice in rig.advice] == ["answered", "withheld"]
    assert rig.advice[1].reason.startswith("nothing has happened since")
