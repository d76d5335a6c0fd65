"""A conversation of a client: opened, prompted, cancelled and closed, each prompt answered once."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

from sagent.errors import ModelError, SagentError, SessionNotFound, UsageError
from sagent.events import Event, Finished, Notice, ReplyFinished, Result, Switched
from sagent.lib.dataclass import dataclass
from sagent.lib.text import one_line
from sagent.messages import Message, Text, user
from sagent.plugins.acp.client import Client
from sagent.plugins.acp.files import adapted
from sagent.plugins.acp.options import Options, models_of
from sagent.plugins.acp.permissions import Person
from sagent.plugins.acp.version1 import Past, Update, Updates, notice, usage, with_agent
from sagent.plugins.hosting.jsonrpc import AUTH_REQUIRED, INTERNAL, NOT_FOUND, RpcError, log
from sagent.plugins.hosting.live import ClientOptions, LiveSession, OpenSession, failure_of
from sagent.policy.permissions import PermissionPolicy
from sagent.session.contents import MessageEntry, ResultEntry
from sagent.session.folds import branch_contents, title

if TYPE_CHECKING:
    from sagent.agent import Agent, Asker
    from sagent.surface import BroughtServer
    from sagent.tool import Tool
    from sagent.tools.ask import Answerer

_STOPS: Mapping[str, str] = {
    "max_tokens": "max_tokens",
    "max_turns": "max_turn_requests",
    "max_tool_call_rounds": "max_turn_requests",
    "max_exchanges": "max_turn_requests",
    "repeated_calls": "max_turn_requests",
    "refusal": "refusal",
    "content_filter": "refusal",
    "interrupted": "cancelled",
}
Adapt: TypeAlias = "Callable[[Sequence[Tool]], Sequence[Tool]]"
_SAID = ("advisor_stop", "hook_stop", "need_advice", "failed_check", "goal_unmet", "unfinished")
"""Ends of a turn that are explained and are no failure."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a session, from its client: a directory, further ones, MCP servers; and `session` to continue."""

    cwd: str
    directories: tuple[str, ...]
    servers: "Mapping[str, BroughtServer]"
    session: str | None


class OpenedSession(OpenSession, Protocol):
    """An open session. `commands` may begin a prompt: each has name, description and arguments."""

    @property
    def commands(self) -> Sequence[tuple[str, str, str]]: ...

    def selected(self) -> str:
        """Return the text selected in an editor that is linked separately; "" for nothing new."""
        ...

    async def carry_out(self, text: str, write: Callable[[str], object]) -> str:
        """Run the slash command at the start of a text; return the rest of the prompt. Raises UsageError."""
        ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The client's part of a session: the listener of events, the asker, and the wrapped tools."""

    listener: Callable[[Event], None]
    ask: "Asker"
    answer: "Answerer"
    adapt: "Adapt"


Opening: TypeAlias = Callable[[Place, Surroundings], AbstractAsyncContextManager[OpenedSession]]
"""Opens a session. Raises SagentError and OSError."""


class Session:
    """An open session. Its prompts are answered one after another."""

    def __init__(self, client: Client, opening: Opening, place: Place) -> None:
        self.id, self.cwd = "", place.cwd
        self._client = client
        self._early: list[Update] = []  # updates from before its client knew the session
        self._known = False
        self._planning = self._named = False
        self._cancelled: set[object] = set()  # turns
        self._turns: list[object] = []
        self._current: object = None  # the turn in progress
        self._usage: Update = {}
        self._opened: OpenedSession | None = None
        self._updates: Updates | None = None
        self._options: Options | None = None
        self._person = Person(client, self, self._leave_planning)
        self._place, self._opening = place, opening
        self._live = LiveSession(self._open, ClientOptions(), self._on_event, lambda: None)

    @asynccontextmanager
    async def _open(self, options: ClientOptions, *_: object) -> "AsyncGenerator[OpenSession]":
        del options
        person, client = self._person, self._client
        given = Surroundings(
            self._on_event,
            person.approve,
            person.answer,
            lambda tools: adapted(tools, client, lambda: self.id),
        )
        async with self._opening(self._place, given) as opened:
            self._opened = opened
            yield opened

    async def opened(self) -> None:
        """Wait until it is open. Raises RpcError that says why it cannot be."""
        try:
            await self._live.opened()
            agent = self.agent
            notices, terminals = self._client.shows_notices, self._client.shows_terminals
            self._updates = Updates(agent.state.workspace, notices=notices, terminals=terminals)
            models = models_of(await asyncio.to_thread(agent.catalog))
            self._options = Options(agent, self.policy, models)
        except SessionNotFound as error:
            raise RpcError(NOT_FOUND, str(error), {"sessionId": self._place.session}) from error
        except (SagentError, OSError) as error:
            raise failure(error) from error
        self.id = agent.log.session_id

    @property
    def agent(self) -> "Agent":
        return self._live.agent

    @property
    def policy(self) -> PermissionPolicy:
        return self._live.policy

    @property
    def updates(self) -> Updates:
        assert self._updates is not None
        return self._updates

    @property
    def options(self) -> Options:
        assert self._options is not None
        return self._options

    # -- what the client reads

    def begin(self) -> None:
        """Send the earlier conversation and the commands, now that the client knows the session."""
        self._known = True
        if self._client.shows_notices:
            self._send_early()  # otherwise they are thoughts, which belong to a turn
        assert self._opened is not None
        commands = [
            {"name": name, "description": about, **({"input": {"hint": hint}} if hint else {})}
            for name, about, hint in self._opened.commands
        ]
        self.emit({"sessionUpdate": "available_commands_update", "availableCommands": commands})
        if self.agent.messages:
            self._show_usage()

    def emit(self, update: Update) -> None:
        if self._known:
            self._client.update(self.id, update)
        else:
            self._early.append(update)

    def _send_early(self) -> None:
        early, self._early = self._early, []
        for update in early:
            self.emit(update)

    def replay(self) -> None:
        """Show the whole conversation, including summarized parts."""
        contents, fetch = self.agent.log.contents(), self.agent.log.blobs.get
        said = (
            each.message.load(fetch) if isinstance(each, MessageEntry) else Past(each.result.load(fetch), each.diff)
            for each in branch_contents(contents, MessageEntry, ResultEntry)
        )
        for update in self.updates.replay(said):
            self._client.update(self.id, update)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, Notice) and event.level != "info":
            log(with_agent(event))
            if self._updates is None:
                self.emit(notice(event.level, with_agent(event), known=self._client.shows_notices))
        if self._updates is None:
            return
        for update in self._updates.of(event):
            self.emit(update)
        match event:
            case ReplyFinished("root") | Finished("root"):
                self._show_usage()
            case Switched("root"):
                self.options.settle()
                self.show_options()
            case _:
                pass

    def _show_usage(self) -> None:
        if (now := usage(self.agent.status(), self.agent.cost())) != self._usage:
            self._usage = now
            self.emit(now)

    def show_options(self) -> None:
        """Send the present options."""
        self.emit({"sessionUpdate": "config_option_update", "configOptions": self.options.every()})

    def show_mode(self) -> None:
        """Send the present mode, to clients without options."""
        self.emit({"sessionUpdate": "current_mode_update", "currentModeId": self.policy.mode})

    def _show_mode(self) -> None:
        self.show_mode()
        self.show_options()

    def _leave_planning(self) -> None:
        self._planning = False
        self._show_mode()

    # -- turns

    def prompt(self, message: Message | Callable[[], Message]) -> Awaitable[str]:
        """Answer a prompt after earlier ones; return why the turn ended. The prompt may be a function that makes it in
        a thread. Raises RpcError."""
        turn = object()
        self._turns.append(turn)
        return self._ended(turn, self._live.do(partial(self._take, turn, message)))

    async def _ended(self, turn: object, run: "asyncio.Future[str]") -> str:
        try:
            await asyncio.wait([run])
        except asyncio.CancelledError:
            if turn in self._cancelled:  # it is answered as cancelled, however long it takes to stop
                run.cancel()
            else:
                if self._current is turn:
                    self._live.stop()
                    await asyncio.wait([run])
                run.cancel()
                raise
        finally:
            self._turns.remove(turn)
            cancelled = turn in self._cancelled
            self._cancelled.discard(turn)
        error = None if run.cancelled() else run.exception()
        if cancelled or run.cancelled():
            return "cancelled"
        if error is None:
            return _STOPS.get(run.result(), "end_turn")
        if isinstance(error, SagentError | OSError):
            raise failure(error) from error
        raise error

    def cancel(self) -> None:
        """Stop the current turn and waiting ones; each prompt is answered "cancelled"."""
        self._cancelled.update(self._turns)
        self._live.interrupt()

    async def aclose(self) -> None:
        """Cancel all turns, and wait until the session is closed."""
        self._cancelled.update(self._turns)
        await self._live.aclose()

    async def _take(self, turn: object, message: Message | Callable[[], Message], agent: "Agent") -> str:
        """Run a turn from a prompt to its last reply; return its end."""
        self._current, before = turn, self.policy.mode
        self._send_early()
        try:
            rest = await self._carried_out(await asyncio.to_thread(message) if callable(message) else message)
            if rest is None:
                await self._advised(agent)
                return "end"
            self._say_whether_planning(agent)
            assert self._opened is not None
            if selected := self._opened.selected():
                agent.send(user(selected, sender="editor"), "next")
            result = await self._live.answer(agent, rest)
            while not result.is_error and (order := await self._accepted(agent)):
                self._say_whether_planning(agent)
                result = await self._live.answer(agent, user(order))
            return self._reason(result)
        finally:
            self._current = None
            for update in self.updates.close():
                self.emit(update)
            if self.policy.mode != before:
                self._show_mode()
            self._show_title(agent)

    async def _advised(self, agent: "Agent") -> None:
        """Wait for advice requested by a slash command."""
        from sagent.advisor.extension import AdvisorExtension

        if isinstance(agent.advisory, AdvisorExtension):
            await agent.advisory.answered()

    def _reason(self, result: Result) -> str:
        if result.error is None or result.stop_reason in _STOPS:
            return result.stop_reason
        if result.stop_reason in _SAID:
            self.emit(self.updates.said(result.error.message))
            return "end"
        raise RpcError(INTERNAL, result.error.message, {"kind": result.error.kind})

    async def _carried_out(self, message: Message) -> Message | None:
        """Return the prompt without its slash command; None if nothing is left."""
        first = message.parts[0]
        if not isinstance(first, Text) or not first.text.startswith("/"):
            return message
        assert self._opened is not None
        said: list[str] = []
        try:
            rest = await self._opened.carry_out(first.text, said.append)
        except UsageError as error:
            said.append(f"{error}\n")
            rest = None
        if text := "".join(said).rstrip():
            self.emit(self.updates.said(text))
        return user(rest, *message.parts[1:]) if rest else None

    def _say_whether_planning(self, agent: "Agent") -> None:
        """Tell the model when plan mode begins or ends."""
        if (planning := self.policy.mode == "plan") != self._planning:
            from sagent.tools.plan import plan_notice

            self._planning = planning
            agent.send(user(plan_notice(agent.state.tools, is_on=planning), sender="plan mode"), "next")

    async def _accepted(self, agent: "Agent") -> str:
        """Return the prompt to carry out the plan in the model's answer, if the person wants that; "" otherwise."""
        from sagent.context.plan import EXIT_PLAN, plan_in

        planning = self.policy.mode == "plan" and EXIT_PLAN not in agent.state.tools
        plan = plan_in(agent.messages[-1]) if planning and agent.messages else ""
        settled = await self._person.settle(plan) if plan else None
        return settled.order() if settled is not None and settled.mode is not None else ""

    def _show_title(self, agent: "Agent") -> None:
        """Send the session's title once it has a message."""
        if not self._named and (found := one_line(title(agent.log.contents()), 120)):
            self._named = True
            self.emit({"sessionUpdate": "session_info_update", "title": found})


def failure(error: BaseException) -> RpcError:
    """Return an internal error for the client's person; one that a key would fix requests a login."""
    text = failure_of(error)
    keyless = isinstance(error, UsageError) and text.startswith(("No model was named", "No key"))
    refused = isinstance(error, ModelError) and error.kind == "auth"
    kind = error.kind if isinstance(error, SagentError) else "failed"
    return RpcError(AUTH_REQUIRED if keyless or refused else INTERNAL, text, {"kind": kind})
