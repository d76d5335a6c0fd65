"""The AskUser tool: a question to the person at the session, with answers to choose from."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from sagent.errors import ToolError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import JsonObject, as_array, as_str
from sagent.tool import Harmless, RunContext, ToolOutput, arguments_schema

MAX_OPTIONS = 9


@dataclass(frozen=True, slots=True)
class Question:
    """A question of an agent. With `multiple` any number of the options is an answer; free text always is. A `plan`
    needs a decision."""

    agent: str
    text: str
    options: tuple[str, ...] = ()
    multiple: bool = False
    plan: str = ""

    def read(self, line: str) -> str | None:
        """Return the answer in a typed line: the option of a number, several with `multiple`, else the text; None for
        an empty line."""
        words = line.replace(",", " ").split()
        numbers = [int(word) for word in words if word.isdecimal() and len(word) < 9]
        chosen = [self.options[number - 1] for number in numbers if 0 < number <= len(self.options)]
        if chosen and len(chosen) == len(words) and (self.multiple or len(chosen) == 1):
            return "\n".join(dict.fromkeys(chosen))
        return line.strip() or None


Answerer: TypeAlias = Callable[[Question], Awaitable[str | None]]
"""Asks a person a question and waits for the answer; None if they leave it open."""


class AskUser(Harmless):
    """Asks a person through `answer`. Without it every call fails: offer the tool only if a person can answer."""

    name = "AskUser"
    quick = True
    description = (
        "Ask the person, when only they can know or decide and it matters; else decide by yourself. They choose from "
        "`options`, or write something else."
    )
    parameters = arguments_schema(
        "question",
        question={"type": "string"},
        options={"type": "array", "items": {"type": "string"}, "maxItems": MAX_OPTIONS},
        multiple={"type": "boolean", "description": "several options may be chosen"},
    )

    def __init__(self, answer: Answerer | None = None) -> None:
        self._answer = answer

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Ask, and wait. Raises ToolError if no person can be asked."""
        text = as_str(arguments.get("question")).strip()
        if not text:
            raise ToolError("The question is empty.")
        if self._answer is None:
            raise ToolError("There is nobody to ask: decide yourself, and say in your answer what you assumed.")
        options = tuple(dict.fromkeys(as_str(option) for option in as_array(arguments.get("options")) if option))
        said = await self._answer(Question(run.agent, text, options, arguments.get("multiple") is True))
        if said is None:
            said = "The person left the question unanswered: decide yourself, or end your turn."
            return ToolOutput.of(said, summary="left unanswered")
        return ToolOutput.of(said, summary=said)
