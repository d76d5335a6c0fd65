"""The text of a question about a call: all of the call, in letters that do not mislead."""

from collections.abc import Sequence

from sagent.lib.json import json_dump
from sagent.lib.text import spelled
from sagent.messages import ToolCall
from sagent.policy import Ask


def call_text(call: ToolCall) -> str:
    """Return a call's arguments as text; a command comes first, verbatim, and the others after it."""
    others = {name: value for name, value in call.arguments.items() if name != "command"}
    command = call.arguments.get("command")
    if not isinstance(command, str):
        return spelled(json_dump(call.arguments))
    lines = (*command.split("\n"), *([f"with {json_dump(others)}"] if others else ()))
    return "\n".join(map(spelled, lines))


def wants_text(wants: Sequence[str]) -> str:
    """Describe a call's additional requests in a sentence; "" for none."""
    return f"It also asks for: {', '.join(map(spelled, wants))}." if wants else ""


def question_text(call: ToolCall, ask: Ask) -> str:
    """Describe a call, its agent, its additional requests, and why approval is needed."""
    head = f"{spelled(ask.agent or 'sagent')} wants to call {spelled(call.name)}:"
    return "\n".join(filter(None, (head, call_text(call), wants_text(ask.wants), spelled(ask.reason))))
