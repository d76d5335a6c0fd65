"""Messages of A2A as ours, and texts of ours as A2A has them."""

from collections.abc import Mapping

from a2a.types.a2a_pb2 import Artifact, Message, Part, Role
from a2a.utils.errors import ContentTypeNotSupportedError, InvalidParamsError
from google.protobuf.json_format import MessageToDict, MessageToJson, Parse
from google.protobuf.struct_pb2 import Struct

from sagent import messages
from sagent.lib.encoding import Binary, decode
from sagent.lib.json import as_object, json_dump, sha256_hex, valid_text, wire_bytes
from sagent.lib.text import printable

ANSWER = "answer"
"""The artifact that has the answer's text."""
_MAX_HISTORY_FILE_BYTES = 64 << 10  # bytes of files that a task's history repeats


def read_message(message: Message) -> messages.Message:
    """Return the message for a model. Raises InvalidParamsError for an empty one, ContentTypeNotSupportedError for a
    type that it cannot read."""
    parts = [_read(part, number) for number, part in enumerate(message.parts)]
    if not any(not isinstance(part, messages.Text) or part.text.strip() for part in parts):
        raise InvalidParamsError("The message is empty: give it a part with text.")
    return messages.user("", *parts)


def read_text(message: Message) -> str:
    """Return the texts of a message alone."""
    return "\n".join(part.text for part in message.parts if part.HasField("text")).strip()


def read_data(message: Message) -> Mapping[str, object]:
    """Return the first object among its parts, an empty one if there is none."""
    found = [as_object(MessageToDict(part)["data"]) for part in message.parts if part.HasField("data")]
    return found[0] if found else {}


def _read(part: Part, number: int) -> messages.Text | messages.Image | messages.Document:
    match part.WhichOneof("content"):
        case "text":
            return messages.Text(valid_text(part.text))
        case "url":
            named = f"{part.filename} ({part.media_type})" if part.filename else part.media_type or "A file"
            return messages.Text(printable(f"[{named} is at {part.url}; it was not fetched]"))
        case "data":
            return messages.Text(json_dump(MessageToDict(part)["data"]))
        case "raw":
            return _read_file(part, number)
        case _:
            raise InvalidParamsError(f"parts[{number}] has no text, raw, url or data.")


def _read_file(part: Part, number: int) -> messages.Text | messages.Image | messages.Document:
    from sagent.tools.media import media_in

    name = printable(part.filename) or f"parts[{number}]"
    try:
        if (found := media_in(part.raw, name)) is not None:
            return found
        decoded = decode(part.raw)
        if isinstance(decoded, Binary):
            raise ContentTypeNotSupportedError(
                f"{name} is not text, not a PNG, JPEG, GIF or WebP image and not a PDF: it is {decoded.kind}."
            )
        return messages.Text(f'<file name="{name}">\n{valid_text(decoded.text)}\n</file>')
    except ValueError as error:
        raise ContentTypeNotSupportedError(f"{name} cannot be used: {error}.") from error


def digest_of(message: Message) -> str:
    """Return a digest of a message without the ids that the server adds."""
    copy = Message()
    copy.CopyFrom(message)
    copy.ClearField("context_id")
    copy.ClearField("task_id")
    return sha256_hex(MessageToJson(copy, sort_keys=True, indent=None).encode())


def kept_message(message: Message, task: str, context: str) -> Message:
    """Return a message for a task's history: large files are only named."""
    copy = Message()
    copy.CopyFrom(message)
    copy.task_id, copy.context_id = task, context
    kept = 0
    for part in copy.parts:
        kept += len(part.raw)
        if part.raw and kept > _MAX_HISTORY_FILE_BYTES:
            part.text = f"[{part.filename or 'A file'}: {len(part.raw):,} bytes]"
    return copy


def agent_message(text: str, name: str, task: str, context: str) -> Message:
    """Return a message of the agent; `name` is the message's id."""
    return Message(
        message_id=name, task_id=task, context_id=context, role=Role.ROLE_AGENT, parts=[Part(text=valid_text(text))]
    )


def answer_artifact(text: str) -> Artifact:
    return Artifact(artifact_id=ANSWER, name="Answer", parts=[Part(text=valid_text(text), media_type="text/markdown")])


def diff_artifact(diff: str, number: int) -> Artifact:
    """Return the `number`th change of files, as a unified diff."""
    part = Part(text=valid_text(diff), media_type="text/x-diff")
    return Artifact(artifact_id=f"change-{number}", name=f"Change {number}", parts=[part])


def struct_of(members: Mapping[str, object]) -> Struct:
    """JSON as metadata has it."""
    return Parse(wire_bytes(members), Struct())
