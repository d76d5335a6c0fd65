"""Judges whether an executor follows advice: by its own statement, or by its next actions. Silence means nothing."""

import re
from collections.abc import Iterator, Sequence
from typing import cast

from sagent.advisor.advisor import READ_ONLY_TOOLS
from sagent.advisor.conversation import TOOL, is_held
from sagent.events import Advice
from sagent.lib.json import JsonObject
from sagent.messages import Message, ToolCall
from sagent.policy import Turn

MAX_FOLLOWING_TURNS = 3  # that an executor has to show it
_WORD = re.compile(r"\[(FOLLOWED|REJECTED|CONTRADICTED)\b\s*[:=]?\s*([^\]]*)\]", re.IGNORECASE)
_QUOTED_OR_NAME = re.compile(r"`([^`\n]+)`|(\w[\w-]*(?:[./][\w-]+)*)")
_PARTS = re.compile(r"[\w-][./_]\w")
_COMMON = frozenset(
    "the and for with that this then not from into before after until first next again only all any its your you are"  # noqa: SIM905 -- one line
    " was has have will would should could instead make use sure also what which when where".split()
)


def stated_effect(reply: Message) -> tuple[str, str] | None:
    """Return a reply's statement about advice ("followed", "rejected", "contradicted") and the reason; or None."""
    text = reply.content
    match = _WORD.search(text, 0, text.rfind("]") + 1)  # else each beginning is searched to the end of the text
    return (match[1].lower(), match[2].strip()) if match else None


def effect_of(advice: Advice, turn: Turn) -> tuple[str, str]:
    """Return the effect of advice in a turn: ("followed", ""), ("rejected", how that shows), or ("", "")."""
    made = tuple(_made(turn))
    if advice.verdict == "stop":
        if not turn.reply.calls:
            return "followed", ""
        return ("rejected", "it went on") if any(call.name not in READ_ONLY_TOOLS for call in made) else ("", "")
    done = "\n".join(f"{call.name} {' '.join(_texts(call.arguments))}" for call in made).lower()
    check = " ".join(advice.check.split()).lower()
    wanted = advice.next or " ".join(advice.gaps)
    checked = bool(check) and check in " ".join(done.split())
    followed = done and (checked or _is_in(wanted, done, advice.verdict))
    return ("followed" if followed else "", "")


def _made(turn: Turn) -> Iterator[ToolCall]:
    """Return the calls that were made, except those to advisors."""
    results = turn.results.results if turn.results else ()
    stayed = {result.call_id for result in results if result.denied or is_held(result.text)}
    return (call for call in turn.reply.whole_calls if call.name != TOOL and call.id not in stayed)


def _is_in(wanted: str, done: str, verdict: str) -> bool:
    """Return True if an action does what was advised: it has a thing that the advice names, or else half of its words.
    If it only says to proceed, any action does."""
    marks = [code or name.rstrip("-") for code, name in _QUOTED_OR_NAME.findall(wanted) if code or _PARTS.search(name)]
    if marks:  # quoted code, paths, names with several parts
        return any(mark.lower() in done for mark in marks)
    words = [word for word in re.findall(r"[a-z]{3,}", wanted.lower()) if word not in _COMMON]
    if not words:
        return verdict == "proceed"
    found = sum(re.search(rf"\b{word}\b" if len(word) == 3 else word[:4], done) is not None for word in words)
    return 2 * found >= len(words)


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case JsonObject():
            for item in value.values():
                yield from _texts(item)
        case list() | tuple():
            for item in cast("Sequence[object]", value):
                yield from _texts(item)
        case _:
            pass
