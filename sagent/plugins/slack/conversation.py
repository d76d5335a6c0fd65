"""A thread as a session: prompts in, streamed answers out, questions to those who may answer."""

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from decimal import Decimal
from pathlib import Path
from typing import TypeAlias

from sagent.agent import Agent, Asker
from sagent.agent.asking import outcome
from sagent.errors import SagentError, UsageError
from sagent.events import Event, Finished, ReplyFinished, Result, Retrying, TextDelta, ToolFinished, ToolStarted
from sagent.lib.dataclass import dataclass
from sagent.lib.json import json_dump
from sagent.lib.money import EXACT, ZERO, show
from sagent.lib.text import fenced, main_argument, one_line, printable
from sagent.messages import Part, ToolCall, user
from sagent.peer import Switch
from sagent.plugins.hosting.asking import call_text, wants_text
from sagent.plugins.slack.budget import DayBudget
from sagent.plugins.slack.files import SendFile, parts_of
from sagent.plugins.slack.reply import Reply, outgoing, split
from sagent.plugins.slack.rules import PlaceRules
from sagent.plugins.slack.surface import Button, ChatError, ChatSurface, Person, Pressed, SlackMessage, Thread
from sagent.policy import Ask
from sagent.tool import Tool
from sagent.tools.ask import Answerer, Question

QUESTION_TIMEOUT_SECONDS = 900.0  # for an answer; after that it is no
MAX_MESSAGES = 10  # for showing a question; a longer one cannot be asked
MIN_BUDGET_USD = Decimal("0.01")  # USD that must be left for a run


@dataclass(frozen=True, slots=True)
class Opening:
    """The way to open a thread's agent. `session` is the path of its log, which may not exist yet."""

    rules: PlaceRules
    session: Path
    listener: Callable[[Event], None]
    ask: Asker
    answer: Answerer
    tools: Sequence[Tool] = ()


OpenThread: TypeAlias = Callable[[Opening], AbstractAsyncContextManager[Agent]]
"""Opens it, with `rules.usd_per_thread` as its budget. Raises SagentError."""


@dataclass(slots=True)
class Pending:
    """A question in the thread; the choices of its buttons, each with its answer."""

    answers: Mapping[str, str]
    future: "asyncio.Future[tuple[str, Person]]"
    is_approval: bool


class ThreadSession:
    """A thread. Its agent is open while it works; between two prompts the session is on the disk."""

    def __init__(
        self,
        surface: ChatSurface,
        thread: Thread,
        rules: PlaceRules,
        budget: DayBudget,
        session: Path,
        open_agent: OpenThread,
    ) -> None:
        self._surface, self._thread, self._rules, self._budget = surface, thread, rules, budget
        self._session, self._open = session, open_agent
        self._waiting: list[SlackMessage] = []
        self._task: asyncio.Task[None] | None = None
        self._agent: Agent | None = None
        self._reply: Reply | None = None
        self._pending: list[Pending] = []
        self._allowed: set[str] = set()  # calls that may be repeated exactly in this thread
        self._model = ""
        self._stopped = False  # since the current prompt was taken
        self.spent = ZERO
        self.begun = False

    @property
    def working(self) -> bool:
        return self._task is not None and not self._task.done()

    def say(self, message: SlackMessage) -> None:
        """Handle a message: the answer to a question, an addition to current work, or the next prompt."""
        question = next((each for each in self._pending if not each.is_approval), None)
        if question is not None and not question.future.done():
            question.future.set_result((message.text, message.person))
            return
        self._waiting.append(message)
        if not self.working:
            self._task = asyncio.create_task(self._work())
        elif self._agent is not None and self._agent.running and not message.attachments:
            self._waiting.remove(message)
            self._agent.send(user(message.text), "now")

    def press(self, pressed: Pressed) -> bool:
        """Handle the press of a button; return True if it was one of this thread's. A press by an unauthorized person
        has no effect."""
        for each in self._pending:
            if (answer := each.answers.get(pressed.choice)) is None or each.future.done():
                continue
            may = self._rules.may_approve if each.is_approval else self._rules.may_write
            if may(pressed.person):
                each.future.set_result((answer, pressed.person))
            return True
        return False

    def stop(self) -> bool:
        """Interrupt current work; return True if there was any."""
        stopped = bool(self._waiting) or self.working
        self._waiting.clear()
        self._stopped = True
        if self._agent is not None and self._agent.running:
            self._agent.interrupt()
        return stopped

    def use_model(self, name: str) -> None:
        """Go on with another model from the next prompt on."""
        self._model = name

    async def aclose(self) -> None:
        if self._task is not None and self.working:
            self._task.cancel()
            await asyncio.wait([self._task])

    # -- the work ------------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        """Answer waiting prompts, and those that arrive while the agent is being closed."""
        while self._waiting:
            try:
                await self._serve()
            except Exception as error:  # an error is reported, and other threads continue
                self._waiting.clear()
                expected = isinstance(error, SagentError | OSError)
                await self._notify(f"That failed: {error if expected else f'{type(error).__name__}: {error}'}")

    async def _serve(self) -> None:
        tools = (SendFile(self._surface, self._thread),)
        opening = Opening(self._rules, self._session, self._on_event, self._ask, self._answer, tools)
        async with self._open(opening) as agent:
            self._agent, self.begun = agent, True
            try:
                while self._waiting:
                    await self._take(agent, self._waiting.pop(0))
            finally:
                self._agent = None

    async def _take(self, agent: Agent, message: SlackMessage) -> None:
        """Answer one prompt, within the rest of the thread's and the day's budget."""
        room = min(self._budget.room(message.thread.place), self._rules.usd_per_thread - counted(agent))
        if room < MIN_BUDGET_USD:
            await self._notify("The budget of this thread, or of today, is used up.")
            return
        if self._model:
            with suppress(UsageError):
                agent.apply(Switch(model=self._model))
            self._model = ""
        agent.ledger.cap = counted(agent) + room
        settle = self._budget.reserve(
            message.thread.place, room
        )  # at once: another thread may begin while files are read
        before, spent = counted(agent), room  # unknown costs count as all of it
        self._stopped = False
        self._reply = reply = Reply(self._surface, self._thread)
        reply.show("thinking")
        try:
            try:
                parts, problems = await parts_of(self._surface, message.attachments)
                if self._stopped:
                    spent = ZERO
                    await reply.finish("stopped: nothing was begun")
                    return
                result = await _result(agent, message.text, parts)
                spent = counted(agent) - before
            finally:
                self.spent = agent.ledger.cost().total
                settle(spent)
            await reply.finish(_footer(result, problems))
        finally:
            reply.abandon()
            self._reply = None

    def _on_event(self, event: Event) -> None:
        reply = self._reply
        if reply is None:
            return
        match event:
            case TextDelta("root", text):
                reply.write(text)
            case ReplyFinished("root"):
                reply.settle()
            case Retrying("root") if event.discarded:
                reply.discard()
            case ToolStarted(agent, call):
                who = "" if agent == "root" else f"{agent}: "
                reply.show(outgoing(printable(f"{who}{call.name} {one_line(main_argument(call.arguments), 80)}")))
            case ToolFinished("root"):
                reply.show("thinking")
            case Finished("root"):
                reply.show("")
            case _:
                pass

    async def _notify(self, text: str) -> None:
        with suppress(ChatError):
            await self._surface.post(self._thread, outgoing(printable(text)))

    # -- questions -----------------------------------------------------------------------------------------------------

    async def _ask(self, call: ToolCall, ask: Ask) -> str | None:
        """Ask the approvers about a call; None allows it. An approval for the thread covers this exact call."""
        exact = f"{call.name} {json_dump(call.arguments)}"
        if exact in self._allowed:
            return None
        text = _question(call, ask)
        choices = (("Once", "once"), ("Again in this thread", "thread"), ("No", "no"))
        try:
            said = await self._put(text, choices, is_approval=True)
        except ChatError as error:
            return f"the question could not be sent: {error}"
        if said is None:
            return f"nobody answered within {QUESTION_TIMEOUT_SECONDS:g} s"
        answer, person = said
        if answer == "thread":
            self._allowed.add(exact)
        return None if answer in ("once", "thread") else f"{person.id} said no"

    async def _answer(self, question: Question) -> str | None:
        """Ask those who may write a question; its options are buttons, and text in the thread is an answer too."""
        options = tuple((option[:70], option) for option in question.options)
        said = await self._put(f"**{question.text}**\n{question.plan}".strip(), options, is_approval=False)
        return None if said is None else said[0]

    async def _put(
        self, text: str, options: Sequence[tuple[str, str]], *, is_approval: bool
    ) -> tuple[str, Person] | None:
        """Post a whole question, and wait for an answer; None if nobody answers. Then the buttons are removed. Raises
        ChatError if it cannot be posted, or is too long."""
        choices = {secrets.token_urlsafe(12): option for option in options}
        answers = {choice: answer for choice, (_, answer) in choices.items()}
        pending = Pending(answers, asyncio.get_running_loop().create_future(), is_approval)
        buttons = [Button(choice, label, answer == "no") for choice, (label, answer) in choices.items()]
        *first, shown = split(outgoing(text), self._surface.most_text - 200)
        if len(first) >= MAX_MESSAGES:
            raise ChatError(f"it is too long to be shown, in {len(first) + 1} messages")
        self._pending.append(pending)
        try:
            for piece in first:
                await self._surface.post(self._thread, piece)
            message = await self._surface.post(self._thread, shown, buttons)
            try:
                async with asyncio.timeout(QUESTION_TIMEOUT_SECONDS):
                    said: tuple[str, Person] | None = await pending.future
            except TimeoutError:
                said = None
            finally:
                what = _outcome(pending)
                with suppress(ChatError):
                    await self._surface.edit(self._thread, message, f"{shown}\n_{what}_")
        finally:
            self._pending.remove(pending)
        return said


def counted(agent: Agent) -> Decimal:
    """Return the USD that count as spent in its session, billed or not."""
    cost = agent.ledger.cost()
    return EXACT.add(cost.total, cost.unbilled)


async def _result(agent: Agent, text: str, parts: Sequence[Part]) -> Result:
    """Return the result of a prompt, including replies from the end of its run."""
    result = await outcome(agent.run(user(text, *parts)), agent.wait)
    while result.error is None and agent.state.inbox.holds():
        result = await agent.continue_run()
    return result


def _outcome(pending: Pending) -> str:
    if not pending.future.done() or pending.future.cancelled():
        return "not answered"
    answer, person = pending.future.result()
    return printable(f"{person.id}: {one_line(answer, 100)}")


def _footer(result: Result, problems: Sequence[str]) -> str:
    """Describe the outcome of a run in a line."""
    error = f"{result.error.message}; " if result.error is not None else ""
    least = "at least " if result.cost.unpriced else ""
    notes = "".join(f"; {problem}" for problem in problems)
    return outgoing(
        printable(f"{one_line(error, 500)}{least}{show(result.run_usd)}, thread {show(result.cost.total)}{notes}")
    )


def _question(call: ToolCall, ask: Ask) -> str:
    """Describe a call for a person to judge, and why approval is needed."""
    who = f"**{ask.agent or 'sagent'} wants to call {call.name}**"
    return "\n".join(filter(None, (who, fenced(call_text(call)), wants_text(ask.wants), ask.reason)))
