"""The sessions of the REPL, one after another: open one by the settings, answer its prompts, close it for the next."""

import asyncio
import re
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sagent.context.plan import is_planning
from sagent.context.todo import tasks_in
from sagent.errors import SagentError, SessionBusy, UsageError
from sagent.events import (
    Advised,
    Finished,
    Received,
    ReplyFinished,
    Switched,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
)
from sagent.lib.dataclass import dataclass
from sagent.messages import Message, user
from sagent.repl.ending import TurnTally
from sagent.repl.greeting import KEYS, greeting, take_news
from sagent.repl.opening import CurrentSession, SessionChoices
from sagent.repl.tasks import Tasks
from sagent.repl.view.blocks import MAX_EARLIER_MESSAGES, PLAN_MODE, Block, Page, Report, failure_report, past_blocks
from sagent.repl.view.panel import Figures, Queued, cost_line
from sagent.repl.view.view import ROOT
from sagent.session.names import sessions_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator

    from sagent.config import Settings
    from sagent.context.todo import Task
    from sagent.events import Event, Failure, Result
    from sagent.policy.permissions import Mode
    from sagent.repl.opening import Asker, Opened, Opening
    from sagent.repl.root import RootAgent, TreeAgent
    from sagent.session.entries import Entry
    from sagent.tools.ask import Answerer

_LACKING = ("No model was named", "No server answers")  # beginnings of errors if no provider can be used
IDLE_DELAY_SECONDS = 0.3  # before background work
_STREAMED = (TextDelta, ThinkingDelta, ToolProgress)  # events that change no figures


class Display(Protocol):
    """The transcript before the person."""

    def show(self, event: "Event") -> object: ...
    def write(self, *blocks: Block) -> object: ...
    def paint(self) -> object: ...
    def show_tasks(self, tasks: "Sequence[Task]") -> object: ...
    def show_waiting(self, agent: str, waits_for: str) -> object: ...


class Meter(Protocol):
    """The figures before the person; `tick` refreshes them during a turn, until cancelled."""

    figures: Figures

    def show(self, figures: Figures) -> object: ...
    def update(self, opened: "Opened") -> object: ...
    def update_cost(self, agent: "RootAgent") -> object: ...
    @property
    def redraw(self) -> "Callable[[], object]": ...
    def tick(self, agent: "RootAgent | None" = None) -> "Coroutine[None, None, None]": ...


class Bell(Protocol):
    """Alerts the person at the end of a turn of so many seconds."""

    def ring(self, seconds: float) -> object: ...


def guide(error: Exception) -> Sequence[Block]:
    """Explain why no session could be opened. Without a usable provider, /setup lists the ways to get one."""
    text = str(error)
    if text.startswith(_LACKING[1]):
        return (Report(text, "error"),)
    if not text.startswith(_LACKING):
        lacking = re.match(r"No key for ([\w.-]+)", text)
        login = f"/login {lacking[1]}" if lacking else "/login"
        ways = f"Fix this, then use {login}, /resume or /model again, or /quit."
        if isinstance(error, SessionBusy):
            ways = "/new begins another session, /resume lists sessions, /quit leaves."
        return (Report(text, "error"), Report(ways))
    why = (("", text.partition("\n")[0]),)
    return (Page(((("class:heading", "Welcome to sagent."),), (), why)),)


def _last_blocks(settings: "Settings") -> "Sequence[Block]":
    """Return the end of the session in the settings, and how it ended; () if it is new or in use. Raises SagentError,
    OSError and ValueError."""
    path, last = settings.session, settings.continue_session
    if settings.ephemeral or settings.fork is not None or not (path or last):
        return ()
    from sagent.session.contents import ResultEntry
    from sagent.session.folds import contents, last_messages
    from sagent.session.lock import in_use
    from sagent.session.log import read_end
    from sagent.session.store import is_session, latest

    path = path or latest(settings.state_dir, settings.cwd)
    if not is_session(path) or in_use(path):
        return ()
    entries = read_end(path / "root.jsonl")
    messages = last_messages(entries, MAX_EARLIER_MESSAGES + 1)
    if not messages:
        return ()
    return (*past_blocks(messages, ROOT, results=contents(entries, ResultEntry)), *_end_of(entries, messages[-1]))


def _end_of(entries: "Sequence[Entry]", last: Message) -> "Iterator[Report]":
    """Yield how the last turn ended, unless it ended well."""
    from sagent.session.contents import FailedEntry

    entry = next((entry for entry in reversed(entries) if entry.kind in ("failed", "message", "result")), None)
    if entry is not None and isinstance(failed := entry.content, FailedEntry):
        yield failure_report(failed.kind, failed.message)
    elif last.calls or last.results or (last.role == "user" and not last.sender):
        yield Report("The last turn was cut off as the process ended. Up brings your last message back.", "warning")


@dataclass(frozen=True, slots=True)
class UnreadMessage(Queued):
    """A message that the agent has not read yet; an `early` one was typed before a session was open."""

    message: Message = field(kw_only=True)
    early: bool = False


class Outbox:
    """Messages in the order of typing. `prompts` are those that begin a turn; None in it only wakes the reader."""

    def __init__(self) -> None:
        self.prompts: asyncio.Queue[Message | None] = asyncio.Queue()
        self.queued: list[UnreadMessage] = []

    @property
    def waits(self) -> bool:
        """True if messages wait for the end of a turn."""
        return bool(self._kept())

    def on_read(self, message: Message) -> None:
        self.queued = [wait for wait in self.queued if not (wait.sent and wait.message is message)]

    def release(self) -> bool:
        """Begin a turn with the first queued message; False if there is none."""
        if kept := self._kept():
            self.queued.remove(kept[0])
            self.prompts.put_nowait(kept[0].message)
        return bool(kept)

    def pass_on(self, agent: "RootAgent") -> None:
        """Send the agent the first message that was queued for the end of the turn."""
        if kept := self._kept():
            self.queued[self.queued.index(kept[0])] = replace(kept[0], sent=True)
            agent.send(kept[0].message, "idle")

    def recall(self) -> str | None:
        """Remove the last queued message and return its text; None if there is none."""
        if not (kept := self._kept()):
            return None
        self.queued.remove(kept[-1])
        return kept[-1].text

    def take_back(self, path: str, agent: "TreeAgent | None") -> list[str]:
        """Withdraw all unread messages to an agent and return their texts. `agent` is None if it has ended."""
        sent = (wait for wait in self.queued if wait.sent and wait.to == path)
        unread = [wait for wait in sent if agent is None or agent.withdraw(wait.message)]
        self.queued = [wait for wait in self.queued if wait not in unread]
        return [wait.text for wait in unread]

    def take_early(self) -> list[str]:
        """Remove the messages typed before a session was open and return their texts."""
        early = [wait.text for wait in self.queued if wait.early]
        self.queued = [wait for wait in self.queued if not wait.early]
        return early

    def _kept(self) -> list[UnreadMessage]:
        return [wait for wait in self.queued if not wait.sent]


class SessionLoop(CurrentSession):
    """The open session, the turn in progress, and the messages queued for it."""

    def __init__(self, opening: "Opening", painter: Display, status: Meter, presence: Bell, tasks: Tasks) -> None:
        super().__init__()
        self._opening, self._painter, self._status = opening, painter, status
        self._presence, self._tasks, self.outbox = presence, tasks, Outbox()
        self._other_wanted = asyncio.Event()  # set when `_settings` are for another session
        self._choices: SessionChoices | None = None  # the person's choices for the next session
        self._said = ""  # message to show instead of the conversation, if that is on the screen already
        self._tally: TurnTally | None = None  # of the turn in progress
        self.turn = asyncio.Lock()  # held by whoever works on the conversation
        self.on_opened: Callable[[Opened], object] = lambda opened: None
        self.on_answered: Callable[[Message], object] = lambda reply: None  # receives the reply of a plan-mode turn
        self.on_lacking: Callable[[], object] = lambda: None  # called when there is no provider to use
        self.settled = asyncio.Event()  # a session is open, or could not be opened
        self.failed = False  # no session could be opened, and none is being opened
        self.on_failed: Callable[[Failure], object] = lambda failure: None  # receives why the root's turn failed
        self.on_end: Callable[[TurnTally], object] = lambda tally: painter.write(tally.line())
        self.on_begin: Callable[[], object] = lambda: None  # called when a turn begins
        self._failure: Failure | None = None  # of the root's last turn
        self._again = False  # the turn is to go on from what the conversation holds
        self.on_unread: Callable[[list[str]], object] = lambda texts: None  # texts that a failed run left unread
        self._planning = False  # the model has been told to propose a plan
        self._greeted = False
        self.keys: Sequence[tuple[str, str]] = KEYS  # to greet with, each with its purpose
        self.on_changes: Callable[[], None] = lambda: None  # called when files may have changed
        self._resumable: Opened | None = None

    # -- what is known of it

    @property
    def cwd(self) -> Path:
        return self._settings.cwd if self._settings else Path.cwd()

    @property
    def notify(self) -> str:
        """Setting for alerts: "off", "bell" or "osc9"."""
        return self._settings.notify if self._settings else "off"

    @property
    def busy(self) -> bool:
        """True while a turn is in progress, or about to begin."""
        return self._tally is not None or not self.outbox.prompts.empty()

    @property
    def running(self) -> "RootAgent | None":
        """The agent if it is running, else None."""
        return self._opened.agent if self._opened is not None and self._opened.agent.running else None

    @property
    def ready(self) -> bool:
        """True while a session is open."""
        return self._opened is not None

    @property
    def idle(self) -> bool:
        """True if a session is open and its agent is not running."""
        return self._opened is not None and not self._opened.agent.running

    def read(self, path: str) -> str | None:
        """Return the text of a file that a call would change; None if it is unknown."""
        from sagent.repl.view.calls import read_text

        elsewhere = self.elsewhere
        return read_text(self.cwd, path) if elsewhere is None else elsewhere.read(path)

    def farewell(self) -> str:
        """Return how to continue the session, and its cost; "" if nothing was said. --continue takes it from now on."""
        if self._resumable is None:
            return ""
        agent, elsewhere = self._resumable.agent, self._resumable.elsewhere
        cost, log = cost_line(agent.cost()), agent.log
        if elsewhere is not None:
            goes_on = "It continues without you. " if agent.running else ""
            return f"\n{goes_on}To come back:  {elsewhere.again}\nSession {log.session_id}, {cost}\n"
        if not log.path:
            return f"This session was not saved; it cost {cost}.\n"
        from sagent.session.log import FileLog
        from sagent.session.store import mark_left

        settings, path, here = self.settings, Path(log.path), False
        mark_left(path)
        with suppress(FileNotFoundError):  # the directory may have been deleted
            here = path.parent == sessions_of(settings.state_dir, Path.cwd())
        way = f"--resume {log.session_id}" if here else f"--session {shlex.quote(log.path)}"
        lost = "The end of this session was not saved. " * (isinstance(log, FileLog) and log.failed)
        return f"\n{lost}To continue:  sagent {way}\nSession {log.session_id}, {cost}\n"

    def refresh(self) -> None:
        """Show the current figures of the open session."""
        if self._opened is not None:
            self._status.update(self._opened)

    # -- opening one after another

    async def run(self, approve: "Asker", answer: "Answerer") -> None:
        """Open sessions and answer their prompts until cancelled."""
        while True:
            self._other_wanted.clear()
            try:
                shown = bool(self._said) or await self._show_last_messages()
                settings = self._choices.mark(self.settings) if self._choices else self.settings
                async with self._opening(settings, self._on_event, approve, answer, self._on_waiting) as opened:
                    await self._converse(opened, shown=shown)
            except (SagentError, OSError) as error:  # show why, and wait until the person changes something
                self._painter.write(*guide(error))
                self._status.show(Figures(note="no session"))
                self.failed = True
                self.settled.set()
                self.on_unread(self.outbox.take_early())
                if str(error).startswith(_LACKING):
                    self.on_lacking()
                await self._other_wanted.wait()
            finally:
                self._opened, self.failed = None, False
                self.settled.clear()

    def reopen(self, settings: "Settings", choices: SessionChoices | None = None, shown_instead: str = "") -> None:
        """Close the session and open another in which the person has made these `choices` already; `said` is shown
        instead of its last messages. Raises UsageError while a turn is in progress."""
        if self.busy and self._opened is not None:
            raise UsageError("A turn is in progress: interrupt it first (Esc, /stop).")
        self._settings, self._choices, self._said = settings, choices, shown_instead
        self.outbox.prompts.put_nowait(None)
        self._other_wanted.set()

    async def _show_last_messages(self) -> bool:
        """Show the last messages of a session before it is opened, which may take time; return True if it had any."""
        try:
            blocks = await asyncio.to_thread(_last_blocks, self.settings)
        except (SagentError, OSError, ValueError):
            return False  # opening the session reports it
        self._painter.write(*blocks)
        self._painter.paint()
        return bool(blocks)

    async def _converse(self, opened: "Opened", *, shown: bool) -> None:
        """Answer prompts until another session is wanted; `shown` means that its last messages are on the screen."""
        agent = opened.agent
        wrong = await self._choices.make(opened) if self._choices else ()
        self._painter.write(*(Report(sentence, "warning") for sentence in wrong))
        self._opened, self._planning = opened, False
        if agent.messages and opened.elsewhere is None:
            self._planning = is_planning(agent.messages)
            if self._planning and not (self._choices or self.settings.origins.get("permission_mode", "")[:1] == "-"):
                opened.policy.mode = "plan"
        self.on_opened(opened)
        self.settled.set()
        if agent.messages:  # an empty session is not worth resuming: keep the one before
            self._resumable = opened
        if not self._greeted:
            self._greeted = True
            kept = not self.settings.ephemeral
            news = await asyncio.to_thread(take_news, self.settings.state_dir) if kept else ()
            if not shown or news:  # below its last messages it would take their place on a low screen
                self._painter.write(greeting(self.settings, opened, news, self.keys))
        if not shown:
            self._painter.write(*past_blocks(agent.messages, ROOT))
        if self._said or agent.messages:
            mode = f" Mode: {opened.policy.mode}." if opened.policy.mode else ""
            self._painter.write(Report(self._said or f"Session resumed.{mode}"))
            self._painter.paint()
        self._status.update(opened)
        self._tasks.spawn(self._probe_sandbox(opened))
        if opened.elsewhere is not None:
            opened.elsewhere.begin(self.refresh)
        if any(wait.early for wait in self.outbox.queued):
            self.outbox.release()
        while not self._other_wanted.is_set():
            message = await self.outbox.prompts.get()
            again, self._again = self._again, False
            if message is not None or again or agent.running:  # another person's prompt may have started it
                await self._answer(opened, message)

    async def _probe_sandbox(self, opened: "Opened") -> None:
        """Find out how commands are sandboxed, after the first keys so that typing is not delayed."""
        await asyncio.sleep(IDLE_DELAY_SECONDS)
        if (sandbox := opened.sandbox) is not None and self._opened is opened:
            await asyncio.to_thread(lambda: sandbox.means)
            self._status.update(opened)

    # -- turns

    def send(self, message: Message, typed: str, *, when_idle: bool) -> None:
        """Begin a turn with a message. During a turn, send it to the agent now or keep it for the end."""
        opened = self._opened
        if opened is not None and not self.busy:
            self.outbox.prompts.put_nowait(message)
        else:  # keep it until the turn ends or a session is open
            sent = opened is not None and opened.agent.running and not when_idle and not opened.surface.asks_first
            self.outbox.queued.append(UnreadMessage(typed, sent, message=message, early=opened is None))
            if opened is not None and sent:
                opened.agent.send(message, "now")
        self._status.redraw()

    def retry(self) -> None:
        """Ask the model again, with the conversation as it is; a reply that it has begun is to be gone on with."""
        if self._opened is None or self.busy:
            return
        if self._opened.agent.messages[-1:] and self._opened.agent.messages[-1].role == "assistant":
            self.send(user("Go on."), "Go on.", when_idle=False)
        else:
            self._again = True
            self.outbox.prompts.put_nowait(None)

    def send_to(self, agent: str, message: Message, typed: str) -> bool:
        """Send a message to an agent below the root; False if the agent has ended."""
        node = self._node(agent)
        try:
            if node is not None:
                node.send(message)
        except UsageError:  # it is ending
            return False
        if node is not None and node.running and self.elsewhere is None:
            self.outbox.queued.append(UnreadMessage(typed, sent=True, to=agent, message=message))
        self._status.redraw()
        return node is not None

    def stop_agent(self, agent: str) -> bool:
        """Interrupt the turn of an agent; False if none is in progress."""
        node = self._node(agent)
        if node is None or not node.running:
            return False
        self.on_unread(self.outbox.take_back(agent, node))
        node.interrupt()
        return True

    def _node(self, agent: str) -> "TreeAgent | None":
        return self._opened.agent.tree.get(agent) if self._opened else None

    def leave_planning(self, mode: "Mode") -> None:
        """Switch from plan mode to another without a notice: the model learns it from the answer to its plan."""
        self.opened.policy.mode, self._planning = mode, False
        self.refresh()

    def add_context(self, text: str, sender: str) -> None:
        """Add a text that the agent reads together with the next prompt."""
        if self._opened is not None:
            self._opened.agent.send(user(text, sender=sender), "next")

    async def _answer(self, opened: "Opened", message: Message | None) -> None:
        """Run the agent on a message, then on those that came too late for that run. None: follow the current run."""
        agent = opened.agent
        tally = self._tally = TurnTally(agent)
        self._resumable, self._failure = opened, None
        self.on_begin()
        self._painter.show_tasks(tasks_in(agent.messages))
        ticking = asyncio.create_task(self._status.tick(agent))
        planning = opened.policy.mode == "plan" and opened.elsewhere is None
        if planning != self._planning or (planning and not is_planning(agent.messages)):  # cleared, or gone back
            from sagent.tools.plan import plan_notice

            self._planning = planning
            notice = plan_notice([tool.name for tool in agent.tools], is_on=planning)
            agent.send(user(notice, sender=PLAN_MODE), "next")
        if selected := opened.surface.selected():
            agent.send(user(selected, sender="editor"), "next")
        try:
            async with self.turn:
                good = await self._run(agent.continue_run() if message is None else agent.run(message))
                while good and any(wait.sent for wait in self.outbox.queued):
                    good = await self._run(agent.continue_run())
        finally:
            ticking.cancel()
            self._tally = None
        self.on_end(tally)
        if not good:
            self.on_unread(self.outbox.take_back(ROOT, agent))
            if self._failure is not None and self._failure.kind != "interrupted":
                self.on_failed(self._failure)
        self._status.update(opened)
        self._presence.ring(tally.seconds)
        if good and not self.outbox.release() and planning:
            self.on_answered(agent.messages[-1])

    async def _run(self, run: "Awaitable[Result]") -> bool:
        """Await a run; return True if it succeeded. Its events have shown any error."""
        try:
            return (await run).error is None
        except SagentError:
            return False
        except Exception as error:
            self._tasks.report(error)
            return False

    # -- events

    def _on_waiting(self, agent: str, waits_for: str) -> None:
        """Show why a call of an agent to a local server waits; "" clears it."""
        if self._opened is None:
            self._status.show(replace(self._status.figures, note=waits_for or "opening …"))
        else:
            self._painter.show_waiting(agent, waits_for)

    def _note_changes(self, event: "Event") -> None:
        """Count the changes of a call, and look at the project after it."""
        if self._tally is not None:
            self._tally.take(event)
        self.on_changes()

    def _on_event(self, event: "Event") -> None:
        self._painter.show(event)
        opened = self._opened
        if type(event) in _STREAMED or opened is None:
            return
        if not self.busy and opened.agent.running:  # somebody else has sent it a prompt
            self.outbox.prompts.put_nowait(None)
        if isinstance(event, ToolFinished | Finished):
            self._note_changes(event)
        match event:
            case Advised():
                self._status.update_cost(opened.agent)
            case ReplyFinished() | Finished() if event.agent != ROOT:
                self._status.update_cost(opened.agent)
                if isinstance(event, Finished) and event.result.error is not None:
                    self.on_unread(self.outbox.take_back(event.agent, self._node(event.agent)))
            case Received(_, message):
                self.outbox.on_read(message)
            case Finished("root", result):
                self._failure = result.error
                self._status.update(opened)
            case ReplyFinished("root", message):
                self._status.update(opened)
                if not message.calls and opened.agent.running and not opened.surface.asks_first:
                    self.outbox.pass_on(opened.agent)
            case Finished() | Switched("root"):
                self._status.update(opened)
            case _:
                pass
