"""What a person is asked is shown whole, in letters that do not mislead."""

from hypothesis import given
from hypothesis import strategies as st

from sagent.lib.json import JsonObject
from sagent.messages import ToolCall
from sagent.plugins.hosting.asking import call_text, question_text
from sagent.policy import Ask
from tests.messages import call


def test_extra_arguments_shown() -> None:
    assert call_text(call("1", "Bash", command="make\ntest")) == "make\ntest"
    assert call_text(call("1", "mcp__shell__run", command="ls", host="prod")) == 'ls\nwith {"host":"prod"}'
    assert call_text(call("1", "Write", file_path="a")) == '{"file_path":"a"}'


def test_lookalike_letters_named() -> None:
    asked = Ask("It may.", wants=("pаypal.com",))  # with a Cyrillic letter
    text = question_text(call("1", "Bash", command="curl pаypal.com"), asked)
    assert text.startswith("sagent wants to call Bash:\ncurl p")
    assert text.count("U+0430") == 2


@given(st.text(), st.dictionaries(st.text(min_size=1), st.text(min_size=1)))
def test_whole_call_shown(command: str, others: dict[str, str]) -> None:
    arguments = {**others, "command": command}
    shown = call_text(ToolCall("1", "Bash", JsonObject(arguments)))
    words = [word for text in arguments.values() for word in text.split() if word.isascii() and word.isalnum()]
    assert all(word in shown for word in words)
