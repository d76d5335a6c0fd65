"""The REPL: takes over an existing screen and connects its parts."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sagent.errors import SagentError, UsageError
from sagent.lib.money import show
from sagent.lib.text import printable
from sagent.messages import Message, Text
from sagent.plugin import SlashCommand
from sagent.repl.commands.command import CommandContext, DisplaySetting
from sagent.repl.commands.registry import Commands, all_commands, prompt_commands
from sagent.repl.commands.session import choose_session
from sagent.repl.greeting import new_commands
from sagent.repl.input import InputActions
from sagent.repl.keys import bind_keys
from sagent.repl.plan import settle_plan
from sagent.repl.session import SessionLoop
from sagent.repl.status import StatusDisplay
from sagent.repl.surroundings import Surroundings
from sagent.repl.tasks import Tasks
from sagent.repl.terminal.approval import allow_rules
from sagent.repl.terminal.clipboard import osc52
from sagent.repl.terminal.completion import InputCompleter, is_completable, used_commands
from sagent.repl.terminal.history import ProjectHistory
from sagent.repl.terminal.painter import Painter
from sagent.repl.terminal.questions import Presence, Questions
from sagent.repl.terminal.screen import Screen
from sagent.repl.trust import settle_trust
from sagent.repl.view.blocks import Page, Report, past_blocks
from sagent.repl.view.lines import Line
from sagent.repl.view.markdown import pieces_of
from sagent.repl.view.panel import Figures
from sagent.repl.view.view import ROOT
from sagent.session.names import sessions_of

if TYPE_CHECKING:
    from sagent.config import Settings
    from sagent.events import Failure
    from sagent.messages import ToolCall
    from sagent.policy import Ask
    from sagent.repl.commands.command import Command
    from sagent.repl.opening import Opened, Opening, SessionChoices
    from sagent.repl.root import TreeAgent
    from sagent.repl.terminal.picker import Option
    from sagent.session.contents import ResultEntry
    from sagent.tools.ask import Question
    from sagent.tools.plan import PlanDecision

MAX_SEARCHED_LINES = 500  # of the history that are looked through for commands


def _results(node: "TreeAgent") -> "Sequence[ResultEntry]":
    """Return the results in the log of an agent of this process."""
    from sagent.agent import Agent
    from sagent.session.contents import ResultEntry
    from sagent.session.folds import contents

    return contents(node.log.contents(), ResultEntry) if isinstance(node, Agent) else ()


class Repl(CommandContext):
    """The parts of the REPL, and what slash commands use on a terminal.

    `load` returns the settings; `opening` opens their session, or with `choosing` the one that the person chooses
    first; `code` is the exit code.
    """

    def __init__(
        self,
        screen: Screen,
        history: ProjectHistory,
        load: "Callable[[], Settings]",
        opening: "Opening",
        *,
        choosing: bool = False,
    ) -> None:
        super().__init__()
        self.has_person = True
        self._screen, self._history, self._load, self._choosing = screen, history, load, choosing
        self._farewell = ""
        self._loop = asyncio.get_running_loop()
        self.code = 0
        self._painter = painter = Painter(screen.surface, screen.redraw)
        self._tasks = tasks = Tasks(painter.write)
        presence = Presence(screen, lambda: session.notify)
        self._questions = questions = Questions(
            screen,
            presence,
            read=lambda path: session.read(path),  # noqa: PLW0108 -- there is none yet
            kept=lambda: session.elsewhere is None,
            allow=self._allow,
            matched=self._matched,
            write=self.write,
            explain=self._explain,
        )
        self._status = status = StatusDisplay(screen, painter, questions, lambda: session.outbox.queued)
        self._session = session = SessionLoop(opening, painter, status, presence, tasks)
        self.turn = session.turn
        self._own_commands: Mapping[str, Command] = {}  # without the prompts of the session's sources
        session.on_opened = self._on_opened
        session.on_answered = lambda reply: tasks.spawn(self._settle(reply))
        self.input = InputActions(screen, questions, self, session=session, painter=painter, status=status, tasks=tasks)
        session.on_unread = self.input.give_back
        session.on_lacking = self._set_up
        self._ways_on: asyncio.Task[None] | None = None  # the question after a failed turn
        session.on_failed, session.on_begin = self._on_failed, self._forget_failure
        self.pick, self.line = questions.pick, questions.line
        self.edit, self.stoppable = self.input.edit_text, self.input.stoppable
        self._around = around = Surroundings(lambda: session.cwd, tasks, status.show_branch)
        session.on_changes = screen.on_focus = around.look_soon
        screen.line.completer = InputCompleter(self._mentionable, self.names, self.arguments, self._first_commands)
        screen.line.completable = is_completable
        screen.keys = bind_keys(screen, self.input)
        screen.resizing.on_resized = painter.paint
        screen.title = self._title
        screen.surface.directory = lambda: session.cwd
        screen.output.on_gone = lambda: self.end(128 + signal.SIGHUP)

    async def run(self, early: Sequence[str] = ()) -> None:
        """Talk to the person until cancelled; lines typed `early` are sent first."""
        asyncio.get_running_loop().set_exception_handler(self._tasks.on_defect)
        live = self._tasks.spawn(self._live())
        for text in early:
            self.input.take(text)  # the next one, begun meanwhile, stays in the input
        try:
            await asyncio.shield(live)
        finally:
            self._around.close()
            if (agent := self._session.running) is not None and self._session.elsewhere is None:
                agent.interrupt()  # so that its call counts as ended by a person, not as lost
            await self._tasks.close()
            self._print(self._farewell)
            if self.code < 128:
                self._print(self._session.farewell())

    def end(self, code: int) -> None:
        """Leave the screen; cancelling `run` then closes everything else."""
        self.code = self.code or code
        self.leave()

    def leave(self) -> None:
        """Leave the screen, with all that was said on it."""
        self._painter.paint()
        self._screen.leave()

    def _print(self, text: str) -> None:
        """Write below everything else; a terminal that does not read blocks nobody."""
        self._screen.output.write_raw(printable(text))
        self._screen.output.flush()

    async def _live(self) -> None:
        try:
            settings = await asyncio.to_thread(self._load)
        except SagentError as error:
            self._farewell = f"sagent: {error}\n"
            self.end(2)
            return
        self._session.use(settings)
        self._screen.set_theme(settings.theme)
        if settings.editing_mode == "vi":
            self._screen.set_vim("on")
        self._status.show(Figures(note="opening …", mode=settings.permission_mode))
        settings, notice = await settle_trust(settings, self.write, self._questions.choose, self._screen.surface.width)
        self._session.use(settings)
        if notice:
            self.say(notice)
        home = sessions_of(settings.state_dir, settings.cwd)
        self._history.open(None if settings.ephemeral else settings.state_dir / "history" / f"{home.name}.jsonl")
        try:
            of_commands = (f"/{one.name}={one.key}" for one in settings.plugins.every(SlashCommand) if one.key)
            self._screen.keys = bind_keys(self._screen, self.input, (*of_commands, *settings.keys))
        except UsageError as error:
            self._tasks.report(error)
        self._status.use(settings, self._tasks)
        self._around.look_soon()
        notices: list[str] = []
        self.commands = self._own_commands = await asyncio.to_thread(all_commands, settings, notices)
        for text in notices:
            self.say(text)
        if self._choosing and not await self._choose():
            return
        self.input.ready.set()
        await self._session.run(self._questions.approve, self._answer)

    async def _choose(self) -> bool:
        """Let the person choose the session to open; False if there is none."""
        self._status.show(Figures(note="choose a session", mode=self.settings.permission_mode))
        try:
            path = await choose_session(self)
        except SagentError as error:
            self._farewell = f"sagent: {error}\n"
            self.end(2)
            return False
        if path is None:
            self._farewell = "No session was chosen. To start a new one:  sagent\n"
            self.end(0)
            return False
        self._session.use(replace(self.settings, session=path))
        return True

    def _on_opened(self, opened: "Opened") -> None:
        self._screen.tidy_up()
        self._tasks.spawn(self._add_prompts(opened))
        while opened.surface.first:
            self._tasks.spawn(self.input.run_command(*opened.surface.first.pop(), shown=False))

    async def _add_prompts(self, opened: "Opened") -> None:
        """Add the prompts of the session's sources to the commands, now and whenever they change."""
        if opened.surface.sources:
            opened.surface.follow(lambda: self._session.on_opened(opened))
            self.commands = Commands(await prompt_commands(opened), self._own_commands)

    def _set_up(self) -> None:
        """Have the person choose what answers them, if the plugin with that command is there."""
        if "setup" in self.commands:
            self._tasks.spawn(self.input.run_command("setup", shown=False))
        else:
            self.say("To enter a key: /login. To use a server on this machine: /login local")

    def _mentionable(self) -> Sequence[str]:
        """Return the completions after an @: the project's files, and resources. Blocks: for a thread."""
        surface = self._session.opened.surface if self._session.ready else None
        if surface is None or not surface.sources:
            return self._around.files()
        listing = asyncio.run_coroutine_threadsafe(surface.resources(), self._loop)
        return [*self._around.files(), *listing.result()]

    def _first_commands(self) -> Iterator[str]:
        """Yield the commands used last, then new ones of this version, then the person's own."""
        yield from used_commands(reversed(self._screen.buffer.history.get_strings()[-MAX_SEARCHED_LINES:]))
        yield from new_commands()

    def _title(self) -> str:
        """Return the terminal's title: the folder, and whether a question or turn is open."""
        mark = "? " if self._questions.asks else "◌ " if self._session.busy else ""
        return f"{mark}{self._session.cwd.name or '/'} · sagent"

    def _on_failed(self, failure: "Failure") -> None:
        from sagent.repl.recovery import ways_on

        title, ways = ways_on(failure, self.opened)
        if ways := [one for one in ways if not one.value.startswith("/") or self.known(one.value[1:].split()[0])]:
            self._ways_on = self._tasks.spawn(self._go_on(failure, title, ways))

    def _forget_failure(self) -> None:
        """Withdraw the question after a failed turn, because another begins."""
        if self._ways_on is not None:
            self._ways_on.cancel()
            self._ways_on = None

    async def _go_on(self, failure: "Failure", title: str, ways: "Sequence[Option[str]]") -> None:
        """Have the person choose a way on after a failed turn, and take it."""
        from sagent.repl.recovery import RAISE, RETRY, raised

        said, agent = await self._questions.choose(title, ways, row=True), self.opened.agent
        self._ways_on = None
        if said == RAISE and (more := raised(failure, self.opened)) is not None:
            agent.ledger.cap = more
            self.say(f"The budget is {show(more)} now.")
        before = agent.status().model
        if said and said.startswith("/"):
            await self.input.run_command(*said[1:].partition(" ")[::2])
        if said in (RETRY, RAISE) or (said == "/model" and agent.status().model != before):
            self._session.retry()

    async def _settle(self, reply: Message) -> None:
        """Have the person decide on the plan in an answer, and the model carry it out."""
        from sagent.context.plan import plan_in

        if (plan := plan_in(reply)) and (settled := await self._settled(plan)) is not None:
            if settled.mode is not None:
                self.opened.policy.mode = settled.mode
                self._session.refresh()
                self.prompt(settled.order())
            elif settled.reason:
                self.prompt(settled.reason)

    async def _answer(self, question: "Question") -> str | None:
        """Return the person's answer to an agent's question, or to a plan that was proposed by a call."""
        with self._questions.counted(question.agent):
            if not question.plan:
                return await self._questions.answer(question)
            self._show_plan(question.plan)
            if (settled := await self._settled(question.plan)) is None:
                return None
        if settled.mode is not None:
            self._session.leave_planning(settled.mode)
        return settled.answer()

    def _settled(self, plan: str) -> "Awaitable[PlanDecision | None]":
        return settle_plan(plan, self._questions, self.edit, self._show_changed)

    def _show_changed(self, plan: str) -> None:
        self.say("The plan as you have changed it:")
        self._show_plan(plan)

    def _show_plan(self, plan: str) -> None:
        self._painter.write(*(replace(one, gap=one.gap or not at) for at, one in enumerate(pieces_of(plan))))

    def send_filled(self, text: str) -> None:
        filled = Message("user", (Text(""), Text(text)))  # none of it is the person's own words
        self._session.send(filled, text, when_idle=False)

    def _matched(self, rules: Sequence[str], call: "ToolCall") -> str:
        from sagent.repl.terminal.precedents import rules_text

        return rules_text(rules, call, self.opened.agent, self._session.cwd)

    async def _explain(self, call: "ToolCall", ask: "Ask") -> Sequence[Line]:
        from sagent.repl.explaining import explain

        return await explain(self.local, call, ask, self._screen.surface.width)

    def _allow(self, rules: Sequence[str], always: bool) -> None:  # noqa: FBT001 -- a callback of two values
        """Apply rules that the person allows; save permanent ones in the settings."""
        for text, went_well in allow_rules(self, rules, always=always):
            self._painter.write(Report(text) if went_well else Report(text, "warning"))

    # -- what slash commands work with

    def use(self, settings: "Settings") -> None:
        self._session.use(settings)

    @property
    def settings(self) -> "Settings":
        return self._session.settings

    @property
    def opened(self) -> "Opened":
        return self._session.opened

    @property
    def width(self) -> int:
        return self._screen.surface.width

    def write(self, lines: Sequence[Line]) -> None:
        self._painter.write(Page(tuple(lines)))

    def say(self, text: str) -> None:
        self._painter.write(Report(text))

    def rewound(self, text: str) -> None:
        if text and not self._screen.buffer.text:
            self._screen.replace_text(text)

    def reopen(self, settings: "Settings", choices: "SessionChoices | None" = None, shown_instead: str = "") -> None:
        self._session.reopen(settings, choices, shown_instead)
        if self._painter.near != ROOT:  # stop following an agent
            self.enter(ROOT)

    def enter(self, agent: str) -> None:
        if (node := self.opened.agent.tree.get(agent)) is None:
            raise UsageError(f"{agent} has ended.")
        if agent == self._painter.near:
            raise UsageError(f"You are following {agent} already.")
        back = agent == ROOT
        self._screen.line.label = self._screen.line.home = "› " if back else f"{agent} › "
        past = () if back else past_blocks(node.messages, ROOT, results=_results(node))
        keys = "Esc interrupts it, ↓ lists the others." if node.running else "Esc goes back."
        notice = f"Back with {agent}." if back else f"Following {agent}: what you type goes to it. {keys}"
        self._painter.enter(agent, (Report(notice), *past))

    def recall(self, limit: int) -> None:
        if (node := self.opened.agent.tree.get(self._painter.near)) is None:
            raise UsageError(f"{self._painter.near} has ended.")
        self._painter.write(*past_blocks(node.messages, ROOT, limit, _results(node)))
        self.say(f"Those were the last {min(limit, len(node.messages))} of {len(node.messages)} messages.")

    def copy(self, text: str) -> None:
        self._screen.output.write_raw(osc52(text))
        self._screen.output.flush()

    def set_display(self, setting: DisplaySetting, value: str) -> None:
        if setting == "theme":
            self._screen.set_theme(value)
        else:
            self.say(f"{self._screen.set_vim(value)} keys")
