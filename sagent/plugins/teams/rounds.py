"""Hand-offs between the roles of a team, from the log of the agent above them: which roles have finished, and how many
tokens shorter prompts have saved."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_int
from sagent.lib.money import EXACT
from sagent.session.contents import EXECUTOR, Handoff, HandoffGiven, HandoffSaid, MessageEntry
from sagent.session.entries import Entry
from sagent.session.folds import charges
from sagent.session.log import read_log
from sagent.session.names import log_file
from sagent.session.savings import Price, new_savings
from sagent.session.view import MemoryLogView, branch
from sagent.usage import Saving

MAX_HANDOFF_CHARS = 40_000  # of a hand-off in the next prompt, if it has no budget
Read: TypeAlias = Callable[[str], Iterable[Entry]]
"""The log of an agent, by its path."""


@dataclass(frozen=True, slots=True)
class HandOff:
    """Hand-off between two roles. `giver` and `taker` are roles. `given` is None if the taker has not begun.

    `entry` is the id of the log's entry.
    """

    giver: str
    taker: str
    said: HandoffSaid
    given: HandoffGiven | None
    entry: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class Round:
    """Task of a team, and its progress. `answer` is None while the round is open."""

    task: str
    handoffs: tuple[HandOff, ...]
    answer: str | None = None
    model: str = ""  # the model that the team began with

    def finished(self, role: str) -> tuple[HandoffSaid, HandoffGiven] | None:
        """Return a role's answer, and the prompt for it; None if it has no answer, or has failed since."""
        given: HandoffGiven | None = None
        found: tuple[HandoffSaid, HandoffGiven] | None = None
        for handoff in self.handoffs:
            if handoff.giver == role and given is not None:
                found = (handoff.said, given) if handoff.said.error is None else None
            if handoff.taker == role and handoff.given is not None:
                given, found = handoff.given, None
        return found


def last_round(entries: Iterable[Entry]) -> Round | None:
    """Return the last task of a team in a log; None if its last request was none."""
    task, answer, model = "", None, ""
    handoffs: list[HandOff] = []
    for entry in branch(entries):
        if entry.kind not in ("handoff", "message"):
            continue
        content = entry.content
        if isinstance(content, Handoff):
            model = content.model
            handoffs.append(HandOff(content.giver, content.taker, content.said, content.given, entry.id, entry.at))
        elif isinstance(content, MessageEntry):
            message = content.message
            if message.role == "assistant":
                answer = message.text
            elif not message.sender:
                task, answer = message.text, None
                handoffs.clear()
    return Round(task, tuple(handoffs), answer, model) if handoffs else None


def saved_by_handoffs(team_round: Round, read: Read, price: Price, role: str = "") -> Saving:
    """Estimate the tokens that a role, or all roles, would have been sent in addition if each saw everything before
    it."""
    begun = (handoff for handoff in team_round.handoffs if handoff.taker and role in ("", handoff.taker))
    return sum((_saved(team_round, each, read, price) for each in begun), Saving())


def tell_saved(session: Path, price: Price) -> Iterator[str]:
    """Yield what hand-offs have saved in a session of a team, as `sagent sessions show` prints it."""
    if (found := last_round(read_log(session / "root.jsonl"))) is not None:
        saving = saved_by_handoffs(found, lambda agent: read_log(log_file(session, agent)), price)
        usd = "an unknown price" if saving.usd is None else f"${saving.usd:.6f}"
        yield f"hand-offs  {saving.tokens} tokens, {usd} saved against all of them whole in every role's prompt"


def _saved(team_round: Round, handoff: HandOff, read: Read, price: Price) -> Saving:
    """Estimate the tokens that a role was not sent because its prompt shortens the earlier hand-offs."""
    if (given := handoff.given) is None:
        return Saving()
    missing = 0.0
    for name, said in {each.giver: each.said for each in team_round.handoffs if each.said.error is None}.items():
        if name in (*given.left_out, *given.visible) and said.size:
            cut = as_int(given.shown.get(name), min(MAX_HANDOFF_CHARS, said.size))
            shown = 0 if name in given.left_out else cut
            missing += answer_tokens(read(said.agent)) * (1 - shown / said.size)
    twins, owns = new_savings(price, round(missing)), new_savings(price)
    if missing < 1 or twins is None or owns is None:
        return Saving()
    log = MemoryLogView(tuple(read(given.agent)))
    twin, own = twins.follow(log), owns.follow(log)
    less = None if own.usd is None else EXACT.minus(own.usd)
    return twin + Saving(-own.compactions, -own.tokens, less)


def answer_tokens(entries: Iterable[Entry]) -> int:
    """Return the tokens of an agent's last answer, as its provider counted them; 0 if its log has no count."""
    own = [charge for charge in charges(entries) if charge.role == EXECUTOR]
    return own[-1].usage.output - own[-1].usage.reasoning if own else 0
