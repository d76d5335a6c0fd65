"""Requests beside the conversation, of advisors and compactors, built again from what the log keeps of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from sagent.codec import Fetch
from sagent.context.compaction import instruction
from sagent.errors import SagentError
from sagent.lab.rebuild import Find, Rebuilder
from sagent.lab.recording import Prompt, Sent, read_prompt, read_sent
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_int, as_str
from sagent.messages import Message, assistant, user
from sagent.model import Request
from sagent.session.entries import Entry
from sagent.session.folds import history

ADVISOR, COMPACTOR = "advisor:", "compactor"
_ANSWERS = ("answered", "cut")  # what an advisor is reminded of the next time


@dataclass(slots=True)
class _Talk:
    """What an advisor was told and has answered since it was last told everything."""

    epoch: int = 0
    messages: list[Message] = field(default_factory=list[Message])


@dataclass(slots=True)
class _Aside:
    """One request; `provider` is who was paid for it."""

    place: int
    role: str
    sent: Sent
    provider: str = ""


@dataclass(frozen=True, slots=True)
class SideCalls:
    """How many there are, and of how many the bytes are those that were sent."""

    recorded: int = 0
    same: int = 0


def check_asides(agent: str, entries: Sequence[Entry], fetch: Fetch, find: Find, sessions: Sequence[str]) -> SideCalls:
    """Build them again. One that is not the same proves nothing: what a person told the compactor, for one, is in no
    log."""
    reader = _Reader(agent, entries, fetch, find, sessions)
    for place, entry in enumerate(entries):
        reader.read(place, entry)
    return SideCalls(reader.recorded, reader.same)


class _Reader:
    """Goes through a log."""

    def __init__(self, agent: str, entries: Sequence[Entry], fetch: Fetch, find: Find, sessions: Sequence[str]) -> None:
        self.recorded = self.same = 0
        self._agent, self._entries, self._fetch, self._find, self._sessions = agent, entries, fetch, find, sessions
        self._talks: dict[str, _Talk] = {}
        self._open: list[_Aside] = []
        self._prompt: Prompt | None = None

    def read(self, place: int, entry: Entry) -> None:
        """Take an entry."""
        match entry.kind:
            case "prompt":
                self._prompt = read_prompt(entry, entry.body)
            case "forked":
                self._talks.clear()
            case "request" if role := as_str(entry.body.get("role")):
                self.recorded += 1
                self._open.append(_Aside(place, role, read_sent(entry, entry.body)))
            case "spent" if self._open:
                if entry.body.get("role") == self._open[-1].role:
                    self._open[-1].provider = as_str(entry.body.get("provider"))
            case "advice" if self._open:
                self._advised(entry.body)
            case "compacted" if self._open:
                self._compacted(entry)
            case _:
                pass

    def _advised(self, body: Mapping[str, object]) -> None:
        name = as_str(body.get("advisor"))
        asides = self._take(f"{ADVISOR}{name}")
        if "outcome" in body or not asides:
            return
        talk = self._talks.setdefault(name, _Talk())
        if talk.epoch != as_int(body.get("epoch")):
            talk.epoch, talk.messages = as_int(body.get("epoch")), []
        said, role = self._text(body.get("said")), self._text(body.get("system"))
        if said is None or role is None:
            return
        messages = (*talk.messages, user(said))
        for aside in asides:
            self.same += self._is_same(aside, Prompt("", role, ()), [messages])
        if body.get("status") in _ANSWERS:
            talk.messages = [*messages, assistant(as_str(body.get("text")))]

    def _compacted(self, entry: Entry) -> None:
        asides = self._take(COMPACTOR)
        if not asides or self._prompt is None:
            return
        before = history(self._entries[: asides[0].place], self._fetch)
        asked = user(instruction(""), sender="sagent")
        kept = {as_int(place, -1) for place in as_array(entry.body.get("kept"))}
        cuts = [(*before[:place], asked) for place in _cuts(len(before), kept)]
        for aside in asides:
            self.same += self._is_same(aside, self._prompt, cuts)

    def _take(self, role: str) -> list[_Aside]:
        found = [aside for aside in self._open if aside.role == role]
        self._open = [aside for aside in self._open if aside.role != role]
        return found

    def _text(self, name: object) -> str | None:
        try:
            data = self._fetch(as_str(name))
        except (SagentError, OSError):
            return None
        return None if data is None else data.decode("utf-8", "replace")

    def _is_same(self, aside: _Aside, prompt: Prompt, candidates: Sequence[Sequence[Message]]) -> bool:
        model = self._find(f"{aside.provider}/{aside.sent.model}")
        if isinstance(model, str):
            return False
        for messages in candidates:
            rebuilder = Rebuilder(f"{self._agent}:{aside.role}", prompt, self._sessions)
            if rebuilder.compare(model, Request("", messages, prompt.system), aside.sent).outcome == "same":
                return True
        return False


def _cuts(length: int, kept: set[int]) -> Iterator[int]:
    """Where a conversation may have been cut: what follows was kept whole."""
    place = length
    while place - 1 in kept:
        place -= 1
    yield from range(place, length + 1)
