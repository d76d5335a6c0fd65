"""The end of an earlier conversation as blocks, shown when a session is resumed."""

from collections.abc import Sequence

from sagent.messages import Message, Text
from sagent.repl.view.blocks import Block, Called, Prose, Report, Said
from sagent.repl.view.markdown import Flow, feed, finish

MOST_MESSAGES = 30


def past_blocks(messages: Sequence[Message], agent: str) -> Sequence[Block]:
    """The last messages as blocks, after a note of how many came before them."""
    if not messages:
        return ()
    blocks: list[Block] = []
    if len(messages) > MOST_MESSAGES:
        blocks.append(Report(f"{len(messages) - MOST_MESSAGES} earlier messages are not shown."))
    results = {result.call_id: result for message in messages for result in message.results}
    for message in messages[-MOST_MESSAGES:]:
        if message.role == "user":
            texts = [part.text for part in message.parts if isinstance(part, Text)]
            if texts:
                blocks.append(Said(message.content if message.sender else texts[0], message.sender))
            continue
        flow, pieces = feed(Flow(), message.content)
        blocks += map(Prose, (*pieces, *finish(flow)))
        for call in message.calls:
            result = results.get(call.id)
            output = result.text if result else ""
            failed = result is not None and result.is_error
            blocks.append(Called(agent, call, output.strip().split("\n", 1)[0][:200], 0.0, failed, output=output))
    blocks.append(Report("The session goes on."))
    return blocks
