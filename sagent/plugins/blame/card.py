"""The request that led to a line: prompt, model, approver, cost, and the place of the proof."""

from collections.abc import Sequence
from decimal import Decimal

from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_str
from sagent.plugins.blame import APPROVED
from sagent.plugins.blame.attribution import WrittenByAgent
from sagent.plugins.blame.evidence import is_prompt, read_message
from sagent.session.contents import MessageEntry, NoticeEntry, RequestSent, Unknown
from sagent.session.entries import Entry
from sagent.session.folds import spend
from sagent.session.log import read_log

UNRECORDED = "not recorded: allowed by a rule or the permission mode, or by an earlier answer"


@dataclass(frozen=True, slots=True)
class Card:
    """A turn that wrote lines. `usd` is the cost of the agent's own requests from its prompt to the next one, None if a
    price is unknown; `requests` are their hashes, up to the call. `approver` says who allowed the call."""

    prompt: str
    prompt_entry: str
    approver: str
    usd: Decimal | None
    requests: tuple[str, ...] = ()


def read_card(origin: WrittenByAgent) -> Card:
    """Read the turn that a line is from. Raises SessionCorrupt and OSError."""
    turn: list[Entry] = []
    prompt: Entry | None = None
    asked: Entry | None = None  # the prompt of the call
    for entry in read_log(origin.log):
        if entry.kind == "message" and is_prompt(entry.line):
            if asked is not None:
                break
            prompt, turn = entry, []
        turn.append(entry)
        if entry.id == origin.entry:
            asked = prompt or entry
    message = read_message(asked.line) if asked is not None and asked.kind == "message" else None
    before = _until(turn, origin.entry)
    requests = tuple(sent.sha256 for entry in before if isinstance(sent := entry.content, RequestSent))
    return Card(
        "" if message is None else message.text,
        "" if asked is None or message is None else asked.id,
        _approver(before, origin.call),
        spend(turn).whole.price,
        requests,
    )


def _until(entries: Sequence[Entry], name: str) -> Sequence[Entry]:
    place = next((place for place, entry in enumerate(entries) if entry.id == name), len(entries))
    return entries[: place + 1]


def _approver(entries: Sequence[Entry], call: str) -> str:
    """Return who allowed a call, by the log."""
    reviews: list[str] = []
    made = False
    for entry in reversed(entries):
        match entry.content:
            case Unknown(kind, body) if kind == APPROVED and body.get("call") == call:
                return as_str(body.get("by"))
            case NoticeEntry(text) if text.startswith("The reviewer ") and " allows " in text and not made:
                reviews.append(text)
            case MessageEntry(message) if any(each.id == call for each in message.calls):
                made = True
            case _:
                pass
    return reviews[0] if reviews else UNRECORDED
