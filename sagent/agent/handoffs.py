"""What agents of a tree tell each other about their work: what was asked and what was answered, in brief."""

from collections.abc import Sequence
from typing import NamedTuple

from sagent.engine.state import AgentState
from sagent.events import Result
from sagent.messages import Message, Text, user

BRIEF_PARTS, BRIEF_LENGTH = 3, 1_500  # hand-offs that a new agent reads, and characters of each


class Handoff(NamedTuple):
    """What an agent was asked, and its answer."""

    path: str
    asked: str
    answered: str


def brief(state: AgentState, handoffs: Sequence[Handoff]) -> str:
    """The last request of the person or another sender, and the last answers of other agents, shortened."""
    asked = last_asked(state)
    parts = [f"{state.path} was asked:\n{short(asked)}"] if asked else []
    parts += [
        f"{each.path} was asked:\n{short(each.asked)}\nand answered:\n{short(each.answered)}"
        for each in handoffs[-BRIEF_PARTS:]
    ]
    return "\n\n".join(parts)


def short(text: str) -> str:
    """A text, shortened to its beginning and end if it is long."""
    return text if len(text) <= BRIEF_LENGTH else f"{text[: BRIEF_LENGTH - 200]} … {text[-190:]}"


def last_asked(state: AgentState) -> str:
    """The last message that was sent to an agent."""
    history = reversed(state.context.history)
    return next((message.content for message in history if message.role == "user" and message.content), "")


def answer_of(path: str, result: Result) -> Message:
    """What the asker reads when an agent has ended a turn."""
    if result.error is None:
        head = f"{path} has answered:"
    else:
        head = f"{path} failed ({result.error.kind}): {result.error.message}"
        head += "\nIts output so far:" if result.content else "\nIt had not said anything yet."
    return user("", Text(f"{head}\n{result.content}".rstrip()), sender=path)
