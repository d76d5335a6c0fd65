"""Parts of the streams that do not depend on the protocol: sums, results and errors as JSON."""

from base64 import b64encode
from collections.abc import Callable
from decimal import Decimal
from typing import NamedTuple, TypeAlias, assert_never

from sagent.events import AdviceDelta, Advised, Failure, Notice, Result, Retrying, Switched, ToolFinished, ToolProgress
from sagent.lib.dataclass import dataclass
from sagent.lib.json import json_thaw
from sagent.lib.money import EXACT, ZERO
from sagent.messages import Document, Image, ToolCall
from sagent.plugins.pauses import original_id
from sagent.usage import Usage

Chunk: TypeAlias = dict[str, object]
ErrorText: TypeAlias = Callable[[Failure], str]


def kind_only(failure: Failure) -> str:
    """Return the kind of an error, without its words, which may name addresses and files of the server."""
    return f"The run failed ({failure.kind})."


def never(_: str) -> str | None:
    """Return None: no call waits."""
    return None


@dataclass(slots=True)
class Spent:
    """Tokens and USD of a run so far, subagents included. `usd` is None if a price is unknown."""

    usd: Decimal | None = ZERO
    input: int = 0
    output: int = 0

    def add(self, usage: Usage, usd: Decimal | None) -> None:
        """Add a model call."""
        self.usd = None if self.usd is None or usd is None else EXACT.add(self.usd, usd)
        self.input += usage.total_input
        self.output += usage.output

    def show(self) -> Chunk:
        """Return the sums as JSON, USD as a decimal string."""
        return {
            "usd": None if self.usd is None else str(self.usd),
            "inputTokens": self.input,
            "outputTokens": self.output,
        }


def call_input(call: ToolCall) -> object:
    """Return the arguments of a call, or its text if they were no JSON object."""
    return json_thaw(call.arguments) if call.malformed is None else call.malformed


def output_of(event: ToolFinished) -> Chunk:
    """Return the result of a call: its text, and what else it has."""
    files = [
        {"mediaType": part.media_type, "url": f"data:{part.media_type};base64,{b64encode(part.data).decode()}"}
        for part in event.result.content
        if isinstance(part, Image | Document)
    ]
    more: Chunk = {"summary": event.summary, "diff": event.diff, "job": event.job, "files": files}
    return {"text": event.result.text, **{name: value for name, value in more.items() if value}}


def end_of(result: Result) -> Chunk:
    """Return what a run came to, as JSON."""
    unknown = bool(result.cost.unpriced)
    return {
        "stopReason": result.stop_reason,
        "model": result.model,
        "session": result.session_id,
        "turns": result.turns,
        "usd": None if unknown else str(result.run_usd),
        "inputTokens": result.usage.total_input,
        "outputTokens": result.usage.output,
    }


class News(NamedTuple):
    """Something that neither protocol has a word for. If `kept`, it belongs to the answer; other news is passing."""

    name: str
    data: Chunk
    kept: bool = False


def news(event: AdviceDelta | Advised | Notice | Retrying | Switched | ToolProgress) -> News:
    """Return an event as news."""
    match event:
        case AdviceDelta(advisor=advisor, text=text):
            return News("advice", {"advisor": advisor, "text": text})
        case Advised(advice=advice):
            usd = None if advice.usd is None else str(advice.usd)
            data = {"advisor": advice.advisor, "status": advice.status, "verdict": advice.verdict, "usd": usd}
            return News("advised", {**data, "text": advice.text}, kept=True)
        case Notice(level=level, text=text):
            return News("notice", {"level": level, "text": text}, kept=True)
        case Switched(what=text):
            return News("notice", {"level": "info", "text": text}, kept=True)
        case Retrying():
            data = {"kind": event.kind, "attempt": event.attempt, "seconds": event.seconds}
            return News("retry", {**data, "discarded": event.discarded})
        case ToolProgress(call_id=call_id, text=text):
            return News("progress", {"toolCallId": original_id(call_id), "text": text})
        case _:
            assert_never(event)
