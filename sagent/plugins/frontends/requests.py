"""Requests of web front ends, read."""

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Literal

from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_object, as_str, sha256_hex
from sagent.messages import Document, Image, Message, Part, user

_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_NO = "The person said no."


@dataclass(frozen=True, slots=True)
class UIRequest:
    """A request of `useChat`. `chat` is the id of its conversation, `prompt` its last message if that is the person's,
    and `answers` are those to calls that waited, by their ids: True, or the reason for no. `sdk` is the client's
    version. Earlier messages are left aside: the session has them, and a client could have changed them.
    """

    chat: str
    prompt: Message | None = None
    answers: Mapping[str, bool | str] = field(default_factory=dict[str, bool | str])
    sdk: Literal[6, 7] = 7

    @classmethod
    def read(cls, body: bytes, *, sdk: Literal[6, 7] = 7) -> "UIRequest":
        """Read the body of a request. Raises UsageError."""
        request = _object(body)
        last = _last(request)
        parts = [as_object(part) for part in as_array(last.get("parts"))]
        if last.get("role") == "assistant":
            return cls(_name(request, "id"), None, _some(_approvals(parts)), sdk)
        return cls(_name(request, "id"), _prompt(parts), sdk=sdk)

    @property
    def folder(self) -> str:
        """A folder's name for this conversation: one that no id can turn into another path."""
        return sha256_hex(self.chat.encode("utf-8", "surrogatepass"))[:32]


@dataclass(frozen=True, slots=True)
class AGUIRequest:
    """A RunAgentInput. `chat` is its thread, `run` its run; `prompt` and `answers` are as in UIRequest."""

    chat: str
    run: str
    prompt: Message | None = None
    answers: Mapping[str, bool | str] = field(default_factory=dict[str, bool | str])

    @classmethod
    def read(cls, body: bytes) -> "AGUIRequest":
        """Read the body of a request. Raises UsageError."""
        request = _object(body)
        last, resumed = _last(request), as_array(request.get("resume"))
        content = last.get("content")
        given = [{"type": "text", "text": content}] if isinstance(content, str) else as_array(content)
        asks = last.get("role") == "user" and not resumed
        chat, run = _name(request, "threadId"), _name(request, "runId")
        if asks:
            return cls(chat, run, _prompt([as_object(part) for part in given]))
        return cls(chat, run, None, _some(_resumed(resumed)))

    @property
    def folder(self) -> str:
        """A folder's name for this thread: one that no id can turn into another path."""
        return sha256_hex(self.chat.encode("utf-8", "surrogatepass"))[:32]


def _object(body: bytes) -> Mapping[str, object]:
    try:
        read: object = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise UsageError("the request's body is not JSON") from error
    return as_object(read)


def _last(request: Mapping[str, object]) -> Mapping[str, object]:
    messages = as_array(request.get("messages"))
    return as_object(messages[-1] if messages else None)


def _name(request: Mapping[str, object], key: str) -> str:
    if name := as_str(request.get(key)):
        return name
    raise UsageError(f'the request has no "{key}"')


def _some(answers: Iterator[tuple[str, bool | str]]) -> Mapping[str, bool | str]:
    """Return answers. Raises UsageError if there are none."""
    if known := dict(answers):
        return known
    raise UsageError("the request has neither a prompt nor an answer to a call that waits")


def _prompt(parts: Sequence[Mapping[str, object]]) -> Message:
    """Return a message of texts and files. Raises UsageError for none, and for a file that cannot be attached."""
    texts, files = list[str](), list[Part]()
    for part in parts:
        match part.get("type"):
            case "text":
                texts.append(as_str(part.get("text")))
            case "file":
                head, _, data = as_str(part.get("url")).partition(";base64,")
                files.append(_file(head.removeprefix("data:"), data, as_str(part.get("filename"))))
            case "image" | "document" | "audio" | "video":
                source = as_object(part.get("source"))
                data = as_str(source.get("value")) if source.get("type") == "data" else ""
                files.append(_file(as_str(source.get("mimeType")), data, ""))
            case _:
                pass  # steps and what an interface keeps for itself
    text = "".join(texts)
    if not (text or files):
        raise UsageError("the request has neither a prompt nor an answer to a call that waits")
    return user(text, *files)


def _file(media: str, data: str, name: str) -> Part:
    try:
        content = b64decode(data, validate=True)
    except ValueError as error:
        raise UsageError("a file of the request is not in base64") from error
    if content and media in _IMAGES:
        return Image(media, content)
    if content and media == "application/pdf":
        return Document(media, content, name)
    raise UsageError(f"a file of the request cannot be attached: {media or 'without a type'}; send an image or a PDF")


def _approvals(parts: Sequence[Mapping[str, object]]) -> Iterator[tuple[str, bool | str]]:
    for part in parts:
        if part.get("state") == "approval-responded":
            answer = as_object(part.get("approval"))
            approved = answer.get("approved") is True
            yield as_str(answer.get("id")), approved or as_str(answer.get("reason")) or _NO


def _resumed(entries: Sequence[object]) -> Iterator[tuple[str, bool | str]]:
    for entry in map(as_object, entries):
        answer = as_object(entry.get("payload"))
        approved = entry.get("status") == "resolved" and answer.get("approved") is True
        yield as_str(entry.get("interruptId")), approved or as_str(answer.get("reason")) or _NO
