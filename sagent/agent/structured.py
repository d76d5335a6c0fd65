"""Answers as data: the schema for the model, and one chance to repair an answer that does not match.

If the provider takes the schema and makes its model follow it, nothing is added to the prompt; otherwise the schema is
in a message after the prompt, because the system prompt is fixed. Either way the answer is checked here.
"""

import re
from collections.abc import Awaitable, Callable
from functools import partial
from inspect import isawaitable
from typing import cast

from sagent.engine.loop import take_turn
from sagent.engine.state import AgentState, Arrived
from sagent.errors import ModelError, ToolError
from sagent.events import Failure
from sagent.lib.dataclass import dataclass
from sagent.lib.json import JsonObject, json_dump
from sagent.messages import user
from sagent.model import Structuring

_SCHEMA_REFUSED = re.compile(
    r"schema|response_?format|responsemime|output_config|text\.format|structured|json|grammar", re.IGNORECASE
)

ASK = """\
Answer the request above with one JSON value that fits the schema below, and with nothing else: no words around it and \
no code fence. You may use tools before. This holds for this request only.

{schema}"""
REPAIR = """\
That answer cannot be used: {wrong}

Give the whole answer again, as one JSON value{schema}, with nothing around it."""


@dataclass(frozen=True, slots=True)
class Output:
    """The form of an answer: `schema` is an object's, and `find` returns the data in an answer, or raises ValueError
    that explains the error."""

    schema: JsonObject
    find: Callable[[str], object]


async def take_structured_turn(state: AgentState, output: Output) -> tuple[str, object, Failure | None]:
    """Take a turn with data as its answer; return why it ended, the data, and the error if there are none. If an answer
    does not match, the model reads the error and may answer once more."""
    state.context.output_schema = output.schema
    try:
        in_words = not _held(state)
        if in_words:
            _ask(state, output)
        repaired = False
        while True:
            reason, in_words = await _turn(state, output, in_words=in_words)
            if reason not in ("end", "stop_sequence"):
                return reason, None, None
            try:
                replies = (each for each in reversed(state.context.history) if each.role == "assistant")
                return reason, await _made(output.find(next((reply.content for reply in replies), ""))), None
            except (ValueError, ToolError) as error:
                wrong = str(error)
            if repaired:
                words = f"the answer does not match the requested form, and its repair did not either: {wrong}"
                return reason, None, Failure("invalid_output", words)
            state.journal.notify("info", f"The answer does not match the requested form; asking again: {wrong}")
            repaired, in_words = True, in_words or _held(state)
            schema = "" if in_words else f" that fits this schema:\n\n{json_dump(output.schema)}\n\n"
            state.inbox.put(Arrived(user(REPAIR.format(wrong=wrong, schema=schema), sender="sagent")))
    finally:
        state.context.output_schema = None


async def _turn(state: AgentState, output: Output, *, in_words: bool) -> tuple[str, bool]:
    """Take a turn, without the schema if the provider refuses it; also return True if the prompt now describes it."""
    try:
        return await take_turn(state), in_words
    except ModelError as error:
        refused = error.kind in ("invalid_request", "permission") and _SCHEMA_REFUSED.search(str(error))
        if state.context.output_schema is None or not refused:
            raise
        state.journal.notify(
            "warning", f"The provider does not enforce the answer's schema; it is only described in the prompt. {error}"
        )
    state.context.output_schema = None
    if not in_words:
        _ask(state, output)
    return await take_turn(state), True


async def _made(data: object) -> object:
    """Return data as they are, and for the call of an output function what that returns."""
    if not isinstance(data, partial):
        return data
    from sagent.tools.decorator import in_thread

    made = await in_thread(cast("Callable[[], object]", data))
    return await cast("Awaitable[object]", made) if isawaitable(made) else made


def _held(state: AgentState) -> bool:
    """Return True if the provider gives its model the schema."""
    return isinstance(state.model, Structuring) and state.model.structures(state.context.request())


def _ask(state: AgentState, output: Output) -> None:
    state.inbox.put(Arrived(user(ASK.format(schema=json_dump(output.schema)), sender="sagent")))
