"""Export formats `claude` and `codex`: the conversation as a transcript with which that program goes on."""

import json
import re
import uuid
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from sagent.messages import Document, Image, Opaque, Text, Thinking, ToolCall
from sagent.plugins.exports.exported import Exported, Exporting
from sagent.providers.handover import CallResult, Handover, ModelPart, ModelTurn, Rules, Shown, Turn, UserTurn
from sagent.session.blobs import BlobDirectory
from sagent.session.contents import Compacted, Opened
from sagent.session.entries import kind_of
from sagent.session.folds import history, last_model, origin
from sagent.session.log import read_contents
from sagent.session.store import log_files
from sagent.session.view import LogView

if TYPE_CHECKING:
    from sagent.transcript.redaction import Redaction

CLAUDE_VERSION, CODEX_VERSION = "2.1.197", "0.169.0"
"""The versions of the programs whose format is written."""
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_Line = Mapping[str, object]


def export_claude(exporting: Exporting) -> Exported:
    """Export the conversation as a transcript of Claude Code."""
    return _export(exporting, _ClaudeLines)


def export_codex(exporting: Exporting) -> Exported:
    """Export the conversation as a transcript of codex."""
    return _export(exporting, _CodexLines)


class _Conversation:
    """A session's conversation as it goes on: alternating turns, each call answered, without provider-private data."""

    def __init__(self, exporting: Exporting) -> None:
        self.session, self.redaction = exporting.session, exporting.redaction
        contents = read_contents(self.session / "root.jsonl")
        self.opened: Opened = origin(contents)
        self.model = last_model(contents)
        first = next(iter(contents.branch("opened")), None)
        self.at = first.at if first else "1970-01-01T00:00:00.000Z"
        messages = history(contents, BlobDirectory(self.session / "blobs").get)
        self.lost = tuple(_lost(self.session, contents, sum(isinstance(part, Thinking) for message in messages
                                                            for part in message.parts)))  # fmt: skip
        handover = Handover(Rules("none"))
        turns: list[Turn] = [turn for message in messages for turn in handover.feed(message)]
        if messages and messages[-1].role == "user":
            turns.append(handover.open())
        self.turns: Sequence[Turn] = turns
        named = _UUID.search(exporting.out.stem) if exporting.out else None
        self.id = named[0] if named else str(uuid.uuid5(uuid.NAMESPACE_URL, f"sagent:{self.session.name}"))


def _lost(session: Path, contents: LogView, thoughts: int) -> Iterator[str]:
    """Yield a sentence for each part that the other program does not get."""
    if next(iter(contents.branch(kind_of(Compacted))), None) is not None:
        yield "What was compacted is not in it: its summary is."
    if thoughts:
        yield f"Thinking is not in it ({thoughts}): only the provider's own would be accepted."
    if (agents := len(log_files(session)) - 1) > 0:
        yield f"Conversations of other agents are not in it ({agents}): their answers are."


def _export(exporting: Exporting, write: "type[_Lines]") -> Exported:
    talk = _Conversation(exporting)
    lines = write(talk)
    exporting.put(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"
                  for line in lines.all())  # fmt: skip
    return Exported(exporting.redaction.count, problems=talk.lost)


class _Lines(ABC):
    """Lines of a transcript."""

    def __init__(self, talk: _Conversation) -> None:
        self._talk = talk
        self._redaction: Redaction = talk.redaction

    @abstractmethod
    def all(self) -> Iterator[_Line]:
        """Yield the lines in order."""

    def _text(self, text: str) -> str:
        return self._redaction.text(text)


class _ClaudeLines(_Lines):
    def __init__(self, talk: _Conversation) -> None:
        super().__init__(talk)
        self._above: str | None = None
        self._number = 0

    def all(self) -> Iterator[_Line]:
        model = self._talk.model.partition("/")[2] or "unknown"
        for turn in self._talk.turns:
            match turn:
                case UserTurn(answers, parts):
                    for answer in answers:
                        yield self._line("user", {"role": "user", "content": [self._answer(answer)]})
                    if parts:
                        yield self._line("user", {"role": "user", "content": [self._shown(part) for part in parts]})
                case ModelTurn(parts):
                    blocks = [block for part in parts for block in self._made(part)]
                    stop = "tool_use" if any(isinstance(part, ToolCall) for part in parts) else "end_turn"
                    message = {"id": f"msg_{self._number + 1:024}", "type": "message", "role": "assistant",
                               "model": model, "content": blocks, "stop_reason": stop, "stop_sequence": None,
                               "usage": {"input_tokens": 0, "output_tokens": 0}}  # fmt: skip
                    yield self._line("assistant", message)
                case _:
                    assert_never(turn)

    def _line(self, kind: str, message: _Line) -> _Line:
        self._number += 1
        name = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{self._talk.id}:{self._number}"))
        line: dict[str, object] = {
            "parentUuid": self._above,
            "isSidechain": False,
            "userType": "external",
            "cwd": self._text(self._talk.opened.cwd),
            "sessionId": self._talk.id,
            "version": CLAUDE_VERSION,
            "gitBranch": "",
            "type": kind,
            "message": message,
            "uuid": name,
            "timestamp": f"{self._talk.at[:19]}.{self._number % 1000:03}Z",
        }
        self._above = name
        return line

    def _answer(self, answer: CallResult) -> _Line:
        content = [self._shown(part) for part in answer.content]
        block: dict[str, object] = {"type": "tool_result", "tool_use_id": answer.call_id, "content": content}
        return {**block, "is_error": True} if answer.is_error else block

    def _shown(self, part: Shown) -> _Line:
        match part:
            case Text(text):
                return {"type": "text", "text": self._text(text)}
            case Image(media_type, data) | Document(media_type, data):
                source = {"type": "base64", "media_type": media_type, "data": b64encode(data).decode()}
                return {"type": "image" if isinstance(part, Image) else "document", "source": source}
            case _:
                assert_never(part)

    def _made(self, part: ModelPart) -> Iterator[_Line]:
        match part:
            case Text():
                yield self._shown(part)
            case ToolCall(call_id, name, arguments):
                given = self._redaction.value(dict(arguments))
                yield {"type": "tool_use", "id": call_id, "name": name, "input": given}
            case Thinking() | Opaque():
                return
            case _:
                assert_never(part)


class _CodexLines(_Lines):
    def all(self) -> Iterator[_Line]:
        talk = self._talk
        yield self._line("session_meta", {
            "id": talk.id, "timestamp": f"{talk.at[:19]}.000Z", "cwd": self._text(talk.opened.cwd),
            "originator": "sagent", "cli_version": CODEX_VERSION, "source": "cli",
        })  # fmt: skip
        for turn in talk.turns:
            match turn:
                case UserTurn(answers, parts):
                    for answer in answers:
                        yield self._item(type="function_call_output", call_id=answer.call_id,
                                         output=[self._shown(part) for part in answer.content])  # fmt: skip
                    if parts:
                        content = [self._shown(part) for part in parts]
                        yield self._item(type="message", role="user", content=content)
                        text = "\n".join(self._text(part.text) for part in parts if isinstance(part, Text))
                        yield self._line("event_msg", {"type": "user_message", "message": text, "images": []})
                case ModelTurn(parts):
                    for part in parts:
                        yield from self._made(part)
                case _:
                    assert_never(turn)

    def _line(self, kind: str, payload: _Line) -> _Line:
        return {"timestamp": f"{self._talk.at[:19]}.000Z", "type": kind, "payload": payload}

    def _item(self, **payload: object) -> _Line:
        return self._line("response_item", payload)

    def _made(self, part: ModelPart) -> Iterator[_Line]:
        match part:
            case Text(text):
                said = self._text(text)
                yield self._item(type="message", role="assistant", content=[{"type": "output_text", "text": said}])
                yield self._line("event_msg", {"type": "agent_message", "message": said})
            case ToolCall(call_id, name, arguments):
                given = json.dumps(self._redaction.value(dict(arguments)), ensure_ascii=False)
                yield self._item(type="function_call", name=name, arguments=given, call_id=call_id)
            case Thinking() | Opaque():
                return
            case _:
                assert_never(part)

    def _shown(self, part: Shown) -> _Line:
        match part:
            case Text(text):
                return {"type": "input_text", "text": self._text(text)}
            case Image(media_type, data):
                return {"type": "input_image", "image_url": f"data:{media_type};base64,{b64encode(data).decode()}"}
            case Document():
                return {"type": "input_text", "text": f"[a document, {part.media_type}, is not in this transcript]"}
            case _:
                assert_never(part)
