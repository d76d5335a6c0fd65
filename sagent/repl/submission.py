"""What a submitted line asks for: a message, a slash command, a shell command or a note."""

import asyncio

from sagent.errors import SagentError
from sagent.messages import user
from sagent.repl.commands.command import run_command, split_command
from sagent.repl.files import attach
from sagent.repl.input_buffer import InputBuffer
from sagent.repl.project import add_note
from sagent.repl.session import SessionLoop
from sagent.repl.shell import run_shell
from sagent.repl.status import StatusDisplay
from sagent.repl.tasks import Tasks
from sagent.repl.terminal.painter import Painter
from sagent.repl.terminal_context import TerminalContext
from sagent.repl.view.blocks import Report, Said, Shell

MOST_SHARED = 20_000  # characters of a shell command's output that the model reads
_UNFINISHED = {
    "/": "type a command's name after /; Tab lists them",
    "!": "type a shell command after !",
    "#": "type a note for AGENTS.md after #",
    "@": "type a file's path after @",
}


class Submissions:
    """Does what submitted lines ask for. Commands, shell commands and notes wait until `ready` is set."""

    def __init__(
        self, session: SessionLoop, context: TerminalContext, painter: Painter, status: StatusDisplay, tasks: Tasks
    ) -> None:
        self._session, self._context = session, context
        self._painter, self.status, self.tasks = painter, status, tasks
        self._shells: set[asyncio.Task[None]] = set()
        self.pasted = InputBuffer()
        self.ready = asyncio.Event()
        context.on_prompt = self.send

    def take(self, text: str, typed: str, *, when_idle: bool = False) -> bool:
        """Begin what a line asks for; False where it is only the beginning of something, which a hint says.

        `typed` is the line as it stood in the input, with place holders for what was pasted.
        """
        if text.strip() in _UNFINISHED:
            self.status.hint(_UNFINISHED[text.strip()])
            return False
        if found := split_command(text):
            self.tasks.spawn(self.run_command(*found))
        elif text.startswith("!") and text[1:].strip():
            task = self.tasks.spawn(self._run_shell(text[1:].strip()))
            self._shells.add(task)
            task.add_done_callback(self._shells.discard)
        elif text.startswith("#") and text[1:2] not in ("#", "!"):
            self.tasks.spawn(self._add_note(text[1:].strip()))
        else:
            self.send(text, typed, when_idle=when_idle)
        return True

    def send(self, text: str, typed: str = "", *, when_idle: bool = False) -> None:
        """Send a message, with the files that it mentions and the images that were pasted."""
        typed = typed or text
        parts, wrong = attach(text, self._session.cwd)
        self._painter.write(*(Report(sentence, "warning") for sentence in wrong))
        self._session.send(user(text, *parts, *self.pasted.images(typed)), typed, when_idle=when_idle)

    async def run_command(self, name: str, text: str = "") -> None:
        self._painter.write(Said(f"/{name} {text}".strip()))
        await self.ready.wait()
        try:
            await run_command(self._context, name, text)
        except (SagentError, OSError, ValueError) as error:
            self.tasks.report(error)
        self._session.refresh()

    @property
    def runs_shell(self) -> bool:
        return bool(self._shells)

    def stop_shells(self) -> None:
        for task in self._shells:
            task.cancel()

    async def _run_shell(self, command: str) -> None:
        """Run a shell command of the person's, and share its output with the model."""
        await self.ready.wait()
        code, output = await run_shell(command, self._session.cwd)
        self._painter.write(Shell(command, output, code))
        half = MOST_SHARED * 2 // 5
        shared = output if len(output) <= MOST_SHARED else f"{output[:half]}\n[...]\n{output[-half:]}"
        self._session.add_context(f"I ran `{command}` (exit {code}):\n{shared}", "person's shell")

    async def _add_note(self, text: str) -> None:
        if not text:
            return
        await self.ready.wait()
        path = await asyncio.to_thread(add_note, self._session.cwd, text)
        self._painter.write(Report(f"Noted in {path}"))
        self._session.add_context(f"Remember (it is in {path.name} now): {text}", "note")
