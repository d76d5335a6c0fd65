"""What hooks say, by exit codes and as JSON, and what several come to."""

import json
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.app.builder import HookAnswer as Answer
from sagent.plugins.hooks import plugin
from sagent.plugins.hooks.answer import Decision, combine, read_exit, read_json
from sagent.plugins.hooks.hook import Hook, names_of

EVENTS = {event.name: event for event in plugin.hook_events}


def test_exit_2_refuses_with_stderr() -> None:
    assert read_exit(EVENTS["PreToolUse"], 2, "", "no rm here\n") == Answer("deny", "no rm here")
    assert read_exit(EVENTS["Stop"], 2, "", "").decision == "deny"


def test_other_exit_code_is_fault() -> None:
    said = read_exit(EVENTS["PreToolUse"], 127, "", "first\nsh: x: not found\n")
    assert (said.decision, said.fault) == ("", "ended with exit code 127: sh: x: not found")
    assert read_exit(EVENTS["Stop"], -9, "", "").fault == "was ended by signal 9"


def test_bom_and_text_before_json_handled() -> None:
    refusal = json.dumps({"decision": "block", "reason": "r"})
    assert read_exit(EVENTS["PreToolUse"], 0, f"\ufeff{refusal}\n", "") == Answer("deny", "r")
    assert "before its JSON" in read_exit(EVENTS["PreToolUse"], 0, f"checking\n{refusal}\n", "").fault
    assert read_exit(EVENTS["SessionStart"], 0, "list:\n{a}\n", "") == Answer(context="list:\n{a}")


@pytest.mark.parametrize(("event", "context"), [("SessionStart", "hi"), ("UserPromptSubmit", "hi"), ("PreToolUse", "")])
def test_plain_text_is_context(event: str, context: str) -> None:
    assert read_exit(EVENTS[event], 0, "hi\n", "") == Answer(context=context)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"decision": "block", "reason": "r"}, Answer("deny", "r")),
        ({"decision": "approve"}, Answer("allow")),
        ({"continue": False, "stopReason": "enough"}, Answer(stop="enough")),
        ({"systemMessage": "m"}, Answer(message="m")),
        (
            {"hookSpecificOutput": {"permissionDecision": "ask", "permissionDecisionReason": "r"}},
            Answer("ask", "r"),
        ),
        ({"hookSpecificOutput": {"permissionDecision": "defer"}}, Answer()),
        ({"hookSpecificOutput": {"additionalContext": "c"}}, Answer(context="c")),
        ({"hookSpecificOutput": {"decision": {"behavior": "deny", "message": "r"}}}, Answer("deny", "r")),
        ({"hookSpecificOutput": {"updatedToolOutput": "o"}}, Answer(output="o")),
        (
            {"decision": "block", "reason": "r", "hookSpecificOutput": {"permissionDecision": None}},
            Answer("deny", "r"),
        ),
        (
            {"decision": None, "hookSpecificOutput": {"hookEventName": None, "additionalContext": "c"}},
            Answer(context="c"),
        ),
        ({}, Answer()),
    ],
)
def test_json_read_as_intended(given: object, said: Answer) -> None:
    assert read_json("PreToolUse", json.dumps(given)) == said


def test_changed_arguments_are_kept() -> None:
    said = read_json("PreToolUse", '{"hookSpecificOutput": {"updatedInput": {"command": "ls"}}}')
    assert said.arguments == {"command": "ls"}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"decision": "perhaps"}',
        '{"decision": ["deny"]}',
        '{"hookSpecificOutput": {"hookEventName": "Stop"}}',
        '{"hookSpecificOutput": {"updatedInput": "ls"}}',
        '{"hookSpecificOutput": {"updatedInput": {"timeout": NaN}}}',
        '{"hookSpecificOutput": {"updatedInput": {"timeout": 1e999}}}',
    ],
)
def test_unreadable_answer_decides_nothing(text: str) -> None:
    said = read_json("PreToolUse", text)
    assert said.fault and not said.decision and said.arguments is None


def test_refusal_wins() -> None:
    said = read_json("PreToolUse", '{"decision": "block", "hookSpecificOutput": {"updatedInput": {"timeout": NaN}}}')
    assert said.decision == "deny" and not said.fault


DECISIONS: tuple[Decision, ...] = ("", "allow", "ask", "deny")


@given(st.lists(st.sampled_from(DECISIONS), max_size=4))
def test_strictest_decision_wins(said: list[Decision]) -> None:
    answers = [Answer(each, each) for each in said]
    found = {combine(each).decision for each in permutations(answers)}
    assert found == {next((each for each in ("deny", "ask", "allow") if each in said), "")}


@given(st.text(max_size=200), st.sampled_from([*EVENTS]), st.integers(0, 255), st.text(max_size=50))
def test_any_output_gives_answer(out: str, event: str, code: int, err: str) -> None:
    said = read_exit(EVENTS[event], code, out, err)
    assert said.decision in ("", "deny") or out.strip().startswith("{")


@pytest.mark.parametrize(
    ("matcher", "tool", "is_about"),
    [
        ("", "Bash", True),
        ("Bash", "Bash", True),
        ("Bash", "BashOutput", False),
        ("Edit|Write", "Write", True),
        ("Edit|Write", "Read", False),
        ("mcp__.*", "mcp__github__list", True),
        ("Task", "AgentSpawn", True),
        ("AgentSpawn", "AgentSpawn", True),
        ("^Re", "Read", True),
        ("bash", "Bash", True),
        ("mcp__files", "mcp__files__read", True),
        ("mcp__files__read[1]", "mcp__files__read_1_", True),
        ("mcp__s__a.b|Write", "mcp__s__a_b_2", True),
        ("mcp__file", "mcp__files__read", False),
        *(
            (each, "Bash", True)
            for each in ("Bash;Edit", "Edit Bash", "{Edit, Bash}", "@(Edit|Bash)", "'Bash'", "/Bash/")
        ),
        *(
            (each, "Bash", True)
            for each in ("Bash(rm:*)", "Edit, Bash(git push *)", "Bash(*.sh)|Edit", "\u201cBash\u201d")
        ),
        *((each, "Bash", False) for each in ("BashOutput(x *)", "{Edit, Write}", "(?!Bash)Edit", "Web(Fetch)")),
    ],
)
def test_matchers(matcher: str, tool: str, is_about: bool) -> None:
    assert Hook("PreToolUse", "x", matcher=matcher).is_about(names_of(tool)) is is_about


def test_hook_shown_on_one_line() -> None:
    hook = Hook("PreToolUse", "x\u202e", matcher="A\nhook Stop: true|B\x9b\u043e", headers={"a\nb": "\u202e"}, url="")
    assert hook.wanted.isascii() and hook.wanted.isprintable()
    assert 'PreToolUse "A\\nhook Stop' in str(hook)
