"""Blame of a file as a table, a card for one line, and JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from sagent.lib.dataclass import dataclass
from sagent.lib.encoding import readable
from sagent.lib.figures import money
from sagent.lib.secrets import redact
from sagent.lib.text import count, one_line, printable
from sagent.plugins.blame.arguments import split_lines
from sagent.plugins.blame.attribution import LineOrigin, Reason, Unknown, WrittenByAgent
from sagent.plugins.blame.card import Card
from sagent.plugins.blame.notes import Claim, LogState

MAX_PROMPT_CHARS = 2_000
MAX_MODEL_CHARS = 24
REASONS: dict[Reason, str] = {
    "no log": "no session has seen this file",
    "outside": "by hand, by another program, or before the first session",
    "ambiguous": "several origins are possible",
}
PROOFS = {
    "arguments": "the call's own arguments give exactly the content that the file had after it",
    "snapshots": "the line was not in the file when the command began, and was in it when it had ended",
}


CLAIMS: dict[LogState, str] = {
    "missing": "claimed by the note of commit {commit}: session {session} (its log is not here)",
    "named": "the note of commit {commit} names session {session}, whose log is here and has the noted entry",
    "lacking": "the note of commit {commit} names session {session}, whose log is here without the noted entry",
}


@dataclass(frozen=True, slots=True)
class Blame:
    """A file with the origins of its lines; `chosen` are the numbers of those to show, from 1.

    `claims` are those of git notes about lines, by number: hints, which prove nothing.
    """

    path: Path
    content: bytes
    origins: tuple[LineOrigin, ...]
    chosen: range
    sessions: int
    claims: Mapping[int, tuple[Claim, ...]] = field(default_factory=dict[int, tuple[Claim, ...]])

    def is_claimed(self, number: int) -> bool:
        """Return True if a line of unknown origin is claimed for a session whose log is not here."""
        origin, claims = self.origins[number - 1], self.claims.get(number, ())
        return isinstance(origin, Unknown) and any(claim.log == "missing" for claim in claims)

    def rows(self) -> Iterator[tuple[int, str, LineOrigin]]:
        """Yield number, text and origin of each line to show."""
        lines = split_lines(self.content)
        for number in self.chosen:
            yield number, readable(lines[number - 1]).removesuffix("\r"), self.origins[number - 1]


def table(blame: Blame) -> Iterator[tuple[str, str]]:
    """Yield the origin of each line and its number with the text, as printable text, and a summary at the end."""
    model_size = max((len(_model(origin)) for _, _, origin in blame.rows()), default=0)
    digits = len(str(blame.chosen.stop - 1))
    for number, text, origin in blame.rows():
        match origin:
            case WrittenByAgent(entry=entry, tool=tool, at=at):
                when = at[:16].replace("T", " ")
                head = printable(f"{entry[:8]} {_model(origin):{model_size}} {when} {tool[:6]:6}")
            case Unknown(reason):
                short = "claimed by a note" if blame.is_claimed(number) else _SHORT[reason]
                head = f"{'·' * 8} {short:{model_size + 24}}"
        yield head, f"{number:{digits}}) {printable(text.expandtabs(4))}"
    written = sum(isinstance(origin, WrittenByAgent) for origin in blame.origins)
    claimed = sum(map(blame.is_claimed, range(1, len(blame.origins) + 1)))
    yield (
        "",
        (
            f"{count(len(blame.origins), 'line')}: {written} by agents, {len(blame.origins) - written} unknown; "
            f"{count(blame.sessions, 'session')} verified"
            + f"; {count(claimed, 'line')} claimed by notes, which prove nothing"
            * bool(claimed)
        ),
    )


_SHORT: dict[Reason, str] = {"no log": "no log", "outside": "by hand", "ambiguous": "ambiguous"}


def _model(origin: LineOrigin) -> str:
    return printable(origin.model.rpartition("/")[2])[:MAX_MODEL_CHARS] if isinstance(origin, WrittenByAgent) else ""


def card_rows(
    text: str, origin: LineOrigin, card: Card | None, claims: Sequence[Claim] = ()
) -> Sequence[tuple[str, str]]:
    """Return the rows of a card about one line."""
    notes = [("note", CLAIMS[claim.log].format(commit=claim.commit[:12], session=claim.session)) for claim in claims]
    match origin:
        case Unknown(reason):
            return [("line", text), ("origin", f"unknown: {REASONS[reason]}"), *notes]
        case WrittenByAgent() as written:
            assert card is not None
            cost = "unknown: a price is missing" if card.usd is None else money(card.usd)
            return [
                ("line", text),
                ("written by", f"{written.agent} in session {written.session}, {written.tool}, call {written.call}"),
                ("at", written.at),
                ("model", written.model or "unknown"),
                ("prompt", one_line(redact(card.prompt)[0], MAX_PROMPT_CHARS) or "unknown"),
                ("approver", one_line(redact(card.approver)[0], MAX_PROMPT_CHARS)),
                ("cost", f"{cost} for this agent's calls in that turn"),
                ("entry", written.entry),
                ("log", str(written.log)),
                ("head", written.head),
                ("proof", PROOFS[written.proof]),
                ("verified", "each entry of the log has the hash of its content, and follows from the one before"),
                *notes,
            ]


def as_json(blame: Blame, cards: dict[WrittenByAgent, Card]) -> dict[str, object]:
    """Return blame as JSON."""
    written = {origin for _, _, origin in blame.rows() if isinstance(origin, WrittenByAgent)}
    return {
        "file": str(blame.path),
        "lines": [
            {"line": number, "text": text, **_origin_json(origin, cards), **_claims_json(blame.claims.get(number, ()))}
            for number, text, origin in blame.rows()
        ],
        "by_agents": sum(isinstance(origin, WrittenByAgent) for _, _, origin in blame.rows()),
        "unknown": sum(isinstance(origin, Unknown) for _, _, origin in blame.rows()),
        "sessions": blame.sessions,
        "logs": [{"log": str(log), "head": head} for log, head in sorted({(each.log, each.head) for each in written})],
    }


def _origin_json(origin: LineOrigin, cards: dict[WrittenByAgent, Card]) -> dict[str, object]:
    match origin:
        case Unknown(reason):
            return {"origin": "unknown", "reason": reason}
        case WrittenByAgent() as written:
            shown: dict[str, object] = {
                "origin": "agent",
                "session": written.session,
                "agent": written.agent,
                "entry": written.entry,
                "call": written.call,
                "tool": written.tool,
                "model": written.model,
                "at": written.at,
                "proof": written.proof,
            }
            if (card := cards.get(written)) is not None:
                shown |= {
                    "prompt": redact(card.prompt)[0],
                    "prompt_entry": card.prompt_entry,
                    "approver": redact(card.approver)[0],
                    "usd": None if card.usd is None else str(card.usd),
                    "requests": list(card.requests),
                }
            return shown


def _claims_json(claims: Sequence[Claim]) -> dict[str, object]:
    rows = [
        {"commit": claim.commit, "session": claim.session, "head": claim.head, "log": claim.log} for claim in claims
    ]
    return {"notes": rows} if rows else {}
