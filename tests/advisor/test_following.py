"""Advice counts as followed where the executor says so, or does it; never where it says and does nothing about it."""

import pytest

from sagent.advisor.consultation import read
from sagent.advisor.conversation import HELD
from sagent.advisor.following import effect_of, stated_effect
from sagent.events import Advice
from sagent.messages import Message, Text, ToolCall, ToolResult, assistant
from sagent.policy import Turn
from tests.advisor.cast import ask
from tests.messages import call


def advised(text: str) -> Advice:
    return read(Advice("advisor", "a/b", "asked", "answered", text=text))


def turn(*calls: ToolCall, said: str = "Go.", answer: str = "fine") -> Turn:
    reply = assistant(said, *calls, stop="tool_use" if calls else "end")
    results = tuple(ToolResult(each.id, (Text(answer),), is_error=False) for each in calls)
    return Turn("root", reply, Message("user", results) if calls else None)


def bash(command: str) -> ToolCall:
    return call("b", "Bash", command=command)


@pytest.mark.parametrize(
    ("advice", "does", "found"),
    [
        (
            "VERDICT: adjust\nNEXT: read src/lock.py before you go on",
            call("r", "Read", file_path="src/lock.py"),
            "followed",
        ),
        ("VERDICT: adjust\nNEXT: use `os.replace`", call("e", "Edit", new_string="os.replace(a, b)"), "followed"),
        ("VERDICT: adjust\nNEXT: run the tests", bash("pytest -q tests"), "followed"),
        ("VERDICT: adjust\nNEXT: think\nCHECK: pytest  -q", bash("cd x && pytest -q"), "followed"),
        ("VERDICT: adjust\nGAP: settings.py is not read", call("r", "Read", file_path="app/settings.py"), "followed"),
        ("VERDICT: proceed", bash("ls"), "followed"),
        ("VERDICT: proceed\nNEXT: go on", bash("ls"), "followed"),
        ("VERDICT: proceed\nNEXT: read src/lock.py", bash("ls"), ""),
        ("VERDICT: adjust\nNEXT: read src/lock.py", call("r", "Read", file_path="src/other.py"), ""),
        ("VERDICT: adjust\nNEXT: run the tests", call("w", "Write", file_path="notes.md"), ""),
        ("VERDICT: adjust", bash("ls"), ""),
        ("Mind the gap.", bash("ls"), ""),
        pytest.param(f"VERDICT: adjust\nNEXT: {'-_' * 1_000}", bash("ls"), "", id="a line of marks"),
        ("VERDICT: stop", bash("make deploy"), "rejected"),
        ("VERDICT: stop", call("r", "Read", file_path="x"), ""),
        ("VERDICT: stop", None, "followed"),
        ("VERDICT: adjust\nNEXT: run the tests", None, ""),
        ("VERDICT: proceed", None, ""),
        ("VERDICT: proceed", ask(), ""),
    ],
)
def test_followed_advice_shows_in_next_calls(advice: str, does: ToolCall | None, found: str) -> None:
    made = turn(does) if does else turn()
    assert effect_of(advised(advice), made)[0] == found


def test_unmade_call_shows_nothing() -> None:
    assert effect_of(advised("VERDICT: proceed"), turn(bash("rm x"), answer=HELD)) == ("", "")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[FOLLOWED: the lock comes first]", ("followed", "the lock comes first")),
        ("[REJECTED: it is the wrong file]", ("rejected", "it is the wrong file")),
        ("On reflection [contradicted: the test passes].", ("contradicted", "the test passes")),
        ("I followed the idea; I rejected that idea; it was contradicted.", None),
        pytest.param("[FOLLOWED " * 50_000, None, id="again and again"),
    ],
)
def test_executors_words_on_advice_are_read(text: str, found: tuple[str, str] | None) -> None:
    assert stated_effect(assistant(text)) == found
