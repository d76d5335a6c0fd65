"""What a transcript is made of: everything that is written above the input line, once, and never touched again."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from sagent.events import Advised, Finished, ToolFinished
from sagent.lib.dataclass import dataclass
from sagent.messages import Message, Text, ToolResult
from sagent.repl.view.lines import Line
from sagent.repl.view.markdown import Piece, pieces_of

Level: TypeAlias = Literal["info", "warning", "error"]
MOST_MESSAGES = 30  # of an earlier conversation that are shown


@dataclass(frozen=True, slots=True)
class Said:
    """A message of a person, or of `sender`: an agent, a job. `attached` counts what came with it."""

    text: str
    sender: str = ""
    attached: int = 0


@dataclass(frozen=True, slots=True)
class Thought:
    """The model's reasoning, when it is over. Shown as one line, or whole."""

    text: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """A sentence for the person from the program itself."""

    text: str
    level: Level = "info"


@dataclass(frozen=True, slots=True)
class Shell:
    """A command line of the person's own, and what it wrote."""

    command: str
    output: str
    code: int


@dataclass(frozen=True, slots=True)
class Page:
    """Lines that are ready, as a command writes them."""

    lines: tuple[Line, ...]


Block: TypeAlias = Said | Piece | Thought | ToolFinished | Advised | Finished | Report | Shell | Page
"""Some events are blocks as they are: a call that was answered, advice, and the end of another agent's turn."""


def past_blocks(messages: Sequence[Message], agent: str) -> Sequence[Block]:
    """The end of an earlier conversation, shown when a session is resumed, after a note of how many messages came
    before."""
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
        blocks += pieces_of(message.content)
        for call in message.calls:
            result = results.get(call.id) or ToolResult(call.id, ())
            blocks.append(ToolFinished(agent, call, result, 0.0, result.text.strip().split("\n", 1)[0][:200]))
    blocks.append(Report("The session goes on."))
    return blocks
