"""The REPL in plain lines: Enter is the only key, and Ctrl-C interrupts."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from sagent.errors import SagentError, UsageError
from sagent.lib.json import as_str, json_freeze_object
from sagent.messages import user
from sagent.peer import Background
from sagent.plugins.plain import PLAIN
from sagent.plugins.plain.paper import Paper
from sagent.plugins.plain.terminal import LineTerminal
from sagent.plugins.plain.turns import Bell, Meter
from sagent.plugins.plain.words import (
    MAX_COLUMNS,
    approval_text,
    call_text,
    option_texts,
    page_text,
    question_text,
    said_text,
)
from sagent.repl.commands.command import Command, CommandContext, command, run_command, split_command
from sagent.repl.commands.registry import Commands, all_commands, prompt_commands
from sagent.repl.commands.session import choose_session
from sagent.repl.project import add_note, attach, instructions_file, mentioned
from sagent.repl.session import SessionLoop
from sagent.repl.tasks import Tasks
from sagent.repl.terminal.clipboard import osc52
from sagent.repl.trust import settle_trust
from sagent.repl.view.blocks import Report, Shell, past_blocks
from sagent.repl.view.view import NOTE, ROOT, SHELL

if TYPE_CHECKING:
    from sagent.config import Settings
    from sagent.events import Failure
    from sagent.messages import Message, ToolCall
    from sagent.policy import Allow, Ask
    from sagent.repl.opening import Opened, Opening, SessionChoices
    from sagent.repl.terminal.approval import Answer
    from sagent.repl.terminal.picker import Lookup, Option, Shown
    from sagent.repl.view.lines import Line
    from sagent.tools.ask import Question
    from sagent.tools.plan import PlanDecision

T = TypeVar("T")
PROMPT = "You> "
PAGE = 20  # rows of a list
PASTE_SECONDS = 0.05  # lines that come within it are one message
LEAVE_SECONDS = 0.1  # between two looks whether a turn has ended
QUIT_SECONDS = 2.0  # between two Ctrl-C that quit
_WORDS = {"exit": "quit", "quit": "quit", ":q": "quit", "help": "help", "?": "help"}
_AT_ONCE = ("stop", "now", "background", "show", "help")  # commands that wait for no other
_KEYS = (("/help", "commands"), ("Ctrl-C or /stop", "interrupts"), ("Ctrl-D", "quits"))


def chosen(settings: "Settings | None") -> "Callable[..., Awaitable[int]] | None":
    """Return the REPL in plain lines if settings ask for it, or if there are none: the terminal can only print."""
    return run_lines if settings is None or settings.of(PLAIN) else None


async def run_lines(load: "Callable[[], Settings]", opening: "Opening", *, choosing: bool = False) -> int:
    """Talk to a person until their input ends; return the exit code. With `choosing`, they first choose a session."""
    return await LineRepl(load, opening, choosing=choosing).run()


class LineRepl(CommandContext):
    """The REPL, and what slash commands use on a terminal that only prints."""

    def __init__(self, load: "Callable[[], Settings]", opening: "Opening", *, choosing: bool = False) -> None:
        super().__init__()
        self.has_person = True
        self._load, self._choosing = load, choosing
        self._terminal = LineTerminal(self._take, self._on_input_end)
        self._paper = Paper(self._terminal)
        self._tasks = Tasks(self._paper.write)
        bell = Bell(self._terminal, self._paper)
        self._session = bell.session = SessionLoop(
            opening, self._paper, Meter(self._terminal, self._paper), bell, self._tasks
        )
        self._session.keys = _KEYS
        self.turn = self._session.turn
        self._session.on_opened = self._on_opened
        self._session.on_answered = lambda reply: self._tasks.spawn(self._settle(reply))
        self._session.on_lacking = self._set_up
        self._session.on_end = lambda tally: None  # the bell tells it
        self._session.on_failed, self._session.on_unread = self._on_failed, self._on_unread
        self._terminal.prompt = lambda: self._label if self._listens and self._rests else ""
        self._listens = False  # a message can be typed
        self._ready = asyncio.Event()
        self._floor = asyncio.Lock()  # held by the open question
        self._order = asyncio.Lock()  # held by the line that is carried out
        self._batch: list[str] = []
        self._batch_end: asyncio.TimerHandle | None = None
        self._leaving: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._quits_at = 0.0

    @property
    def _label(self) -> str:
        near = self._paper.near
        return PROMPT if near == ROOT else f"You to {near}> "

    @property
    def _rests(self) -> bool:
        """True while a session waits for a message, or none could be opened."""
        return (self._session.ready or self._session.failed) and not self._session.busy

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        for number in (signal.SIGHUP, signal.SIGTERM):
            loop.add_signal_handler(number, self._end, 128 + number)
        loop.set_exception_handler(self._tasks.on_defect)
        self._terminal.start()
        self._tasks.spawn(self._live())
        try:
            code = await self._leaving
        finally:
            if (agent := self._session.running) is not None and self._session.elsewhere is None:
                agent.interrupt()  # so that its call counts as ended by a person, not as lost
            await self._tasks.close()
        if code < 128 and (farewell := self._session.farewell().strip("\n")):
            self._terminal.write(farewell)
        return code

    async def _live(self) -> None:
        try:
            settings = await asyncio.to_thread(self._load)
            self.use(settings)
            settings, notice = await settle_trust(settings, self.write, self.pick, 100)
            self.use(settings)
            if notice:
                self.say(notice)
            notices: list[str] = []
            found = await asyncio.to_thread(all_commands, settings, notices)
            self.commands = Commands(found, self._own_commands())
            for text in notices:
                self.say(text)
            if self._choosing:
                if (path := await choose_session(self)) is None:
                    self.say("No session was chosen.")
                    self._end(0)
                    return
                self.use(replace(settings, session=path))
        except SagentError as error:
            self.say(f"sagent: {error}")
            self._end(2)
            return
        self._ready.set()
        self._listens = True
        await self._session.run(self._approve, self._answer)

    def _end(self, code: int) -> None:
        if not self._leaving.done():
            self._leaving.set_result(code)

    # -- lines

    def _take(self, line: str) -> None:
        """Take a line. Lines that come together are one message."""
        self._batch.append(line)
        if self._batch_end is not None:
            self._batch_end.cancel()
        self._batch_end = asyncio.get_running_loop().call_later(PASTE_SECONDS, self._take_batch)

    def _take_batch(self) -> None:
        lines, self._batch, self._batch_end = self._batch, [], None
        if lines and lines[-1].endswith("\\"):  # the message goes on
            self._batch = lines
            return
        text = "\n".join(line.removesuffix("\\") for line in lines)
        together = len(lines) == 1 or not any(map(split_command, lines))
        for each in (text,) if together else lines:
            self._carry_out(each)

    def _carry_out(self, text: str) -> None:
        if not (asked := text.strip()):
            self._terminal.invite()
            return
        self._forget_quitting()
        if found := split_command(f"/{_WORDS[asked.lower()]}" if asked.lower() in _WORDS else text):
            at_once = self.known(found[0]) in _AT_ONCE
            self._tasks.spawn(self._command(*found) if at_once else self._in_order(self._command(*found)))
        elif text.startswith("!") and asked[1:] and "\n" not in text:
            self._tasks.spawn(self._in_order(self._run_shell(text[1:].strip())))
        elif text.startswith("#") and text[1:2] not in ("", "#", "!") and "\n" not in text:
            self._tasks.spawn(self._in_order(self._add_note(text)))
        elif self._session.failed:
            self.say("Not sent: there is no session yet.")
        else:
            self._tasks.spawn(self._in_order(self._send(text, now=False)))

    async def _in_order(self, work: Awaitable[None]) -> None:
        await self._ready.wait()
        async with self._order:
            await work

    def _on_opened(self, opened: "Opened") -> None:
        self._tasks.spawn(self._add_prompts(opened))
        while opened.surface.first:
            self._tasks.spawn(self._begin_with(*opened.surface.first.pop()))

    async def _begin_with(self, name: str, text: str) -> None:
        await self._ready.wait()
        await self._session.settled.wait()
        await self._command(name, text)

    async def _command(self, name: str, text: str) -> None:
        try:
            await run_command(self, name, text)
        except (SagentError, OSError, ValueError) as error:
            self._tasks.report(error)
        self._terminal.invite()

    async def _send(self, text: str, *, now: bool) -> None:
        wrong = list[str]()
        message = user(text)
        if names := mentioned(text):
            surface = self._session.opened.surface if self._session.ready else None
            known = [name for name in names if surface is not None and surface.has(name)]
            parts, wrong = await asyncio.to_thread(attach, text, self._session.cwd, known)
            for name in known:
                parts += await self._session.opened.surface.read(name)
            message = user(text, *parts)
        for sentence in wrong:
            self._paper.write(Report(sentence, "warning"))
        if (near := self._paper.near) != ROOT:
            if not self._session.send_to(near, message, text):
                self.say(f"{near} has ended, so that was not sent; /enter root goes back.")
            return
        if not self._session.ready:
            self.say("Kept until the session is open.")
        elif self._session.busy and not now:
            self.say("Queued for the end of the turn. /now TEXT sends at once, /stop ends the turn.")
        else:
            self._paper.said = text
        self._session.send(message, text, when_idle=not now)

    async def _run_shell(self, command: str) -> None:
        from sagent.repl.shell import run_shell
        from sagent.tools.capture import without_colours

        self.require_here("!command")
        code, output = await run_shell(command, self._session.cwd)
        output = without_colours(output)
        self._paper.write(Shell(command, output, code))
        self._session.add_context(f"I ran `{command}` (exit {code}):\n{output[-20_000:]}", SHELL)

    async def _add_note(self, text: str) -> None:
        """Write a note into the project's instructions if the person agrees, or send it as a message."""
        from sagent.repl.terminal.picker import Option

        note, cwd = text[1:].strip(), self._session.cwd
        ways = (("note", "yes, write it there"), ("message", "no, send it as a message"), ("", "neither"))
        options = [Option(way, words) for way, words in ways]
        try:
            self.require_here("#note")
            name = instructions_file(cwd).name
            said = await self.pick(f"Write into {name}, for every session to come: {note}", options)
            if said == "note":
                path = await asyncio.to_thread(add_note, cwd, note)
                self.say(f"The note is in {path}")
                self._session.add_context(f"Remember (I have added it to {path.name}): {note}", NOTE)
            elif said == "message":
                await self._send(text, now=False)
        except (SagentError, OSError) as error:
            self._tasks.report(error)
        self._terminal.invite()

    def _on_input_end(self) -> bool:
        """Leave; a remote session goes on, with its questions open for others."""
        if self._batch_end is not None:
            self._batch_end.cancel()
            self._take_batch()
        if self._session.elsewhere is not None:
            self._end(0)
            return False
        self._tasks.spawn(self._in_order(self._leave_when_idle()))
        return True

    async def _leave_when_idle(self) -> None:
        """Leave at the end of the turn that is in progress, and of those that were queued."""
        self._listens = False
        while self._session.elsewhere is None and (self._session.busy or self._session.outbox.waits):  # noqa: ASYNC110 -- a turn has several ends
            await asyncio.sleep(LEAVE_SECONDS)
        self._end(0)

    def _interrupt(self) -> None:
        """Stop the turn, close the open question, or quit if pressed twice."""
        self._terminal.interrupted()
        if self._paper.near != ROOT and self._session.stop_agent(self._paper.near):
            self.say(f"Interrupting {self._paper.near}.")
        elif (agent := self._session.running) is not None:
            outbox = self._session.outbox
            self._on_unread([*outbox.take_back(ROOT, agent), *iter(outbox.recall, None)])
            agent.interrupt()
            self.say("Interrupting.")
        elif self._terminal.answer(None):
            pass
        elif time.monotonic() - self._quits_at < QUIT_SECONDS:
            self._end(128 + signal.SIGINT)
        else:
            self._quits_at = time.monotonic()
            self.say("Ctrl-C again quits.")

    def _forget_quitting(self) -> None:
        self._quits_at = -QUIT_SECONDS

    # -- sessions

    async def _add_prompts(self, opened: "Opened") -> None:
        self._terminal.invite()
        if opened.surface.sources:
            self.commands = Commands(await prompt_commands(opened), self.commands)

    def _set_up(self) -> None:
        if "setup" in self.commands:
            self._tasks.spawn(self._in_order(self._command("setup", "")))
        else:
            self.say("To enter a key: /login. To use a server on this machine: /login local")

    def _on_unread(self, texts: list[str]) -> None:
        for text in filter(None, texts):
            self.say(f"Not sent, type it again if it still holds: {text}")

    def _on_failed(self, failure: "Failure") -> None:
        from sagent.repl.recovery import RAISE, RETRY, raised, ways_on

        _, ways = ways_on(failure, self.opened)
        more = raised(failure, self.opened)
        words = {RETRY: "/retry", RAISE: f"/cost {more} and /retry"}
        texts = [words.get(way.value, way.value) for way in ways]
        if found := [text for text in texts if text and self.known(text[1:].split()[0])]:
            self.say(f"To go on: {', '.join(found)}.")

    # -- questions

    async def _approve(self, call: "ToolCall", ask: "Ask") -> "str | Allow | None":
        async with self._floor:
            return await self._put_approval(call, ask)

    async def _put_approval(self, call: "ToolCall", ask: "Ask") -> "str | Allow | None":
        from sagent.policy import Allow
        from sagent.policy.rules import rules_for
        from sagent.repl.terminal.approval import allow_rules, approval_options, scope_text
        from sagent.repl.terminal.precedents import rules_text
        from sagent.repl.view.calls import read_text

        rules, cwd, elsewhere = rules_for(ask), self.settings.cwd, self.elsewhere
        command = as_str(call.arguments.get("command"))
        editable: tuple[Answer, ...] = ("edit",) if command and "\n" not in command and call.id else ()
        more: tuple[Answer, ...] = ("explain", *editable) if elsewhere is None else ()
        options = approval_options(rules, can_save=elsewhere is None, more=more)
        read = partial(read_text, cwd) if elsewhere is None else elsewhere.read
        matched = await asyncio.to_thread(rules_text, rules, call, self.opened.agent, cwd) if rules else ""
        scope = "".join(scope_text(rules, ask, matched, can_save=elsewhere is None))
        rows = (approval_text(call, ask, read), f"  {scope}", *option_texts(options, keys=True))
        words = {word: option.value for option in options for word in (option.key, option.value)} | {"yes": "once"}
        label = f"{', '.join(option.key for option in options)}, or why not: "
        while True:
            said = (await self._terminal.ask("\n".join(rows), label)).strip()
            match words.get(said.lower()):
                case "once":
                    return None
                case "session" | "always" as answer:
                    for text, _ in allow_rules(self, rules, always=answer == "always"):
                        self.say(text)
                    return None
                case "edit":
                    changed = await self._terminal.ask(f"The command: {command}", "New command, or Enter to leave it: ")
                    if (changed := changed.strip()) and changed != command.strip():
                        return Allow(json_freeze_object({**call.arguments, "command": changed}))
                case "explain":
                    from sagent.repl.explaining import explain

                    self._terminal.write(said_text(await explain(self.local, call, ask, MAX_COLUMNS)))
                case "no":
                    return "The person said no."
                case _:  # an unoffered answer is no yes
                    return f"The person said no: {said}" if said else "The person said no."

    async def _answer(self, question: "Question") -> str | None:
        async with self._floor:
            if question.plan:
                settled = await self._decide(f"The plan:\n{question.plan}")
                return None if settled is None else settled.answer()
            many = "numbers" if question.multiple else "a number"
            label = f"Answer with {many}, or in your words: " if question.options else "Your answer: "
            return question.read(await self._terminal.ask(question_text(question), label))

    async def _decide(self, shown: str) -> "PlanDecision | None":
        """Ask the person about a plan that is shown; None if they leave it open."""
        from sagent.tools.plan import PlanDecision

        ways = "  y: carry it out, and ask before every change\n  e: carry it out, and edit in the project freely"
        said = (await self._terminal.ask(f"{shown}\n{ways}", "y, e, or why not: ")).strip()
        if not said:
            return None
        if said.lower() not in ("y", "yes", "e"):
            return PlanDecision(None, reason=said)
        settled = PlanDecision("edit" if said.lower() == "e" else "ask")
        assert settled.mode is not None
        self._session.leave_planning(settled.mode)
        return settled

    async def _settle(self, reply: "Message") -> None:
        """Have the person decide on the plan in an answer, and the model carry it out."""
        from sagent.context.plan import plan_in

        if plan_in(reply):
            async with self._floor:
                settled = await self._decide("Carry out this plan?")
            if settled is not None:
                self.prompt(settled.reason if settled.mode is None else settled.order())

    async def pick(
        self, title: "str | Shown", options: "Sequence[Option[T]]", lookup: "Lookup[T] | None" = None
    ) -> T | None:
        """Let the person choose by number; a long list comes in parts, and words narrow it."""
        self._terminal.write((title if isinstance(title, str) else page_text(title(100))).removeprefix("? "))
        numbered = list(zip(range(1, len(options) + 1), option_texts(options, keys=False), options, strict=True))
        shown, at = numbered, 0
        while True:
            part, left = shown[at : at + PAGE], len(shown) - at - PAGE
            self._terminal.write("\n".join(text for _, text, _ in part))
            more = f"; Enter for {left} more" if left > 0 else ""
            said = await self._terminal.read(f"Number, or words to find{more}: ")
            if said is None or (not said.strip() and left <= 0):
                return None
            if not (said := said.strip()):
                at += PAGE
                continue
            for number, _, option in numbered:
                if said in (str(number), option.label) or (option.key and said.lower() == option.key):
                    return option.value
            found = [each for each in numbered if all(word in each[1].lower() for word in said.lower().split())]
            if not found:
                self.say(f"Nothing in the list has {said!r}; numbers are 1 to {len(options)}.")
            shown, at = found or shown, 0 if found else at

    async def line(self, label: str, *, secret: bool = False) -> str | None:
        return await self._terminal.read(f"{label.rstrip(': ›')}: ", secret=secret)

    # -- what slash commands work with

    def _write(self, text: str) -> None:
        self._terminal.write(text)

    def write(self, lines: "Sequence[Line]") -> None:
        self._terminal.write(page_text(lines))

    def use(self, settings: "Settings") -> None:
        self._session.use(settings)

    @property
    def settings(self) -> "Settings":
        return self._session.settings

    @property
    def opened(self) -> "Opened":
        return self._session.opened

    def prompt(self, text: str) -> None:
        self._session.send(user(text), text, when_idle=True)

    def rewound(self, text: str) -> None:
        if text:
            self._terminal.write(f"Your message there was: {text}")

    def reopen(self, settings: "Settings", choices: "SessionChoices | None" = None, shown_instead: str = "") -> None:
        self._session.reopen(settings, choices, shown_instead)
        self._paper.follow(ROOT)

    def enter(self, agent: str) -> None:
        if (node := self.opened.agent.tree.get(agent)) is None:
            raise UsageError(f"{agent} has ended.")
        if agent == self._paper.near:
            raise UsageError(f"You are following {agent} already.")
        back = agent == ROOT
        if not back:
            self._paper.write(*past_blocks(node.messages, ROOT))
        self.say(
            f"Back with {agent}." if back else f"Following {agent}: what you type goes to it. /enter root goes back."
        )
        self._paper.follow(agent)

    def copy(self, text: str) -> None:
        if os.environ.get("TERM") == "dumb" or not sys.stdout.isatty():
            raise UsageError("There is no clipboard here. `/export md` writes the conversation into a file.")
        self._terminal.send(osc52(text))

    def recall(self, limit: int) -> None:
        messages = self.opened.agent.messages
        self._paper.write(*past_blocks(messages, ROOT, limit))
        self.say(f"Those were the last {min(limit, len(messages))} of {len(messages)} messages.")

    def leave(self) -> None:
        if self._session.busy and self._session.elsewhere is None:
            self.say("It ends when the turn has ended; /stop ends the turn.")
        self._tasks.spawn(self._leave_when_idle())

    def _own_commands(self) -> Mapping[str, Command]:
        """Return the commands that stand for keys."""

        @command(name="now")
        async def send_now(context: CommandContext, text: str) -> None:
            """Send a message that the agent reads before its next step.

            Calls that are running continue in the background."""
            del context
            await self._send(text, now=True)

        @command()
        async def background(context: CommandContext) -> None:
            """Let running calls continue in the background."""
            context.opened.agent.apply(Background())

        @command()
        async def show(context: CommandContext, number: str = "1") -> None:
            """Show the last call in full.

            /show 2 shows the one before it."""
            calls = self._paper.calls
            if not number.isdecimal() or not 0 < int(number) <= len(calls):
                raise UsageError(f"There are {len(calls)} calls to show." if calls else "There was no call yet.")
            context.say(call_text(calls[-int(number)], whole=True))

        @command()
        async def retry(context: CommandContext) -> None:
            """Ask the model again, after a turn that failed."""
            del context
            self._session.retry()

        return {each.name: each for each in (send_now, background, show, retry)}
