"""What a transcript is made of: everything that is written above the input line, once, and never touched again."""

from dataclasses import field
from typing import Literal, TypeAlias

from sagent.events import Advice, Result
from sagent.lib.dataclass import dataclass
from sagent.messages import ToolCall
from sagent.repl.view.lines import Line
from sagent.repl.view.markdown import Piece

Level: TypeAlias = Literal["info", "warning", "error"]


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

    lines: tuple[Line, ...] = field(default=())


Block: TypeAlias = Said | Prose | Thought | Called | GivenAdvice | Report | Returned | Shell | Page
