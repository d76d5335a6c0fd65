"""The AI SDK's UI message stream: https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol."""

from collections.abc import Callable, Iterator, Mapping
from typing import Literal, assert_never

from sagent.events import (
    AdviceDelta,
    Advised,
    Denied,
    Event,
    Failure,
    Finished,
    Notice,
    Received,
    ReplyFinished,
    Retrying,
    SessionOpened,
    Switched,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from sagent.lib.json import wire_bytes
from sagent.plugins.frontends.shown import (
    Chunk,
    ErrorText,
    Spent,
    call_input,
    end_of,
    kind_only,
    never,
    news,
    output_of,
)
from sagent.plugins.pauses import original_id

_FINISH = {
    "end": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "refusal": "content-filter",
    "content_filter": "content-filter",
    "error": "error",
}


class UIChunks:
    """The chunks of one answer, for `useChat` of the AI SDK 7, or of 6 with `sdk=6`.

    `waits` returns the question about a call that waits for a person's answer, by its id, None for any other;
    `error_text` describes a failure to the reader. Subagents are data parts, one for each, with what they are doing.
    """

    headers: Mapping[str, str] = {"x-vercel-ai-ui-message-stream": "v1"}

    def __init__(
        self, *, sdk: Literal[6, 7] = 7, waits: Callable[[str], str | None] = never, error_text: ErrorText = kind_only
    ) -> None:
        self._sdk, self._waits, self._error_text = sdk, waits, error_text
        self._begun = self._in_step = self._asked = False
        self._open: Literal["", "text", "reasoning"] = ""
        self._parts = self._told = 0
        self._announced = set[str]()
        self._spent = Spent()

    def encode(self, event: Event) -> Iterator[bytes]:
        """Yield an event's server-sent events."""
        if not self._begun:
            self._begun = True
            yield _sent({"type": "start"})
        if isinstance(event, ReplyFinished):
            self._spent.add(event.usage, event.usd)
        elif isinstance(event, Advised):
            self._spent.add(event.advice.usage, event.advice.usd)
        yield from map(_sent, self._below(event) if "/" in event.agent else self._chunks(event))
        if isinstance(event, Finished) and "/" not in event.agent:
            yield b"data: [DONE]\n\n"

    def fail(self, failure: Failure) -> Iterator[bytes]:
        """Yield the end of a stream whose run raised an error of the program."""
        yield from map(_sent, self._close())
        yield _sent({"type": "error", "errorText": self._error_text(failure)})
        yield b"data: [DONE]\n\n"

    def _chunks(self, event: Event) -> Iterator[Chunk]:
        match event:
            case TextDelta(text=text):
                yield from self._piece("text", text)
            case ThinkingDelta(text=text):
                yield from self._piece("reasoning", text)
            case ReplyFinished(message=message):
                yield from self._close()
                for call in message.calls:
                    yield from self._announce(call.id, call.name, call_input(call))
                yield {"type": "data-cost", "id": "cost", "data": self._spent.show()}
                self._in_step = False
            case Retrying():
                yield from self._retry(event)
            case ToolStarted(call=call):
                if original_id(call.id) == call.id:
                    yield from self._announce(call.id, call.name, call_input(call))
            case ToolFinished():
                yield self._answered(event)
            case AdviceDelta() | Advised() | Notice() | Switched() | ToolProgress():
                yield self._tell(event)
            case Finished():
                yield from self._finish(event)
            case SessionOpened() | Received() | Denied():  # a denied call is answered, too
                return
            case _:
                assert_never(event)

    def _below(self, event: Event) -> Iterator[Chunk]:
        """Yield what a subagent does."""
        match event:
            case ToolStarted(call=call):
                doing = call.name
            case ToolFinished() | ReplyFinished():
                doing = "thinking"
            case Finished(result=result):
                doing = f"ended: {result.stop_reason}"
            case _:
                return
        yield {"type": "data-agent", "id": event.agent, "data": {"agent": event.agent, "doing": doing}}

    def _step(self) -> Iterator[Chunk]:
        """Begin a step if none is open. What follows a call that waits stays in its step: the client goes on by
        itself only if its last step has the answered calls."""
        if not self._in_step and not self._asked:
            yield {"type": "start-step"}
        self._in_step = True

    def _piece(self, kind: Literal["text", "reasoning"], text: str) -> Iterator[Chunk]:
        if self._open != kind:
            yield from self._close()
            yield from self._step()
            self._open, self._parts = kind, self._parts + 1
            yield {"type": f"{kind}-start", "id": str(self._parts)}
        yield {"type": f"{kind}-delta", "id": str(self._parts), "delta": text}

    def _close(self) -> Iterator[Chunk]:
        if self._open:
            yield {"type": f"{self._open}-end", "id": str(self._parts)}
            self._open = ""

    def _announce(self, call_id: str, name: str, given: object) -> Iterator[Chunk]:
        if call_id not in self._announced:
            self._announced.add(call_id)
            yield from self._step()
            said = {"toolCallId": call_id, "toolName": name, "input": given, "dynamic": True}
            yield {"type": "tool-input-available", **said}

    def _answered(self, event: ToolFinished) -> Chunk:
        call = original_id(event.call.id)
        if event.result.denied and (question := self._waits(call)) is not None:
            self._asked = True
            reason = {"reason": question} if self._sdk >= 7 else {}  # 6 refuses what it lacks
            return {"type": "tool-approval-request", "approvalId": call, "toolCallId": call, **reason}
        if event.result.denied and call != event.call.id:
            return {"type": "tool-output-denied", "toolCallId": call}
        if event.result.is_error:
            return {"type": "tool-output-error", "toolCallId": call, "errorText": event.result.text, "dynamic": True}
        return {"type": "tool-output-available", "toolCallId": call, "output": output_of(event), "dynamic": True}

    def _retry(self, event: Retrying) -> Iterator[Chunk]:
        yield from self._close()
        if event.discarded and self._in_step and not self._asked and self._sdk >= 7:
            yield {"type": "reset-step"}
        yield self._tell(event)

    def _finish(self, event: Finished) -> Iterator[Chunk]:
        result = event.result
        yield from self._close()
        if result.stop_reason == "interrupted":
            yield {"type": "abort"}
        elif result.error is not None:
            yield {"type": "error", "errorText": self._error_text(result.error)}
        reason = _FINISH.get(result.stop_reason, "error" if result.is_error else "other")
        yield {"type": "finish", "finishReason": reason, "messageMetadata": end_of(result)}

    def _tell(self, event: AdviceDelta | Advised | Notice | Retrying | Switched | ToolProgress) -> Chunk:
        told = news(event)
        if not told.kept:
            return {"type": f"data-{told.name}", "data": told.data, "transient": True}
        self._told += 1
        return {"type": f"data-{told.name}", "id": f"{told.name}-{self._told}", "data": told.data}


def _sent(chunk: Mapping[str, object]) -> bytes:
    return b"data: %b\n\n" % wire_bytes(chunk)
