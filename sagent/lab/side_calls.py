"""Requests outside the conversation, of advisors and compactors, built again from what the log keeps of them."""

from collections.abc import Iterator, Sequence
from dataclasses import field

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


@dataclass(slots=True)
class _Talk:
    """What an advisor was sent and has answered since it was last sent everything."""

    epoch: int = 0
    messages: list[Message] = field(default_factory=list[Message])


@dataclass(slots=True)
class _SideCall:
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
        self._talks: dict[str, _Talk] = {}
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
                self._open[-1].provider = bill.provider
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
        talk = self._talks.setdefault(name, _Talk())
        if talk.epoch != entry.epoch:
            talk.epoch, talk.messages = entry.epoch, []
        said, role = self._text(entry.said), self._text(entry.system)
        if said is None or role is None:
            return
        messages = (*talk.messages, user(said))
        for call in calls:
            self.same += self._is_same(call, Prompt(role, ()), [messages])
        if entry.advice.status in _ANSWERS:
            talk.messages = [*messages, assistant(entry.advice.text)]

    def _compacted(self, entry: contents.Compacted) -> None:
        calls = self._take(COMPACTOR)
        if not calls or self._prompt is None:
            return
        before = history(self._entries[: calls[0].place], self._fetch)
        asked = user(instruction(""), sender="sagent")
        kept = set(entry.kept or ())
        cuts = [(*before[:place], asked) for place in _cuts(len(before), kept)]
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
        for messages in candidates:
            rebuilder = Rebuilder(f"{self._agent}:{call.role}", prompt, self._sessions)
            if rebuilder.compare(model, Request("", messages, prompt.system), call.sent).outcome == "same":
                return True
        return False


def _cuts(length: int, kept: set[int]) -> Iterator[int]:
    """Where a conversation may have been cut: what follows was kept whole."""
    place = length
    while place - 1 in kept:
        place -= 1
    yield from range(place, length + 1)
