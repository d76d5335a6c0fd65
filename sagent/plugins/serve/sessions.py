"""The sessions of one user of the server: open ones, and those of its directories on disk."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from sagent.agent.conversation import Conversation
from sagent.errors import SagentError, SessionNotFound, UsageError
from sagent.events import Event, Received
from sagent.lib.dataclass import dataclass
from sagent.lib.json import valid_text
from sagent.lib.money import number
from sagent.lib.text import one_line, printable
from sagent.model import full_name
from sagent.plugins.hosting.live import ClientOptions, LiveSession, Opening, show_question
from sagent.plugins.serve.consent import Keep, offered
from sagent.plugins.serve.feed import Feed
from sagent.session.blobs import BlobDirectory
from sagent.session.folds import origin, title
from sagent.session.log import read_log
from sagent.session.store import check_log, check_version, sessions
from sagent.transcript.event_json import encode_cost

MAX_OPEN = 200  # sessions at a time; an idle one gives way to another
MAX_LISTED = 200  # earlier sessions
_STATUS_INTERVAL_SECONDS = 0.25  # seconds between two status reports


@dataclass(frozen=True, slots=True)
class Place:
    """The directories in which a user's sessions may work and are stored."""

    roots: tuple[Path, ...]  # the first is the default directory
    state: Path

    def check(self, cwd: str | None) -> str:
        """Return a directory that a client names, as an absolute path. Raises UsageError for a forbidden one."""
        if "\0" in (cwd or ""):
            raise UsageError("cwd has a NUL, which no path has.")
        path = (self.roots[0] / valid_text(cwd or ".")).resolve()
        if not self.allows(path):
            named = ", ".join(map(str, self.roots))
            raise UsageError(f"{path} is not in a directory that this server was started for: {named}. See --add-dir.")
        if not os.path.isdir(path):  # noqa: PTH112 -- one that is too long is none
            raise UsageError(f"There is no directory {path!s:.300}.")
        return str(path)

    def allows(self, path: Path) -> bool:
        return any(path.resolve().is_relative_to(root) for root in self.roots)


class Hosted:
    """A session by its directory, and its open state. `keep` saves permanent rules, if possible."""

    def __init__(self, path: Path | None = None, keep: Keep | None = None) -> None:
        self.path, self.keep = path or Path(), keep
        self.live: LiveSession | None = None
        self.feed = Feed(lambda: self.path, self.touch)  # events after a client's first status are reported again
        self.opening = asyncio.Lock()
        self.used = 0.0  # time of its last activity, by the loop's clock
        self._title = self._cwd = ""
        self._early: list[Event] = []
        self._timer: asyncio.TimerHandle | None = None
        self._closing = False

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def cwd(self) -> str:
        self._cwd = self._cwd or origin(read_log(self.path / "root.jsonl")).cwd
        return self._cwd

    @property
    def is_open(self) -> bool:
        return self.live is not None and not self.live.closed and not self._closing

    @property
    def is_idle(self) -> bool:
        """True if it is open without activity: closing and reopening it then only loses permissions for the session."""
        if self.live is None or not self.is_open or self.live.busy or self.live.questions:
            return False
        living = self.live.agent.tree.living
        return not any(each.running or any(job.state == "running" for job in each.jobs()) for each in living)

    async def open(self, opening: Opening, options: ClientOptions) -> None:
        """Open it, unless it is. Raises SagentError and OSError."""
        async with self.opening:
            if self.is_open:
                return
            self.live = None  # it has ended by itself
            live = LiveSession(opening, options, self._on_event, self.touch)
            agent = (await live.opened()).agent
            if not agent.log.path:
                await live.aclose()
                raise UsageError(
                    "The session cannot be saved to disk, so it is not served: free some space or fix the directory."
                )
            self.path, self.live = Path(agent.log.path), live
            self.feed.begin()
            for event in self._early:
                self.feed.publish(event, "")
            self._early.clear()
        self.touch()

    async def close_idle(self) -> bool:
        """Close it unless it is active; return True if it is closed."""
        async with self.opening:
            if not self.is_idle:
                return False
            self._closing = True
            try:
                await self.aclose()
            finally:
                self._closing = False
        self.touch()
        return True

    def require_live(self) -> LiveSession:
        """Return the open session. Raises UsageError if it is closed."""
        if self.live is None or not self.is_open:
            raise UsageError(f"Session {self.id} is closed: send it a message to open it.")
        return self.live

    def fetch(self, blob: str) -> bytes | None:
        """Return an image of the session, None if it is lost."""
        return BlobDirectory(self.path / "blobs").find(blob)

    def touch(self) -> None:
        """Record activity, and report the status soon."""
        self.used = asyncio.get_running_loop().time()
        if self._timer is None and self.feed.followed:
            self._timer = asyncio.get_running_loop().call_later(_STATUS_INTERVAL_SECONDS, self._report)

    async def aclose(self) -> None:
        if self.live is not None:
            await self.live.aclose()
            self.live = None

    def status(self) -> dict[str, object]:
        """Return the state of the session, as JSON."""
        shown: dict[str, object] = {
            "id": self.id,
            "cwd": self.cwd,
            "title": printable(self._named()),
            "state": "closed",
        }
        if not self.is_open:
            return {**shown, "questions": [], "agents": []}
        live = self.require_live()
        agent = live.agent
        cap, cost = agent.ledger.cap, agent.cost()
        living = {each.path: _show_agent(each) for each in agent.tree.living}
        agents = {path: _show_ended(path, float(usd)) for path, usd in cost.by_agent.items()} | living
        return {
            **shown,
            "state": "asking" if live.questions else "working" if live.busy else "idle",
            "model": full_name(agent.model),
            "effort": agent.state.context.effort or "",
            "permission_mode": live.policy.mode,
            "max_budget_usd": number(cap),
            "cost_usd": encode_cost(cost),
            "agents": [agents[path] for path in sorted(agents)],
            "questions": self.questions(),
        }

    def questions(self) -> Sequence[Mapping[str, object]]:
        """Return the open questions, as JSON."""
        open_ones = self.live.questions.values() if self.live else ()
        return [{**show_question(open_one), **offered(open_one, self.keep)} for open_one in open_ones]

    def _on_event(self, event: Event) -> None:
        if self.live is None:
            self._early.append(event)
            return
        node = self.live.agent.tree.get(event.agent)
        self.feed.publish(event, node.log.head if node is not None else "")
        if isinstance(event, Received) and event.agent == "root" and not (event.message.sender or self._title):
            self._title = one_line(event.message.content, 80)
        self.touch()

    def _report(self) -> None:
        self._timer = None
        with suppress(SagentError, OSError):
            self.feed.report("status", self.status())

    def _named(self) -> str:
        if not self._title:
            self._title = title(read_log(self.path / "root.jsonl"))
        return self._title


class Sessions:
    """The sessions visible to one user. `keep` saves permanent rules; without it none are saved."""

    def __init__(self, opening: Opening, place: Place, keep: Keep | None = None) -> None:
        self.place = place
        self._opening, self._keep = opening, keep
        self._hosted: dict[str, Hosted] = {}
        self._coming = 0  # sessions that are being opened
        self._leaving: set[asyncio.Future[None]] = set()  # deleted ones that are being closed

    async def begin(self, options: ClientOptions) -> Hosted:
        """Return a new session. Raises SagentError and OSError."""
        hosted = Hosted(keep=self._keep)
        await self._open(hosted, replace(options, cwd=self.place.check(options.cwd)))
        self._hosted[hosted.id] = hosted
        return hosted

    async def resume(self, hosted: Hosted) -> None:
        """Open an earlier one, unless it is open. Raises SagentError and OSError."""
        if not hosted.is_open:
            check_version(hosted.path, "continue it")
            self.place.check(hosted.cwd)  # it may lead elsewhere by now
            await self._open(hosted, ClientOptions(session=str(hosted.path)))

    async def _open(self, hosted: Hosted, options: ClientOptions) -> None:
        self._coming += 1
        try:
            while len(self.open()) + self._coming > MAX_OPEN:
                await self._make_room()
            await hosted.open(self._opening, options)
        finally:
            self._coming -= 1

    async def _make_room(self) -> None:
        """Close the session that was idle longest. Raises UsageError if all are active."""
        idle = [each for each in self.open() if each.is_idle]
        if not idle:
            raise UsageError(f"{MAX_OPEN} sessions are running, which is the limit: wait for one, or close it.")
        await min(idle, key=lambda each: each.used).close_idle()

    def get(self, name: str) -> Hosted:
        """Return a session by its id. Raises SessionNotFound and SessionCorrupt."""
        known = self._hosted.get(name)
        if known is not None and not os.path.lexists(known.path):
            del self._hosted[name]  # it was deleted
            closing = asyncio.ensure_future(known.aclose())
            self._leaving.add(closing)
            closing.add_done_callback(self._leaving.discard)
            known.feed.close()
        if name not in self._hosted:
            path = next((session for session in sessions(self.place.state) if session.name == name), None)
            if path is not None:
                check_log(path)  # otherwise it has its directory
            if path is None or not self.place.allows(Path(origin(read_log(path / "root.jsonl")).cwd)):
                raise SessionNotFound(f"There is no session {name[:100]!r} here.")
            self._hosted[name] = Hosted(path, self._keep)
        return self._hosted[name]

    def open(self) -> Sequence[Hosted]:
        return [each for each in self._hosted.values() if each.is_open]

    def earlier(self) -> Sequence[Mapping[str, object]]:
        """Return the sessions on the disk that are not open, the latest first. May block."""
        known = {each.id for each in self.open()}
        paths = [session for session in sessions(self.place.state) if session.name not in known]
        found: list[Mapping[str, object]] = []
        for path in sorted(paths, key=lambda each: each.name, reverse=True):
            with suppress(SagentError, OSError):
                hosted = Hosted(path)
                if self.place.allows(Path(hosted.cwd)):
                    found.append(hosted.status())
            if len(found) == MAX_LISTED:
                break
        return found

    async def aclose(self) -> None:
        """Close all: what runs is interrupted, and can be gone on with."""
        for each in self._hosted.values():
            each.feed.close()
        await asyncio.gather(*(each.aclose() for each in self._hosted.values()), return_exceptions=True)


def _show_agent(agent: Conversation) -> dict[str, object]:
    """Return a summary of an agent. Not by its `status`, which goes through the whole conversation."""
    state = agent.state
    jobs = [
        {"name": job.name, "tool": job.tool, "what": job.what, "seconds": round(job.seconds, 1)}
        for job in agent.jobs()
        if job.state == "running"
    ]
    return {
        "path": agent.path,
        "state": "working" if agent.running or jobs else "idle",
        "model": full_name(agent.model),
        "turns": state.run.turns,
        "usd": float(state.ledger.spent(agent.path)),
        "context_tokens": state.context.tokens(),
        "window": state.model_limits.window,
        "jobs": jobs,
        **({"waits": waits} if (waits := state.ledger.waits(agent.path)) else {}),
    }


def _show_ended(path: str, usd: float) -> dict[str, object]:
    return {"path": path, "state": "ended", "model": "", "turns": 0, "usd": usd, "jobs": []}
