"""The plan that was proposed last, read from the conversation."""

import re
from collections.abc import Sequence

from sagent.lib.json import as_str
from sagent.messages import Message

EXIT_PLAN = "ExitPlan"
SENDER = "plan"  # of the message that keeps the plan when the conversation is cut
PLAN_MODE = "plan mode"  # of messages that turn it on or off
ON = "Plan mode is on"  # their first words when it is on
_HEAD = "The plan that was proposed last:"
_WHOLE = (None, "end", "tool_use", "stop_sequence")
_HEADING = re.compile(r"^#{1,4} +(?:the )?plan\b", re.IGNORECASE | re.MULTILINE)


def plan_in(reply: Message) -> str:
    """Return the plan under a heading in a reply; "" if it has none, or was cut or withdrawn."""
    whole = reply.role == "assistant" and reply.stop in _WHOLE
    match = _HEADING.search(reply.content) if whole else None
    return reply.content[match.start() :].strip() if match else ""


def last_plan(messages: Sequence[Message]) -> str:
    """Return the plan that the last reply proposes, by a call or under a heading; "" if it has none."""
    reply = next((message for message in reversed(messages) if message.role == "assistant"), None)
    return "" if reply is None else _proposed(reply)[0]


def is_planning(messages: Sequence[Message]) -> bool:
    """Return True if the model has read that plan mode is on, and not yet that it is off."""
    said = (message.content for message in reversed(messages) if message.sender == PLAN_MODE)
    return next(said, "").startswith(ON)


def plan_note(messages: Sequence[Message], gone: Sequence[Message]) -> tuple[tuple[str, str], ...]:
    """Return the plan and the person's answer as a message with its sender, if the cut part has them."""
    answers = {result.call_id: result.text for message in messages for result in message.results}
    for message in reversed(messages):
        plan, call = _proposed(message) if message.role == "assistant" else ("", "")
        note = "\n\n".join(filter(None, (_HEAD, plan, answers.get(call)))) if plan else message.content
        if plan or message.sender == SENDER:
            return ((SENDER, note),) if any(message is each for each in gone) else ()
    return ()


def _proposed(reply: Message) -> tuple[str, str]:
    """Return the plan that a reply proposes, and the id of the call that does; "" if no call does."""
    calls = (call for call in reply.whole_calls if call.name == EXIT_PLAN)
    called = ((as_str(call.arguments.get("plan")).strip(), call.id) for call in calls)
    return next(filter(lambda found: found[0], called), (plan_in(reply), ""))
