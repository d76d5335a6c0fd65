"""The REPL for a terminal that can only print: lines in, lines out; Enter is the only key."""

import asyncio
import contextlib
import math
import re
import signal
import sys
import time
from collections import deque
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from sagent.errors import SagentError, UsageError
from sagent.events import Event, TextDelta
from sagent.lib.input import read_lines
from sagent.messages import user
from sagent.repl.commands.command import CommandContext, run_command, split_command
from sagent.repl.commands.session import choose_session
from sagent.repl.opening import SessionChoices
from sagent.repl.trust import settle_trust
from sagent.repl.view.lines import one_line, plain, printable
from sagent.repl.view.view import ROOT, plain_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from sagent.config import Settings
    from sagent.messages import ToolCall
    from sagent.policy import Ask
    from sagent.repl.opening import Opening
    from sagent.tools.ask import Question

UNSEEN_SECONDS = 0.7  # too short to have read a question
_WAITING_SECONDS = 10.0  # between two lines about the same wait for a local server
_PROMPT = "> "


async def run_teletype(load: "Callable[[], Settings]", opening: "Opening", *, choosing: bool = False) -> int:
    """Talk to a person until their input ends; return the exit code. With `choosing`, they first choose a session."""
    return await Teletype(load, opening).run(choosing=choosing)


class Teletype(CommandContext):
    """Reads and writes lines."""

    def __init__(self, load: "Callable[[], Settings]", opening: "Opening") -> None:
        super().__init__()
        self.has_person = True
        self._load, self._opening = load, opening
        self._lines: deque[str] = deque()  # not yet read
        self._readers: list[tuple[str, asyncio.Future[str | None]]] = []  # waiting readers of a line, with their labels
        self._ended = False
        self._floor = asyncio.Lock()  # held by the open question
        self._next: Settings | None = None
        self._choices: SessionChoices | None = None  # for the session to open next
        self._code: int | None = None
        self._open_line = False
        self._waiting_shown: dict[str, float] = {}
        self._task: asyncio.Task[object] | None = None

    async def run(self, *, choosing: bool = False) -> int:
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        for number in (signal.SIGHUP, signal.SIGTERM):
            loop.add_signal_handler(number, self._end, 128 + number)
        read_lines(sys.stdin.fileno(), self._take, self._take_end)
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
                async with self._opening(marked, self._on_event, self._ask, self._answer, self._on_waiting) as opened:
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
        """Take a typed line; a line that is too long counts as empty."""
        self._lines.append((line or b"").decode("utf-8", "replace").rstrip("\r"))
        self._hand_out()

    def _take_end(self) -> None:
        self._ended = True
        self._hand_out()

    def _hand_out(self) -> None:
        """Give the next line to the latest reader, whose prompt the person sees; at the end of input each gets None."""
        while self._readers and (self._lines or self._ended):
            _, waits = self._readers.pop()
            if not waits.done():
                waits.set_result(self._lines.popleft() if self._lines else None)

    def _end(self, code: int) -> None:
        self._code = code
        if self._task is not None:
            self._task.cancel()

    def _interrupt(self) -> None:
        if self._opened is not None and self._opened.agent.running:
            self._opened.agent.interrupt()
        elif self._readers and self._readers[-1][0] != _PROMPT:  # closes the question, not the program
            self._open_line = True
            self._lines.append("")
            self._hand_out()
        else:
            self._end(128 + signal.SIGINT)

    async def _converse(self) -> None:
        from sagent.repl.commands.registry import all_commands, prompt_commands

        notices: list[str] = []
        own = await asyncio.to_thread(all_commands, self.settings, notices)
        for text in notices:
            self.say(text)
        self.commands = {**await prompt_commands(self.opened), **own}
        while self._next is None and self._code is None:
            text = self.prompts.pop(0) if self.prompts else await self._read(_PROMPT)
            if text is None:
                return
            if found := split_command(text):
                try:
                    await run_command(self, *found)
                except (SagentError, OSError, ValueError) as error:
                    self.say(str(error))
            elif text.strip():
                with contextlib.suppress(SagentError):  # its events have shown the error
                    await self.opened.agent.run(user(text))

    async def _asked(self, text: str, label: str) -> str:
        """Return the line that answers a question, "" at the end of input. Lines typed before the question could be
        read are messages, not answers."""
        self.prompts += self._lines
        self._lines.clear()
        self._write(text)
        await asyncio.sleep(UNSEEN_SECONDS)
        self.prompts += self._lines
        self._lines.clear()
        return (await self._read(label)) or ""

    async def _read(self, label: str) -> str | None:
        self._write(label, end="")
        self._readers.append(reader := (label, asyncio.get_running_loop().create_future()))
        self._hand_out()
        try:
            return await reader[1]
        finally:
            if reader in self._readers:
                self._readers.remove(reader)
            elif self._readers and not self._ended:
                self._write(self._readers[-1][0], end="")

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
            self._open_line = False  # continue the unfinished line
            self._write(text, end="")
            self._open_line = not text.endswith("\n")
        elif text:
            self._write(text)

    def _on_waiting(self, agent: str, waits_for: str) -> None:
        """Write why a call of an agent to a local server waits; seldom, because lines stay on the screen."""
        what, now = re.split("[:…]", waits_for)[0], time.monotonic()
        if what and now - self._waiting_shown.get(what, -math.inf) >= _WAITING_SECONDS:
            self._waiting_shown[what] = now
            self._write(waits_for if agent in ("", ROOT) else f"{agent}: {waits_for}")

    async def _ask(self, call: "ToolCall", ask: "Ask") -> str | None:
        async with self._floor:
            return await self._put_approval(call, ask)

    async def _put_approval(self, call: "ToolCall", ask: "Ask") -> str | None:
        from sagent.policy.rules import rules_for
        from sagent.repl.terminal.approval import allow_rules, approval_options, scope_text
        from sagent.repl.terminal.precedents import rules_text
        from sagent.repl.view.calls import read_text, render_approval

        rules, cwd, elsewhere = rules_for(ask), self.settings.cwd, self.elsewhere
        options = approval_options(rules, can_save=elsewhere is None)
        read = partial(read_text, cwd) if elsewhere is None else elsewhere.read
        rows = [plain(render_approval(call, ask, read, 100))]
        matched = await asyncio.to_thread(rules_text, rules, call, self.opened.agent, cwd) if rules else ""
        rows.append("  " + "".join(scope_text(rules, ask, matched, can_save=elsewhere is None)))
        rows += (f"  {option.key} {option.label}  {one_line(option.hint)}".rstrip() for option in options)
        label = f"{', '.join(option.key for option in options)}, or why not: "
        said = (await self._asked("\n".join(rows), label)).strip()
        words = {word: option.value for option in options for word in (option.key, option.value)} | {"yes": "once"}
        match words.get(said.lower()):
            case "once":
                return None
            case "session" | "always" as answer:
                for text, _ in allow_rules(self, rules, always=answer == "always"):
                    self.say(text)
                return None
            case "no":
                return "The person said no."
            case _:  # an unoffered answer is no yes
                return f"The person said no: {said}" if said else "The person said no."

    async def _answer(self, question: "Question") -> str | None:
        from sagent.repl.view.calls import render_agents_question

        async with self._floor:
            if question.plan:
                return await self._decide(question.plan)
            rows = (f"{number:3} {option}" for number, option in enumerate(question.options, 1))
            return question.read(
                await self._asked("\n".join((plain(render_agents_question(question, 100)), *rows)), "answer: ")
            )

    async def _decide(self, plan: str) -> str | None:
        """Ask the person about a plan; return the answer for the model."""
        from sagent.tools.plan import PlanDecision

        ways = "  y Carry it out, and ask before every change\n  e Carry it out, and edit in the project freely"
        said = (await self._asked(f"{plan}\n{ways}", "y, e, or why not: ")).strip()
        mode = {"y": "ask", "yes": "ask", "e": "edit"}.get(said.lower())
        settled = PlanDecision(None, reason=said) if mode is None else PlanDecision("ask" if mode == "ask" else "edit")
        if settled.mode is not None:
            self.opened.policy.mode = settled.mode
        return settled.answer() if said else None

    # -- what commands work with

    async def line(self, label: str, *, secret: bool = False) -> str | None:
        if secret:
            raise UsageError("This terminal would show the key; set the provider's environment variable instead.")
        return await self._read(label)

    def rewound(self, text: str) -> None:
        if text:
            self._write(f"{text}\n")

    def reopen(self, settings: "Settings", choices: SessionChoices | None = None, shown_instead: str = "") -> None:
        self._next, self._choices = settings, choices
        if shown_instead:
            self.say(shown_instead)

    def leave(self) -> None:
        self._code = 0
