"""Replays a session from its log: our own loop, with a model and tools that answer from the recording.

Each request is rebuilt and compared with the sha256 of the sent one; each message of the loop is compared with the
logged one. Nothing is sent, run, or written.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import cache
from itertools import islice, product
from pathlib import Path

from sagent.agent import Agent, Resources, RunLimits
from sagent.codec import Fetch
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import JsonObject
from sagent.messages import Message
from sagent.model import ModelLimits
from sagent.plugins.audit.verify import verify
from sagent.plugins.lab.doubles import (
    Divergence,
    Player,
    RecordedModel,
    RecordedPolicy,
    RecordedTool,
    RecordingEnded,
    Replayed,
    is_long,
)
from sagent.plugins.lab.rebuild import Find, Rebuilder, adapters, check_side_calls
from sagent.plugins.lab.recording import (
    IncomingMessage,
    InheritedMessage,
    Prompt,
    Recording,
    Turn,
    models_of,
    name_of,
    read_recording,
    session_at,
)
from sagent.plugins.lab.rerun import Conditions, Rerun, rerun
from sagent.providers.limits import known_models
from sagent.providers.rows import Row
from sagent.session.blobs import BlobDirectory
from sagent.session.contents import Compacted, ConsultationEntry, Forked, JobEntry, Spawned, SwitchedEntry
from sagent.session.entries import Entry
from sagent.session.folds import charges, contents, history, origin
from sagent.session.log import MemoryLog, read_log
from sagent.session.names import agent_of
from sagent.session.store import check_version, named_logs
from sagent.tool import Workspace

__all__ = ["Conditions", "Divergence", "Replay", "Replayed", "Rerun", "replay", "replay_log", "rerun"]

REDACTED = (
    "secrets were taken out of {count} entries when it was exported: the requests can no longer be rebuilt from it. "
    "Replay the original session instead."
)


@dataclass(frozen=True, slots=True)
class Replay:
    """A session's replay. `problems` are the findings of `sagent verify`: a damaged session is not replayed. `torn` are
    ignored incomplete log ends of a killed writer."""

    session: str
    path: str
    recorded_by: str  # the version of sagent
    agents: tuple[Replayed, ...] = ()
    problems: tuple[str, ...] = ()
    torn: tuple[str, ...] = ()

    @property
    def is_same(self) -> bool:
        return not self.problems and all(agent.divergence is None for agent in self.agents)

    @property
    def is_exact(self) -> bool:
        """True if that is so, and every request was compared byte for byte."""
        return self.is_same and all(agent.is_exact for agent in self.agents)


async def replay(path: Path, *, agent: str = "", rows: Mapping[str, Row] | None = None) -> Replay:
    """Replay the agents of a session or exported bundle, each separately, or only the named one. `rows` are a person's
    own providers.

    Raises UsageError for an unknown agent and for a log of a newer version.
    """
    proof = verify(path)
    if len(proof.problems) > len(proof.torn) or proof.redacted:
        problems = proof.problems or (REDACTED.format(count=proof.redacted),)
        return Replay(proof.session or path.name, str(path), "", problems=problems)
    with session_at(path) as session:
        return replace(await _replay(path, session, agent, adapters(rows)), torn=proof.torn)


async def _replay(path: Path, session: Path, agent: str, find: Find) -> Replay:
    files = {agent_of(session, file): file for file in named_logs(session)}
    if agent and agent not in files:
        raise UsageError(f"{session.name} has no agent {agent!r}; it has {', '.join(files)}")
    fetch = BlobDirectory(session / "blobs").get
    opened = origin(islice(read_log(session / "root.jsonl"), 1))
    check_version(session, "replay it")
    names = (opened.session, session.name)
    found = [
        await replay_log(name, tuple(read_log(file)), fetch, find, names)
        for name, file in files.items()
        if agent in ("", name)
    ]
    return Replay(name_of(session, opened), str(path), opened.recorded_by, tuple(found))


async def replay_log(
    agent: str, entries: Sequence[Entry], fetch: Fetch, find: Find, sessions: Sequence[str] = ()
) -> Replayed:
    """Replay one agent from its log. `sessions` are ids that the session has had."""
    recording = read_recording(agent, entries, fetch)
    found = Replayed(agent, len(recording.turns), sum(turn.sent is not None for turn in recording.turns))
    for content in contents(entries, JobEntry, ConsultationEntry, Spawned):
        if not isinstance(content, JobEntry) or content.state == "running":
            found.taken[_TAKEN[type(content)]] += 1
    names = tuple(name for name in dict.fromkeys((recording.origin.session, *sessions)) if name)
    native, name = tuple(_native(recording, entries)), next(models_of(recording), "")
    parts = _Parts(recording, entries, fetch, cache(find), names, found, native, name)
    try:
        for segment in _segments(recording):
            await parts.play(segment)
    except Divergence as divergence:
        found.divergence = divergence
    side = found.side_calls = check_side_calls(agent, entries, fetch, find, names)
    if side.recorded > side.same:
        missing = "requests of advisors and compactors that could not be built as they were sent"
        found.unchecked[missing] = side.recorded - side.same
    return found


_TAKEN: Mapping[type, str] = {
    JobEntry: "calls in the background: their answers and results, not their timing",
    ConsultationEntry: "consultations: what advisors said",
    Spawned: "agents spawned: each has a log of its own",
    Compacted: "compactions: what they left of the conversation",
    Forked: "returns to an earlier entry",
    SwitchedEntry: "switches to another model because one could not be reached",
}


# -- segments: what one agent object can play without a break ---------------------------------------------------------


def _segments(recording: Recording) -> Iterator[tuple[Turn, ...]]:
    """Yield the turns, split where something else than the loop changed the conversation: another entry, fewer
    messages, another prompt, another process, another model in the middle of a call."""
    found: list[Turn] = []
    for turn in recording.turns:
        if found and _breaks(found[-1], turn):
            yield tuple(found)
            found = []
        found.append(turn)
    if found:
        yield tuple(found)


def _breaks(before: Turn, turn: Turn) -> bool:
    """Return True if the loop cannot continue after a turn. A process logs its prompt before its first request, and
    again after a change; or it ended; or a result would be changed a second time."""
    is_cut = bool(before.open_calls) or is_long(before) or (before.sent is not None and before.reply is None)
    resumes = any(  # from the log: it is not brought about by the loop
        isinstance(step, Compacted | Forked) or (isinstance(step, SwitchedEntry) and step.reason)
        for step in turn.before
    )
    return turn.prompt is not before.prompt or resumes or is_cut


@dataclass(slots=True)
class _Parts:
    recording: Recording
    entries: Sequence[Entry]
    fetch: Fetch
    find: Find
    sessions: Sequence[str]
    score: Replayed
    native: Sequence[JsonObject]
    name: str  # of the model that answers, as "provider/id"
    prompted: tuple[Prompt, Rebuilder] | None = None  # the last segment's
    prices: PriceBook = field(default_factory=PriceBook)

    async def play(self, turns: Sequence[Turn]) -> None:
        """Play a segment. Raises Divergence."""
        first = turns[0]
        if first.prompt is None:  # the call failed before any request
            for turn in turns:
                self._count_steps(turn)
                if turn.failed is not None:
                    self.score.taken["calls that failed before anything was sent"] += 1
            return
        driven = all(isinstance(step, InheritedMessage | IncomingMessage) for step in first.before)
        base = self._base(first, driven=driven)
        if not driven:
            self._count_steps(first)
        player = Player(turns, base, self.score, self._rebuilder_for(first.prompt), resumed=not driven)
        if first.reply is not None and first.reply.model:
            self.name = first.reply.model

        def model(name: str) -> RecordedModel:
            return RecordedModel(player, name, self.find(name))

        log = MemoryLog(self.recording.agent, session_id=self.sessions[0] if self.sessions else "")
        agent = Agent(
            model(self.name),
            system=first.prompt.system,
            tools=tuple(RecordedTool(player, tool.name, tool.description) for tool in first.prompt.tools),
            policy=RecordedPolicy(player),
            limits=RunLimits(max_retries=0, compact_at=0, wait_for_jobs=False),
            resources=Resources(
                log=log,
                ledger=Ledger(None, self.prices),
                workspace=Workspace(Path("/nonexistent")),
                path=self.recording.agent,
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
        """Return a rebuilder; for the prompt of the last segment, the order of its keys is known already."""
        made, before = Rebuilder(self.recording.agent, prompt, self.sessions, self.native), self.prompted
        if before is not None and (prompt.system, prompt.tools) == (before[0].system, before[0].tools):
            made.follow(before[1])
        self.prompted = (prompt, made)
        return made

    async def _drive(self, agent: Agent, player: Player, *, driven: bool) -> None:
        """Run the agent until all turns of the segment are played."""
        while (turn := player.next) is not None:
            if driven:
                for action in player.switches(turn):
                    agent.apply(action)
                for came in turn.came:
                    agent.inform(came.message)
            driven = True
            player.begin()
            with suppress(RecordingEnded):
                await agent.continue_run()
            player.check_end()

    def _base(self, first: Turn, *, driven: bool) -> tuple[Message, ...]:
        if driven and first.number == 1:
            return tuple(step.message for step in first.before if isinstance(step, InheritedMessage))
        whole = history(self.entries[: first.place], self.fetch)
        return whole[: len(whole) - len(first.came)] if driven else whole

    def _count_steps(self, turn: Turn) -> None:
        for step in turn.before:
            if isinstance(step, Compacted | Forked) or (isinstance(step, SwitchedEntry) and step.reason):
                self.score.taken[_TAKEN[type(step)]] += 1


def _native(recording: Recording, entries: Sequence[Entry]) -> Iterator[JsonObject]:
    """Yield the members that a provider's own advisor may have added to requests before an entry names it."""
    from sagent.advisor.advisor import Advisor
    from sagent.advisor.native import Native
    from sagent.advisor.rules import Rules

    if not any(tool.name == "advisor" for turn in recording.turns if turn.prompt for tool in turn.prompt.tools):
        return
    billed = (charge.model for charge in charges(entries) if charge.role.startswith("advisor"))
    models = dict.fromkeys((*billed, *(info.id for info in known_models("anthropic"))))

    class _Executor:
        provider, id, limits = "anthropic", "", ModelLimits()

    for model, uses in product(models, dict.fromkeys((None, Rules().max_advisor_calls))):
        advisor = Advisor("advisor", f"anthropic/{model}")
        made = Native("native").options(_Executor(), advisor, uses)  # pyright: ignore[reportArgumentType] -- only its name counts
        if made is not None:
            yield made
