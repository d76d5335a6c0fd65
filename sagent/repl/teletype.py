"""The REPL for a terminal that can only print: lines in, lines out; no key but Enter does anything."""

import asyncio
import contextlib
import signal
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from sagent.errors import SagentError, UsageError
from sagent.events import Event, TextDelta
from sagent.lib.input import read_lines
from sagent.messages import user
from sagent.repl.commands.command import CommandContext, run_command, split_command
from sagent.repl.commands.session import choose_session
from sagent.repl.opening import Choices
from sagent.repl.trust import settle_trust
from sagent.repl.view.lines import one_line, plain, printable
from sagent.repl.view.view import plain_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from sagent.config import Settings
    from sagent.messages import ToolCall
    from sagent.policy import Ask
    from sagent.repl.opening import Opening
    from sagent.tools.ask import Question


async def run_teletype(load: "Callable[[], Settings]", opening: "Opening", *, choosing: bool = False) -> int:
    """Talk to a person until their input ends; the exit code. When `choosing`, they say first with which session to go
    on."""
    return await Teletype(load, opening).run(choosing=choosing)


class Teletype(CommandContext):
    """Reads and writes lines."""

    def __init__(self, load: "Callable[[], Settings]", opening: "Opening") -> None:
        super().__init__()
        self.has_person = True
        self._load, self._opening = load, opening
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._next: Settings | None = None
        self._choices: Choices | None = None  # for the session that is opened next
        self._code: int | None = None
        self._open_line = False
        self._task: asyncio.Task[object] | None = None

    async def run(self, *, choosing: bool = False) -> int:
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        for number in (signal.SIGHUP, signal.SIGTERM):
            loop.add_signal_handler(number, self._end, 128 + number)
        read_lines(sys.stdin.fileno(), self._take, lambda: self._lines.put_nowait(None))
        try:
            loaded, notice = await settle_trust(await asyncio.to_thread(self._load), self.write, self.pick, 100)
            if notice:
                self.say(notice)
            settings: Settings | None = loaded
            if choosing:
                self._settings = loaded
                path = await choose_session(self)
                settings = replace(loaded, session=path) if path else None
                if path is None:
                    self.say("No session was chosen.")
            while settings is not None and self._code is None:
                self._settings, self._next = settings, None
                marked = self._choices.mark(settings) if self._choices else settings
                async with self._opening(marked, self._on_event, self._ask, self._answer) as opened:
                    self._opened = opened
                    for text in await self._choices.make(opened) if self._choices else ():
                        self.say(text)
                    await self._converse()
                settings = self._next
        except asyncio.CancelledError:
            if self._code is None:
                raise
        return self._code or 0

    def _take(self, line: bytes | None) -> None:
        """A line that was typed; one that is too long is none."""
        self._lines.put_nowait((line or b"").decode("utf-8", "replace").rstrip("\r"))

    def _end(self, code: int) -> None:
        self._code = code
        if self._task is not None:
            self._task.cancel()

    def _interrupt(self) -> None:
        if self._opened is not None and self._opened.agent.running:
            self._opened.agent.interrupt()
        else:
            self._end(128 + signal.SIGINT)

    async def _converse(self) -> None:
        from sagent.repl.commands.registry import all_commands, prompt_commands

        own = await asyncio.to_thread(all_commands, self.settings)
        self.commands = {**await prompt_commands(self.opened), **own}
        while self._next is None and self._code is None:
            text = self.prompts.pop(0) if self.prompts else await self._read("> ")
            if text is None:
                return
            if found := split_command(text):
                try:
                    await run_command(self, *found)
                except (SagentError, OSError, ValueError) as error:
                    self.say(str(error))
            elif text.strip():
                with contextlib.suppress(SagentError):  # which its events have shown
                    await self.opened.agent.run(user(text))

    def _set_aside(self) -> None:
        """What was typed before a question is a message, and no answer to it."""
        while not self._lines.empty():
            if (line := self._lines.get_nowait()) is None:
                self._lines.put_nowait(None)
                return
            self.prompts.append(line)

    async def _read(self, label: str) -> str | None:
        self._write(label, end="")
        if (line := await self._lines.get()) is None:
            self._lines.put_nowait(None)  # for whoever reads next: a question too may be the last
        return line

    def _write(self, text: str, end: str = "\n") -> None:
        if self._open_line:
            text = f"\n{text}"
        self._open_line = False
        with contextlib.suppress(OSError):
            sys.stdout.write(printable(text) + end)
            sys.stdout.flush()

    def _on_event(self, event: Event) -> None:
        text = plain_text(event)
        if text and isinstance(event, TextDelta):
            self._open_line = False  # it goes on where it is
            self._write(text, end="")
            self._open_line = not text.endswith("\n")
        elif text:
            self._write(text)

    async def _ask(self, call: "ToolCall", ask: "Ask") -> str | None:
        from sagent.policy.rules import rules_for
        from sagent.repl.terminal.approval import allow_rules, approval_options
        from sagent.repl.view.calls import read_text, render_approval

        self._set_aside()
        options = approval_options(rules := rules_for(ask))
        rows = (f"  {option.key} {option.label}  {one_line(option.hint)}".rstrip() for option in options)
        self._write("\n".join((plain(render_approval(call, ask, partial(read_text, self.settings.cwd), 100)), *rows)))
        said = (await self._read(f"{', '.join(option.key for option in options)}, or why not: ") or "n").strip()
        words = {word: option.value for option in options for word in (option.key, option.value)} | {"yes": "once"}
        match words.get(said.lower(), said):
            case "once":
                return None
            case "session" | "always" as answer:
                for text, _ in allow_rules(self, rules, always=answer == "always"):
                    self.say(text)
                return None
            case "no" | "":
                return "The person said no."
            case _:
                return f"The person said no: {said}"

    async def _answer(self, question: "Question") -> str | None:
        from sagent.repl.view.calls import render_agents_question

        self._set_aside()
        if question.plan:
            return await self._decide(question.plan)
        rows = (f"{number:3} {option}" for number, option in enumerate(question.options, 1))
        self._write("\n".join((plain(render_agents_question(question, 100)), *rows)))
        return question.read(await self._read("answer: ") or "")

    async def _decide(self, plan: str) -> str | None:
        """What the person says to a plan."""
        from sagent.tools.plan import Settled

        self._write(
            f"{plan}\n  y Carry it out, and ask before every change\n  e Carry it out, and edit in the project freely"
        )
        said = ((await self._read("y, e, or why not: ")) or "").strip()
        mode = {"y": "ask", "yes": "ask", "e": "edit"}.get(said.lower())
        settled = Settled(None, reason=said) if mode is None else Settled("ask" if mode == "ask" else "edit")
        if settled.mode is not None:
            self.opened.policy.mode = settled.mode
        return settled.answer() if said else None

    # -- what commands work with

    async def line(self, label: str, *, secret: bool = False) -> str | None:
        if secret:
            raise UsageError("This terminal would show it; set the variable of the provider instead.")
        return await self._read(label)

    def rewound(self, text: str) -> None:
        if text:
            self._write(f"{text}\n")

    def reopen(self, settings: "Settings", choices: Choices | None = None, said: str = "") -> None:
        self._next, self._choices = settings, choices
        if said:
            self.say(said)

    def leave(self) -> None:
        self._code = 0
