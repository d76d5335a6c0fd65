"""The tool with which an executor asks an advisor."""

from collections.abc import Sequence
from pathlib import Path

from sagent.advisor.conversation import TOOL
from sagent.context.calls import bound_output
from sagent.errors import ToolError, UsageError
from sagent.events import Advice
from sagent.lib.json import JsonObject, as_str, json_freeze_object
from sagent.messages import Message, Text, user
from sagent.tool import Blobs, Harmless, RunContext, ToolOutput

_NONE = {"declined": "declined to advise", "failed": "could not be asked", "withheld": "was not asked"}


class AdvisorTool(Harmless):
    """Asks an advisor. Arguments other than `question` and `name` are ignored: models send junk to such tools."""

    name = TOOL
    quick = True
    lenient = True  # unknown arguments are ignored

    def __init__(self, names: Sequence[str]) -> None:
        named = f" The advisors are {', '.join(names)}; without a name {names[0]} is asked." if len(names) > 1 else ""
        self.description = prompt_text("tool") + named
        properties = {"question": {"type": "string"}, "name": {"type": "string"}}
        self.parameters = json_freeze_object({"type": "object", "properties": properties})

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Return an advisor's advice, or why there is none: neither ends the run."""
        if run.caller is None:
            raise ToolError("No advisor is available here.")
        try:
            advice = await run.caller.consult(as_str(arguments.get("question")), as_str(arguments.get("name")))
        except UsageError as error:
            raise ToolError(str(error)) from error
        text = Text("\n\n".join(map(format_advice, advice)))
        summary = "; ".join(f"{one.advisor}: {one.verdict or one.status}" for one in advice)
        return ToolOutput((text,), is_error=not any(map(is_answer, advice)), summary=summary)


def format_advice(advice: Advice) -> str:
    """Return a consultation as the executor reads it."""
    match advice.status:
        case "answered":
            return f"{advice.advisor} advises:\n{advice.text}"
        case "cut":
            return f"{advice.advisor} advises (cut at its length limit):\n{advice.text}"
        case "declined":
            said = f" It said: {advice.text}" if advice.text else ""
            return f"{advice.advisor} declined to advise: {advice.reason}.{said} Go on without it."
        case "failed":
            return f"{advice.advisor} could not be asked: {advice.reason}. Go on without it."
        case "withheld":
            return f"{advice.advisor} was not asked: {advice.reason}. Go on by yourself."


def prompt_text(name: str) -> str:
    """Return a text for a model, from the file of that name in this package."""
    return Path(__file__).with_name(f"{name}.md").read_text("utf-8").strip()


def is_answer(advice: Advice) -> bool:
    """Return True if it has advice."""
    return advice.status in ("answered", "cut")


def is_consent(advice: Advice) -> bool:
    """Return True for advice that requests nothing."""
    return advice.verdict == "proceed" and not (advice.gaps or advice.next or advice.check)


def refusal_of(answers: Sequence[Advice]) -> str:
    """Return the reasons why there is no advice."""
    return "; ".join(f"{one.advisor} {_NONE.get(one.status, one.status)}: {one.reason}" for one in answers)


def message_of(advice: Advice, blobs: Blobs, closing: str = "") -> Message:
    """Return unrequested advice as the executor reads it, no longer than the result of a call, followed by
    `closing`."""
    if advice.trigger == "person":
        head = f"Advice that the person asked for{f' ({advice.question})' if advice.question else ''}"
    else:
        head = f"Advice, unasked ({advice.question or advice.trigger})"
    output = bound_output(ToolOutput.of(f"{head}. {format_advice(advice)}"), blobs)
    text = "".join(part.text for part in output.content if isinstance(part, Text))
    return user(f"{text.rstrip()}\n\n{closing}" if closing else text, sender=f"{TOOL}:{advice.advisor}")
