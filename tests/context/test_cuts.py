"""Where a conversation is cut, and what is told of what went."""

from hypothesis import example, given
from hypothesis import strategies as st

from sagent.context.compaction import (
    HEADINGS,
    advice_in,
    compose,
    edited,
    find_cut,
    instruction,
    is_summary,
    part_budgets,
    sum_up,
)
from sagent.lib.json import json_freeze_object
from sagent.messages import Message, Text, ToolCall, ToolResult, assistant, user
from sagent.session.contents import Compacted
from sagent.session.folds import compact

SUMMARY = "\n".join(f"## {heading}\nsomething that matters here" for heading in HEADINGS)


def round_of(number: int, tool: str, text: str, *, error: bool = False, **arguments: object) -> list[Message]:
    call = ToolCall(str(number), tool, json_freeze_object({**arguments}))
    return [assistant("", call, stop="tool_use"), Message("user", (ToolResult(call.id, (Text(text),), error),))]


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """Any conversation: requests, rounds of calls, messages of others, an open end."""
    found = [user(draw(st.text(min_size=1, max_size=50)))]
    for number in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from(["round", "answer", "request", "note"]))
        size = draw(st.integers(0, 3_000))
        if kind == "round":
            found += round_of(number, "Read", "x" * size, file_path=f"{number}.py")
        elif kind == "answer":
            found.append(assistant("y" * size))
        else:
            found.append(user("z" * (size + 1), sender="" if kind == "request" else "job:1"))
    return found


@given(histories(), st.integers(0, 8_000), st.none() | st.integers(0, 6_000))
@example([user("0"), assistant(""), assistant(""), user("z")], 0, None)
@example([user("0"), assistant(""), user("z" * 3_000), assistant(""), *round_of(1, "Read", "")], 0, 1_000)
def test_cuts_keep_requests_and_call_results(history: list[Message], recent: int, words: int | None) -> None:
    """But for those between the first and the last, where they have more than `words`."""
    cut = find_cut(history, recent, "", words)
    if cut is None:
        return
    after = list(history)
    compact(after, Compacted((), 1, 1, "full", tuple(cut.kept(history)), (len(cut.stay), "told")))
    assert len(after) < len(history)
    said = [message for message in history if message.role == "user" and not message.results and not message.sender]
    kept = [message for message in after if message in said]
    assert kept == said if words is None else (kept[0], kept[-1]) == (said[0], said[-1])
    assert after[-1] == history[-1]
    calls = [call.id for message in after for call in message.calls]
    results = [result.call_id for message in after for result in message.results]
    assert [call for call in calls if call in results] == results
    assert user("told", sender="sagent") in after


def test_last_turns_stay_as_allowed() -> None:
    history = [user("go")]
    for number in range(10):
        history += round_of(number, "Read", "x" * 1_000, file_path="a.py")
    cut = find_cut(history, 3_500, "")
    assert cut is not None
    assert (cut.place, cut.stay) == (15, (0,))
    short = find_cut(history, 100_000, "")
    assert short is None


def test_first_and_latest_requests_stay() -> None:
    history = [each for number in range(9) for each in (user(f"{number}" * 100), assistant("done"))]
    cut = find_cut(history, 0, "", 350)
    assert cut is not None
    assert cut.stay == (0, 12, 14, 16)
    assert [message.content[0] for message in cut.gone(history) if message.role == "user"] == list("12345")


def test_long_request_displaces_no_earlier() -> None:
    sizes = (10, 10, 10, 9_000, 10, 9_000)
    history = [each for size in sizes for each in (user("x" * size), assistant("done"))]
    cut = find_cut(history, 0, "", 350)
    assert cut is not None
    assert cut.stay == (0, 2, 4, 8, 10)


def test_short_requests_stay_beside_long_reads() -> None:
    history = [each for number in range(5) for each in (user(f"{number}" * 100), assistant("done"))]
    history += [user("and now?"), *round_of(1, "Read", "x" * 70_000), *round_of(2, "Read", "y")]
    room = part_budgets(history, 60_000, "")
    cut = find_cut(history, room.recent, "", room.words)
    assert cut is not None
    assert cut.stay == (0, 2, 4, 6, 8, 10)


def test_code_summary_extends_the_last() -> None:
    text = "the first thing"
    for number in range(20):
        told = user(compose(text, "/kept/here"), sender="sagent")
        text = sum_up([told, assistant(f"answer {number} " * 100)], 4_000, "the rest is in /kept/there")
        assert "the first thing" in text
        assert f"answer {number}" in text
        assert len(text) < 4_200
    assert "the rest is in /kept/there" in text


def test_code_summary_names_cut_requests() -> None:
    history = [user(f"request {number}: look at part {number}" + " x" * 2_000) for number in range(5)]
    history.insert(3, user("told by sagent", sender="sagent"))
    cut = find_cut([*history, assistant("done"), user("the last")], 0, "", words=9_000)
    assert cut is not None
    gone = cut.gone(history)
    text = sum_up(gone)
    for number in range(5):
        assert (f"- request {number}: look at part {number}" in text) == (history[number + (number > 2)] in gone)
    assert "told by sagent" not in text
    assert len(text) < 3_000


def test_valid_summaries() -> None:
    assert is_summary(SUMMARY)
    assert is_summary(SUMMARY.replace("## ", "**").replace("\nsome", "**\nsome"))
    assert is_summary(f"\n\n  - {SUMMARY}")
    assert not is_summary("\n" * 100_000 + "no")  # as some models answer: it took minutes
    assert not is_summary("")
    assert not is_summary("I cannot do that.")
    assert not is_summary("## Goal\nfix it\n## Done\nnothing")
    assert "the tests" in instruction("the tests")
    assert instruction("").endswith("read again.")


def test_code_summary_invents_nothing() -> None:
    history = [
        user("fix it"),
        *round_of(1, "Read", "text", file_path="a.py"),
        *round_of(2, "Edit", "done", file_path="a.py"),
        *round_of(3, "Edit", "no such text", error=True, file_path="b.py"),
        *round_of(4, "Bash", "1 failed", error=True, command="pytest -q"),
        *round_of(5, "Bash", "ok", command="ruff check"),
        *round_of(6, "advisor", "VERDICT: adjust"),
        assistant("I changed a.py."),
    ]
    text = sum_up(history)
    assert "- changed a.py (1 times)" in text
    assert "- pytest -q: failed\n- ruff check: done" in text
    assert "- Edit: no such text" in text
    assert "I changed a.py." in text
    assert is_summary(text + "\n## Decisions\nnone")
    assert edited(history, 3) == ("a.py",)
    assert advice_in(history) == (("advisor", "VERDICT: adjust"),)
