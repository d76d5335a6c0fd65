"""What an executor's turns give away is counted on results and on what it says on purpose, never on benign words."""

import pytest

from sagent.advisor.conversation import HELD
from sagent.advisor.rules import TRIGGERS, Rules
from sagent.advisor.signals import Watch
from sagent.messages import Message, Text, ToolCall, ToolResult, assistant
from sagent.policy import Turn
from tests.advisor.cast import act, ask
from tests.messages import call

RULES = Rules()


def turn(text: str = "", *calls: tuple[ToolCall, str | None]) -> Turn:
    """A reply and what its calls were answered: an error's text, or None."""
    reply = assistant(text, *(each for each, _ in calls), stop="tool_use" if calls else "end")
    results = [
        ToolResult(each.id, (Text(error or "fine"),), error is not None, (error or "").startswith("Permission denied"))
        for each, error in calls
    ]
    return Turn("root", reply, Message("user", tuple(results)) if calls else None)


def watched(*turns: Turn) -> Watch:
    watch = Watch()
    for each in turns:
        watch.observe(each)
    return watch


def fires(*turns: Turn, ended: bool = False, rules: Rules = RULES) -> tuple[str, str] | None:
    return watched(*turns).fires(rules, TRIGGERS, ended=ended)


def bash(call_id: str, command: str) -> ToolCall:
    return call(call_id, "Bash", command=command)


def test_success_resets_failed_turns() -> None:
    failed = [turn("", (act(f"c{n}", n=n), "exit 1")) for n in range(3)]
    assert fires(failed[0]) is None
    assert fires(*failed[:2]) == ("failures", "2 turns in a row had a call that failed")
    assert fires(failed[0], turn("", (act("ok"), None)), failed[1]) is None


def test_words_of_failure_fire_nothing() -> None:
    benign = turn("The error: it failed with a traceback. FAILED, exception, exit code 1.", (act("c"), None))
    other = turn("Another error: and a failure, not handled, as the log says.", (act("d", n=1), None))
    assert fires(benign, other, turn("Still an error: here, in the words only.", (act("e", n=2), None))) is None


def test_denied_or_held_call_is_no_failure() -> None:
    denied = [turn("", (act(f"c{n}", n=n), "Permission denied: no")) for n in range(2)]
    held = [turn("", (act(f"h{n}", n=n), HELD)) for n in range(2)]
    assert fires(*denied, *held) is None


def test_advisor_failures_are_not_executors() -> None:
    assert fires(*(turn("", (ask(f"a{n}"), "could not be asked")) for n in range(5))) is None


def test_repeated_test_failure_fires() -> None:
    red = bash("t1", "pytest  -q tests")
    fired = fires(
        turn("", (red, "1 failed")), turn("", (act("x"), None)), turn("", (bash("t2", "pytest -q tests"), "1 failed"))
    )
    assert fired == ("failures", "the same test has failed 2 times: pytest -q tests")
    green = turn("", (bash("t3", "pytest -q tests"), None))
    assert fires(turn("", (red, "1 failed")), green, turn("", (bash("t4", "pytest -q tests"), "1 failed"))) is None
    assert (
        fires(
            turn("", (bash("a", "test -f x"), "1")), turn("", (act("y"), None)), turn("", (bash("b", "test -f x"), "1"))
        )
        is None
    )


def test_test_failures_use_the_threshold() -> None:
    red = [turn("", (bash(f"t{n}", "pytest -q"), "1 failed"), (act(f"x{n}", n=n), None)) for n in range(4)]
    green = turn("", (act("g", n=9), None))
    rules = Rules(failure_threshold=3)
    assert fires(red[0], green, red[1], rules=rules) is None
    assert fires(red[0], green, red[1], green, red[2], rules=rules) == (
        "failures",
        "the same test has failed 3 times: pytest -q",
    )


@pytest.mark.parametrize(
    ("text", "fired"),
    [
        ("I am unsure. [CONFIDENCE:0.3]", "confidence"),
        ("[confidence = 30%]", "confidence"),
        ("[CONFIDENCE: .1]", "confidence"),
        ("[CONFIDENCE:0.4]", None),
        ("[CONFIDENCE:1]", None),
        ("[CONFIDENCE:90]", None),
        ("My confidence is 0.1 at best.", None),
        ("[NEED_ADVICE]", "need_advice"),
        ("[need advice: which of the two?]", "need_advice"),
        ("I need advice about this.", None),
        ("NEED_ADVICE is a marker.", None),
    ],
)
def test_deliberate_signs_count_prose_does_not(text: str, fired: str | None) -> None:
    found = fires(turn(text, (act("c"), None)))
    assert (found[0] if found else None) == fired


def test_marker_text_is_the_question() -> None:
    assert fires(turn("[NEED_ADVICE: a or b?]")) == ("need_advice", "the executor asks for advice: a or b?")


def test_marker_counts_for_its_turn_only() -> None:
    assert fires(turn("[NEED_ADVICE]", (act("c"), None)), turn("", (act("d", n=1), None))) is None


def test_repeated_calls_are_stagnation() -> None:
    first = turn("", (act("c0"), None))
    again = [turn("", (act(f"c{n}"), None)) for n in range(1, 5)]
    assert fires(first, *again[:3]) is None
    assert fires(first, *again) == ("stagnation", "4 turns in a row only repeated calls made before")
    assert fires(first, *again[:3], turn("", (act("new", n=9), None)), again[3]) is None


def test_waiting_for_a_job_is_no_stagnation() -> None:
    poll = [turn("", (call(f"b{n}", "BackgroundTask", operation="output", id="job:1"), None)) for n in range(8)]
    assert fires(*poll) is None


def test_reverted_edit_is_stagnation() -> None:
    def edit(call_id: str, old: str, new: str, error: str | None = None, path: str = "a.py") -> Turn:
        return turn("", (call(call_id, "Edit", file_path=path, old_string=old, new_string=new), error))

    assert fires(edit("1", "x", "y"), edit("2", "y", "x")) == ("stagnation", "an edit was reverted")
    assert fires(edit("1", "x", "y"), edit("2", "y", "x", path="b.py")) is None
    assert fires(edit("1", "x", "y", "no match"), edit("2", "y", "x")) is None
    assert fires(edit("1", "x", "y"), edit("2", "y", "z")) is None


def test_equal_replies_are_stagnation() -> None:
    said = "I will now look at the parser and see why the quotes are lost in it"
    turns = [turn(f"{said} {n}", (act(f"c{n}", n=n), None)) for n in range(4)]
    assert fires(*turns[:3]) is None
    assert fires(*turns) == ("stagnation", "4 replies in a row say the same")
    short = [turn("Ok.", (act(f"s{n}", n=n), None)) for n in range(8)]
    assert fires(*short) is None


def test_done_counts_only_after_a_change() -> None:
    watch = watched(turn("", (act("c"), None)), turn("All done."))
    assert watch.fires(RULES, ("done", "no_calls"), ended=True) is None
    assert (watch.fires(RULES, TRIGGERS, ended=True) or "")[0] == "no_change"
    watch.wrote = True
    assert watch.fires(RULES, TRIGGERS, ended=True) == ("done", "the executor is about to declare its task done")
    assert watch.fires(RULES, TRIGGERS, ended=False) is None


def test_unclosed_confidence_is_none() -> None:
    assert watched(turn(f"[CONFIDENCE: {'9' * 100_000}")).doubt is None
    assert watched(turn("[CONFIDENCE: .5]")).doubt == 0.5


def test_only_rules_that_hold_fire() -> None:
    watch = watched(turn("[NEED_ADVICE] [CONFIDENCE:0.1]", (act("c"), "e")), turn("[CONFIDENCE:0.1]", (act("d"), "e")))
    assert watch.fires(RULES, ("confidence",), ended=False) == (
        "confidence",
        "the executor reports a confidence of 0.1",
    )
    assert watch.fires(RULES, (), ended=False) is None


def test_heard_advice_resets_all_counts() -> None:
    watch = watched(*(turn("[CONFIDENCE:0.1]", (act(f"c{n}"), "e")) for n in range(6)))
    watch.heard()
    assert watch.fires(RULES, TRIGGERS, ended=False) is None
    watch.observe(turn("", (act("x", n=3), "e")))
    assert watch.fires(RULES, TRIGGERS, ended=False) is None


@pytest.mark.parametrize(
    "command", ["grep -rn x .", "rg x", "cat f | grep -c x", "cd a && git grep x", "diff a b", "test -f x"]
)
def test_finding_nothing_is_no_failure(command: str) -> None:
    nothing = [turn("", (bash(f"b{n}", f"{command} {n}"), "[exit code 1]")) for n in range(3)]
    assert fires(*nothing) is None
    broken = [turn("", (bash(f"b{n}", f"{command} {n}"), "no such file\n[exit code 2]")) for n in range(3)]
    assert fires(*broken) is not None


def test_failed_last_command_has_failed() -> None:
    red = [turn("", (bash(f"b{n}", f"make x{n}"), "[exit code 1]")) for n in range(2)]
    assert fires(*red) is not None
