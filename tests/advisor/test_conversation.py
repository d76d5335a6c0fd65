"""What an advisor is told only grows, holds everything that happened once, and fits where it is to fit."""

from hypothesis import given, settings
from hypothesis import strategies as st

from sagent.advisor.conversation import HELD, Asked, Conversation, mark
from sagent.events import Advice
from sagent.messages import Message, Text, ToolCall, ToolResult, assistant, user
from sagent.model import Request
from tests.advisor.cast import act, ask, asking
from tests.depth import deep


def result(call_id: str, text: str, *, is_error: bool = False) -> Message:
    return Message("user", (ToolResult(call_id, (Text(text),), is_error),))


def consult(talk: Conversation, *history: Message, answer: str = "VERDICT: proceed", **given: object) -> Asked:
    asked = talk.ask(asking(*history, **given))  # pyright: ignore[reportArgumentType]
    talk.answer(asked, answer)
    return asked


def text_of(asked: Asked) -> str:
    return asked.messages[-1].content


START = (user("Fix the parser."), assistant("I look.", act("c1", path="a.py")), result("c1", "def parse(): ..."))


def test_first_consultation_shows_all() -> None:
    said = text_of(Conversation("advisor").ask(asking(*START, system="You write code.")))
    order = ["You write code.", "The task:\nFix the parser.", "[1] person: Fix", "[2] executor: I look."]
    order += ['[2] call c1: Act {"path": "a.py"}', "[3] result of c1: def parse(): ...", "ADVISE"]
    places = [said.index(piece) for piece in order]
    assert places == sorted(places)
    assert said.endswith("ADVISE")


def test_next_consultation_shows_only_news() -> None:
    talk = Conversation("advisor")
    first = consult(talk, *START, answer="VERDICT: adjust")
    more = (*START, assistant("Now the test.", act("c2")), result("c2", "2 failed", is_error=True))
    second = talk.ask(asking(*more))
    assert second.messages[: len(first.messages)] == first.messages
    assert second.messages[len(first.messages)] == assistant("VERDICT: adjust"), "its own earlier advice is in it"
    assert "def parse" not in text_of(second)
    assert text_of(second).startswith("Since then:\n[4] executor: Now the test.")
    assert "[5] error of c2: 2 failed" in text_of(second)
    assert text_of(second).endswith("ADVISE")


def test_failed_consultation_leaves_no_trace() -> None:
    talk = Conversation("advisor")
    talk.ask(asking(*START))
    assert talk.messages == []
    assert talk.ask(asking(*START)) == talk.ask(asking(*START))


def test_call_in_flight_is_left_out() -> None:
    talk = Conversation("advisor")
    history = (*START, assistant("I ask.", ask("a1", question="why?"), act("c2")))
    first = consult(talk, *history)
    assert "a1" not in text_of(first)
    assert "[4] call c2: Act" in text_of(first)
    answered = Message("user", (ToolResult("a1", (Text("advisor advises:\nX"),)), ToolResult("c2", (Text("ok"),))))
    second = text_of(talk.ask(asking(*history, answered)))
    assert "advises" not in second
    assert "[5] result of c2: ok" in second


def test_other_advisors_words_are_shown() -> None:
    talk = Conversation("second")
    consult(talk, *START)
    history = (*START, assistant("", ask("a1", name="first")), result("a1", "first advises:\nuse a lock"))
    history += (user("Advice. use a queue", sender="advisor:first"), user("Advice. own", sender="advisor:second"))
    said = text_of(talk.ask(asking(*history)))
    assert "use a lock" in said
    assert "[6] advisor:first: Advice. use a queue" in said
    assert "own" not in said


def test_advice_is_no_evidence_results_are() -> None:
    talk = Conversation("advisor")
    history = [*START, assistant("", ask("a1"))]
    consult(talk, *history)
    for none in (
        result("a1", "advisor advises:\nX"),
        user("Advice", sender="advisor:advisor"),
        user("nudge", sender="sagent"),
        assistant("I think about it."),
        assistant("", act("w1")),
        result("w1", HELD),
    ):
        history.append(none)
        assert not talk.evidence(history)
    assert talk.evidence([*history, user("And the docs.")])
    assert talk.evidence([*history, user("job done", sender="job:1")])
    assert talk.evidence([*history, assistant("", act("c9")), result("c9", "2 failed")])


def test_other_task_is_told_as_such() -> None:
    talk = Conversation("advisor")
    consult(talk, *START)
    history = (*START, assistant("Done."), user("Now write the docs."))
    question = asking(*history)
    other = type(question)(question.executor, "Now write the docs.", "ADVISE", question.keep)
    said = text_of(talk.ask(other))
    assert 'changed: "Now write the docs."' in said
    talk.answer(talk.ask(other), "VERDICT: proceed")
    assert "another now" not in text_of(
        talk.ask(type(question)(question.executor, "Now write the docs.", "A", question.keep))
    )


def test_stubbed_results_are_not_told_again() -> None:
    talk = Conversation("advisor")
    same = user("go on")
    history = [*START, assistant("One."), same, assistant("Two.", act("c2")), result("c2", "x" * 3000)]
    consult(talk, *history)
    shrunk = [*history[:-1], result("c2", "[This result was taken out]"), user("go on"), assistant("Three.")]
    said = text_of(talk.ask(asking(*shrunk)))
    assert "context was compacted here" in said
    assert said.count("go on") == 1, "the second of two equal messages is new"
    assert "Three." in said
    assert "taken out" not in said


def test_cleared_conversation_continues_with_news() -> None:
    talk = Conversation("advisor")
    first = consult(talk, *START, assistant("One."))
    said = talk.ask(asking(START[0], user("cleared", sender="sagent"), assistant("Two.")))
    assert said.messages[:1] == first.messages
    assert "Two." in text_of(said)
    assert "Fix the parser" not in text_of(said).partition("ADVISE")[0].replace('another now: "Fix', "")


def answered(text: str) -> Advice:
    return Advice("advisor", "a/b", "asked", "answered", text)


def test_resumed_conversation_is_the_same() -> None:
    talk, again = Conversation("advisor"), Conversation("advisor")
    first = consult(talk, *START, answer="VERDICT: adjust")
    history = [*START, assistant("More."), user("go on")]
    second = consult(talk, *history)
    read = [Message(each.role, each.parts, each.sender, each.model, each.stop) for each in history]
    for asked, said in ((first, "VERDICT: adjust"), (second, "VERDICT: proceed")):
        again.restore(asked.entry(answered(said)), text_of(asked), read)
    assert [m.content for m in again.messages] == [m.content for m in talk.messages]
    later = [*read, assistant("Later.")]
    resumed, alive = text_of(again.ask(asking(*later))), text_of(talk.ask(asking(*history, assistant("Later."))))
    assert resumed.endswith("[6] executor: Later.\n\nADVISE")
    assert alive.endswith("[6] executor: Later.\n\nADVISE")
    assert "go on" not in resumed


def test_cut_conversation_is_quoted_anew() -> None:
    talk, again = Conversation("advisor"), Conversation("advisor")
    asked = consult(talk, *START, assistant("One."))
    history = [START[0], user("cleared", sender="sagent"), assistant("Two."), assistant("Three."), user("hm")]
    again.restore(asked.entry(answered("VERDICT: proceed")), text_of(asked), history)
    said = text_of(again.ask(asking(*history)))
    assert "Two." in said
    assert "Three." in said
    assert mark(history[3]) != asked.entry(answered("")).last


def test_unfitting_part_is_left_out_and_said() -> None:
    talk = Conversation("advisor")
    history = [user("The task.")]
    for n in range(60):
        history += [assistant(f"step {n} " + "w" * 400, act(f"c{n}")), result(f"c{n}", f"out {n} " + "o" * 400)]
    room = 6_000
    first = consult(talk, *history, room=room, answer="A1")
    assert first.epoch == 1
    assert f"The first {first.left_out} messages are left out" in text_of(first)
    assert "step 59" in text_of(first)
    assert "step 0 " not in text_of(first)
    assert "The task:\nThe task." in text_of(first)
    second = consult(talk, *history, assistant("more"), room=room, answer="A2")
    assert second.messages[0] == first.messages[0]
    assert second.epoch == 1
    assert len(second.messages) == 3


def test_fresh_conversation_quotes_old_advice() -> None:
    talk = Conversation("advisor")
    history = [user("The task."), assistant("w" * 6_000)]
    consult(talk, *history)
    history += [assistant("", ask("a1")), result("a1", "advisor advises:\nmind the lock")]
    history += [user("Advice, unasked. mind the gap", sender="advisor:advisor"), assistant("w" * 900)]
    asked = talk.ask(asking(*history, room=2_200))
    assert asked.epoch == 1
    assert "mind the lock" in text_of(asked)
    assert "mind the gap" in text_of(asked)


TEXTS = st.text(st.sampled_from("ab \u00e9\u65e5\U0001f600\n"), max_size=40).flatmap(
    lambda piece: st.integers(0, 300).map(lambda times: piece * times)
)


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    history: list[Message] = [user(draw(TEXTS) or "go")]
    for n in range(draw(st.integers(0, 8))):
        match draw(st.integers(0, 2)):
            case 0:
                history.append(user(draw(TEXTS), sender=draw(st.sampled_from(["", "sagent", "job:1", "advisor:x"]))))
            case 1:
                history.append(assistant(draw(TEXTS)))
            case _:
                history += [assistant(draw(TEXTS), act(f"c{n}", text=draw(TEXTS))), result(f"c{n}", draw(TEXTS))]
    return history


@settings(max_examples=deep(60, 150), deadline=None)
@given(histories(), histories(), st.integers(1_200, 40_000), TEXTS)
def test_consultations_fit_and_extend_last(before, after, room, system) -> None:
    talk = Conversation("advisor")
    first = talk.ask(asking(*before, system=system, room=room))
    assert first == talk.ask(asking(*before, system=system, room=room))
    talk.answer(first, "VERDICT: proceed")
    second = talk.ask(asking(*before, *after, system=system, room=room))
    for asked in (first, second):
        assert sum(len(m.content.encode()) for m in asked.messages) <= room * 3
        assert text_of(asked).endswith("ADVISE")
        assert (asked.left_out > 0) == ("messages are left out here" in text_of(asked))
    if second.epoch == first.epoch:
        assert second.messages[: len(first.messages)] == first.messages


def test_request_has_no_calls_or_results() -> None:
    """Proxies refuse tool blocks without tools."""
    asked = Conversation("advisor").ask(asking(*START, assistant("", ToolCall("x", "Act", malformed='{"a'))))
    assert all(not message.calls and not message.results for message in asked.messages)
    assert '(malformed) {"a' in text_of(asked)
    assert isinstance(asking(*START).executor, Request)
