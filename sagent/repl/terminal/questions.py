"""Questions to the person, one at a time: lists, lines to type, approvals of calls, questions of agents."""

import asyncio
import math
import os
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, TypeVar

from sagent.lib.json import as_str, json_freeze_object
from sagent.lib.text import main_argument, one_line, spelled
from sagent.messages import ToolCall
from sagent.policy import Allow
from sagent.policy.rules import rules_for
from sagent.repl.terminal.approval import Answer, approval_options, is_project_edit, scope_text
from sagent.repl.terminal.picker import MAX_QUERY_CHARS, Lookup, Option, Picker, SecondKey, Shown, Stop, narrowed
from sagent.repl.terminal.screen import Screen
from sagent.repl.view.lines import Line, wrap

if TYPE_CHECKING:
    from sagent.policy import Ask
    from sagent.tools.ask import Question

T = TypeVar("T")
LETTER_SECONDS = 0.4  # without another key, after which a letter is a choice
LOOKUP_DELAY_SECONDS = 0.15  # without a key, before a look-up
LATEST_SECONDS = 1.0  # between two look-ups of the latest options
QUIET_SECONDS = 0.7  # without a key and visible, before a question takes keys
_HELD = "(can be answered when you have stopped typing)"
_DRAFT = "(Tab: answer this; what you type stays a message)"
_EDITING: Line = (("class:ask", "? Change the command"), ("class:dim", "  Enter has it judged anew · Esc goes back"))
_ESC = "\x1b"
MAX_SAID_CHARS = 100  # of a refused call
BELL_AFTER_SECONDS = 10.0  # of work, whose end then rings a bell


class Presence:
    """Knows the time of the last key press, and alerts an absent person. `kind` is "off", "bell" or "osc9"."""

    def __init__(self, screen: Screen, kind: Callable[[], str], clock: Callable[[], float] = time.monotonic) -> None:
        self._screen, self._way, self.clock = screen, kind, clock
        self._typed_at = -QUIET_SECONDS
        self._typed = asyncio.Event()
        screen.app.key_processor.after_key_press += self._on_typed

    def _on_typed(self, _: object) -> None:
        self._typed_at = self.clock()
        self._typed.set()

    def unrest(self, since: float) -> float:
        """Return the seconds until nothing was typed, and the screen has not changed, for long enough."""
        return max(self._typed_at, since) + QUIET_SECONDS - self.clock()

    def wake(self) -> None:
        """Make whoever waits for a key check a change that came without one."""
        self._typed.set()

    async def until_typed(self) -> None:
        """Wait for the next key."""
        self._typed.clear()
        await self._typed.wait()

    def ring(self, seconds: float) -> None:
        """Alert a person who looks elsewhere when work ends; after long work also if the focus is unknown."""
        if seconds >= BELL_AFTER_SECONDS or self._screen.focused is False:
            self.call("sagent has finished")

    def call(self, text: str) -> None:
        """Alert a person who looks elsewhere, or has not typed for a while."""
        way, screen = self._way(), self._screen
        away = self.clock() - self._typed_at >= BELL_AFTER_SECONDS if screen.focused is None else not screen.focused
        if way == "off" or not away:
            return
        if way == "osc9":
            note = f"\x1b]9;{text}\x07"
            inside = bool(os.environ.get("TMUX"))  # tmux passes it on if its option allow-passthrough is on
            screen.output.write_raw(f"\x1bPtmux;\x1b{note}\x1b\\" if inside else note)
        screen.output.bell()
        screen.output.flush()


class Questions:
    """Shows questions above the input. A question takes keys once it has been visible for a while, no key was pressed
    meanwhile and the input is empty, or when Tab requests it.

    `read` returns the text of a file that a call would change; `kept` is True if rules can be saved; `allow` receives
    the allowed rules, and True for permanent ones; `matched` describes what else the rules of a call match; `explain`
    has a model say what a call does; `write` prints lines above.
    """

    def __init__(
        self,
        screen: Screen,
        presence: Presence,
        *,
        read: Callable[[str], str | None],
        kept: Callable[[], bool],
        allow: Callable[[Sequence[str], bool], None],
        matched: Callable[[Sequence[str], ToolCall], str],
        write: Callable[[Sequence[Line]], None],
        explain: Callable[[ToolCall, "Ask"], Awaitable[Sequence[Line]]] | None = None,
    ) -> None:
        self._screen, self._presence = screen, presence
        self._matched, self._explain = matched, explain
        self._read, self._kept, self._allow, self._write_above = read, kept, allow, write
        self.picker: Picker[object] | None = None
        self._kept_draft = ""  # the input when the last list was closed: the next one need not wait for it
        self.commanded = False  # while a command of the person's runs
        self.waited = False  # it has had to wait, so a key need not be meant for its list
        self._picked: object = None  # the list that a command has opened last
        self._line: asyncio.Future[str | None] | None = None
        self.about: Line = ()  # subject of the requested line
        self._letter = self._words = ""  # typed at a question: not yet a choice, or its answer
        self._shown_at = self._moved_at = 0.0
        self._unseen = False  # keys may still arrive that were pressed before the question was drawn
        self._withdrawn_at = -QUIET_SECONDS  # when a question last disappeared during typing
        self.whole: Callable[[str], str] = lambda text: text  # returns a text with pastes in place of placeholders
        self._draft = ""  # the input before a question or line used it
        self.lent: list[str] | None = None  # while an editor has the input: texts to return afterwards
        self._waits: object = None  # the last letter that may choose
        screen.resizing.on_resizing = self.release_keys  # until it is visible again
        self._floor = asyncio.Lock()  # held by the open question
        self.asking: list[str] = []  # agents that wait for the person

    # -- what keys do

    @property
    def taking(self) -> Picker[object] | None:
        """The list that keys are for now."""
        return None if self.picker is None or self.picker.held else self.picker

    @property
    def asks(self) -> bool:
        """True while an answer is waited for."""
        return self.picker is not None or self._line is not None

    @property
    def seen(self) -> bool:
        """True if a question has been visible for a while."""
        return self.picker is not None and self._presence.clock() - self._shown_at >= QUIET_SECONDS

    @property
    def withdrawn(self) -> bool:
        """True if a question disappeared a moment ago while an answer was typed: an Enter is still meant for it."""
        return self._presence.clock() - self._withdrawn_at < QUIET_SECONDS

    @property
    def wording(self) -> bool:
        """True if the typed text answers a question."""
        return self._line is not None or ((picker := self.taking) is not None and picker.words)

    @property
    def leaving(self) -> str:
        """Effect of Esc while a question has the keys; "" otherwise."""
        if (picker := self.taking) is None:
            return "leaves it" if self._line is not None else ""
        return picker.leaving

    def take_keys_if_idle(self) -> None:
        """Give a question the keys if nobody has typed for a while and the input is empty."""
        picker, text = self.picker, self._screen.buffer.text
        if picker is not None and picker.held:
            away = self._screen.unseen or self._line is not None
            if not text and not away and self._presence.unrest(self._shown_at) <= 0:
                self.take_up()
            else:
                picker.held, picker.listed = _DRAFT if text else _HELD, bool(text)

    def take_up(self) -> None:
        """Have the question take keys now."""
        if (picker := self.picker) is None or not picker.held or self._line is not None:
            return
        picker.held, self._letter = "", ""
        picker.begin()
        if picker.words:
            self._draft, self._screen.line.label = self._screen.buffer.text, "answer › "
            self._screen.buffer.reset()
        self._screen.redraw()

    def release_keys(self) -> None:
        """Give the keys back to the input, unless they are the question's answer."""
        letter, self._letter = self._letter.strip(_ESC), ""
        if letter:
            self._screen.buffer.insert_text(letter)
        if self.picker is not None and self.picker.keys and not self.picker.words:
            self.picker.held, self.picker.listed = _DRAFT, True
            self._presence.wake()

    def begin_anew(self) -> None:
        """Give back a key pressed while the process was stopped: its answer was not on the screen."""
        self.release_keys()
        self._screen.app.key_processor.after_key_press.fire()  # whoever brought it back has typed that

    def type(self, text: str) -> None:
        """Handle a letter while a question has the keys: it chooses an answer if no other key follows at once;
        otherwise it begins a text. So a person who starts to write does not allow a call by the first letter."""
        letter, self._letter = self._letter, ""
        picker, written = self.picker, self._screen.buffer.text
        if text == " " and picker is not None and picker.ticked is not None and not letter and not written:
            picker.type(text)  # at once, because a tick is no answer yet
        elif letter or self._unseen or (written and picker is not None and picker.words):
            self._write(letter.strip(_ESC) + text)
        else:
            self._wait(text)

    def act(self) -> None:
        """Carry out the action of a list's second key."""
        if self.picker is not None and not self._unseen:
            self.picker.act()

    def _write(self, text: str) -> None:
        self.release_keys()
        self._screen.buffer.insert_text(text)

    def _wait(self, letter: str) -> None:
        """Wait, and let a letter choose if no other key follows."""
        self._letter = letter
        picker, waits = self.picker, object()
        self._waits = waits

        def choose() -> None:
            if picker is not None and self.picker is picker and self._letter == letter and self._waits is waits:
                self._letter = ""
                if letter == _ESC:
                    picker.take()
                elif not picker.type(letter):
                    self._write(letter)
                self._screen.redraw()

        asyncio.get_running_loop().call_later(LETTER_SECONDS, choose)

    def leave(self) -> None:
        """Leave the question unanswered, unless Esc begins another, perhaps slow, key. Twice needs no wait."""
        if (picker := self.picker) is None:
            return
        if picker.keys and self._letter != _ESC:
            self._wait(_ESC)
        else:
            picker.take()

    def drop(self) -> bool:
        """Treat a letter as the start of a text, because another key follows; return False if there was none."""
        if letter := self._letter:
            self.release_keys()
        return bool(letter)

    def move(self, step: int) -> None:
        """Select another choice."""
        if (picker := self.picker) is not None and not self.drop():
            picker.move(step)
            self._moved_at = self._presence.clock()

    def enter(self) -> None:
        """Answer with the typed text, or with an option selected for a while; an Enter after a letter does nothing."""
        if (picker := self.picker) is None or self._unseen:
            return
        text, self._words = self.whole(self._screen.buffer.text).strip(), ""
        if self._letter == _ESC:
            self.drop()
        elif picker.keys and self._letter:
            self._wait(self._letter)
        elif picker.words and text:
            self._screen.buffer.reset()
            self._words = text
            picker.take()
        elif picker.words or not picker.keys or self._presence.clock() - self._moved_at >= LETTER_SECONDS:
            picker.enter()  # not for keys that resend an earlier message: Up, Up, Enter

    def read_on(self, step: int) -> None:
        """Scroll a question that does not fit."""
        if (picker := self.picker) is not None:
            picker.read_on(step)

    def expand(self) -> bool:
        """Print all of an open question above; return False if none is open."""
        if (picker := self.picker) is not None:
            self._write_above(picker.whole(self._screen.surface.width))
        return self.picker is not None

    def take_line(self, text: str | None) -> bool:
        """Answer a requested line, None if the person leaves it; return False if none was requested."""
        if self._line is None:
            return False
        if text is not None:
            self._screen.buffer.reset()
        if not self._line.done():
            self._line.set_result(text)
        return True

    # -- lists and lines

    async def pick(
        self,
        title: str | Shown,
        options: Sequence[Option[T]],
        lookup: Lookup[T] | None = None,
        second: SecondKey[T] | None = None,
    ) -> T | None:
        """Let the person choose: from a list, with an optional look-up and second key, or by a key below a text. None
        for no choice."""
        if isinstance(title, str):
            picker = Picker([(("class:ask", f"? {title}"),)], options, lookup=lookup, second=second)
        else:
            picker = Picker(title, options, keys=True, leaving="leaves it")
        typed = self._screen.buffer.text
        late = self.asks or self.waited or (bool(typed) and typed != self._kept_draft)  # used otherwise by now
        begun = "" if self.asks or picker.keys or not (late and self.commanded and narrowed(options, typed)) else typed
        if begun:  # since the command, to narrow its list
            picker.query, late = begun[:MAX_QUERY_CHARS], False
            self._screen.buffer.reset()
        self._picked = picker
        looking = None if lookup is None else asyncio.create_task(self._look_up(picker, lookup))
        try:
            await (self._put(picker) if late else self._open(picker))
        finally:
            if looking is not None:
                looking.cancel()
        if begun and picker.chosen.result() is None:
            self.give_back(begun)  # it was perhaps the beginning of a message
        return picker.chosen.result()

    def leave_list(self) -> None:
        """Close the list of an earlier command without a choice."""
        if (picker := self.picker) is not None and picker is self._picked:
            picker.take()

    async def _look_up(self, picker: Picker[T], lookup: Lookup[T]) -> None:
        """Look up further options whenever no key was pressed for a moment; the next key ends that."""
        while True:
            typed = asyncio.create_task(self._presence.until_typed())
            try:
                if not (await asyncio.wait([typed], timeout=LOOKUP_DELAY_SECONDS))[0]:
                    await self._describe(picker, lookup, typed.done)
                    await self._search(picker, lookup, typed.done)
                    await self._describe(picker, lookup, typed.done)
                while lookup.latest is not None and not (await asyncio.wait([typed], timeout=LATEST_SECONDS))[0]:
                    picker.renew(await asyncio.to_thread(lookup.latest))
                    picker.about.clear()
                    await self._describe(picker, lookup, typed.done)
                await typed
            finally:
                typed.cancel()

    async def _describe(self, picker: Picker[T], lookup: Lookup[T], stop: Stop) -> None:
        if (option := picker.at_hand) is not None and option.value not in picker.about and not stop():
            about = await asyncio.to_thread(lookup.describe, option.value, stop)
            if not stop():
                picker.about[option.value] = about
                self._screen.redraw()

    async def _search(self, picker: Picker[T], lookup: Lookup[T], stop: Stop) -> None:
        query = picker.query
        if query != picker.sought and not stop():
            found = await asyncio.to_thread(lookup.search, query, stop)
            if not stop():
                picker.sought, picker.found = query, found
                self._screen.redraw()

    async def choose(self, title: str, options: Sequence[Option[T]], *, row: bool = False) -> T | None:
        """Let the person choose by a key; None for no choice. With `row`, the choices stand on one line."""
        asked = partial(wrap, [("class:ask", title)], first=(("class:ask", "? "),))
        picker = Picker(asked, options, keys=True, row=row, leaving="leaves it")
        async with self._floor:
            await self._put(picker)
        return picker.chosen.result()

    async def line(
        self,
        label: str,
        *,
        secret: bool = False,
        text: str = "",
        about: Line = (),
        left: Callable[[str], None] | None = None,
    ) -> str | None:
        """Let the person type a line, or change a `text`, below its subject `about`; None if they leave it, or another
        line is open. A text that is then no answer returns to the input, or is `left`."""
        while (picker := self.taking) is not None:
            await asyncio.wait([picker.chosen])
            await asyncio.sleep(0)
        if self._line is not None:
            return None
        buffer, screen = self._screen.buffer, self._screen
        self._draft, self._line = buffer.text, asyncio.get_running_loop().create_future()
        buffer.reset()
        if text:
            screen.replace_text(text)
        screen.line.label, screen.line.secret, self.about = label, secret, about
        screen.redraw()
        said: str | None = None
        try:
            said = await self._line
        finally:
            if self._line.cancelled() and (self._draft or buffer.text):
                self._withdrawn_at = self._presence.clock()
            self._line, self.about = None, ()
            screen.line.label, screen.line.secret = screen.line.home, False
            words = "" if secret or buffer.text == text else buffer.text
            if left is not None and said is None and words:
                left(self.whole(words))
                words = ""
            self._return_draft(words)
            screen.redraw()
        return said

    def give_back(self, text: str) -> None:
        """Put text into the input before its contents; while an answer is typed, before the saved draft."""
        picker = self.picker
        if self.lent is not None:
            self.lent.append(text)
        elif self._line is not None or (picker is not None and picker.words and not picker.held):
            self._draft = _joined(text, self._draft)
        else:
            self._screen.replace_text(_joined(text, self._screen.buffer.text))

    def _return_draft(self, words: str) -> None:
        """Restore the earlier draft to the input, with a text that was no answer."""
        if self.lent is None:
            self._screen.replace_text(_joined(self._draft, words))
        else:  # the editor has the input
            self.lent.append(self._draft)

    async def _open(self, picker: "Picker[T]") -> None:
        """Show a list until the person has chosen or left."""
        await self._until_free()
        self.picker = picker  # pyright: ignore[reportAttributeAccessIssue] -- what it chooses is of no concern there
        self._unseen = not picker.held
        watching = asyncio.create_task(self._watch(picker))
        self._screen.redraw()
        try:
            await asyncio.wait([picker.chosen])
        finally:
            watching.cancel()
            typed = self._screen.buffer.text or (self._draft if picker.words else "")
            if typed and not picker.held and not picker.chosen.done():
                self._withdrawn_at = self._presence.clock()
            picker.take()
            self.picker, self._kept_draft = None, self._screen.buffer.text
            self._screen.redraw()

    async def _until_free(self) -> None:
        while (open_ := self._line if self.picker is None else self.picker.chosen) is not None:
            await asyncio.wait([open_])
            await asyncio.sleep(0)

    async def _put(self, picker: "Picker[T]") -> str:
        """Show a question and return the choice or typed answer; the draft in the input is kept."""
        await self._until_free()
        self._presence.call("sagent asks")
        self._words, self._draft, picker.held = "", "", _HELD
        self._shown_at = math.inf  # until it is drawn
        try:
            await self._open(picker)
        finally:
            if picker.words and not picker.held:
                self._screen.line.label = self._screen.line.home
                self._return_draft(self._screen.buffer.text)
        return self._words

    async def _watch(self, picker: "Picker[T]") -> None:
        """Let a question take keys as soon as nobody types; a list when it is drawn and earlier keys are read."""
        await (self._screen.until_seen() if picker.held else self._screen.until_drawn())
        await asyncio.sleep(0)
        self._unseen, self._shown_at = False, self._presence.clock()
        away = False
        while not picker.chosen.done():
            held, before, away = picker.held, away, self._screen.unseen
            if before and not away:  # until now it was not to be seen
                self._shown_at = math.inf
                await self._screen.until_seen()
                self._shown_at = self._presence.clock()
            self.take_keys_if_idle()
            if picker.held != held:
                self._screen.redraw()
            left = QUIET_SECONDS if away else self._presence.unrest(self._shown_at)
            if left > 0:
                await asyncio.sleep(left)
            else:
                await self._presence.until_typed()

    # -- calls to approve

    async def approve(self, call: ToolCall, ask: "Ask") -> str | Allow | None:
        """Have the person approve a call: None is yes, a text the reason for no, and Allow has a changed command."""
        with self.counted(ask.agent):
            async with self._floor:
                return await self._put_approval(call, ask)

    @contextmanager
    def counted(self, agent: str) -> Generator[None]:
        """Count an agent among those that wait for the person."""
        self.asking.append(agent)
        self._screen.redraw()
        try:
            yield
        finally:
            self.asking.remove(agent)
            self._screen.redraw()

    async def _put_approval(self, call: ToolCall, ask: "Ask") -> str | Allow | None:
        from sagent.repl.view.calls import render_approval

        rules, waiting = rules_for(ask), len(self.asking) - 1
        here, command = self._kept(), as_str(call.arguments.get("command"))
        place = self._screen.surface.directory
        edits = bool(rules) and place is not None and is_project_edit(call, place())
        offered: Sequence[tuple[Answer, object]] = ("edits", edits), ("edit", command), ("explain", self._explain)
        more: set[Answer] = {answer for answer, there in offered if there and here and call.id}  # not an advisor's stop
        options = approval_options(rules, can_save=here, more=more)
        matched = await asyncio.to_thread(self._matched, rules, call) if rules else ""
        read = cache(self._read)  # the shown file must not change while it is read

        @cache
        def title(width: int) -> Sequence[Line]:
            return render_approval(call, ask, read, width, waiting)

        lead, scope = scope_text(rules, ask, matched, can_save=here, edits="edits" in more)
        foot: Line = (("class:dim", f"  {lead}"), ("class:tool" if rules else "class:dim", scope))
        while True:
            picker: Picker[Answer] = Picker(title, options, foot=foot, keys=True, row=True, leaving="says no")
            await self._put(picker)
            match picker.chosen.result():
                case "once":
                    return None
                case "session" | "always" as answer:
                    self._allow(rules, answer == "always")
                    return None
                case "edits":
                    self._allow(["Edit"], False)  # noqa: FBT003 -- a callback of two values
                    return None
                case "edit":
                    changed = ((await self.line("$ ", text=command, about=_EDITING)) or "").strip()
                    if changed and changed != command.strip():
                        return Allow(json_freeze_object({**call.arguments, "command": changed}))
                case "explain":
                    await self._show_explanation(call, ask)
                case answer:
                    return await self._refuse(call, ask_why=answer == "no")

    async def _show_explanation(self, call: ToolCall, ask: "Ask") -> None:
        """Print what a model says that a call does, which is not made."""
        assert self._explain is not None
        self.about = (("class:ask", "? Asking what it would do …"), ("class:dim", "  it is not run"))
        self._screen.redraw()
        try:
            self._write_above(await self._explain(call, ask))
        finally:
            self.about = ()

    async def _refuse(self, call: ToolCall, *, ask_why: bool) -> str:
        what = spelled(one_line(main_argument(call.arguments), MAX_SAID_CHARS))
        no: Line = (("class:ask", "? No to "), ("class:tool", f"{spelled(call.name)} "), ("class:argument", what))
        why = (await self.line("Why not? ", about=no) if ask_why else "") or ""
        return f"The person said no: {why.strip()}" if why.strip() else "The person said no."

    # -- what agents ask

    async def answer(self, question: "Question") -> str | None:
        """Ask the person an agent's question, after the questions that came before it, and return the answer."""
        from sagent.repl.view.calls import render_agents_question

        options = [Option(text, text) for text in question.options]
        ticked: set[int] | None = set() if question.multiple else None
        show, leaving = partial(render_agents_question, question), "leaves it unanswered"
        picker: Picker[str] = Picker(show, options, keys=True, ticked=ticked, words=True, leaving=leaving)
        async with self._floor:
            words = await self._put(picker)
        chosen = picker.chosen.result()
        if words or not chosen or picker.ticked is None:
            return words or chosen or None
        return "\n".join(question.options[number] for number in sorted(picker.ticked))


def _joined(draft: str, words: str) -> str:
    return "\n".join(filter(None, (draft, words)))
