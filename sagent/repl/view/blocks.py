"""What a transcript is made of: everything that is written above the input line, once, and never touched again."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from sagent.events import Advice, Result
from sagent.lib.dataclass import dataclass
from sagent.messages import Message, Text, ToolCall
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
class Prose:
    """A block of the model's answer."""

    piece: Piece


@dataclass(frozen=True, slots=True)
class Thought:
    """The model's reasoning, when it is over. Shown as one line, or whole."""

    text: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Called:
    """A call that was answered; `output` is what the model reads, `job` the job as which it goes on."""

    agent: str
    call: ToolCall
    summary: str
    seconds: float
    is_error: bool = False
    diff: str = ""
    output: str = ""
    job: str = ""


@dataclass(frozen=True, slots=True)
class GivenAdvice:
    advice: Advice


@dataclass(frozen=True, slots=True)
class Report:
    """A sentence for the person from the program itself."""

    text: str
    level: Level = "info"


@dataclass(frozen=True, slots=True)
class Returned:
    """Another agent of the tree has ended its turn."""

    agent: str
    result: Result


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


Block: TypeAlias = Said | Prose | Thought | Called | GivenAdvice | Report | Returned | Shell | Page


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
        blocks += map(Prose, pieces_of(message.content))
        for call in message.calls:
            result = results.get(call.id)
            output = result.text if result else ""
            failed = result is not None and result.is_error
            blocks.append(Called(agent, call, output.strip().split("\n", 1)[0][:200], 0.0, failed, output=output))
    blocks.append(Report("The session goes on."))
    return blocks
