"""Actions of keys: they send or run a line, change the input, and interrupt running work."""

import asyncio
import os
import re
import signal
import time
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

from sagent.errors import SagentError, UsageError
from sagent.lib.process import stop_job
from sagent.messages import Image, Message, user
from sagent.repl.commands.command import CommandContext, run_command, split_command
from sagent.repl.opening import NoSession
from sagent.repl.project import add_note, attach, fit_images, images_at, instructions_file, mentioned
from sagent.repl.session import SessionLoop
from sagent.repl.shell import run_shell
from sagent.repl.status import HINT_SECONDS, StatusDisplay
from sagent.repl.tasks import Tasks
from sagent.repl.terminal.painter import Painter
from sagent.repl.terminal.picker import Option, SecondKey
from sagent.repl.terminal.questions import Questions
from sagent.repl.terminal.screen import Screen
from sagent.repl.view.blocks import MAX_EXPANDED_LINES, MessageBlock, Page, Report, Shell, without_middle
from sagent.repl.view.lines import alike
from sagent.repl.view.view import NOTE, ROOT, SHELL
from sagent.surface import Surface

if TYPE_CHECKING:
    from sagent.repl.terminal.clipboard import TerminalClipboard
    from sagent.repl.view.lines import Line

T = TypeVar("T")
MAX_PASTE_CHARS = 2_000  # a longer paste is shown as a placeholder
MAX_PASTE_LINES = 12
MAX_REMEMBERED_CHARS = 20_000  # of a longer line the history keeps the shown form
INTERRUPTED = 128 + signal.SIGINT  # exit code of a shell command that the person has interrupted
MAX_SHARED_CHARS = 20_000  # of a shell command's output that the model reads
_WORDS = {"exit": "quit", "quit": "quit", ":q": "quit", "help": "help", "?": "help"}
"""Commands that people type to any prompt without a slash."""
_UNFINISHED = {
    "/": "type a command after /; Tab lists them",
    "!": "type a shell command after !",
    "#": "type a note for AGENTS.md after #",
    "@": "type a file's path after @",
}
_HOLDER = re.compile(r"\[(?:Pasted text|Image) #(\d+)[^\]]*\]")


class InputBuffer:
    """Long pastes and images, by the number of the placeholder that stands for each in the input."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._images: dict[str, Image] = {}
        self.begins = False  # the input begins with a paste

    def _next(self) -> str:
        return str(len(self._texts) + len(self._images) + 1)

    def keep_text(self, text: str) -> str:
        number, lines = self._next(), text.removesuffix("\n").count("\n") + 1
        self._texts[number] = text
        return f"[Pasted text #{number}, {lines} lines]" if lines > 1 else f"[Pasted text #{number}]"

    def keep_image(self, image: Image) -> str:
        number = self._next()
        self._images[number] = image
        return f"[Image #{number}]"

    def whole(self, text: str) -> str:
        """Return the text with the pastes in their places."""
        return _HOLDER.sub(lambda match: self._texts.get(match[1], match[0]), text)

    def mended(self, before: str, after: str) -> tuple[str, int] | None:
        """Return the input without partly deleted placeholders, and with text typed inside one moved after it, and the
        new cursor position; None if nothing changes."""
        start = alike(before, after)
        stop = len(before) - alike(before[start:][::-1], after[start:][::-1])
        typed = after[start : len(after) - len(before) + stop]
        low, high = start, stop
        for holder in _HOLDER.finditer(before):
            if (holder[1] not in self._texts and holder[1] not in self._images) or (typed and start < stop):
                continue
            if typed and holder.start() < start < holder.end():
                return before[: holder.end()] + typed + before[holder.end() :], holder.end() + len(typed)
            if not typed and start < holder.end() and holder.start() < stop:
                low, high = min(low, holder.start()), max(high, holder.end())
        return None if (low, high) == (start, stop) else (before[:low] + before[high:], low)

    def images(self, text: str) -> tuple[Image, ...]:
        """Return the images that the text still names."""
        return tuple(self._images[match[1]] for match in _HOLDER.finditer(text) if match[1] in self._images)


class InputActions:
    """Actions that keys and lines can ask for. Commands, shell commands and notes wait until `ready` is set."""

    def __init__(
        self,
        screen: Screen,
        questions: Questions,
        context: CommandContext,
        *,
        session: SessionLoop,
        painter: Painter,
        status: StatusDisplay,
        tasks: Tasks,
    ) -> None:
        self.questions, self.pasted, self.ready = questions, InputBuffer(), asyncio.Event()
        self._sending = asyncio.Lock()  # held while mentioned files are read, so that messages keep their order
        self._screen, self._session, self._context = screen, session, context
        self._painter, self._status, self._tasks = painter, status, tasks
        self._stoppable: set[asyncio.Task[object]] = set()  # the person's shell commands, and slow parts of others
        self._clipboard: TerminalClipboard | None = None
        self._pressed_at = self._escaped_at = -HINT_SECONDS  # last Ctrl-C, and last Esc with nothing to stop
        self._before = ""  # the input at the last key press
        screen.app.key_processor.before_key_press += self._note
        screen.buffer.on_text_changed += self._on_text
        context.prompt, questions.whole = self.send, self.pasted.whole

    @property
    def busy(self) -> bool:
        """True while a turn is in progress."""
        return self._session.busy

    @property
    def interruptible(self) -> bool:
        """True if Esc would stop something."""
        return self.busy or bool(self._stoppable)

    def _note(self, _: object) -> None:
        self._before = self._screen.buffer.text
        self.pasted.begins = self.pasted.begins and bool(self._before)

    def _on_text(self, buffer: Buffer) -> None:
        if max(self._pressed_at, self._escaped_at) > -HINT_SECONDS:  # who types between has not pressed it twice
            self._pressed_at = self._escaped_at = -HINT_SECONDS
            self._status.hint("")
        before, self._before = self._before, buffer.text
        if (mended := self.pasted.mended(before, buffer.text)) is not None:
            buffer.document = Document(*mended)

    # -- lines

    def submit(self, moment: Literal["now", "idle"]) -> None:
        """Send the typed text: to be read now, or at the end of the turn."""
        buffer = self._screen.buffer
        if self.questions.withdrawn:
            return
        if not self.questions.take_line(self.pasted.whole(buffer.text)) and self.take(buffer.text, moment):
            buffer.reset()
            self._screen.app.vi_state.reset()  # a new line is typed, not navigated

    def take(self, typed: str, moment: Literal["now", "idle"] = "now") -> bool:
        """Carry out a line and remember it; return False with a hint if it is an incomplete command. `typed` is the
        line as shown, with placeholders for pastes."""
        text = self.pasted.whole(typed).strip("\n")
        if not (asked := text.strip()):
            return False
        if self.pasted.begins and (text[0] == "#" or (text[0] in "/!" and "\n" in text)):
            text, typed = f" {text}", f" {typed}"  # stays a message when it is recalled or returned
        if asked in _UNFINISHED:
            self._status.hint(_UNFINISHED[asked])
            return False
        if found := split_command(f"/{_WORDS[asked.lower()]}" if asked.lower() in _WORDS else text):
            name, rest = found
            if self.ready.is_set() and not (name := self._context.known(name)):
                self._tasks.report(self._context.unknown(found[0]))
                return False
            self._tasks.spawn(self.run_command(name, rest))
        elif text.startswith("!") and text[1:].strip():
            self._tasks.spawn(self._run_shell(text[1:].strip()))
        elif text.startswith("#") and text[1:2] not in ("#", "!") and "\n" not in text:
            self._tasks.spawn(self._add_note(text))
        elif self._session.failed:
            self._status.hint("not sent: there is no session yet; /setup, /login or /model begins one")
            return False
        else:
            self.send(text, typed, when_idle=moment == "idle")
        self._screen.buffer.history.append_string(typed if len(text) > MAX_REMEMBERED_CHARS else text)
        return True

    def send(self, text: str, typed: str = "", *, when_idle: bool = False) -> None:
        """Send a message, with the files and resources that it mentions and the images that were pasted."""
        surface = self._session.opened.surface if self._session.ready else Surface()
        elsewhere = [name for name in mentioned(text) if surface.has(name)]
        images = self.pasted.images(typed or text)
        if mentioned(text) or images or self._sending.locked():
            self._tasks.spawn(self._send_with(surface, elsewhere, images, text, typed, when_idle=when_idle))
        else:
            self._send(user(text), typed or text, when_idle=when_idle)

    async def _send_with(
        self,
        surface: Surface,
        mentions: Sequence[str],
        images: Sequence[Image],
        text: str,
        typed: str,
        *,
        when_idle: bool,
    ) -> None:
        """Send a message after those before it, with the files, resources and images that it names, once read."""
        async with self._sending:
            parts, wrong = await asyncio.to_thread(attach, text, self._session.cwd, mentions)
            for mention in mentions:
                try:
                    parts += await surface.read(mention)
                except SagentError as error:
                    wrong.append(str(error))
            fitted, unfit = await fit_images(images)
            self._painter.write(*(Report(sentence, "warning") for sentence in (*wrong, *unfit)))
            self._send(user(text, *parts, *fitted), typed or text, when_idle=when_idle)

    def _send(self, message: Message, typed: str, *, when_idle: bool) -> None:
        near = self._painter.near
        if near == ROOT:
            self._session.send(message, typed, when_idle=when_idle)
        elif not self._session.send_to(near, message, typed):
            self._painter.write(Report(f"{near} has ended; /enter root goes back.", "warning"))
            self.give_back([typed])

    async def run_command(self, name: str, text: str = "", *, shown: bool = True) -> None:
        """Run a command, `shown` as if it was typed; if it needs a session that is being opened, as soon as that is
        open. A list that an earlier one has opened is closed."""
        if shown:
            self._painter.write(MessageBlock(f"/{name} {text}".strip()))
        await self.ready.wait()
        self.questions.leave_list()
        self.questions.commanded = True
        try:
            try:
                await run_command(self._context, name, text)
            except NoSession:
                if self._session.settled.is_set():
                    raise
                await self._session.settled.wait()
                await run_command(self._context, name, text)
        except (SagentError, OSError, ValueError) as error:
            self._tasks.report(error)
        finally:
            self.questions.commanded = self.questions.waited = False
        self._session.refresh()

    async def _run_shell(self, command: str) -> None:
        """Run a shell command of the person's, and share its output with the model."""
        from sagent.tools.capture import without_colours

        await self.ready.wait()
        if self._is_elsewhere("!command"):
            return
        with self._running("!", command) as show:
            code, output = await self._until_ended(command, show)
        self._painter.write(Shell(command, output, code))
        self._session.on_changes()
        output, half = without_colours(output), MAX_SHARED_CHARS * 2 // 5
        shared = output if len(output) <= MAX_SHARED_CHARS else f"{output[:half]}\n[...]\n{output[-half:]}"
        self._session.add_context(f"I ran `{command}` (exit {code}):\n{shared}", SHELL)

    def _is_elsewhere(self, command: str) -> bool:
        """Report an action that is impossible because the session runs on another machine; return True if it does."""
        try:
            self._session.require_here(command)
        except SagentError as error:
            self._tasks.report(error)
            return True
        return False

    async def _until_ended(self, command: str, show: Callable[[str], None]) -> tuple[int, str]:
        """Return a command's exit code and output; only the last output if the person interrupts it."""
        last = ""

        def take(text: str) -> None:
            nonlocal last
            show(last := text)

        ended = await self._until_stopped(run_shell(command, self._session.cwd, take))
        return (INTERRUPTED, last) if ended is None else ended

    async def stoppable(self, work: Coroutine[None, None, T], shown: str) -> T:
        """Show a slow part of a command while it lasts. Raises UsageError if the person stops it."""
        name, _, text = shown.partition(" ")
        with self._running(name, text):
            done = await self._until_stopped(work)
        self.questions.waited = True
        if done is None:
            raise UsageError(f"{name} was stopped.")
        return done

    @contextmanager
    def _running(self, name: str, text: str) -> Generator[Callable[[str], None]]:
        ticking = asyncio.create_task(self._status.tick())
        try:
            with self._painter.running(name, text) as show:
                yield show
        finally:
            ticking.cancel()

    async def _until_stopped(self, work: Coroutine[None, None, T]) -> T | None:
        """Return what work comes to; None if the person stops it."""
        task = asyncio.create_task(work)
        self._stoppable.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if (own := asyncio.current_task()) is None or own.cancelling():
                raise  # the program ends
            return None
        finally:
            self._stoppable.discard(task)

    async def _add_note(self, text: str) -> None:
        """Write a note if the person agrees; otherwise it is sent as a message, or stays in the input."""
        await self.ready.wait()
        if self._is_elsewhere("#note"):
            return
        options = [
            Option("note", "Yes, write it there", key="y"),
            Option("message", "No, send it as a message", key="m"),
            Option("", "Neither", key="n"),
        ]
        name = instructions_file(self._session.cwd).name
        said = await self.questions.choose(f"Write into {name}, for every session to come: {text[1:].strip()}", options)
        if said == "message":
            self.send(text)
        if said != "note":
            if not said:
                self.give_back([text])
            return
        text = text[1:].strip()
        path = await asyncio.to_thread(add_note, self._session.cwd, text)
        self._painter.write(Report(f"Noted in {path}"))
        self._session.add_context(f"Remember (I have added it to {path.name}): {text}", NOTE)

    # -- the input

    def give_back(self, texts: Sequence[str]) -> None:
        """Put text back into the input, before its present contents."""
        if text := "\n".join(filter(None, texts)):
            self.questions.give_back(text)

    def paste(self, data: str) -> None:
        """Insert a paste: a placeholder for a long one, the image for an image's path."""
        text, buffer = data.replace("\r\n", "\n").replace("\r", "\n"), self._screen.buffer
        self.pasted.begins = self.pasted.begins or not buffer.document.text_before_cursor.strip()
        if not self.questions.wording and (images := images_at(text, self._session.cwd)):
            text = "".join(f"{self.pasted.keep_image(image)} " for image in images)
        elif len(text) > MAX_PASTE_CHARS or text.count("\n") > MAX_PASTE_LINES:
            text = self.pasted.keep_text(text)
        buffer.insert_text(text)

    def recall_queued(self) -> bool:
        """Move the last queued message back into the input; return False if there is none."""
        if (typed := self._session.outbox.recall()) is not None:
            self._screen.replace_text(typed)
        return typed is not None

    def edit(self) -> None:
        """Open the input in the person's editor."""
        self._tasks.spawn(self._edit())

    async def _edit(self) -> None:
        with self._in_editor():
            await self._screen.buffer.open_in_editor()

    async def edit_text(self, text: str) -> str:
        """Let the person edit a text in their editor; return the result. The input is not changed."""
        buffer, kept = self._screen.buffer, self._screen.buffer.text
        with self._in_editor():
            self._screen.replace_text(text)
            try:
                await buffer.open_in_editor()
                return buffer.text
            finally:
                self._screen.replace_text(kept)

    @contextmanager
    def _in_editor(self) -> Generator[None]:
        """Open the input in an editor; text given back meanwhile is added afterwards. Ctrl-C goes to the editor, even
        to one that runs in a separate window."""
        self._screen.surface.freeze()
        before, self.questions.lent = signal.signal(signal.SIGINT, lambda number, frame: None), []
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
            texts, self.questions.lent = self.questions.lent, None
            self.give_back(texts)

    def paste_image(self) -> None:
        """Attach the image in the clipboard."""
        self._tasks.spawn(self._paste_image())

    async def _paste_image(self) -> None:
        from sagent.repl.terminal.clipboard import PROGRAMS, TerminalClipboard, image_from_clipboard

        image = await image_from_clipboard()
        if image is None:
            lacking = f"no image in the clipboard, or no program to read it ({PROGRAMS})"
            self._status.hint(f"asking the terminal: {lacking}")
            self._clipboard = self._clipboard or TerminalClipboard(self._screen.ask)
            self._screen.on_clipboard = self._clipboard.take
            if (image := await self._clipboard.image()) is None:
                self._status.hint(f"no image from the terminal either: {lacking}")
        if image is not None:
            self._screen.buffer.insert_text(self.pasted.keep_image(image))

    # -- what runs

    def can_background(self) -> bool:
        """True if a running call can continue in the background."""
        return any(not call.job and call.agent == "root" for call in self._painter.view.running.values())

    def background(self) -> None:
        """Move running calls to the background."""
        from sagent.peer import Background

        self._session.opened.agent.apply(Background())

    def can_choose_agent(self) -> bool:
        """True if other agents work and no question is open: a waiting list is soon out of date."""
        children = self._painter.view.children.values()
        return not self.questions.asks and any(child.state == "working" for child in children)

    def choose_agent(self) -> None:
        """List the agents, to follow one, or to stop one or all."""
        self._tasks.spawn(self._choose_agent())

    async def _choose_agent(self) -> None:
        def options(but: str = "") -> list[Option[str]]:
            found = [Option(ROOT, ROOT, "the agent you talk to; stopping it stops all agents")]
            for path, child in sorted(self._painter.view.children.items()):
                if child.state == "working" and path != but:
                    found.append(Option(path, path, f"{child.state}  {child.doing}".rstrip()))
            return found

        def stop(path: str) -> list[Option[str]]:
            if path == ROOT:
                self.interrupt()
            else:
                self._session.stop_agent(path)
            return options(path)

        path = await self.questions.pick("Follow which agent?", options(), second=SecondKey("stops it", stop))
        try:
            if path and path != self._painter.near:
                self._context.enter(path)
        except SagentError as error:
            self._tasks.report(error)

    def interrupt(self) -> None:
        """Stop the turn and the person's own commands. Unread messages return to the input."""
        for task in self._stoppable:
            task.cancel()
        if (agent := self._session.running) is not None:
            self.give_back(self._session.outbox.take_back(ROOT, agent))
            agent.interrupt()

    def escape(self) -> None:
        """Close an open list, else stop running work. The second time, clear the input or offer a rewind."""
        buffer, now, before = self._screen.buffer, time.monotonic(), self._escaped_at
        self._escaped_at = -HINT_SECONDS
        if buffer.complete_state is not None:
            buffer.complete_state = None
        elif self.questions.take_line(None):
            pass
        elif self._painter.near != ROOT:
            if not self._session.stop_agent(self._painter.near):
                self._context.enter(ROOT)
        elif self.interruptible:
            self.interrupt()
        elif not self._session.idle or (buffer.text and self._screen.vi):
            pass
        elif now - before >= HINT_SECONDS:
            self._escaped_at = now
            doing = "clears the input" if buffer.text else "goes back to an earlier prompt"
            self._status.hint(f"Esc again {doing}")
        elif buffer.text:
            self._status.hint("")
            self._clear()
        else:
            self._status.hint("")
            self.command("rewind")

    def command(self, name: str) -> None:
        """Run a command for which a key was pressed."""
        self._tasks.spawn(self.run_command(name))

    def next_mode(self) -> None:
        """Switch to the next permission mode; to full only if the session began in it."""
        from sagent.repl.commands.setup import mode_words

        if self._session.ready:
            policy, began = self._session.opened.policy, self._session.settings.permission_mode
            words = mode_words(self._session.settings.plugins)
            modes = [mode for mode in words if mode != "full" or began == "full"]
            if (elsewhere := self._session.elsewhere) is not None:
                modes = [mode for mode in words if mode in elsewhere.modes()]
            if not modes:
                self._status.hint("the node that runs the session sets the mode")
                return
            mode = modes[(modes.index(policy.mode) + 1) % len(modes) if policy.mode in modes else 0]
            policy.mode = mode
            self._session.refresh()
            self._status.hint(f"{mode}: {words[mode]}")

    def leave(self) -> None:
        """Close an open question, else quit; a remote session's question stays open for others."""
        picker = self.questions.taking
        if self._session.elsewhere is not None and (picker is None or picker.keys):
            self._screen.leave()
        elif picker is not None:
            picker.take()
        elif not self.questions.take_line(None):
            self._screen.leave()

    def clear_or_quit(self) -> None:
        """Clear the input, else interrupt; quit if pressed twice while the hint is shown."""
        now, before = time.monotonic(), self._pressed_at
        self._pressed_at = now
        buffer = self._screen.buffer
        if self.questions.take_line(None):
            return
        if buffer.text:
            self._clear()
            self._pressed_at = -HINT_SECONDS
        elif now - before < HINT_SECONDS:
            self._screen.leave()
        else:
            if self.interruptible:
                self.interrupt()
            self._status.hint("Ctrl-C again quits")

    def _clear(self) -> None:
        self._screen.replace_text("")
        self._screen.app.vi_state.reset()

    # -- the screen

    def expand(self) -> None:
        """Show the last expandable block in full; pressed again, the one before."""
        if self.questions.expand():
            return
        lines = self._painter.expand()
        if len(lines) > MAX_EXPANDED_LINES and not self._screen.elsewhere:
            self._tasks.spawn(self._show_in_pager(lines))
        elif lines:
            self._painter.write(Page(tuple(lines)))

    async def _show_in_pager(self, lines: "Sequence[Line]") -> None:
        from prompt_toolkit.application import run_in_terminal

        from sagent.repl.terminal.pager import show_in_pager

        with self._in_editor():
            shown = await run_in_terminal(partial(show_in_pager, lines, self._screen.theme), in_executor=True)
        if not shown:
            self._painter.write(Page(tuple(without_middle(lines))))

    def clear_screen(self) -> None:
        """Begin at the top of the screen."""
        self._painter.paint()
        self._screen.clear()
        self._painter.paint()

    def suspend(self) -> None:
        """Stop the process until it is brought back."""
        from prompt_toolkit.application import run_in_terminal

        if not hasattr(signal, "SIGTSTP"):
            return
        if self._screen.app._running_in_terminal:  # noqa: SLF001 -- an editor has the terminal, and stops with us
            self._stop(lambda: os.kill(0, signal.SIGTSTP))
            return
        self._painter.paint()
        self._screen.surface.freeze()

        async def stop() -> None:
            await run_in_terminal(partial(self._stop, stop_job))

        self._tasks.spawn(stop())

    def _stop(self, stop: Callable[[], None]) -> None:
        """Suspend the process as the signal does by default."""
        loop = asyncio.get_running_loop()
        loop.remove_signal_handler(signal.SIGTSTP)
        stop()
        loop.add_signal_handler(signal.SIGTSTP, self.suspend)
        self.questions.begin_anew()
