"""Routes a chat's messages to threads: recognizes repeated ones, checks permissions, and handles commands."""

import asyncio
import re
from collections.abc import Awaitable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from sagent.lib import flock
from sagent.lib.money import ZERO, show
from sagent.plugins.slack.budget import DayBudget
from sagent.plugins.slack.conversation import OpenThread, ThreadSession
from sagent.plugins.slack.reply import outgoing
from sagent.plugins.slack.rules import ChatRules
from sagent.plugins.slack.seen import SeenMessages
from sagent.plugins.slack.surface import ChatError, ChatSurface, Commanded, Incoming, Pressed, SlackMessage, Thread

HELP = (
    "Mention me in a channel to start; every message in that thread continues the session. In a thread: `!stop`, "
    "`!status`, `!cost`, "
    "`!model NAME`, `!help`. Anywhere: `/sagent status`, `/sagent cost`, `/sagent stop`."
)
LOST = "The session of this thread was deleted. This begins a new one, which knows nothing of what was said before."


class ChatHost:
    """All threads of one service. `folder` has a session for each, the seen messages and the spending."""

    def __init__(self, surface: ChatSurface, rules: ChatRules, folder: Path, open_agent: OpenThread) -> None:
        self._surface, self._rules, self._folder, self._open = surface, rules, folder, open_agent
        self._seen = SeenMessages(folder / "seen")
        self._budget = DayBudget(folder / "spent.json", rules)
        self._threads: dict[Thread, ThreadSession] = {}
        self._answers: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Serve until the surface ends. Raises ChatError, also if another process serves the folder, because each would
        count its own budget."""
        with self._alone():
            try:
                async for incoming in self._surface.incoming():
                    self._take(incoming)
            finally:
                await asyncio.gather(*(thread.aclose() for thread in self._threads.values()), return_exceptions=True)
                for task in self._answers:
                    task.cancel()
                await asyncio.gather(*self._answers, return_exceptions=True)

    @contextmanager
    def _alone(self) -> Generator[None]:
        with (self._folder / "lock").open("w") as lock:
            try:
                flock.lock(lock.fileno())
            except BlockingIOError as error:
                raise ChatError(f"another process serves {self._folder}: end it first") from error
            yield

    def _take(self, incoming: Incoming) -> None:
        match incoming:
            case SlackMessage():
                self._said(incoming)
            case Pressed():
                for session in self._threads.values():
                    if session.press(incoming):
                        return
            case Commanded():
                self._later(self._surface.answer(incoming, self._command(incoming)))

    def _said(self, message: SlackMessage) -> None:
        rules = self._rules.places.get(message.thread.place)
        if rules is None or not (message.addressed or self._knows(message.thread)):
            return
        if not self._seen.take(f"{message.thread.place} {message.message}"):
            return
        if not rules.may_write(message.person):
            if message.addressed:
                self._post(message.thread, "You are not allowed to use this here.")
            return
        if self._lost(message):
            self._post(message.thread, LOST)
        session = self._session(message.thread)
        if not message.text.startswith("!"):
            session.say(message)
            return
        self._post(message.thread, self._control(session, message))

    def _control(self, session: ThreadSession, message: SlackMessage) -> str:
        """Run a command with an exclamation mark, and return the outcome."""
        word, _, rest = message.text[1:].strip().partition(" ")
        match word.lower():
            case "stop":
                return "Stopped." if session.stop() else "Nothing is running here."
            case "status":
                return "Working." if session.working else "Nothing is running here."
            case "cost":
                return f"This thread: {show(session.spent)}. {self._today(message.thread.place)}"
            case "model" if rest.strip():
                session.use_model(rest.strip())
                return f"{rest.strip()} answers from the next prompt on, if it is available."
            case _:
                return HELP

    def _command(self, command: Commanded) -> str:
        rules = self._rules.places.get(command.place)
        if rules is None or not rules.may_write(command.person):
            return "You are not allowed to use this here."
        here = [each for thread, each in self._threads.items() if thread.place == command.place]
        working = [each for each in here if each.working]
        match command.words[:1]:
            case ("status",):
                return f"Threads running here: {len(working)}."
            case ("cost",):
                return self._today(command.place)
            case ("stop",):
                return f"Threads that were stopped: {sum(each.stop() for each in working)}."
            case _:
                return HELP

    def _today(self, place: str) -> str:
        return f"Today here: {show(self._budget.spent(place))}, {show(max(self._budget.room(place), ZERO))} left."

    def _session(self, thread: Thread) -> ThreadSession:
        if thread not in self._threads:
            rules = self._rules.places[thread.place]
            path = self._path(thread)
            self._threads[thread] = ThreadSession(self._surface, thread, rules, self._budget, path, self._open)
        return self._threads[thread]

    def _lost(self, message: SlackMessage) -> bool:
        """Return True if the thread had a session that is gone, as far as known."""
        thread = message.thread
        begun = self._threads[thread].begun if thread in self._threads else message.message != thread.name
        return begun and self._seen.knows(f"{thread.place} {thread.name}") and not self._path(thread).exists()

    def _knows(self, thread: Thread) -> bool:
        return thread in self._threads or self._path(thread).exists()

    def _path(self, thread: Thread) -> Path:
        return self._folder / "threads" / "-".join(re.sub(r"[^\w.]", "_", each) for each in (thread.place, thread.name))

    def _post(self, thread: Thread, text: str) -> None:
        self._later(self._surface.post(thread, outgoing(text)))

    def _later(self, call: Awaitable[object]) -> None:
        """Make a call without waiting for it, so that the next event is not delayed."""

        async def make() -> None:
            with suppress(ChatError):
                await call

        task = asyncio.create_task(make())
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)
