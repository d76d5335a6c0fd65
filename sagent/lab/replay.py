"""A session run again from its log: our own loop, with the model and the tools answering from what was recorded.

Each request is built again and compared with the sha256 of the one that was sent; each message that the loop makes with
the one that the log has. Nothing is sent, no tool is run, nothing is written.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from itertools import product
from pathlib import Path

from sagent.agent import Agent, Resources, RunLimits
from sagent.codec import VERSION, Fetch
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import UsageError
from sagent.lab.doubles import RecordedModel, RecordedPolicy, recorded_tools
from sagent.lab.player import Diverged, Divergence, Ended, Player, Score, is_long
from sagent.lab.rebuild import Find, Preparing, Rebuilder, adapters
from sagent.lab.recording import (
    Came,
    Inherited,
    Prompt,
    Recording,
    Turn,
    name_of,
    read_recording,
    session_at,
)
from sagent.lab.rerun import Conditions, Rerun, rerun
from sagent.lab.side_calls import SideCalls, check_side_calls
from sagent.lib.dataclass import dataclass
from sagent.lib.json import JsonObject
from sagent.messages import Message
from sagent.model import ModelLimits
from sagent.providers.limits import known_models
from sagent.providers.rows import Row
from sagent.session.blobs import BlobDirectory
from sagent.session.contents import Compacted, Forked, Opened, SwitchedEntry
from sagent.session.entries import Entry
from sagent.session.folds import history, origin
from sagent.session.log import MemoryLog, read_log
from sagent.session.names import agent_of
from sagent.session.store import log_files
from sagent.session.verify import verify
from sagent.tool import Workspace

__all__ = ["Conditions", "Divergence", "Replay", "Replayed", "Rerun", "replay", "replay_log", "rerun"]

REDACTED = (
    "secrets were taken out of {count} entries when it was exported: what was sent can no longer be built from it. "
    "Replay the session it was exported from."
)


@dataclass(frozen=True, slots=True)
class Replayed:
    """One agent's replay. `requests` are those whose bytes are the recorded ones, of `recorded` requests; `unchecked`
    says what could not be compared byte for byte, and why, and `taken` what came from the log without being run again,
    each with how often."""

    agent: str
    turns: int = 0
    recorded: int = 0
    requests: int = 0
    messages: int = 0
    results: int = 0
    side_calls: SideCalls = SideCalls()
    unchecked: Mapping[str, int] = field(default_factory=dict[str, int])
    taken: Mapping[str, int] = field(default_factory=dict[str, int])
    divergence: Divergence | None = None

    @property
    def is_exact(self) -> bool:
        """Whether every request was compared byte for byte, and nothing differs."""
        return self.divergence is None and self.requests == self.recorded and not self.unchecked


@dataclass(frozen=True, slots=True)
class Replay:
    """A session's replay. `problems` are what `sagent verify` finds: a damaged session is not replayed."""

    session: str
    path: str
    recorded_by: str  # the version of sagent
    agents: tuple[Replayed, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def is_same(self) -> bool:
        return not self.problems and all(each.divergence is None for each in self.agents)

    @property
    def is_exact(self) -> bool:
        """Whether that is so, and every request was compared byte for byte."""
        return self.is_same and all(each.is_exact for each in self.agents)


async def replay(
    path: Path, *, agent: str = "", rows: Mapping[str, Row] | None = None, find: Find | None = None
) -> Replay:
    """Run the agents of a session, or of an exported bundle, again, each by itself, or the one named. `rows` are a
    person's own providers.

    Raises UsageError for an agent that is not there and for a log that only a newer sagent can read.
    """
    proof = verify(path)
    if proof.problems or proof.redacted:
        problems = proof.problems or (REDACTED.format(count=proof.redacted),)
        return Replay(proof.session or path.name, str(path), "", problems=problems)
    with session_at(path) as session:
        return replace(await _replay(session, agent, find or adapters(rows)), path=str(path))


async def _replay(session: Path, agent: str, find: Find) -> Replay:
    files = {agent_of(session, file): file for file in log_files(session)}
    if agent and agent not in files:
        raise UsageError(f"{session.name} has no agent {agent!r}; it has {', '.join(files)}")
    fetch = BlobDirectory(session / "blobs").get
    first = next(iter(read_log(session / "root.jsonl")), None)
    opened = origin(() if first is None else (first,))
    _check_version(session, opened)
    names = (opened.session, session.name)
    found = [
        await replay_log(path, tuple(read_log(file)), fetch, find, names)
        for path, file in files.items()
        if agent in ("", path)
    ]
    return Replay(name_of(session, opened), str(session), opened.recorded_by, tuple(found))


def _check_version(session: Path, opened: Opened) -> None:
    version = opened.version
    if version > VERSION:
        raise UsageError(
            f"session {session.name} was written by a newer sagent (format {version}, this one reads up to {VERSION}): "
            "update sagent to replay it"
        )


async def replay_log(
    agent: str, entries: Sequence[Entry], fetch: Fetch, find: Find, sessions: Sequence[str] = ()
) -> Replayed:
    """Run one agent again from its log. `sessions` are ids that the session has had."""
    recording = read_recording(agent, entries, fetch)
    own = recording.origin.session
    score = Score()
    score.taken.update({_TAKEN[kind]: count for kind, count in recording.counts.items() if kind in _TAKEN})
    names = tuple(name for name in dict.fromkeys((own, *sessions)) if name)
    parts = _Parts(recording, entries, fetch, find, names, score)
    divergence: Divergence | None = None
    try:
        for stretch in _stretches(recording):
            await parts.play(stretch)
    except Diverged as diverged:
        divergence = diverged.divergence
    sent = sum(turn.sent is not None for turn in recording.turns)
    side_calls = check_side_calls(agent, entries, fetch, find, names)
    if side_calls.recorded > side_calls.same:
        score.unchecked["requests of advisors and compactors that could not be built as they were sent"] = (
            side_calls.recorded - side_calls.same
        )
    counts = (len(recording.turns), sent, score.requests, score.messages, score.results)
    return Replayed(agent, *counts, side_calls, dict(score.unchecked), dict(score.taken), divergence)


_TAKEN = {
    "job": "calls in the background: their answers and results, not their timing",
    "advice": "consultations: what advisors said",
    "spawned": "agents spawned: each has a log of its own",
}


# -- stretches: what one agent object can play without a break ---------------------------------------------------------


def _stretches(recording: Recording) -> Iterator[tuple[Turn, ...]]:
    """The turns, cut where the conversation went on otherwise than by what the loop itself does: from another entry,
    with less of it, with another prompt, in another process, with another model in the middle of a call."""
    found: list[Turn] = []
    for turn in recording.turns:
        if found and _breaks(found[-1], turn):
            yield tuple(found)
            found = []
        found.append(turn)
    if found:
        yield tuple(found)


def _breaks(before: Turn, turn: Turn) -> bool:
    """A process logs its prompt once, before its first request, and again when that has changed."""
    return turn.prompt is not before.prompt or _resumes(turn) or _is_cut(before)


def _resumes(turn: Turn) -> bool:
    """Whether what is before a turn is taken from the log, and not brought about by the loop."""
    return any(
        isinstance(step, Compacted | Forked) or (isinstance(step, SwitchedEntry) and step.reason)
        for step in turn.before
    )


def _is_cut(turn: Turn) -> bool:
    """Whether the loop cannot go on after a turn as it did: its process ended, or a result does not pass a second
    time."""
    return bool(turn.open_calls) or is_long(turn) or (turn.sent is not None and turn.reply is None)


class _Parts:
    def __init__(
        self,
        recording: Recording,
        entries: Sequence[Entry],
        fetch: Fetch,
        find: Find,
        sessions: Sequence[str],
        score: Score,
    ) -> None:
        self._recording, self._entries, self._fetch = recording, entries, fetch
        self._find, self._sessions, self._score = find, sessions, score
        self._prices = PriceBook()
        self._models: dict[str, Preparing | str] = {}
        self._prompted: tuple[Prompt, Rebuilder] | None = None  # the last stretch's
        self._native = tuple(_native(recording))
        self._name = next((turn.reply.model for turn in recording.turns if turn.reply and turn.reply.model), "")

    async def play(self, turns: Sequence[Turn]) -> None:
        """Play a stretch. Raises Diverged."""
        first = turns[0]
        if first.prompt is None:  # the call failed before anything was sent
            for turn in turns:
                self._note_steps(turn)
            return
        driven = all(isinstance(step, Inherited | Came) for step in first.before)
        base = self._base(first, driven=driven)
        if not driven:
            self._count_steps(first)
        rebuilder = self._rebuilder_for(first.prompt)
        player = Player(turns, base, self._score, rebuilder, resumed=not driven)

        def model(name: str) -> RecordedModel:
            return RecordedModel(player, name, self._model(name))

        log = MemoryLog(self._recording.agent, session_id=self._sessions[0] if self._sessions else "")
        agent = Agent(
            model(self._name_of(first)),
            system=first.prompt.system,
            tools=recorded_tools(player, first.prompt),
            policy=RecordedPolicy(player),
            limits=RunLimits(max_retries=0, compact_at=0, wait_for_jobs=False),
            resources=Resources(
                log=log,
                ledger=Ledger(None, self._prices),
                workspace=Workspace(Path("/nonexistent")),
                path=self._recording.agent,
                resolve=model,
            ),
        )
        player.interrupt = agent.interrupt
        agent.restore(base)
        try:
            await self._drive(agent, player, driven=driven)
            player.check_all(agent.messages)
        finally:
            await agent.aclose()
            log.close()

    def _rebuilder_for(self, prompt: Prompt) -> Rebuilder:
        """For a prompt that is that of the last stretch, the order of its keys is known already."""
        before = self._prompted
        made = Rebuilder(self._recording.agent, prompt, self._sessions, self._native)
        if before is not None and prompt.same(before[0]):
            made.follow(before[1])
        self._prompted = (prompt, made)
        return made

    async def _drive(self, agent: Agent, player: Player, *, driven: bool) -> None:
        """One run after the other, until all turns of the stretch are played."""
        while (turn := player.next) is not None:
            if driven:
                for action in player.switches(turn):
                    agent.apply(action)
                for came in turn.came:
                    agent.inform(came.message)
            driven = True
            player.begin()
            with suppress(Ended):
                await agent.go_on()
            player.check_end()

    def _base(self, first: Turn, *, driven: bool) -> tuple[Message, ...]:
        if driven and first.number == 1:
            return tuple(step.message for step in first.before if isinstance(step, Inherited))
        if not driven:
            return history(self._entries[: first.place], self._fetch)
        came = len(first.came)
        whole = history(self._entries[: first.place], self._fetch)
        return whole[: len(whole) - came]

    def _count_steps(self, turn: Turn) -> None:
        for step in turn.before:
            match step:
                case Compacted():
                    self._score.taken["compactions: what they left of the conversation"] += 1
                case Forked():
                    self._score.taken["returns to an earlier entry"] += 1
                case SwitchedEntry(reason=reason) if reason:
                    self._score.taken["switches to another model because one could not be reached"] += 1
                case _:
                    pass

    def _note_steps(self, turn: Turn) -> None:
        self._count_steps(turn)
        if turn.failed is not None:
            self._score.taken["calls that failed before anything was sent"] += 1

    def _name_of(self, turn: Turn) -> str:
        """The model that answers at a turn, as "provider/id"."""
        if turn.reply is not None and turn.reply.model:
            self._name = turn.reply.model
        return self._name

    def _model(self, name: str) -> Preparing | str:
        if name not in self._models:
            self._models[name] = self._find(name)
        return self._models[name]


def _native(recording: Recording) -> Iterator[JsonObject]:
    """What a provider's own advisor may have added to requests: no entry names it before it has been asked."""
    from sagent.advisor.advisor import Advisor
    from sagent.advisor.native import Native
    from sagent.advisor.rules import Rules

    if not any(turn.prompt is not None and turn.prompt.has("advisor") for turn in recording.turns):
        return
    billed = (bill.model for bill in recording.bills if bill.role.startswith("advisor"))
    models = dict.fromkeys((*billed, *(info.id for info in known_models("anthropic"))))

    class _Executor:
        provider, id, limits = "anthropic", "", ModelLimits()

    for model, uses in product(models, dict.fromkeys((None, Rules().max_advisor_calls))):
        advisor = Advisor("advisor", f"anthropic/{model}")
        made = Native("native").options(_Executor(), advisor, uses)  # pyright: ignore[reportArgumentType] -- only its name counts
        if made is not None:
            yield made
