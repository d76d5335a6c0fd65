"""Requests outside the conversation, of advisors and compactors, built again from what the log keeps of them."""

from collections.abc import Sequence
from typing import NamedTuple

from sagent.codec import Fetch
from sagent.context.compaction import instruction
from sagent.errors import SagentError
from sagent.lab.rebuild import Find, Rebuilder
from sagent.lab.recording import Prompt, read_prompt
from sagent.lib.dataclass import dataclass
from sagent.messages import Message, assistant, user
from sagent.model import Request
from sagent.session import contents
from sagent.session.entries import Entry
from sagent.session.folds import history

ADVISOR, COMPACTOR = "advisor:", "compactor"
_KINDS = ("prompt", "forked", "request", "spent", "advice", "compacted")
_ANSWERS = ("answered", "cut")  # what an advisor is reminded of the next time


class _SideCall(NamedTuple):
    """One request; `provider` is who was paid for it."""

    place: int
    role: str
    sent: contents.RequestSent
    provider: str = ""


@dataclass(frozen=True, slots=True)
class SideCalls:
    """How many there are, and of how many the bytes are those that were sent."""

    recorded: int = 0
    same: int = 0


def check_side_calls(
    agent: str, entries: Sequence[Entry], fetch: Fetch, find: Find, sessions: Sequence[str]
) -> SideCalls:
    """Build them again. One that is not the same proves nothing: what a person asked the compactor for is in no log."""
    reader = _Reader(agent, entries, fetch, find, sessions)
    for place, entry in enumerate(entries):
        reader.read(place, entry)
    return SideCalls(reader.recorded, reader.same)


class _Reader:
    def __init__(self, agent: str, entries: Sequence[Entry], fetch: Fetch, find: Find, sessions: Sequence[str]) -> None:
        self.recorded = self.same = 0
        self._agent, self._entries, self._fetch, self._find, self._sessions = agent, entries, fetch, find, sessions
        # what each advisor was sent and has answered in an epoch, since it was last sent everything
        self._talks: dict[str, tuple[int, tuple[Message, ...]]] = {}
        self._open: list[_SideCall] = []
        self._prompt: Prompt | None = None

    def read(self, place: int, entry: Entry) -> None:
        if entry.kind not in _KINDS:
            return
        match entry.content:
            case contents.PromptEntry() as prompt:
                self._prompt = read_prompt(prompt)
            case contents.Forked():
                self._talks.clear()
            case contents.RequestSent(role=role) as request if role:
                self.recorded += 1
                self._open.append(_SideCall(place, role, request))
            case contents.ChargeEntry(bill) if self._open and bill.role == self._open[-1].role:
                self._open[-1] = self._open[-1]._replace(provider=bill.provider)
            case contents.ConsultationEntry() as consultation if self._open:
                self._advised(consultation)
            case contents.AdviceOutcome(advisor) | contents.AdviceRated(advisor) if self._open:
                self._take(f"{ADVISOR}{advisor}")
            case contents.Compacted() as compacted if self._open:
                self._compacted(compacted)
            case _:
                pass

    def _advised(self, entry: contents.ConsultationEntry) -> None:
        name = entry.advice.advisor
        calls = self._take(f"{ADVISOR}{name}")
        if not calls:
            return
        epoch, before = self._talks.get(name, (0, ()))
        before = before if epoch == entry.epoch else ()
        self._talks[name] = entry.epoch, before
        said, role = self._text(entry.said), self._text(entry.system)
        if said is None or role is None:
            return
        messages = (*before, user(said))
        for call in calls:
            self.same += self._is_same(call, Prompt(role, ()), [messages])
        if entry.advice.status in _ANSWERS:
            self._talks[name] = entry.epoch, (*messages, assistant(entry.advice.text))

    def _compacted(self, entry: contents.Compacted) -> None:
        calls = self._take(COMPACTOR)
        if not calls or self._prompt is None:
            return
        before = history(self._entries[: calls[0].place], self._fetch)
        asked = user(instruction(""), sender="sagent")
        first = len(before)  # where it may have been cut: what follows was kept whole
        while first - 1 in (entry.kept or ()):
            first -= 1
        cuts = [(*before[:place], asked) for place in range(first, len(before) + 1)]
        for call in calls:
            self.same += self._is_same(call, self._prompt, cuts)

    def _take(self, role: str) -> list[_SideCall]:
        found = [call for call in self._open if call.role == role]
        self._open = [call for call in self._open if call.role != role]
        return found

    def _text(self, name: str) -> str | None:
        try:
            data = self._fetch(name)
        except (SagentError, OSError):
            return None
        return None if data is None else data.decode("utf-8", "replace")

    def _is_same(self, call: _SideCall, prompt: Prompt, candidates: Sequence[Sequence[Message]]) -> bool:
        model = self._find(f"{call.provider}/{call.sent.model}")
        if isinstance(model, str):
            return False
        rebuilders = (Rebuilder(f"{self._agent}:{call.role}", prompt, self._sessions) for _ in candidates)
        return any(
            rebuilder.compare(model, Request("", messages, prompt.system), call.sent).outcome == "same"
            for messages, rebuilder in zip(candidates, rebuilders, strict=True)
        )
