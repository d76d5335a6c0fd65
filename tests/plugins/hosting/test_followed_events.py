"""Events that arrive while a client reads the conversation so far: none is lost, none is shown twice."""

from hypothesis import given
from hypothesis import strategies as st

from sagent.events import Event, Received, ReplyFinished, ToolFinished
from sagent.lib.json import JsonObject
from sagent.messages import Message, Text, ToolCall, ToolResult, assistant, user
from sagent.plugins.hosting.followed import after_known
from sagent.usage import Usage


def event_of(message: Message) -> Event:
    if message.role == "user":
        return Received("root", message)
    return ReplyFinished("root", message, Usage(), None)


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6))
def test_every_message_is_shown_once(before: int, between: int, after: int) -> None:
    every = [(user if number % 2 else assistant)(f"message {number}") for number in range(before + between + after)]
    read, events = every[: before + between], [event_of(message) for message in every[before:]]
    assert after_known(events, read) == between


def test_prompt_like_an_earlier_one_is_new() -> None:
    said = [user("go on"), assistant("Done.")]
    assert after_known([Received("root", user("go on"))], said) == 0


def test_results_that_were_read_are_known() -> None:
    call, result = ToolCall("c1", "Bash", JsonObject({})), ToolResult("c1", (Text("ok"),))
    said = [user("go"), assistant("", call), Message("user", (result,))]
    events: list[Event] = [ToolFinished("root", call, result, 0.0), event_of(assistant("Done."))]
    assert after_known(events, said) == 1
    assert after_known(events, [*said, assistant("Done.")]) == 2
