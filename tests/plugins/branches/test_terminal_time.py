"""Back in time and forward again, in a real terminal."""

import pytest

from sagent.testing.server import Received, Turn
from tests.depth import later
from tests.repl.console import Console

pytestmark = pytest.mark.needs("tmux")


def counting(request: Received) -> Turn:
    """Says how many messages it was shown, and repeats the last."""
    messages = request.json["messages"]
    assert isinstance(messages, list)
    words = str(messages[-1]).partition("'text': '")[2].partition("'")[0]
    return Turn(text=f"I see {len(messages)} messages. You said: {words}")


@later
def test_escape_twice_starts_branch(console: Console) -> None:
    server = console.serve(counting)
    console.start()
    for number, text in enumerate(("the first", "the second", "the third")):
        console.type(text)
        console.until(f"I see {2 * number + 1} messages.")
    console.keys("Escape", "Escape")
    console.until("Back to before which prompt?", "❯ the third", "the second")
    console.keys("Down", "Enter")
    console.until("› the second", "back to before: the second", gone="❯")
    console.keys("C-u")
    console.type("the other second")
    console.until("You said: the other second")
    assert "the third" not in str(server.requests[-1].json)
    console.type("/tree")
    console.until("1 ● the first", "2 ○ ├ the second", "3 ○ │ the third", "4 ● └ the other second")


def test_rewind_by_number_and_back(console: Console) -> None:
    server = console.serve(counting)
    console.start()
    console.type("the first")
    console.until("I see 1 messages.")
    console.type("the second")
    console.until("I see 3 messages.")
    console.type("/rewind 1")
    console.until("back to before: the first")
    console.keys("C-u")
    console.type("/tree")
    console.until("1 ○ the first")
    console.type("/rewind 2")
    console.until("forward to after: the second")
    console.type("and on")
    console.until("I see 5 messages.")
    assert "the second" in str(server.requests[-1].json)
    console.type("/rewind 9")
    console.until("There is no prompt 9")
