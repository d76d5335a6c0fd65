"""The to-do list of the last TodoWrite call in the conversation."""

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

from sagent.lib.dataclass import dataclass
from sagent.lib.json import JsonObject, as_array, as_object, as_str
from sagent.messages import Message, ToolCall

State: TypeAlias = Literal["pending", "in_progress", "completed"]
STATES: tuple[State, ...] = get_args(State)
TODO = "TodoWrite"
SENDER = "todo"  # of the message that keeps the list when the conversation is cut
_HEAD = "The list that TodoWrite wrote last:"
_STATES: dict[str, State] = {state: state for state in STATES}
_MARKS: dict[State, str] = {"pending": " ", "in_progress": ">", "completed": "x"}
_LINE = re.compile(r"- \[([ >x])\] (.*)")


@dataclass(frozen=True, slots=True)
class Task:
    """One entry of the list; its text is one line."""

    text: str
    state: State


def written(call: ToolCall, *, failed: bool = False) -> tuple[Task, ...] | None:
    """Return the list that a call wrote; None if the call `failed` or is of another tool."""
    wrote = call.name == TODO and call.whole and not (failed or call.malformed)
    return read_tasks(call.arguments) if wrote else None


def read_tasks(arguments: JsonObject) -> tuple[Task, ...]:
    """Return the list that a call writes."""
    given = map(as_object, as_array(arguments.get("todos")))
    return tuple(
        Task(text, _STATES.get(as_str(each.get("status")), "pending"))
        for each in given
        if (text := " ".join(as_str(each.get("content")).split()))
    )


def tasks_in(messages: Sequence[Message]) -> tuple[Task, ...]:
    """Return the last written list; () if there is none."""
    place, tasks = _find(messages)
    return tasks if place >= 0 else ()


def list_note(messages: Sequence[Message], gone: Sequence[Message]) -> tuple[tuple[str, str], ...]:
    """Return the list as a message with its sender, if the call that wrote it is in the cut part."""
    place, tasks = _find(messages)
    if not tasks or not any(messages[place] is each for each in gone):
        return ()
    lines = (f"- [{_MARKS[task.state]}] {task.text}" for task in tasks)
    return ((SENDER, "\n".join((_HEAD, *lines))),)


def _find(messages: Sequence[Message]) -> tuple[int, tuple[Task, ...]]:
    """Find the message that wrote the list last, and the list; -1 if there is none."""
    failed: set[str] = set()
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        failed |= {result.call_id for result in message.results if result.is_error}
        for call in reversed(message.calls):
            if (tasks := written(call, failed=call.id in failed)) is not None:
                return place, tasks
        if message.sender == SENDER and message.content.startswith(_HEAD):
            states: dict[str, State] = {mark: state for state, mark in _MARKS.items()}
            found = filter(None, map(_LINE.fullmatch, message.content.split("\n")))
            return place, tuple(Task(line[2], states[line[1]]) for line in found)
    return -1, ()
