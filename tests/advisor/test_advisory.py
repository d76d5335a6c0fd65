"""Who is asked and how often: bounds in code, several by name, switched, muted, stopped, resumed."""

# Parts of recordings, JSON and SDK objects are read as what they must be; a wrong one fails the test.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false

import asyncio
import math
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pytest

from sagent.advisor.advisor import Advisor
from sagent.advisor.advisory import COMPARED_TURNS, UNASKED_HINT_TURNS, Setup
from sagent.advisor.extension import advise
from sagent.advisor.rules import Rules
from sagent.agent import Agent, Resources, RunLimits, Tree
from sagent.errors import ModelError, UsageError
from sagent.events import Advised
from sagent.messages import Message, ToolCall, assistant
from sagent.model import Request
from sagent.peer import Compact, Consult, Switch
from sagent.session.blobs import BlobDirectory
from sagent.session.entries import read_body
from sagent.session.folds import history
from sagent.session.log import FileLog
from sagent.testing import ScriptedModel
from sagent.usage import Usage
from tests.advisor.cast import OK, QUIET, Rig, act, ask, oracle, sage, seen, worker
from tests.messages import call

STOP = "VERDICT: stop\nGAP: this deletes the customer's data"


def asking(count: int, first: int = 0) -> list[tuple[object, ...]]:
    """Turns that each bring something new and a question."""
    return [(act(f"c{n}", n=n), ask(f"a{n}", question=f"q{n}")) for n in range(first, first + count)]


# -- bounds ------------------------------------------------------------------------------------------------------------


async def test_consultations_are_limited_per_task() -> None:
    rig = Rig(
        worker(*asking(3), "one", *asking(2, 3), "two"),
        oracle(*[OK] * 4),
        rules=Rules(triggers=(), max_advisor_calls=2),
    )
    await rig.run("First.")
    assert rig.statuses == ["answered", "answered", "withheld"]
    assert all(part in rig.told("a2") for part in ("the 2 consultations of this task", "Go on by yourself"))
    await rig.run("Second.")
    assert rig.statuses[3:] == ["answered", "answered"]


async def test_consultations_are_limited_per_session() -> None:
    rules = Rules(triggers=(), max_session_calls=3)
    rig = Rig(worker(*asking(2), "one", *asking(2, 2), "two"), oracle(*[OK] * 3), rules=rules)
    await rig.run()
    await rig.run()
    assert rig.statuses == ["answered"] * 3 + ["withheld"]
    assert "of this session are used up" in rig.told("a3")


async def test_advisor_has_its_own_calls() -> None:
    rig = Rig(worker(*asking(2), "one"), oracle(OK), advisors=["strong/oracle,max_calls=1"])
    await rig.run()
    assert rig.statuses == ["answered", "withheld"]
    assert "its 1 calls of this session" in rig.told("a1")


async def test_failed_consultations_count_as_calls() -> None:
    failing = oracle(*(ModelError("overloaded", "busy", provider="strong") for _ in range(2)))
    rig = Rig(worker(*asking(3), "one"), failing, rules=Rules(triggers=(), max_advisor_calls=2))
    await rig.run()
    assert rig.statuses == ["failed", "failed", "withheld"]


async def test_usd_are_bounded_before_the_call() -> None:
    rig = Rig(
        worker(*asking(2), "one"),
        oracle((OK, Usage(input=1_000, output=2_000))),
        advisors=["strong/oracle,max_usd=0.1"],
    )
    await rig.run()
    assert rig.statuses == ["answered", "withheld"]
    assert "0.0450 of its $0.1 are left" in rig.told("a1")
    assert rig.ledger.cost().advisor <= Decimal("0.1")


async def test_share_of_cost_is_bounded() -> None:
    """The consultation about to be made included: the first would be half of all that there is."""
    spent = [1, 100_000, 1, 1]
    lines = [(*line, Usage(input=tokens, output=10)) for line, tokens in zip(asking(4), spent, strict=True)]
    dear = (OK, Usage(input=20_000, output=2_000))
    rig = Rig(worker(*lines, "one"), oracle(dear), rules=Rules(triggers=(), max_share=0.5))
    await rig.run()
    assert rig.statuses == ["withheld", "answered", "withheld", "withheld"]
    assert "beyond their share of 50%" in rig.told("a0")


async def test_tokens_are_bounded() -> None:
    rig = Rig(
        worker(*asking(2), "one"),
        oracle((OK, Usage(input=4_000, output=100))),
        rules=Rules(triggers=(), max_tokens=6_000),
    )
    await rig.run()
    assert rig.statuses == ["answered", "withheld"]
    assert "1900 are left of the 6000" in rig.told("a1")


@pytest.mark.parametrize("rules", [Rules(triggers=(), max_usd=Decimal(1)), Rules(triggers=(), max_share=0.5)])
async def test_money_bound_needs_known_prices(rules: Rules) -> None:
    rig = Rig(worker(*asking(1), "one"), oracle(), rules=rules, prices={"cheap/worker": {"input": 1, "output": 1}})
    await rig.run()
    assert rig.statuses == ["withheld"]
    assert "its price is not known" in rig.told("a0")


@pytest.mark.parametrize(
    "rules",
    [
        Rules(triggers=(), max_session_calls=2),
        Rules(triggers=(), max_usd=Decimal("0.12")),
        Rules(triggers=(), max_tokens=6_000),
        Rules(triggers=(), max_share=0.4),
    ],
)
async def test_bounds_hold_for_parallel_consultations(rules: Rules) -> None:
    """Four agents of one tree ask at once."""
    slow = [(0.02, OK, Usage(input=500, output=2_000)) for _ in range(4)]
    model = oracle(*slow)
    (line,) = asking(1)
    asked = (*line, Usage(input=100_000))
    first = Rig(worker(asked, "done"), model, rules=rules)
    others = [Rig(worker(asked, "done"), model, rules=rules) for _ in range(3)]
    make = advise(["strong/oracle"], Setup(rules=rules))
    for rig in (first, *others):
        rig.agent.state.ledger = first.ledger
        make(rig.agent, None).resume(())
    await asyncio.gather(*(rig.run() for rig in (first, *others)))
    statuses = [status for rig in (first, *others) for status in rig.statuses]
    made = len(model.requests)
    assert 1 <= made <= (4 if rules.max_share else 2)
    assert rules.max_share is None or first.ledger.cost().advisor <= Decimal("0.4") * first.ledger.cost().total
    assert sorted(statuses) == sorted(["answered"] * made + ["withheld"] * (4 - made))
    assert rules.max_usd is None or first.ledger.cost().advisor <= rules.max_usd


async def test_second_answer_needs_money_for_two() -> None:
    eaten = (Message("assistant", (), stop="max_tokens"), Usage(input=1_000, output=2_048))
    model = oracle(eaten)
    rig = Rig(worker(*asking(1), "one"), model, advisors=["strong/oracle,max_usd=0.1"])
    await rig.run()
    assert rig.statuses == ["failed"]
    assert len(model.requests) == 1


async def test_advisor_with_tools_keeps_its_bound() -> None:
    def look(request: Request) -> tuple[object, ...]:
        return call(f"l{len(request.messages)}", "Act", number=len(request.messages)), Usage(
            input=500, output=min(500, request.max_output or 500)
        )

    endless = sage(*[look] * 12)
    rig = Rig(worker(*asking(1), "done"), endless)
    bounded = Advisor("advisor", "other/sage", max_usd=Decimal("0.08"), tools=("Act",))
    advise([bounded], Setup(rules=QUIET))(rig.agent, None).resume(())
    result = await rig.run()
    assert result.content == "done"
    assert 0 < rig.ledger.cost().advisor <= Decimal("0.08")
    assert len(endless.requests) < 12
    assert rig.statuses == ["failed"]
    assert "budget" in rig.advice[0].reason


async def test_tree_cap_covers_advisors() -> None:
    rig = Rig(worker(*asking(1), "done"), oracle(), cap=Decimal("0.006"), limits=RunLimits(max_response_tokens=500))
    assert (await rig.run()).content == "done"
    assert rig.statuses == ["failed"]
    assert rig.ledger.cost().total <= Decimal("0.006")


async def test_no_second_consultation_without_news() -> None:
    """omp's was asked 45 times in other words."""
    model = oracle(OK, OK)
    questions = [(ask(f"a{n}", question=f"question {n}"),) for n in range(5)]
    rig = Rig(worker(*questions, "done"), model)
    await rig.run()
    assert rig.statuses == ["answered", "answered", "withheld", "withheld", "withheld"], "one question back is allowed"
    assert "nothing has happened since" in rig.told("a4")


async def test_same_question_is_not_asked_again() -> None:
    model = oracle(OK)
    key = "sk-ant-api03-abcdefghijklmnopqrstuv"
    same = [(ask(f"a{n}", question=f"is {key} fine?"),) for n in range(2)]
    rig = Rig(worker(*same, "done"), model)
    await rig.run()
    assert rig.statuses == ["answered", "withheld"]
    assert key not in rig.advice[0].question


async def test_person_may_ask_within_session_bounds() -> None:
    rig = Rig(worker(*asking(1), "done", "read it"), oracle(OK, OK), rules=Rules(triggers=(), max_advisor_calls=1))
    await rig.run()
    rig.agent.apply(Consult("Is it safe?"))
    while len(rig.advice) < 2:
        await asyncio.sleep(0)
    assert (rig.advice[1].trigger, rig.advice[1].status) == ("person", "answered")
    await rig.run("Go on.")
    (message,) = [m for m in rig.agent.messages if m.sender == "advisor:advisor"]
    assert "(Is it safe?)" in message.content
    assert message.content.endswith(f"advisor advises:\n{OK}")


# -- who ---------------------------------------------------------------------------------------------------------------


async def test_advisor_asked_by_name_else_the_first() -> None:
    lines = [(act("c0"), ask("a0")), (act("c1", n=1), ask("a1", name="second", question="Why?")), "done"]
    first, second = oracle("VERDICT: adjust\nNEXT: mind the lock"), sage(OK)
    rig = Rig(worker(*lines), first, second, advisors=["first=strong/oracle", "second=other/sage"])
    await rig.run()
    assert [advice.advisor for advice in rig.advice] == ["first", "second"]
    assert rig.told("a1").startswith("second advises")
    assert "mind the lock" in seen(second.requests[0]), "each sees what the others said"
    cost = rig.ledger.cost()
    assert cost.by_role["advisor:first"] + cost.by_role["advisor:second"] == cost.advisor
    (spec,) = [tool for tool in first_request(rig).tools if tool.name == "advisor"]
    assert all(part in spec.description for part in ("first, second", "without a name first"))


def first_request(rig: Rig) -> Request:
    model = rig.models["cheap/worker"]
    assert isinstance(model, ScriptedModel)
    return model.requests[0]


async def test_panel_asks_all_at_once() -> None:
    rig = Rig(
        worker(*asking(1), "done"),
        oracle((0.02, OK)),
        sage(ModelError("overloaded", "busy", provider="other")),
        advisors=["first=strong/oracle", "second=other/sage"],
        setup={"panel": "all"},
    )
    await rig.run()
    assert sorted(rig.statuses) == ["answered", "failed"]
    said = rig.told("a0")
    assert said.startswith(f"first advises:\n{OK}\n\nsecond could not be asked: ")
    assert "overloaded" in said
    result = next(r for m in rig.agent.messages for r in m.results if r.call_id == "a0")
    assert not result.is_error, "one of them answered"


async def test_duplicate_advisor_names_are_refused() -> None:
    with pytest.raises(UsageError, match="same name"):
        advise(["strong/oracle", "other/sage"])


async def test_advisor_has_no_advisors_or_children() -> None:
    deep = sage((ask("x1"), call("s1", "AgentSpawn", prompt="help")), OK)
    rig = Rig(worker(*asking(1), "done"), deep)
    make = advise([Advisor("advisor", "other/sage", tools=("Act",))], Setup(rules=QUIET))
    make(rig.agent, None).resume(())
    await rig.run()
    assert rig.statuses == ["answered"]
    assert [tool.name for tool in deep.requests[0].tools] == ["Act"]
    texts = [r.text for r in deep.requests[1].messages[-1].results]
    assert all(text.startswith("There is no tool named") for text in texts)


async def test_child_shares_advisors_and_account() -> None:
    model = oracle(OK, OK)
    rules = Rules(triggers=(), max_session_calls=1)
    rig = Rig(worker(*asking(1), (act("c5", n=5), ask("a5")), "child done", "done"), model, rules=rules, tree=Tree())
    child = await rig.agent.spawn("look")
    await child.wait()
    assert len(model.requests) == 1
    assert rig.statuses == ["answered", "withheld"]
    assert "look" in seen(model.requests[0]).partition("The task:\n")[2].partition("The conversation")[0]
    assert rig.ledger.cost().by_role["advisor:advisor"] > 0


async def test_parallel_advice_has_own_costs() -> None:
    executor = worker((act("c1"), ask("a1")), (act("c2"), ask("a2")), "done", "done")
    looker = Advisor("advisor", "other/sage", tools=("Act",))
    rig = Rig(executor, sage(act("s1"), act("s2"), OK, OK), advisors=[looker], tree=Tree())
    for child in [await rig.agent.spawn(f"look {n}") for n in range(2)]:
        await child.wait()
    assert rig.statuses == ["answered", "answered"]
    assert sum(one.usd or 0 for one in rig.advice) == rig.ledger.cost().by_role["advisor:advisor"] > 0


# -- switched ----------------------------------------------------------------------------------------------------------


def switching(rig: Rig, *changes: str) -> None:
    """Make a change after each consultation."""
    left = list(changes)

    def change(event: object) -> None:
        if isinstance(event, Advised) and left:
            rig.agent.apply(Switch(advisor=left.pop(0)))

    rig.agent.listen(change)


async def test_muted_advisor_answers_and_tools_stay() -> None:
    executor = worker(*asking(3), "done")
    rig = Rig(executor, oracle(OK, OK))
    switching(rig, "off", "on")
    await rig.run()
    assert rig.statuses == ["answered", "withheld", "answered"]
    assert all(part in rig.told("a1") for part in ("it is muted", "Go on by yourself"))
    assert len({request.tools for request in executor.requests}) == 1
    assert len({request.system for request in executor.requests}) == 1


async def test_one_of_several_is_muted_by_name() -> None:
    names = ["first=strong/oracle", "second=other/sage"]
    rig = Rig(worker(*asking(2), "done"), oracle(OK), sage(OK), advisors=names)
    switching(rig, "first=off")
    await rig.run()
    assert [advice.advisor for advice in rig.advice] == ["first", "second"]
    assert rig.agent.advisory is not None
    assert rig.agent.advisory.report().advisors == "first=strong/oracle (off), second=other/sage"


async def test_switched_model_keeps_conversation() -> None:
    executor = worker(*asking(2), "done")
    first, second = oracle(OK), sage(OK)
    rig = Rig(executor, first, second)
    switching(rig, "advisor=other/sage")
    await rig.run()
    assert [advice.model for advice in rig.advice] == ["strong/oracle", "other/sage"]
    assert second.requests[0].messages[:1] == first.requests[0].messages
    assert executor.requests[0].tools == executor.requests[2].tools
    assert {"advisor:advisor"} == {role for role in rig.ledger.cost().by_role if role != "executor"}


async def test_advisor_is_added_while_running() -> None:
    rig = Rig(worker("none", *asking(1), "done"), oracle(OK), advisors=[])
    await rig.run()
    with pytest.raises(UsageError, match="no advisor"):
        rig.agent.apply(Switch(advisor="off"))
    with pytest.raises(UsageError, match="no model strong/unknown"):
        rig.agent.apply(Switch(advisor="strong/unknown"))
    rig.agent.apply(Switch(advisor="strong/oracle"))
    await rig.run()
    assert rig.statuses == ["answered"]


@pytest.mark.parametrize("change", ["nobody=off", "nobody=on", "strong/oracle,tools=Bash", "a b=strong/oracle", ""])
async def test_impossible_change_changes_nothing(change: str) -> None:
    rig = Rig(worker(*asking(1), "done"), oracle(OK))
    with pytest.raises(UsageError):
        rig.agent.apply(Switch(advisor=change))
    await rig.run()
    assert rig.statuses == ["answered"]


async def test_muting_ends_running_consultation() -> None:
    rig = Rig(worker(*asking(1), "done"), oracle(("V", math.inf)))
    run = asyncio.create_task(rig.run())
    while "V" not in rig.deltas:
        await asyncio.sleep(0)
    assert rig.agent.advisory is not None
    rig.agent.advisory.plan(Switch(advisor="off"))()
    assert (await asyncio.wait_for(run, 60)).content == "done"
    assert rig.advice[0].reason == "it was cancelled"


# -- stop --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "reason"), [(None, "end"), ("no, stop", "advisor_stop")])
async def test_stop_pauses_and_asks_the_person(answer: str | None, reason: str) -> None:
    asked: list[str] = []

    async def person(call: ToolCall, question: object) -> str | None:
        asked.append(getattr(question, "reason", ""))
        return answer

    rig = Rig(worker(*asking(1), "done"), oracle(STOP), ask=person, limits=RunLimits())
    result = await rig.run()
    assert result.stop_reason == reason
    assert len(asked) == 1
    assert "advisor advises stopping" in asked[0]
    assert "deletes the customer's data" in asked[0]
    assert (result.error is None) is (answer is None)


@pytest.mark.parametrize(("on_stop", "reason"), [("pass", "end"), ("end", "advisor_stop")])
async def test_without_person_settings_decide(on_stop: str, reason: str) -> None:
    rig = Rig(worker(*asking(1), "done"), oracle(STOP), setup={"on_stop": on_stop})
    result = await rig.run()
    assert result.stop_reason == reason
    assert rig.told("a0").startswith("advisor advises:\nVERDICT: stop"), "passed on in any case"


async def test_stop_from_a_rule_ends_the_turn() -> None:
    rig = Rig(worker("[NEED_ADVICE]"), oracle(STOP), rules=Rules(triggers=("need_advice",)), setup={"on_stop": "end"})
    result = await rig.run()
    assert result.stop_reason == "advisor_stop"
    assert result.error is not None


async def test_words_about_stopping_stop_nothing() -> None:
    rig = Rig(worker(*asking(1), "done"), oracle("VERDICT: no need to stop, proceed"), setup={"on_stop": "end"})
    assert (await rig.run()).stop_reason == "end"


# -- what the executor made of it --------------------------------------------------------------------------------------


def tally(rig: Rig, name: str = "advisor") -> tuple[int, int, int]:
    assert rig.agent.advisory is not None
    found = rig.agent.advisory.report().tallies[name]
    return found.followed, found.rejected, found.contradicted


def outcomes(rig: Rig) -> list[object]:
    return [
        read_body(entry)["outcome"]
        for entry in rig.log.entries()
        if entry.kind == "advice" and "outcome" in read_body(entry)
    ]


async def test_acted_on_advice_is_followed() -> None:
    rig = Rig(worker(*asking(1), (act("c9", n=9),), "done"), oracle(OK))
    await rig.run()
    assert tally(rig) == (1, 0, 0)
    assert outcomes(rig) == ["followed"]


async def test_rejected_advice_keeps_its_reason() -> None:
    rig = Rig(worker(*asking(1), ("[REJECTED: the lock is there]", act("c9", n=9)), "done"), oracle(OK))
    await rig.run()
    assert tally(rig) == (0, 1, 0)
    (entry,) = [e for e in rig.log.entries() if e.kind == "advice" and read_body(e).get("outcome") == "rejected"]
    assert read_body(entry)["reason"] == "the lock is there"
    assert len(rig.advice) == 1


async def test_contradiction_is_put_to_advisor_once() -> None:
    first, second = oracle(), sage("VERDICT: adjust", OK)
    executor = worker(
        (act("c0"), ask("a0", name="second")),
        ("[CONTRADICTED: the test passes]", act("c1", n=1)),
        ("[CONTRADICTED: still]", act("c2", n=2)),
        "done",
    )
    rig = Rig(executor, first, second, advisors=["first=strong/oracle", "second=other/sage"])
    await rig.run()
    assert [(advice.advisor, advice.trigger) for advice in rig.advice] == [
        ("second", "asked"),
        ("second", "reconcile"),
    ]
    assert "your advice: the test passes" in seen(second.requests[1])
    assert tally(rig, "second") == (0, 0, 2)
    assert first.requests == []


async def test_self_asked_contradiction_is_not_repeated() -> None:
    executor = worker(
        *asking(1),
        ("[CONTRADICTED: the test passes]", act("c1", n=1), ask("a1", question="I found it passes; which holds?")),
        ("[CONTRADICTED: still]", act("c2", n=2)),
        "done",
    )
    rig = Rig(executor, oracle(OK, OK))
    await rig.run()
    assert [advice.trigger for advice in rig.advice] == ["asked", "asked"]


async def test_person_rates_last_or_named_advice() -> None:
    lines = [*asking(1), (act("c1", n=1), ask("a1", name="second")), "done"]
    rig = Rig(worker(*lines), oracle(OK), sage(OK), advisors=["first=strong/oracle", "second=other/sage"])
    advisory = rig.agent.advisory
    assert advisory is not None
    with pytest.raises(UsageError, match="no advice to rate"):
        advisory.rate(1)
    await rig.run()
    assert advisory.rate(1) == "second"
    assert advisory.rate(-1, "first") == "first"
    assert advisory.rate(-1, "first") == "first"
    assert {name: tally.rated for name, tally in advisory.report().tallies.items()} == {"first": -2, "second": 1}


async def test_unadvised_long_task_is_remarked_once() -> None:
    steps = [(act(f"c{n}", n=n),) for n in range(UNASKED_HINT_TURNS)]
    rig = Rig(worker(*steps, "done", "again"), oracle())
    await rig.run()
    await rig.run()
    assert len([text for text in rig.notices if "No advisor was asked" in text]) == 1


async def test_costly_consulting_is_remarked() -> None:
    steps = [(act(f"c{n}", n=n), ask(f"a{n}"), Usage(input=100, output=10)) for n in range(COMPARED_TURNS)]
    dear = [(OK, Usage(input=5_000, output=1_000)) for _ in range(COMPARED_TURNS)]
    rules = Rules(triggers=(), max_advisor_calls=None)
    rig = Rig(worker(*steps, ("done", Usage(input=100, output=10))), oracle(*dear), rules=rules)
    await rig.run()
    (remark,) = [text for text in rig.notices if "alone at low effort" in text]
    assert remark.startswith(f"{COMPARED_TURNS} consultations in {COMPARED_TURNS + 1} turns: strong/oracle alone")
    cheap = Rig(
        worker(*[(*step[:2], Usage(input=9_000, output=900)) for step in steps], "done"),
        oracle(*[(OK, Usage(input=50, output=9))] * COMPARED_TURNS),
        rules=rules,
    )
    await cheap.run()
    assert [text for text in cheap.notices if "alone" in text] == []


# -- tasks, compaction, resume -----------------------------------------------------------------------------------------


async def test_second_task_is_seen_as_its_own() -> None:
    """hivemind's advisor saw the first one for ever."""
    model = oracle(OK, OK)
    rig = Rig(worker(*asking(1), "one", *asking(1, 1), "two"), model)
    await rig.run("Write the parser.")
    await rig.run("Now write the docs.")
    said = model.requests[1].messages[-1].content
    assert 'changed: "Now write the docs."' in said
    assert "person: Now write the docs." in said
    assert "The task:\nWrite the parser." not in said


async def test_advice_survives_context_stubs() -> None:
    long = "VERDICT: adjust\nNEXT: " + "mind the lock " * 200
    executor = worker(
        (act("c0", says="x" * 4_000), ask("a0")),
        *((act(f"c{n}", n=n, says="y" * 4_000),) for n in range(1, 6)),
        "one",
        "two",
        "three",
    )
    rig = Rig(executor, oracle(long))
    await rig.run()
    rig.agent.apply(Compact(drop=("*",)))
    await rig.run("Go on.")
    texts = {r.call_id: r.text for m in executor.requests[-1].messages for r in m.results}
    assert "mind the lock" in texts["a0"]
    assert "taken out of the context" in texts["c0"]


async def test_advice_survives_cleared_conversation() -> None:
    executor = worker(*asking(1), (act("c5", n=5),), "done")
    rig = Rig(executor, oracle("VERDICT: adjust\nNEXT: mind the lock"))

    def clear(event: object) -> None:
        if getattr(getattr(event, "call", None), "id", "") == "c5" and type(event).__name__ == "ToolStarted":
            rig.agent.apply(Compact(clear=True))

    rig.agent.listen(clear)
    await rig.run()
    last = executor.requests[-1].messages
    assert not any(c.name == "advisor" for m in last for c in m.calls)
    assert [m.content for m in last if m.sender == "advisor:advisor"] == [
        "Advice, unasked (given earlier). advisor advises:\nVERDICT: adjust\nNEXT: mind the lock"
    ]


def opened(tmp_path: Path) -> FileLog:
    session = tmp_path / "s1"
    session.mkdir(exist_ok=True)
    return FileLog(session, blobs=BlobDirectory(session / "blobs"))


async def test_resumed_session_counts_consultations(tmp_path: Path) -> None:
    first = oracle("VERDICT: adjust\nNEXT: mind the lock")
    rig = Rig(worker(*asking(1), "one"), first, log=opened(tmp_path))
    await rig.run("Write the parser.")
    rig.log.close()

    log, second = opened(tmp_path), oracle(OK)
    again = Rig(worker(*asking(2, 1), "two"), second, log=log, rules=Rules(triggers=(), max_session_calls=2))
    again.agent.restore(history(log.entries(), log.blobs.get))
    await again.run("Now the docs.")
    assert again.statuses == ["answered", "withheld"]
    request = second.requests[0].messages
    assert request[:1] == first.requests[0].messages
    assert request[1] == assistant("VERDICT: adjust\nNEXT: mind the lock")
    assert "Write the parser" not in request[2].content
    assert request[2].content.count("Now the docs.") == 2
    assert again.agent.advisory is not None
    found = again.agent.advisory.report().tallies["advisor"]
    assert (found.calls, found.answered, found.withheld, found.followed) == (2, 2, 1, 1)
    assert [m.content.rpartition("advises:\n")[2] for m in again.agent.advisory.in_force()] == [OK]
    log.close()


async def test_log_without_blobs_can_be_resumed(tmp_path: Path) -> None:
    rig = Rig(worker(*asking(1), "one"), oracle(OK), log=opened(tmp_path))
    await rig.run()
    rig.log.close()
    for blob in (tmp_path / "s1" / "blobs").iterdir():
        blob.unlink()
    log, model = opened(tmp_path), oracle(OK)
    again = Rig(worker(*asking(1, 1), "two"), model, log=log)
    again.agent.restore(history(log.entries(), log.blobs.get))
    await again.run("Go on.")
    assert again.statuses == ["answered"]
    assert "Fix the parser." in seen(model.requests[0])
    log.close()


async def test_consultation_is_logged_with_request() -> None:
    rig = Rig(worker(*asking(1), "one"), oracle(OK))
    await rig.run()
    (entry,) = [entry for entry in rig.log.entries() if entry.kind == "advice" and "outcome" not in read_body(entry)]
    body = read_body(entry)
    assert (body["advisor"], body["model"], body["status"], body["verdict"]) == (
        "advisor",
        "strong/oracle",
        "answered",
        "proceed",
    )
    said = rig.log.blobs.get(str(body["said"])).decode()
    assert said.startswith("Its instructions, in short:")
    assert "VERDICT: proceed | adjust | stop" in rig.log.blobs.get(str(body["system"])).decode()
    billed = [
        read_body(e) for e in rig.log.entries() if e.kind == "spent" and read_body(e)["role"] == "advisor:advisor"
    ]
    assert len(billed) == 1


async def test_python_asks_outside_conversation() -> None:
    rig = Rig(worker("one"), oracle(OK), rules=QUIET)
    await rig.run()
    before: Sequence[Message] = rig.agent.messages
    (advice,) = await rig.agent.consult("Is it safe?")
    assert (advice.verdict, advice.question) == ("proceed", "Is it safe?")
    assert rig.agent.messages == before
    with pytest.raises(UsageError, match="there is no advisor 'x'"):
        await rig.agent.consult("Is it safe?", "x")
    bare = Agent(worker("x"), resources=Resources())
    with pytest.raises(UsageError, match="has no advisor"):
        await bare.consult()
