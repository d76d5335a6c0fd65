"""Blocks that a reply only quotes: what a file or a page says must not become a call because a model repeats it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sagent.context.textcalls.blocks import FAMILY, QUOTED, own_text
from sagent.context.textcalls.writing import is_enclosure
from sagent.lib.json import JsonObject
from sagent.messages import Message, Part, Private, Text, ToolCall


def held_back(parts: Sequence[Part], messages: Sequence[Message]) -> tuple[Part, ...]:
    """Return the parts of a reply that says more than its blocks, those calls marked as not whole that stand in what
    was read. Such a call is made if the reply has nothing else to say, or if it was made before."""
    calls = [part for part in parts if isinstance(part, ToolCall) and part.whole]
    read = "\n".join(_lines(text) for text in _read(messages)) if calls else ""
    if not read.strip():
        return tuple(parts)
    made = {(call.name, call.arguments) for message in messages for call in message.calls if call.whole}
    quoted = {
        call.id for call in calls if (call.name, call.arguments) not in made and _core(call) and _core(call) in read
    }
    return tuple(_marked(part) if isinstance(part, ToolCall) and part.id in quoted else part for part in parts)


def _marked(call: ToolCall) -> ToolCall:
    return replace(call, whole=False, private=Private(FAMILY, JsonObject({"text": own_text(call), QUOTED: True})))


def _core(call: ToolCall) -> str:
    """Return the lines of a call that stand in what was read where it was read: a command, or a whole block."""
    command = call.arguments.get("command")
    own = _lines(command if call.name == "Bash" and isinstance(command, str) else own_text(call) or "")
    return own if own.strip() else ""


def _read(messages: Sequence[Message]) -> Iterator[str]:
    """Return the texts that the model was given and that the person did not write: results, files, others' messages."""
    for message in messages:
        for result in message.results:
            yield result.text
        for part in message.parts if message.role == "user" else ():
            if isinstance(part, Text) and (message.sender or is_enclosure(part.text)):
                yield part.text


def _lines(text: str) -> str:
    """Return a text's lines without white space around them, none blank, each between line ends."""
    return "\n".join(("", *filter(None, map(str.strip, text.splitlines())), ""))
