"""AG-UI 1.0, the protocol between agents and user interfaces: https://docs.ag-ui.com."""

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
    Result,
    Retrying,
    SessionOpened,
    Switched,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from sagent.lib.json import json_dump, wire_bytes
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

ANSWER = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["approved"],
}
"""The form of an answer to a call that waits."""


class AGUIEvents:
    """The events of one run, for `HttpAgent` of AG-UI.

    A run of which calls wait ends with the outcome "interrupt"; `waits` returns the question about such a call, by its
    id, None for any other. `error_text` describes a failure to the reader. Subagents are announced, and what they do
    belongs to them. Costs, diffs, notices and advice are CUSTOM events, whose names begin with "sagent.".
    """

    headers: Mapping[str, str] = {}

    def __init__(
        self, thread: str, run: str, *, waits: Callable[[str], str | None] = never, error_text: ErrorText = kind_only
    ) -> None:
        self._thread, self._run, self._waits, self._error_text = thread, run, waits, error_text
        self._begun = False
        self._open: dict[str, tuple[Literal["text", "reasoning"], str]] = {}  # by agent
        self._messages = 0
        self._announced, self._agents = set[tuple[str, str]](), set[str]()
        self._answered = set[tuple[str, str]]()
        self._interrupts: list[Chunk] = []
        self._spent = Spent()

    def encode(self, event: Event) -> Iterator[bytes]:
        """Yield an event's server-sent events."""
        if isinstance(event, ReplyFinished):
            self._spent.add(event.usage, event.usd)
        elif isinstance(event, Advised):
            self._spent.add(event.advice.usage, event.advice.usd)
        path = event.agent if "/" in event.agent else ""
        below = {"subagentRunId": f"{self._run}:{path}"} if path else {}
        for chunk in (*self._begin(path), *self._events(event, path)):
            own = below if chunk["type"] not in ("RUN_STARTED", "RUN_FINISHED", "RUN_ERROR") else {}
            yield _sent({**own, **chunk})

    def fail(self, failure: Failure) -> Iterator[bytes]:
        """Yield the end of a stream whose run raised an error of the program."""
        for chunk in (*self._begin(""), *self._close_all()):
            yield _sent(chunk)
        yield _sent({"type": "RUN_ERROR", "message": self._error_text(failure), "code": failure.kind})

    def _begin(self, path: str) -> Iterator[Chunk]:
        if not self._begun:
            self._begun = True
            yield {"type": "RUN_STARTED", "threadId": self._thread, "runId": self._run}
        if path and path not in self._agents:
            self._agents.add(path)
            above = path.rpartition("/")[0]
            parent = {"parentSubagentRunId": f"{self._run}:{above}"} if "/" in above else {}
            yield {"type": "SUBAGENT_STARTED", "name": path.rpartition("/")[2], **parent}

    def _events(self, event: Event, path: str) -> Iterator[Chunk]:
        match event:
            case TextDelta(text=text):
                yield from self._piece(path, "text", text)
            case ThinkingDelta(text=text):
                yield from self._piece(path, "reasoning", text)
            case ReplyFinished(message=message):
                yield from self._close(path)
                for call in message.calls:
                    yield from self._announce(path, call.id, call.name, call_input(call))
                yield _custom("cost", self._spent.show())
            case Retrying():
                yield from self._close(path)
                yield _tell(event)
            case ToolStarted(call=call):
                if original_id(call.id) == call.id:
                    yield from self._announce(path, call.id, call.name, call_input(call))
            case ToolFinished():
                yield from self._result(event, path)
            case AdviceDelta() | Advised() | Notice() | Switched() | ToolProgress():
                yield _tell(event)
            case Finished(result=result):
                yield from self._close(path)
                yield from self._finish(result) if not path else self._leave(result, path)
            case SessionOpened() | Received() | Denied():  # a denied call is answered, too
                return
            case _:
                assert_never(event)

    def _piece(self, path: str, kind: Literal["text", "reasoning"], text: str) -> Iterator[Chunk]:
        if path not in self._open or self._open[path][0] != kind:
            yield from self._close(path)
            message = self._message()
            self._open[path] = kind, message
            if kind == "text":
                yield {"type": "TEXT_MESSAGE_START", "messageId": message, "role": "assistant"}
            else:
                yield {"type": "REASONING_START", "messageId": message}
                yield {"type": "REASONING_MESSAGE_START", "messageId": message, "role": "reasoning"}
        head = "TEXT" if kind == "text" else "REASONING"
        yield {"type": f"{head}_MESSAGE_CONTENT", "messageId": self._open[path][1], "delta": text}

    def _close(self, path: str) -> Iterator[Chunk]:
        if path in self._open:
            kind, message = self._open.pop(path)
            yield {"type": f"{'TEXT' if kind == 'text' else 'REASONING'}_MESSAGE_END", "messageId": message}
            if kind == "reasoning":
                yield {"type": "REASONING_END", "messageId": message}

    def _close_all(self) -> Iterator[Chunk]:
        for path in list(self._open):
            yield from self._close(path)

    def _announce(self, path: str, call_id: str, name: str, given: object) -> Iterator[Chunk]:
        if (path, call_id) not in self._announced:
            self._announced.add((path, call_id))
            yield {"type": "TOOL_CALL_START", "toolCallId": call_id, "toolCallName": name}
            text = given if isinstance(given, str) else json_dump(given)
            yield {"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": text}
            yield {"type": "TOOL_CALL_END", "toolCallId": call_id}

    def _result(self, event: ToolFinished, path: str) -> Iterator[Chunk]:
        call = original_id(event.call.id)
        if not path and event.result.denied and self._waits(call):
            why = event.summary or event.result.text
            asked: Chunk = {
                "id": call,
                "reason": "tool_call",
                "message": why,
                "toolCallId": call,
                "responseSchema": ANSWER,
            }
            self._interrupts.append(asked)
            return
        output = output_of(event)
        if (path, call) in self._answered:  # a call that became a job has a result already
            yield _custom("job", {"toolCallId": call, **output})
            return
        self._answered.add((path, call))
        answer = {"toolCallId": call, "content": event.result.text, "role": "tool"}
        yield {"type": "TOOL_CALL_RESULT", "messageId": self._message(), **answer}
        if event.diff or "files" in output:
            yield _custom("output", {"toolCallId": call, **output})

    def _finish(self, result: Result) -> Iterator[Chunk]:
        yield from self._close_all()
        ended = {"threadId": self._thread, "runId": self._run, "result": end_of(result), "usage": [_usage(result)]}
        if result.stop_reason == "interrupted":
            yield {"type": "RUN_FINISHED", **ended, "outcome": {"type": "cancelled"}}
        elif result.error is not None:
            words, kind = self._error_text(result.error), result.error.kind
            yield {"type": "RUN_ERROR", "message": words, "code": kind, "usage": [_usage(result)]}
        elif self._interrupts:
            outcome = {"type": "interrupt", "interrupts": self._interrupts}
            yield {"type": "RUN_FINISHED", **ended, "outcome": outcome}
        else:
            yield {"type": "RUN_FINISHED", **ended, "outcome": {"type": "success"}}

    def _leave(self, result: Result, path: str) -> Iterator[Chunk]:
        """End a subagent's turn; one that goes on is announced again."""
        self._agents.discard(path)
        if result.error is None:
            yield {"type": "SUBAGENT_FINISHED", "outcome": {"type": "success"}}
        else:
            yield {"type": "SUBAGENT_ERROR", "message": self._error_text(result.error), "code": result.error.kind}

    def _message(self) -> str:
        self._messages += 1
        return f"{self._run}-{self._messages}"


def _usage(result: Result) -> Chunk:
    provider, _, model = result.model.partition("/")
    usage = result.usage
    return {
        "provider": provider,
        "model": model,
        "inputTokens": usage.total_input,
        "outputTokens": usage.output,
        "reasoningTokens": usage.reasoning,
        "cachedInputTokens": usage.cache_read,
        "cacheWriteInputTokens": usage.cache_write + usage.cache_write_1h,
    }


def _tell(event: AdviceDelta | Advised | Notice | Retrying | Switched | ToolProgress) -> Chunk:
    told = news(event)
    return _custom(told.name, told.data)


def _custom(name: str, value: object) -> Chunk:
    return {"type": "CUSTOM", "name": f"sagent.{name}", "value": value}


def _sent(chunk: Mapping[str, object]) -> bytes:
    return b"data: %b\n\n" % wire_bytes(chunk)
