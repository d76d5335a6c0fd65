"""Find blocks that a reply only quotes: text from a file or a page must not become a call because a model repeats
it."""

import re
from collections.abc import Iterator, Sequence

from sagent.lib.json import as_str
from sagent.messages import Message, Part, Text, ToolCall
from sagent.plugins.textcalls.blocks import QUOTED, doubted, own_text
from sagent.plugins.textcalls.task import ATTACHED, is_enclosure
from sagent.plugins.textcalls.writing import ADVISOR, is_advice

PLACES = re.compile(  # that Read, grep and cat -n put before lines
    r"^(?:[^\S\n]{0,20}(?:[^\s:]{1,200}[:-])?\d{1,9}[:\t-]|(?=[^\s:]{0,200}[./])[^\s:]{1,200}:)", re.MULTILINE
)
_PROMPT = re.compile(r"^([^\S\n]{0,20})\$[^\S\n]", re.MULTILINE)
_FENCES = re.compile(r"^[^\S\n]*(?:`{3,}|~{3,}).*$", re.MULTILINE)


def held_back(parts: Sequence[Part], messages: Sequence[Message]) -> tuple[Part, ...]:
    """Return the parts of a reply. In a reply with more text than its blocks, calls that appear in what the model read
    are marked as not whole. A call is still made if the reply says nothing else, or if it was made before."""
    calls = [part for part in parts if isinstance(part, ToolCall) and part.whole]
    if not calls:
        return tuple(parts)
    told = "".join(map(_shown, _told(messages)))
    files = "".join(_shown(part.text) for message in messages for part in _files(message))
    made = {(call.name, call.arguments) for message in messages for call in message.calls if call.whole}
    quoted = set[str]()
    block = ""  # the text of the block around the call; the first of several calls has it
    for call in calls:
        block = own_text(call) or block
        command = as_str(call.arguments.get("command")) if call.name == "Bash" else ""
        cores = [_lines(text) for text in (command, _FENCES.sub("", block) if command else block) if text.strip()]
        shown = any(core in told or (command and core in files) for core in cores)  # files may be written as they are
        if shown and (call.name, call.arguments) not in made:
            quoted.add(call.id)
    return tuple(doubted(part, QUOTED) if isinstance(part, ToolCall) and part.id in quoted else part for part in parts)


def _told(messages: Sequence[Message]) -> Iterator[str]:
    """Return the texts that did not come from the person: results, and messages. Advice is left out, because its blocks
    are there to be written."""
    advice = {call.id for message in messages for call in message.calls if call.name == ADVISOR}
    for message in messages:
        for result in message.results:
            if result.call_id not in advice:
                yield result.text
        if message.role == "user" and message.sender and not is_advice(message):
            yield "".join(part.text for part in message.parts if isinstance(part, Text) and not is_enclosure(part.text))


def _files(message: Message) -> Sequence[Text]:
    """Return the files within a message, and what was piped in."""
    texts = (part for part in message.parts if isinstance(part, Text)) if message.role == "user" else ()
    return [part for part in texts if is_enclosure(part.text) or ATTACHED.match(part.text)]


def _shown(text: str) -> str:
    """Return the lines of a text that was read, once more without the places that Read, grep and cat -n put before
    them, and once more without the prompts of a shell."""
    shown = _lines(text) + (_lines(PLACES.sub("", text)) if PLACES.search(text) else "")
    return shown + (_PROMPT.sub(r"\1", shown) if _PROMPT.search(shown) else "")


def _lines(text: str) -> str:
    """Return a text's lines without blank lines and surplus spaces, each between line ends."""
    return "\n".join(("", *filter(None, (" ".join(line.split()) for line in text.splitlines())), ""))
