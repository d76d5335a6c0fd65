"""`/btw`: one more request that begins as the conversation's own does, so that a cache serves most of it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from sagent.engine.request import make_side_call
from sagent.errors import UsageError
from sagent.lib.figures import money
from sagent.messages import Message, user
from sagent.repl.commands.command import CommandContext, command
from sagent.repl.view.lines import printable, wrap
from sagent.repl.view.markdown import pieces_of, render_piece

ROLE = "aside"  # of its calls in the ledger
MAX_OUTPUT_TOKENS = 4_096
MAX_WIDTH = 100  # columns of the answer
_INSTRUCTION = (
    "\n\n(This is a question aside. Answer it in a few sentences from what you know of this conversation, and call no "
    "tool. Your work goes on without it: neither the question nor your answer stays in the conversation.)"
)


@command(here=True)
async def btw(context: CommandContext, text: Annotated[str, "question"]) -> None:
    """Ask a side question, also during a turn.

    The model reads the conversation; neither the question nor the answer stays in it. The cost is part of the
    session's.
    """
    state = context.local.state
    own, output = state.context.request(), state.limits.max_response_tokens
    request = replace(
        own,
        conversation=f"{own.conversation}:{ROLE}",
        messages=(*answered(own.messages), user(text + _INSTRUCTION)),
        max_output=min(MAX_OUTPUT_TOKENS, output or MAX_OUTPUT_TOKENS),
        output_schema=None,
    )
    if not context.has_person:
        raise UsageError("A side question needs a person who reads its answer: send it as a prompt.")
    work = make_side_call(state, state.context.model, request, ROLE, lambda _: None)
    reply, usd = await context.stoppable(work, f"/btw {text}")
    if not (said := reply.message.content.strip()):
        raise UsageError(f"There was no answer, only {'a call' if reply.message.calls else 'silence'}. Ask it again.")
    bar, width = ("class:dim", "  │ "), min(context.width, MAX_WIDTH)
    cut = ", cut at its limit" if reply.message.stop == "max_tokens" else ""
    about = f" · {money(usd)}{cut} · not part of the conversation"
    head = wrap(
        [("class:argument", printable(text)), ("class:dim", about)],
        width,
        (("class:done", "● "), ("class:tool", "btw ")),
    )
    lines = [line for piece in pieces_of(said) for line in render_piece(piece, width - 4)]
    context.write([*head, *((bar, *line) for line in lines)])


def answered(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages up to the last one whose calls all have results."""
    results = {result.call_id for message in messages for result in message.results}
    kept = list(messages)
    while kept and not all(call.id in results for call in kept[-1].calls):
        kept.pop()
    return kept
