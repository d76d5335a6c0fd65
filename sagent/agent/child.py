"""The life of a spawned agent: one turn, or, if it is persistent, one for each message that arrives."""

import asyncio
import contextlib
from collections.abc import Callable

from sagent.agent.asking import MAX_BRIEF_PARTS, Handoff, answer_of, last_asked, shorten
from sagent.agent.runs import Runner
from sagent.agent.tree import Node
from sagent.events import Failure, Result
from sagent.messages import user
from sagent.peer import Moment, SpawnRequest
from sagent.session.contents import Returned


class ChildTask:
    """The task of a spawned agent, from its first prompt until it has ended, including the clean-up.

    After an interruption, a persistent agent stays idle until somebody writes to it; waiting messages are read with
    that one.
    """

    def __init__(
        self, agent: Node, runs: Runner, parent: Node, request: SpawnRequest, deps: Callable[[], object]
    ) -> None:
        self._agent, self._tree, self._own = agent, agent.tree, agent.state
        self._runs, self._above, self._persistent, self._deps = runs, parent, request.persistent, deps
        self._at_work = False  # in a turn, or has not reported it yet
        self._still = False  # interrupted, with no message since
        self._leaving = self.left = False  # `left`: has ended
        self._changed = asyncio.Event()  # set when `rested` may be true, and then replaced
        self._asked = request.prompt  # as it was requested; "" once that is answered
        runs.contained = True
        self.task = runs.life = asyncio.get_running_loop().create_task(self._live(), name=agent.path)

    @property
    def active(self) -> bool:
        """True in a turn, or if one is about to begin."""
        return not self.left and (self._at_work or not self._persistent or self._own.inbox.holds(*self._moments))

    @property
    def busy(self) -> bool:
        """True if it is active, or waits for a job after which it will continue."""
        return self.active or (not self.left and bool(self._own.jobs.running()))

    @property
    def hears(self) -> bool:
        """True if messages sent to it now will be read."""
        return not self._leaving and (self._persistent or not (self._at_work and self._runs.closing))

    @property
    def _moments(self) -> tuple[Moment, ...]:
        """Delivery moments of messages that start a turn; empty means any."""
        return ("now",) if self._still else ()

    def interrupt(self) -> None:
        """Stop the turn that it is in or about to begin."""
        if self._runs.running:
            self._runs.interrupt()
        elif self.active and not self._at_work:
            self._runs.interrupt_ahead()

    def end(self) -> "asyncio.Task[None]":
        """Begin to end it and the agents below it; the task is done when it has ended."""
        if not self._leaving:
            self._leaving = True
            # not before its first step: a task that never began would clean nothing up
            asyncio.get_running_loop().call_soon(self.task.cancel)
        return self.task

    async def rested(self) -> None:
        """Wait until it is not in a turn and has none to begin."""
        while self.active:
            await self._changed.wait()

    async def _live(self) -> None:
        own = self._own
        try:
            with contextlib.suppress(BrokenPipeError):  # the reader is gone; agents above notice it too
                while True:
                    while not own.inbox.holds(*self._moments):
                        await own.inbox.arrival(*self._moments)
                    if self._leaving:  # else it would call the model before its cancellation arrives
                        return
                    self._at_work = True
                    result, _ = await self._runs.take(None, deps=self._deps())
                    self._report(result)
                    if not self._persistent:
                        return
                    if result.error is not None and result.error.kind == "interrupted":
                        self._still = True
                        own.inbox.defer()
                    else:
                        self._still = False
                    self._at_work = False
                    self._wake()
        finally:
            self._leaving = True
            await self._leave()

    def _report(self, result: Result) -> None:
        """Report a turn to the agent above: as the result of its call, or, for a persistent agent, as a message."""
        if self._persistent and (agent := self._tree.get(self._above.path)):
            agent.inform(answer_of(self._own.path, result))
        self._above.state.journal.record(Returned(self._own.path, self._own.log.head))
        handoffs = self._above.handoffs
        handoffs.append(Handoff(self._own.path, self._asked or last_asked(self._own), result.content))
        del handoffs[:-MAX_BRIEF_PARTS]
        self._asked = ""

    async def _leave(self) -> None:
        """Clean up when it ends, also by a cancellation."""
        own = self._own
        try:
            await own.jobs.stop()  # first, because one of them may be about to spawn
            await self._tree.end_below(own.path)
        finally:
            self._tree.remove(self._agent)
            own.ledger.take_back(own.path)
            if self._runs.last is None:
                failure = Failure("interrupted", "it was ended before it had answered")
                self._runs.last = Result("", (), "interrupted", failure)
            self._return_unread()
            own.journal.close()
            self._at_work, self.left = False, True
            self._wake()

    def _return_unread(self) -> None:
        """Tell senders who wait for an answer that their messages were not read."""
        for arrived in self._own.inbox.take(idle=True):
            agent = self._tree.get(arrived.message.sender)
            if arrived.answer and agent is not None and agent.hears:
                said = shorten(arrived.message.content)
                agent.inform(user(f"{self._own.path} ended before it read your message: {said}", sender="sagent"))

    def _wake(self) -> None:
        """Wake those who wait for it, so that they check again."""
        self._tree.wake_above(self._own.path)
        self._changed.set()
        self._changed = asyncio.Event()
