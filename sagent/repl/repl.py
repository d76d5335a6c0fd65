"""The REPL: one session at a time, a person who may type at any moment, and what happens shown as it happens."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from sagent.errors import SagentError, UsageError
from sagent.events import Advised, Finished, Received, ReplyFinished, Switched, TextDelta, ThinkingDelta, ToolProgress
from sagent.messages import Message
from sagent.repl.files import list_files
from sagent.repl.input_buffer import InputBuffer
from sagent.repl.outbox import Outbox
from sagent.repl.questions import Questions
from sagent.repl.terminal.completion import InputCompleter
from sagent.repl.terminal.history import ProjectHistory
from sagent.repl.terminal.keys import bind_keys, replace_text
from sagent.repl.terminal.painter import Painter
from sagent.repl.terminal.picker import Option, render_picker
from sagent.repl.terminal.presence import Presence
from sagent.repl.terminal.screen import Screen
from sagent.repl.view.blocks import Block, Page, Shell, Told
from sagent.repl.view.lines import Line
from sagent.repl.view.panel import Figures, render_panel, render_status, short_advisors

if TYPE_CHECKING:
    from sagent.agent import Agent
    from sagent.config import Settings
    from sagent.events import Event, Result
    from sagent.repl.commands.command import Command
    from sagent.repl.commands.context import Manner
    from sagent.repl.opening import Opened, Opening

T = TypeVar("T")
TWICE = 2.0  # seconds in which a second Ctrl-C quits
PAUSE = 0.2  # seconds without another letter after which one is a choice
QUIET = 0.7  # seconds without a key before a question takes the keyboard
LONG_TURN = 10.0  # seconds of work after which its end is told with a bell
_STREAMED = (TextDelta, ThinkingDelta, ToolProgress)  # what changes no figure
_UNFINISHED = {
    "/": "a command's name goes behind it, Tab shows them",
    "!": "a shell command goes behind it",
    "#": "a note for AGENTS.md goes behind it",
    "@": "a file's path goes behind it",
}
MOST_DEFECTS = 20  # that are told
CLOSING = 8.0  # seconds that a session has to close


class Repl:
    """Takes over a screen that is there. `load` gives the settings."""

    def __init__(
        self,
        screen: Screen,
        history: ProjectHistory,
        load: "Callable[[], Settings]",
        opening: "Opening",
    ) -> None:
        self.screen, self.history = screen, history
        self._load, self._opening = load, opening
        self.figures = Figures(note="starting …")
        self._settings: Settings | None = None
        self._opened: Opened | None = None
        self._next: Settings | None = None
        self._retry = asyncio.Event()
        self._outbox = Outbox()
        self._draft = InputBuffer()
        self._files: Sequence[str] = ()
        self._commands: Mapping[str, Command] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._shells: set[asyncio.Task[None]] = set()
        self._defects: set[str] = set()  # that were told
        self._pressed_at = 0.0
        self._began_at: float | None = None
        self.code = 0
        self._ready = asyncio.Event()  # settings and commands are there
        self._hint = self._farewell = ""
        self._session = ""  # where what was said is kept
        self._head: Callable[[], str] = str  # the last entry there
        screen.panel, screen.status = self._render_panel, self._render_status
        screen.completer = InputCompleter(lambda: self._files, self._command_names, self._command_arguments)
        self.story = Painter(screen.surface, screen.redraw)
        self._presence = Presence(screen, lambda: self._settings.notify if self._settings else "off")
        self.questions = Questions(
            screen, self._presence, self._spawn, cwd=lambda: self.settings.cwd, allow=self._allow
        )
        screen.bind(bind_keys(screen, self))
        screen.on_resized = self._on_resized
        screen.output.on_gone = lambda: self.end(128 + signal.SIGHUP)

    # -- life

    async def run(self, early: Sequence[str] = ()) -> None:
        """Do everything, until cancelled; what was typed `early` comes first."""
        asyncio.get_running_loop().set_exception_handler(self._on_defect)
        live = self._spawn(self._live())
        for text in early:
            self._take(text, "now")  # and the next, begun meanwhile, stays in the input
        try:
            await live
        finally:
            await self._close()

    async def _close(self) -> None:
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSING)
        if self._farewell:
            self._print(self._farewell)
        if self._session and self.code < 128:
            import shlex

            self._print(f"To go on with this session:  sagent --session {shlex.quote(self._session)}\n")
            self._print(f"Its head:  {self._head()}\n")

    def _print(self, text: str) -> None:
        with contextlib.suppress(OSError):
            os.write(self.screen.output.stdout.fileno(), text.encode(errors="replace"))

    def end(self, code: int) -> None:
        """Leave, whatever is going on. What is in progress is closed properly by whoever cancels `run`."""
        self.code = self.code or code
        self.screen.leave()

    def leave(self) -> None:
        """End."""
        self.end(0)

    def quit(self) -> None:
        """Leave."""
        self.leave()

    def _spawn(self, work: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)
        return task

    def _on_task_done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._tell_error(error)

    def _on_defect(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, object]) -> None:
        """Something failed that nobody waits for, a key's doing or a drawing: it is told, once, and the session goes
        on."""
        error = context.get("exception")
        told = f"{type(error).__name__}: {error}" if error else str(context.get("message"))
        if told not in self._defects and len(self._defects) < MOST_DEFECTS:
            self._defects.add(told)
            self.story.write(Told(f"This is a defect of sagent, /bug says what to report: {told}", "error"))

    def _tell_error(self, error: BaseException) -> None:
        text = str(error) if isinstance(error, SagentError | OSError) else f"{type(error).__name__}: {error}"
        self.story.write(Told(text, "error"))

    async def _live(self) -> None:
        """Load what the session needs, open it, and take its prompts; another one after it where that is asked for."""
        from sagent.repl.commands.registry import all_commands

        settings: Settings | None = None
        while True:
            try:
                if settings is None:
                    if (settings := await self._read_settings()) is None:
                        return
                    self._commands = await asyncio.to_thread(all_commands, settings)
                    self._ready.set()
                async with self._opening(
                    settings, self._on_event, self.questions.approve, self.questions.answer
                ) as opened:
                    await self._converse(opened)
                settings = self._next
            except (SagentError, OSError) as error:
                await self._fail(error)
                settings = self._next
            finally:
                self._opened = None
            self._next = None

    async def _converse(self, opened: "Opened") -> None:
        """Answer prompts until another session is wanted."""
        self._opened = opened
        log = opened.agent.log
        self._session = log.path if opened.agent.messages else ""
        self._head = lambda: log.head
        self.story.write(*self._past(opened.agent))
        self._count()
        self._outbox.on_opened()
        while self._next is None:
            message = await self._outbox.next()
            if message is not None:
                await self._answer(opened, message)

    def _past(self, agent: "Agent") -> Sequence[Block]:
        from sagent.repl.view.past import retell

        return retell(agent.messages, agent.path)

    async def _answer(self, opened: "Opened", message: Message) -> None:
        """Run the agent on a message, and on those that reached it too late for that run."""
        self._began_at = time.monotonic()
        self._session = opened.agent.log.path
        ticking = asyncio.create_task(self._tick())
        try:
            good = await self._run(opened.agent.run(message))
            while good and self._outbox.is_unread:
                good = await self._run(opened.agent.go_on())
        finally:
            ticking.cancel()
            began, self._began_at = self._began_at, None
        self._count()
        self._presence.ring(time.monotonic() - (began or 0.0))
        if good:
            self._outbox.release()
        self.screen.redraw()

    async def _run(self, run: "Awaitable[Result]") -> bool:
        """Whether a run ended well. What went wrong its events have told."""
        try:
            return (await run).error is None
        except SagentError:
            return False
        except Exception as error:
            self._tell_error(error)
            return False

    async def _tick(self) -> None:
        """Clocks and countdowns move while there is something to wait for."""
        drawn: Sequence[Line] = ()
        while True:
            await asyncio.sleep(1.0)
            self._count_money()  # prices load meanwhile, and calls are billed without a word
            before, drawn = drawn, self._render_panel(self.screen.surface.width, self.screen.rows)
            if drawn != before:
                self.screen.redraw()

    async def _fail(self, error: Exception) -> None:
        """The session could not be opened: say so, and wait until the person has changed something."""
        from sagent.repl.guide import guide

        self.figures = Figures(note="no session")
        self.story.write(*guide(error))
        self.screen.redraw()
        self._retry.clear()
        await self._retry.wait()

    async def _read_settings(self) -> "Settings | None":
        """The settings; None where they are wrong, which is told when the screen is left."""
        try:
            settings = await asyncio.to_thread(self._load)
        except SagentError as error:
            self._farewell = f"sagent: {error}\n"
            self.end(2)
            return None
        self._begin_settings(settings)
        return settings

    def _begin_settings(self, settings: "Settings") -> None:
        from sagent.session.names import sessions_of

        self._settings = settings
        self.figures = Figures(note="opening …", mode=settings.permission_mode)
        self.screen.set_theme(settings.theme)
        if settings.editing_mode == "vi":
            self.screen.set_vim("on")
        home = sessions_of(settings.state_dir, settings.cwd)
        self.history.open(None if settings.ephemeral else settings.state_dir / "history" / f"{home.name}.jsonl")
        self._spawn(self._look_around(settings.cwd))
        self.screen.redraw()

    async def _look_around(self, cwd: Path) -> None:
        from sagent.repl.project import branch_of

        branch = await asyncio.to_thread(branch_of, cwd)
        self.figures = replace(self.figures, branch=branch)
        self.screen.redraw()
        self._files = await list_files(cwd)

    # -- events

    def _on_event(self, event: "Event") -> None:
        self.story.tell(event)
        if type(event) in _STREAMED:
            return
        if event.agent != "root":
            if isinstance(event, ReplyFinished | Advised | Finished):
                self._count_money()
            return
        match event:
            case Advised():
                self._count_money()
            case Received(_, message):
                self._outbox.on_read(message)
            case ReplyFinished(_, message):
                self._count()
                if not message.calls and self._opened is not None and self._opened.agent.running:
                    self._outbox.pass_on(self._opened.agent)
            case Switched() | Finished():
                self._count()
            case _:
                pass

    def _count(self) -> None:
        """Bring the figures of the status line up to date."""
        if self._opened is None:
            return
        agent = self._opened.agent
        status = agent.status()
        self.figures = replace(
            self.figures,
            note="",
            model=status.model,
            effort=status.effort,
            context=status.context_tokens,
            window=status.window,
            cost=agent.cost(),
            jobs=len(status.jobs),
            mode=self._opened.policy.mode,
            advisor=short_advisors(status.advisors),
        )
        self.screen.redraw()

    def _count_money(self) -> None:
        """Only what was spent, which is known at once."""
        if self._opened is not None and (cost := self._opened.agent.cost()) != self.figures.cost:
            self.figures = replace(self.figures, cost=cost)
            self.screen.redraw()

    # -- what is drawn

    def _render_panel(self, width: int, height: int) -> Sequence[Line]:
        try:
            if (picker := self.questions.picker) is not None:
                return [(), *render_picker(picker, width, height - 1)]
            queue, spent = self._outbox.queued, self.figures.cost.by_agent if self.figures.cost else None
            return render_panel(self.story.view, queue, asyncio.get_running_loop().time(), width, height, spent)
        except Exception as error:
            return [(("", f"(what is in progress cannot be shown: {type(error).__name__}: {error})"[:width]),)]

    def _render_status(self, width: int) -> Line:
        if self._hint:
            return (("class:warning", self._hint),)
        try:
            return render_status(self.figures, width)
        except Exception as error:
            return (("", f"(the status cannot be shown: {type(error).__name__}: {error})"[:width]),)

    def _on_resized(self) -> None:
        self.story.paint()

    # -- hands: what keys do

    @property
    def busy(self) -> bool:
        """Whether a turn is in progress, or about to begin."""
        return self._began_at is not None or self._outbox.begins

    @property
    def interruptible(self) -> bool:
        """Whether there is something that Esc stops."""
        return self.busy or bool(self._shells)

    def hold_paste(self, text: str) -> str:
        """Keep a long paste, and give its place holder."""
        return self._draft.keep_text(text)

    def submit(self, moment: Literal["now", "idle"]) -> None:
        """Send what was typed: a message, a command, a shell line, a note."""
        buffer = self.screen.buffer
        if not self.questions.take_line(buffer.text) and self._take(buffer.text, moment):
            buffer.reset()
            self.screen.app.vi_state.reset()  # a new line is typed, not navigated

    def _take(self, typed: str, moment: Literal["now", "idle"]) -> bool:
        """Do what a line asks for; False where it is none yet."""
        text = self._draft.whole(typed).strip("\n")
        if not text.strip():
            return False
        if text.strip() in _UNFINISHED:
            self._show_hint(_UNFINISHED[text.strip()])
            return False
        self.history.append_string(typed if len(text) > 20_000 else text)
        from sagent.repl.commands.command import split_command

        if found := split_command(text):
            self._spawn(self._command(*found))
        elif text.startswith("!") and text[1:].strip():
            task = self._spawn(self._shell(text[1:].strip()))
            self._shells.add(task)
            task.add_done_callback(self._shells.discard)
        elif text.startswith("#") and text[1:2] not in ("#", "!"):
            self._spawn(self._note(text[1:].strip()))
        else:
            self._send(text, typed, moment)
        return True

    def _send(self, text: str, typed: str, moment: Literal["now", "idle"]) -> None:
        from sagent.messages import user
        from sagent.repl.files import attach

        cwd = self._settings.cwd if self._settings else Path.cwd()
        parts, wrong = attach(text, cwd)
        for sentence in wrong:
            self.story.write(Told(sentence, "warning"))
        message = user(text, *parts, *self._draft.images(typed))
        agent = self._opened.agent if self._opened else None
        if agent is not None and not self.busy:
            self._outbox.begin(message)
        elif moment == "now" and agent is not None and agent.running:
            self._outbox.send(agent, message, typed)
        else:
            self._outbox.keep(message, typed, early=agent is None)
        self.screen.redraw()

    def prompt(self, text: str) -> None:
        """Send a message as if the person had typed it."""
        self._send(text, text, "now")

    def recall_queued(self) -> bool:
        """Take the last queued message back into the input; False where there is none."""
        typed = self._outbox.recall()
        if typed is not None:
            replace_text(self.screen.buffer, typed)
        return typed is not None

    def can_background(self) -> bool:
        """Whether a call runs that can go on in the background."""
        return any(not call.job and call.agent == "root" for call in self.story.view.running.values())

    def background(self) -> None:
        """Have what runs go on in the background."""
        from sagent.peer import Background

        if self._opened is not None:
            self._opened.agent.apply(Background())

    def interrupt(self) -> None:
        """Stop the turn, and a shell line of the person's own."""
        for task in self._shells:
            task.cancel()
        if self._opened is not None and self._opened.agent.running:
            self._opened.agent.interrupt()

    def rewind(self) -> None:
        """Choose an earlier message, to be said differently."""
        if not self.screen.buffer.text and self._opened is not None and not self._opened.agent.running:
            self._spawn(self._command("rewind", ""))

    def rewound(self, text: str) -> None:
        """The conversation went back: put `text` into the input, to be said differently."""
        self._count()
        if text and not self.screen.buffer.text:
            replace_text(self.screen.buffer, text)

    def clear_or_quit(self) -> None:
        """Ctrl-C: clear the input, else interrupt, else quit when it is pressed twice."""
        now, before = time.monotonic(), self._pressed_at
        self._pressed_at = now
        buffer = self.screen.buffer
        if self.questions.take_line(None):
            return
        if buffer.text:
            buffer.save_to_undo_stack()
            buffer.text = ""
            self.screen.app.vi_state.reset()
            self._pressed_at = 0.0
        elif now - before < TWICE:
            self.leave()
        elif self.busy:
            self.interrupt()
            self._show_hint("Ctrl-C again quits")
        else:
            self._show_hint("Ctrl-C again quits")

    def _show_hint(self, text: str) -> None:
        self._hint = text
        self.screen.redraw()

        def end() -> None:
            self._hint = ""
            self.screen.redraw()

        asyncio.get_running_loop().call_later(TWICE, end)

    def expand(self) -> None:
        """Show all there is to the last block that can be expanded."""
        lines = self.story.expand()
        if lines:
            self.story.write(Page(tuple(lines)))

    def clear_screen(self) -> None:
        """Begin at the top of the screen."""
        self.story.paint()
        self.screen.clear()
        self.story.paint()

    def edit(self) -> None:
        """Open the input in the person's editor."""
        self.screen.surface.freeze()
        self.screen.buffer.open_in_editor()

    def paste_image(self) -> None:
        """Attach the image in the clipboard, where the platform has a way to it."""
        self._spawn(self._paste_image())

    async def _paste_image(self) -> None:
        from sagent.repl.terminal.clipboard import PROGRAMS, image_from_clipboard

        image = await image_from_clipboard()
        if image is None:
            self._show_hint(f"no image in the clipboard, or no program to read it with ({PROGRAMS})")
        else:
            self.screen.buffer.insert_text(self._draft.keep_image(image))

    def suspend(self) -> None:
        """Stop the process until it is brought back."""
        from prompt_toolkit.application import run_in_terminal

        if not hasattr(signal, "SIGTSTP"):
            return
        if self.screen.app._running_in_terminal:  # noqa: SLF001 -- an editor has the terminal, and stops with us
            self._stop()
            return
        self.story.paint()
        self.screen.surface.freeze()
        self._spawn(_done(run_in_terminal(self._stop)))

    def _stop(self) -> None:
        """Do what the signal does to those who do not handle it."""
        loop = asyncio.get_running_loop()
        loop.remove_signal_handler(signal.SIGTSTP)
        os.kill(0, signal.SIGTSTP)
        loop.add_signal_handler(signal.SIGTSTP, self.suspend)

    # -- commands: the context

    @property
    def settings(self) -> "Settings":
        """Those in force. Raises UsageError while they load."""
        if self._settings is None:
            raise UsageError("The settings are not there yet.")
        return self._settings

    @property
    def opened(self) -> "Opened":
        """The session. Raises UsageError while there is none."""
        if self._opened is None:
            raise UsageError("No session is open yet.")
        return self._opened

    def write(self, lines: Sequence[Line]) -> None:
        """Show lines to the person."""
        self.story.write(Page(tuple(lines)))

    def say(self, text: str) -> None:
        """Show a sentence to the person."""
        self.story.write(Told(text))

    def copy(self, text: str) -> None:
        """Put a text into the person's clipboard, by way of the terminal."""
        from sagent.repl.terminal.clipboard import osc52

        self.screen.output.write_raw(osc52(text))
        self.screen.output.flush()

    def reopen(self, settings: "Settings") -> None:
        """Close the session and open another."""
        if self.busy and self._opened is not None:
            raise UsageError("A turn is in progress: interrupt it first (Esc).")
        self._next = self._settings = settings
        self._outbox.wake()
        self._retry.set()

    def set_display(self, what: "Manner", value: str) -> None:
        """Change how the terminal looks or is typed at."""
        if what == "theme":
            self.screen.set_theme(value)
        else:
            told = self.screen.set_vim(value)
            self.say(f"{told} keys")

    async def pick(self, title: str, options: Sequence[Option[T]]) -> T | None:
        """Have the person choose; None for nothing."""
        return await self.questions.pick(title, options)

    async def line(self, label: str, *, secret: bool = False) -> str | None:
        """Have the person type a line; None when they leave it."""
        return await self.questions.line(label, secret=secret)

    def _command_names(self) -> list[tuple[str, str]]:
        return [(name, one.help.split("\n", 1)[0]) for name, one in sorted(self._commands.items())]

    def _command_arguments(self, name: str, typed: str) -> list[tuple[str, str]]:
        found = self._commands.get(name)
        if found is None or not found.arguments or " " in typed:
            return []
        try:
            told = list(found.complete(self)) if found.complete else []
        except SagentError:
            told = []
        return [*told, *((word, "") for word in found.arguments[0].choices)]

    async def _command(self, name: str, text: str) -> None:
        from sagent.repl.commands.command import carry_out
        from sagent.repl.view.blocks import Said

        self.story.write(Said(f"/{name} {text}".strip()))
        await self._ready.wait()
        try:
            await carry_out(self._commands, self, name, text)
        except (SagentError, KeyError, OSError, ValueError) as error:
            self._tell_error(error if not isinstance(error, KeyError) else UsageError(str(error.args[0])))
        self._count()

    async def _shell(self, command: str) -> None:
        """Run a shell line of the person's own, and share it with the model."""
        from sagent.messages import user
        from sagent.repl.shell import run_shell

        await self._ready.wait()
        code, output = await run_shell(command, self.settings.cwd)
        self.story.write(Shell(command, output, code))
        shared = output if len(output) <= 20_000 else f"{output[:8_000]}\n[...]\n{output[-8_000:]}"
        text = f"I ran `{command}` (exit {code}):\n{shared}"
        if self._opened is not None:
            self._opened.agent.send(user(text, sender="person's shell"), "next")

    async def _note(self, text: str) -> None:
        from sagent.messages import user
        from sagent.repl.project import add_note

        if not text:
            return
        await self._ready.wait()
        path = await asyncio.to_thread(add_note, self.settings.cwd, text)
        self.say(f"Noted in {path}")
        if self._opened is not None:
            self._opened.agent.send(user(f"Remember (it is in {path.name} now): {text}", sender="note"), "next")

    def _allow(self, rule: str, always: bool) -> None:  # noqa: FBT001 -- a callback of two values
        """Take a rule that the person allows; into the settings too, where it is for always."""
        from sagent.policy.rules import Rule
        from sagent.repl.approvals import add_rule

        policy = self.opened.policy
        policy.rules = replace(policy.rules, allow=(*policy.rules.allow, Rule.parse(rule)))
        if always:
            path = self.settings.config_dir / "config.toml"
            try:
                add_rule(path, rule)
                self.say(f"{rule} is allowed from now on, in {path} too")
            except (OSError, ValueError) as error:
                self.story.write(Told(f"{rule} is allowed for this session only: {error}", "warning"))


async def _done(work: Awaitable[None]) -> None:
    await work
