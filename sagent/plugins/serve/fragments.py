"""Events as fragments of HTML, as in an exported session; their texts are never markup."""

from collections.abc import Mapping

from sagent.lib.json import as_array, as_number, as_object, as_str
from sagent.plugins.exports.cards import Cards, Fetch
from sagent.plugins.exports.prose import Prose
from sagent.plugins.exports.steps import Consulted, MessageStep, Turn
from sagent.plugins.exports.timeline import Call, Timeline, TurnShown, without_names
from sagent.session.contents import ConsultationEntry, StoredMedia
from sagent.session.entries import decode
from sagent.transcript.redaction import Redaction

MAX_TEXT_CHARS = 60_000  # of one text


def fragment(event: Mapping[str, object], fetch: Fetch) -> str:
    """Return the HTML of an event from its JSON; "" if it has none. `fetch` returns an image by its sha256."""
    agent, redaction = as_str(event.get("agent")), Redaction(keep=True)
    cards = Cards(Timeline(), redaction, Prose(redaction, MAX_TEXT_CHARS), fetch)
    match event.get("type"):
        case "received":
            message = as_object(event.get("message"))
            text, sender = _texts(message, "text"), as_str(message.get("sender"))
            shown = MessageStep(agent, text, sender, media=_media(message.get("parts")))
        case "reply_finished":
            message = as_object(event.get("message"))
            thinking = _texts(message, "thinking")
            shown = TurnShown(Turn(agent, "", _texts(message, "text", "opaque"), thinking=thinking), 0, ())
        case "advice":
            content = decode("advice", event)
            if not isinstance(content, ConsultationEntry):
                return ""
            shown = Consulted(agent, content.advice)
        case "tool_finished":
            return "".join(cards.call(_call(event)))
        case _:
            return ""
    return "".join(cards.content(shown))


def diff_fragment(path: str, diff: str) -> str:
    """Render the changes of a file."""
    redaction = Redaction(keep=True)
    cards = Cards(Timeline(), redaction, Prose(redaction, 10 * MAX_TEXT_CHARS), lambda _: None)
    return "".join(cards.call(Call("Edit", {"file_path": path}, diff, "done")))


def plan_fragment(plan: str) -> str:
    """Return a plan in Markdown."""
    return Prose(Redaction(keep=True), MAX_TEXT_CHARS).markdown(plan)


def _call(event: Mapping[str, object]) -> Call:
    state = "denied" if event.get("denied") else "failed" if event.get("is_error") else "done"
    diff = without_names(as_str(event.get("diff"))) if state == "done" else ""
    arguments = as_object(event.get("arguments"))
    return Call(
        as_str(event.get("name")),
        arguments,
        diff,
        state,
        as_str(event.get("text")),
        as_number(event.get("seconds")),
        media=_media(event.get("media")),
    )


def _media(parts: object) -> tuple[StoredMedia, ...]:
    found = (part for part in map(as_object, as_array(parts)) if part.get("type") == "image")
    return tuple(StoredMedia(as_str(part.get("media_type")), as_str(part.get("sha256"))) for part in found)


def _texts(message: Mapping[str, object], *kinds: str) -> str:
    parts = map(as_object, as_array(message.get("parts")))
    return "\n\n".join(as_str(part.get("text")) for part in parts if part.get("type") in kinds)
