"""When a question takes keys: seen and still for a while, nobody typing, and by keys of its own. The clock is ours."""

import asyncio
import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input
from samples import CALL
from test_painter import Terminal

from sagent.agent import Agent, Resources
from sagent.errors import UsageError
from sagent.lib.json import JsonObject, json_freeze_object
from sagent.messages import ToolCall
from sagent.policy import Allow, Ask, Policy
from sagent.policy.permissions import PermissionPolicy
from sagent.repl.commands.command import CommandContext, command
from sagent.repl.input import InputActions, InputBuffer
from sagent.repl.keys import bind_keys
from sagent.repl.opening import Opened
from sagent.repl.plan import settle_plan
from sagent.repl.session import SessionLoop
from sagent.repl.status import StatusCommand, StatusDisplay
from sagent.repl.tasks import Tasks
from sagent.repl.terminal.approval import approval_options, scope_text
from sagent.repl.terminal.history import ProjectHistory
from sagent.repl.terminal.painter import Painter
from sagent.repl.terminal.picker import Lookup, Option, Picker, SecondKey, Stop, render_picker
from sagent.repl.terminal.questions import LETTER_SECONDS, QUIET_SECONDS, Presence, Questions
from sagent.repl.terminal.screen import Screen
from sagent.repl.terminal.surface import SteadyOutput
from sagent.repl.view.calls import read_text
from sagent.repl.view.lines import Line, line_width, plain
from sagent.repl.view.panel import Figures
from sagent.testing import ScriptedModel
from sagent.tool import Effect, Workspace
from sagent.tools.ask import Question
from sagent.tools.edit import Edit
from sagent.tools.read import Read
from sagent.tools.write import Write
from tests.depth import later
from tests.waiting import until

RULED = Ask("It needs permission.", "Allowed with --allow 'Bash(make test)'.")


class Desk:
    """A screen, its questions, and a clock that goes on when it is told to."""

    def __init__(self, screen: Screen, cwd: Path) -> None:
        self.now, self.screen, self.allowed = 100.0, screen, list[tuple[list[str], bool]]()
        self.presence = presence = Presence(screen, lambda: "off", lambda: self.now)
        self.questions = Questions(
            screen,
            presence,
            read=partial(read_text, cwd),
            kept=lambda: True,
            allow=lambda rules, always: self.allowed.append((list(rules), always)),
            matched=lambda rules, call: f"{', '.join(rules)} · also matches make clean of this session's calls",
            write=lambda lines: None,
        )

    @property
    def keys(self) -> PipeInput:
        assert isinstance(self.screen.app.input, PipeInput)
        return self.screen.app.input

    def bind(self) -> InputActions:
        """Have keys do what they do in the REPL, which has no session."""

        async def opening(*_: object) -> None:
            raise AssertionError

        painter, tasks = Painter(self.screen.surface, self.screen.redraw), Tasks(lambda *_: None)
        status = StatusDisplay(self.screen, painter, self.questions, list)
        session = SessionLoop(opening, painter, status, self.presence, tasks)  # type: ignore[arg-type] -- never opened
        actions = InputActions(
            self.screen, self.questions, CommandContext(), session=session, painter=painter, status=status, tasks=tasks
        )
        self.screen.keys = bind_keys(self.screen, actions)
        return actions

    def press(self) -> None:
        """A key of whatever kind was pressed."""
        self.screen.app.key_processor.after_key_press.fire()

    def write(self, text: str) -> None:
        """The person types into the input."""
        self.screen.buffer.insert_text(text)
        self.press()

    async def wait(self, seconds: float = QUIET_SECONDS) -> None:
        """All is drawn that may be, time passes, and the question looks up."""
        for _ in range(9):
            await asyncio.sleep(0)
        self.now += seconds
        await asyncio.sleep(0)
        self.questions.take_keys_if_idle()

    async def until_lining(self) -> None:
        while self.questions.leaving != "leaves it":
            await asyncio.sleep(0)

    async def ask_which(self) -> "asyncio.Task[str | None]":
        asked = asyncio.create_task(self.questions.answer(Question("root", "Which?", ("red",))))
        while self.questions.picker is None:
            await asyncio.sleep(0)
        return asked

    async def ask(self) -> "asyncio.Task[str | Allow | None]":
        asked = asyncio.create_task(self.questions.approve(CALL, RULED))
        while self.questions.picker is None:
            await asyncio.sleep(0)
        return asked


@asynccontextmanager
async def seated(monkeypatch: pytest.MonkeyPatch, cwd: Path) -> AsyncIterator[Desk]:
    monkeypatch.setattr(SteadyOutput, "_write_all", lambda *_: None)
    monkeypatch.setattr("sagent.repl.terminal.questions.LETTER_SECONDS", 0.0)
    with create_pipe_input() as keys:
        screen = Screen(ProjectHistory(), stdin=keys, stdout=Terminal())
        task = asyncio.create_task(screen.app.run_async(handle_sigint=False))
        while screen.app.renderer.last_rendered_screen is None:
            await asyncio.sleep(0)
        yield Desk(screen, cwd)
        screen.leave()
        await task


async def test_question_takes_keys_after_a_pause(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with seated(monkeypatch, tmp_path) as desk:
        desk.write("deploy it aft")
        asked = await desk.ask()
        await desk.wait()
        assert desk.questions.taking is None  # the draft stands where it was, and keys are for it
        assert desk.screen.buffer.text == "deploy it aft"
        desk.screen.buffer.reset()  # sent
        desk.press()
        await desk.wait(QUIET_SECONDS / 2)
        assert desk.questions.taking is None
        desk.press()
        await desk.wait(QUIET_SECONDS * 0.9)
        assert desk.questions.taking is None  # the person is still at the keys
        await desk.wait(QUIET_SECONDS * 0.2)
        assert desk.questions.taking is not None
        desk.questions.enter()
        await asyncio.sleep(0)
        assert not asked.done()  # Enter alone answers nothing
        desk.questions.type("y")
        assert await asked is None


async def test_question_takes_no_keys_in_resize(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with seated(monkeypatch, tmp_path) as desk:
        await desk.ask()
        await desk.wait()
        assert desk.questions.taking is not None
        desk.screen.app._on_resize()
        assert desk.questions.taking is None
        await desk.wait(60)
        assert desk.questions.taking is None
        while not desk.screen.resizing.fits():
            await asyncio.sleep(0.02)
        await desk.wait()
        assert desk.questions.taking is not None


async def test_slow_drawing_takes_no_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with seated(monkeypatch, tmp_path) as desk:
        monkeypatch.setattr("sagent.repl.terminal.questions.QUIET_SECONDS", 0.0)
        desk.bind()
        await desk.screen.until_drawn()
        asked = await desk.ask()
        pressed = ["y"]

        def draw(_: object) -> None:
            desk.now += 9.0
            desk.keys.send_text("".join(pressed))

        desk.screen.app.before_render += draw
        desk.screen.app.after_render += lambda _: pressed.clear()
        for _ in range(9):
            await asyncio.sleep(0.01)
        assert not asked.done()
        assert desk.screen.buffer.text == "y"


async def test_question_not_yet_drawn_takes_no_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with seated(monkeypatch, tmp_path) as desk:
        desk.screen.output._unsent = b"what came before it"
        await desk.ask()
        await desk.wait(60)
        assert desk.questions.taking is None
        desk.screen.output._unsent = b""
        desk.screen.output.on_taken()
        await desk.wait()
        assert desk.questions.taking is not None


async def test_question_being_written_takes_no_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def answer() -> None:  # as the terminal does, in the order of what was written to it
        desk.keys.send_text("\x1b[>1;10;0c")
        for _ in range(9):
            await asyncio.sleep(0.01)

    async with seated(monkeypatch, tmp_path) as desk:
        await answer()  # it is one that does
        await desk.ask()
        await desk.wait(60)
        assert desk.questions.taking is None
        await answer()
        await desk.wait()
        assert desk.questions.taking is not None
        assert desk.screen.buffer.text == ""


@later
async def test_tab_takes_question_others_go_to_draft(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with seated(monkeypatch, tmp_path) as desk:
        asked = await desk.ask()
        desk.write("a draft")
        desk.questions.take_up()
        for letter in "yet":  # three letters at once are no answer
            desk.questions.type(letter)
        assert desk.questions.taking is None
        await until(lambda: desk.screen.buffer.text == "a draftyet")
        assert not asked.done()
        desk.questions.take_up()
        desk.questions.type("y")
        desk.questions.release_keys()  # a paste follows: the letter was the beginning of a text
        assert desk.screen.buffer.text == "a draftyety"
        desk.questions.take_up()
        desk.questions.type("s")
        assert await asked is None
        assert desk.allowed == [(["Bash(make test)"], False)]
        assert desk.screen.buffer.text == "a draftyety"


async def test_letter_and_enter_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert LETTER_SECONDS >= 0.3  # seconds: so slowly does a person type who is not fast
    async with seated(monkeypatch, tmp_path) as desk:
        asked = await desk.ask()
        await desk.wait()
        for act in (lambda: desk.questions.type("y"), desk.questions.enter, lambda: desk.questions.type("e")):
            act()
        await asyncio.sleep(0.01)
        assert not asked.done()
        assert desk.screen.buffer.text == "ye"
        desk.screen.buffer.reset()
        await desk.wait()
        desk.questions.type("y")
        desk.questions.enter()
        assert await asked is None


async def test_changed_command_is_an_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with seated(monkeypatch, tmp_path) as desk:
        asked = await desk.ask()
        for typed in (None, "make test", "make lint"):  # left, as it was, changed
            await desk.wait()
            desk.questions.type("e")
            await desk.until_lining()
            assert desk.screen.buffer.text == "make test"
            if typed is not None:
                desk.screen.buffer.reset()
                desk.questions.take_line(typed)
                continue
            desk.questions.take_line(None)
            while desk.questions.picker is None:
                await asyncio.sleep(0)
            assert not asked.done()
        said = await asked
        assert isinstance(said, Allow)
        assert said.arguments == {"command": "make lint"}
        assert desk.allowed == []


async def test_explanation_answers_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with seated(monkeypatch, tmp_path) as desk:
        explained = list[ToolCall]()

        async def explain(call: ToolCall, ask: Ask) -> list[Line]:
            explained.append(call)
            return []

        desk.questions._explain = explain
        asked = await desk.ask()
        await desk.wait()
        desk.questions.type("?")
        while not explained:
            await asyncio.sleep(0)
        await desk.wait()
        assert not asked.done()
        desk.questions.type("y")
        assert await asked is None
        assert explained == [CALL]


@pytest.mark.parametrize(("place", "rules"), [("a.py", ["Edit"]), ("../a.py", [])])
async def test_edits_are_allowed_in_project(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str, rules: list[str]
) -> None:
    async with seated(monkeypatch, tmp_path) as desk:
        desk.screen.surface.directory = lambda: tmp_path
        call = ToolCall("c", "Write", JsonObject({"file_path": place, "content": "a"}))
        asked = asyncio.create_task(desk.questions.approve(call, Ask("Why.", "Allowed with --allow 'Edit(/a.py)'.")))
        while desk.questions.picker is None:
            await asyncio.sleep(0)
        await desk.wait()
        desk.questions.type("a")
        assert await asked is None
        assert desk.allowed == [(rules or ["Edit(/a.py)"], not rules)]


def test_missing_answers_are_explained() -> None:
    for remedy, words in (("", "covers"), ("Allowed with --allow 'x'", "written"), ("--allow " + "x" * 9_999, "long")):
        assert words in scope_text([], Ask("Why.", remedy), "", can_save=True)[1]
    assert "elsewhere" in scope_text(["Read"], Ask("Why."), "Read", can_save=False)[1]


async def test_answer_in_words_gives_draft_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with seated(monkeypatch, tmp_path) as desk:
        desk.write("half a message")
        asked = asyncio.create_task(desk.questions.answer(Question("root", "Which?", ("red",))))
        while desk.questions.picker is None:
            await asyncio.sleep(0)
        await desk.wait()
        assert desk.screen.line.label == "› "
        desk.questions.take_up()
        assert (desk.screen.line.label, desk.screen.buffer.text) == ("answer › ", "")
        for letter in "blue":
            desk.questions.type(letter)
        desk.questions.enter()
        assert await asked == "blue"
        assert (desk.screen.line.label, desk.screen.buffer.text) == ("› ", "half a message")


@pytest.mark.costly
@pytest.mark.parametrize("leave", ["Esc", "withdrawn", "answered"])
async def test_withdrawn_words_return_to_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, leave: str) -> None:
    async with seated(monkeypatch, tmp_path) as desk:
        desk.write("half a message")
        asked = await desk.ask()
        desk.questions.take_up()
        desk.questions.type("n")
        await desk.until_lining()
        desk.write("because")
        match leave:
            case "Esc":
                desk.questions.take_line(None)
            case "withdrawn":
                asked.cancel()
            case _:
                desk.questions.take_line("so")
                desk.write("because")  # in one piece with the line's end
        said = (await asyncio.gather(asked, return_exceptions=True))[0]
        assert leave == "withdrawn" or said == "The person said no" + (": so" if leave == "answered" else ".")
        assert desk.screen.buffer.text == "half a message\nbecause"
        desk.screen.replace_text("half a message")
        answering = asyncio.create_task(desk.questions.answer(Question("root", "Which?", ("red",))))
        while desk.questions.picker is None:
            await asyncio.sleep(0)
        desk.questions.take_up()
        desk.write("blue")
        if leave == "Esc":
            desk.questions.picker.take()
        else:
            answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)
        assert desk.screen.buffer.text == "half a message\nblue"
        key = asyncio.create_task(desk.questions.line("Key: ", secret=True))
        await desk.until_lining()
        desk.write("s3cret")
        desk.questions.take_line(None)
        await key
        assert "s3cret" not in desk.screen.buffer.text


@pytest.mark.parametrize("times", [1, 2])
async def test_withdrawn_plan_words_return_to_input(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, times: int
) -> None:
    async def edit(text: str) -> str:
        raise AssertionError(text)

    async with seated(monkeypatch, tmp_path) as desk:
        desk.questions.whole = lambda text: text.replace("[Pasted]", "pasted.")
        settling = asyncio.create_task(settle_plan("One step.", desk.questions, edit, lambda plan: None))
        for _ in range(times):
            desk.questions.take_line(None)
            while desk.questions.picker is None:
                await asyncio.sleep(0)
            await desk.wait()
            desk.questions.type("i")
            while desk.screen.line.label != "plan › ":
                await asyncio.sleep(0)
            desk.write(" [Pasted]")
        desk.questions.give_back("words of a message")  # they are no part of the plan
        settling.cancel()
        await asyncio.gather(settling, return_exceptions=True)
        assert desk.screen.buffer.text == f"One step.{' pasted.' * times}\nwords of a message"
        assert desk.questions.withdrawn  # an Enter that was meant for it sends nothing


async def test_withdrawn_in_editor_keeps_draft(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with seated(monkeypatch, tmp_path) as desk:
        actions = desk.bind()
        for ask, key in ((desk.ask, "n"), (desk.ask_which, "")):
            desk.screen.replace_text("half a message")
            asked = await ask()
            desk.questions.take_up()
            if key:
                desk.questions.type(key)
                await desk.until_lining()
            desk.write("because")
            with actions._in_editor():
                asked.cancel()
                await asyncio.gather(asked, return_exceptions=True)
                desk.screen.buffer.text = "because of that"  # as the editor leaves it
            assert desk.screen.buffer.text == "half a message\nbecause of that"


async def test_enter_for_withdrawn_question_is_dropped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with seated(monkeypatch, tmp_path) as desk:
        actions = desk.bind()
        desk.write("half a message")
        for keys in ((), ("n",)):
            asked = await desk.ask()
            desk.questions.take_up()
            for key in keys:
                desk.questions.type(key)
                await desk.until_lining()
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
            actions.submit("now")
            assert desk.screen.buffer.text == "half a message"
        await desk.wait()
        asked = await desk.ask()
        asked.cancel()  # it took no keys yet
        await asyncio.gather(asked, return_exceptions=True)
        actions.submit("now")
        desk.screen.replace_text("")
        asked = await desk.ask()
        await desk.wait()
        asked.cancel()  # it took keys, and nothing was typed for it
        await asyncio.gather(asked, return_exceptions=True)
        desk.write("another")
        actions.submit("now")
        assert [wait.text for wait in actions._session.outbox.queued] == ["half a message", "another"]


async def test_options_ticked_at_typing_speed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with seated(monkeypatch, tmp_path) as desk:
        question = Question("root", "Which?", ("red", "green", "blue"), multiple=True)
        asked = asyncio.create_task(desk.questions.answer(question))
        while desk.questions.picker is None:
            await asyncio.sleep(0)
        await desk.wait()
        desk.questions.type(" ")
        desk.questions.move(2)
        desk.questions.type(" ")
        desk.questions.enter()
        assert await asked == "red\nblue"


@pytest.mark.parametrize(("width", "height"), [(79, 19), (39, 5)])
async def test_whole_question_readable_in_parts(width: int, height: int) -> None:
    title = [(("", f"line {number}"),) for number in range(100)]
    options = [Option(key, f"Yes, {key}", key=key) for key in "ysan"]
    picker = Picker(title, options, keys=True)
    seen: set[str] = set()
    for scroll in range(100):
        picker.scroll = scroll
        rows = render_picker(picker, width, height)
        assert len(rows) <= height
        assert all(line_width(row) <= width for row in rows)
        text = plain(rows).replace("\xa0", " ")
        assert all(f"Yes, {key}" in text for key in "ysan")
        shown = [line for line in text.split("\n") if line.startswith("line ")]
        hidden = [int(count) for count in re.findall(r"[↑↓] ?(\d+)", text)]
        assert 0 not in hidden
        assert sum(hidden) + len(shown) == 100
        seen |= set(shown)
    assert len(seen) == 100
    picker.scroll, paged = 0, set[str]()
    for _ in range(100):  # with the keys, too: no line is between two pages
        paged |= {line for line in plain(render_picker(picker, width, height)).split("\n") if line.startswith("line ")}
        picker.read_on(1)
    assert paged == seen


@pytest.mark.parametrize(("width", "height"), [(79, 18), (39, 6), (19, 2), (11, 9)])
async def test_whole_option_readable_in_parts(width: int, height: int) -> None:
    options = [Option(name, " ".join(f"{name}{number}" for number in range(12)), "why") for name in "abcdefghi"]
    for asked in (1, 40):
        picker = Picker([(("", f"line {number}"),) for number in range(asked)], options, keys=True, ticked={1})
        above = plain(picker.whole(width)).split()
        for option in options:
            picker.move(1)
            rows = render_picker(picker, width, height)
            assert len(rows) <= height
            assert all(line_width(row) <= width for row in rows)
            seen = set(option.label.split()) <= set(plain(rows).split())
            assert seen or ("Ctrl-O" in plain(rows) or width < 20)
            assert seen or set(option.label.split()) <= set(above)
            assert asked == 40 or height < 18 or (seen and "line 0" in plain(rows))
        held = replace(picker, held="(later)")
        assert len(render_picker(held, width, height)) == len(rows)


@pytest.mark.parametrize(("width", "height"), [(110, 30), (80, 14), (39, 6)])
async def test_held_list_is_there_to_read(width: int, height: int) -> None:
    options = [Option(name, f"Use {name}", f"hint of {name}") for name in ("one", "two", "three")]
    picker = Picker(lambda _: [(("", "Which?"),)], options, keys=True, held="(Tab: answer this)", listed=True)
    shown = plain(render_picker(picker, width, height))
    assert shown.split("\n")[0] == "Which?  (Tab: answer this)"
    assert all(f"Use {each.value}" in shown for each in options) and "1 Use" not in shown


async def test_long_command_laid_out_per_width() -> None:
    widths: list[int] = []

    def title(width: int) -> list[Line]:
        widths.append(width)
        return [(("", "line"),)] * 99

    picker = Picker(title, approval_options(["Edit"]), foot=(("", "s: "), ("", "Edit")), keys=True)
    drawn = [picker.title_for(79)]
    for width in (79, 79, 39, 79):
        render_picker(picker, width, 18)
        drawn.append(picker.title_for(width))
    assert widths == [79, 39]
    assert drawn[0] is drawn[1] is drawn[4]


async def test_approval_text_goes_before_rules() -> None:
    title = [(("", f"line {number}"),) for number in range(9)]
    foot = (("", "s and a allow: "), ("", ", ".join(f"Edit(/{number})" for number in range(9))))
    picker = Picker(title, approval_options(["Edit"]), foot=foot, keys=True)
    assert plain(render_picker(picker, 40, 5)).split("\n")[:4] == [
        *("line 0", "line 1", "  ↓12 lines · PgUp PgDn Ctrl-O", "s and a allow: Edit(/0), Edit(/1), Edit…")
    ]
    assert plain(render_picker(picker, 40, 3)).split("\n")[:2] == ["line 1", " ↓12 · Ctrl-O  line 0"]
    picker.scroll = 99
    assert "Edit(/8)" in plain(render_picker(picker, 40, 5)).split("\n")[1]  # all of it can be read
    assert len(picker.title_for(40)) == 9 + 5


async def test_low_question_begins_at_change() -> None:
    reason = [(("", f"reason {number}"),) for number in range(3)]
    diff = [(("class:dim", f"    {number} "), ("class:diff.added class:line-added", "+ x")) for number in range(4, 9)]
    picker = Picker([(("", "? Edit a.py?"),), *reason, *diff], approval_options(["Edit"]), keys=True, row=True)
    for height in (4, 5, 6):
        picker.scroll, seen = 0, set[str]()
        first = plain(render_picker(picker, 40, height)).split("\n")
        assert any("4 + x" in line for line in first), first
        for step in (-1, -1, -1, -1, -1, *[1] * 12):
            picker.read_on(step)
            seen |= set(plain(render_picker(picker, 40, height)).split("\n"))
        assert {plain([line]).rstrip() for line in (*reason, *diff)} <= {line.rstrip() for line in seen}
    assert "reason 0" in plain(render_picker(replace(picker, scroll=0), 40, 9))


async def test_low_list_fills_its_rows() -> None:
    names = [Option(name, name) for name in ("one", "two", "three")]
    for height, shown in ((5, 3), (4, 2), (3, 1)):
        rows = plain(render_picker(Picker([(("", "Which?"),)], names), 40, height)).split("\n")
        assert (rows[0], len(rows)) == ("Which?", shown + 2)
    title = [(("", "who asks for this"),), *((("", f"line {number}"),) for number in range(9))]
    row = plain(render_picker(Picker(title, [Option(1, "Yes", key="y")], keys=True), 19, 3)).split("\n")[1]
    assert row == " ↑1 ↓8 · Ctrl-O"  # not the beginning of a word


async def test_two_row_room_draws_two_rows() -> None:
    options = [Option(key, f"Yes, {key}", key=key) for key in "ysan"]
    for held in ("", "(can be answered when you have stopped typing)"):
        picker = Picker([(("", f"line {number}"),) for number in range(9)], options, keys=True, held=held)
        rows = render_picker(picker, 19, 2)
        assert len(rows) == 2
        assert "↓9" in plain(rows)
        assert held or plain(rows).split()[-4:] == list("ysan")
        for lookup in (None, Lookup[str](lambda words, stop: {}, lambda value, stop: ())):
            names = [Option(str(number), str(number)) for number in range(99)]
            many = Picker([(("", "Which?"),)], names, held=held, lookup=lookup)
            assert all(len(render_picker(many, 19, height)) <= height for height in range(2, 20))


@given(st.text("ab\n", max_size=8), st.text("ab\n", max_size=8), st.data())
def test_placeholder_is_never_cut(before: str, after: str, data: st.DataObject) -> None:
    kept = InputBuffer()
    holder = kept.keep_text("words\n" * 20)
    text = f"{before}{holder}{after}"
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, len(text)))
    typed = data.draw(st.text("ab", max_size=3)) if start == stop else ""
    changed = text[:start] + typed + text[stop:]
    mended = kept.mended(text, changed)
    now = mended[0] if mended else changed
    assert now.count("[") == now.count("]") == now.count(holder)
    assert now.replace(holder, "").count("a") >= typed.count("a")


async def test_failing_call_is_not_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    read, edit = {"file_path": "a.txt"}, {"file_path": "a.txt", "old_string": "one", "new_string": "two"}
    turns = [
        ("Read", read),
        ("Edit", {**edit, "old_string": "three"}),
        ("Read", {"file_path": str(tmp_path.parent / "no such file")}),
        ("Edit", {"file_path": 3}),
        ("Edti", edit),
    ]
    back = {"old_string": "two", "new_string": "three"}
    absent = {**edit, "old_string": "three"}
    (tmp_path / "b.txt").write_text("other\n")
    asked: list[str] = []

    class Careful(Policy):
        async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Ask:
            return Ask("?")

    async def ask(call: ToolCall, ask: Ask) -> None:
        asked.append(call.id)

    scripted: list[tuple[ToolCall, ...]] = [
        (ToolCall(f"c{number}", name, json_freeze_object(given)),) for number, (name, given) in enumerate(turns)
    ]
    together = [("Read", {"file_path": "b.txt"}), ("Edit", absent), ("Edit", edit), ("Edit", {**edit, **back})]
    calls = (ToolCall(f"t{number}", name, JsonObject(given)) for number, (name, given) in enumerate(together))
    scripted.append(tuple(calls))
    agent = Agent(
        ScriptedModel(*scripted, "Done."),
        tools=(Read(), Edit()),
        policy=Careful(),
        resources=Resources(ask=ask, workspace=Workspace(tmp_path)),
    )
    await agent.run("go")
    failed = [result.is_error for message in agent.messages for result in message.results]
    assert failed == [False, True, True, True, True, False, True, False, False]
    assert asked == ["c0", "t0", "t2", "t3"], (
        "of one reply too; but what an earlier call may make possible is asked for"
    )
    assert (tmp_path / "a.txt").read_text() == "three\n"


async def test_unwritable_file_is_not_asked_for(tmp_path: Path) -> None:
    (tmp_path / "unread.txt").write_text("one\n")
    (tmp_path / "directory").mkdir()
    asked: list[str] = []

    class Careful(Policy):
        async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Ask:
            return Ask("?")

    async def ask(call: ToolCall, ask: Ask) -> None:
        asked.append(str(call.arguments["file_path"]))

    names = ["unread.txt", "directory", "unread.txt/below", "n" * 300, "new.txt"]
    calls = [(ToolCall(name[:9], "Write", JsonObject({"file_path": name, "content": "x"})),) for name in names]
    agent = Agent(
        ScriptedModel(*calls, "Done."),
        tools=(Write(),),
        policy=Careful(),
        resources=Resources(ask=ask, workspace=Workspace(tmp_path)),
    )
    await agent.run("go")
    assert [result.is_error for message in agent.messages for result in message.results] == [True] * 4 + [False]
    assert asked == ["new.txt"]
    assert (tmp_path / "unread.txt").read_text() == "one\n"


async def test_other_keys_answer_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with seated(monkeypatch, tmp_path) as desk:
        monkeypatch.setattr("sagent.repl.terminal.questions.LETTER_SECONDS", 0.01)
        asked = await desk.ask()
        questions = desk.questions
        await desk.wait()
        for keys in (
            (lambda: questions.move(-1), lambda: questions.move(-1), questions.enter),  # an earlier message again
            (lambda: questions.type("y"), questions.drop),  # y, and a key that deletes it
            (lambda: questions.type("y"), lambda: questions.move(1)),
            (questions.leave, lambda: questions.type("[")),  # an arrow that comes slowly
            (questions.leave, questions.enter),  # Alt-Enter
            (lambda: questions.type("3"),),  # no key that is shown
        ):
            questions.take_up()
            for act in keys:
                act()
            await asyncio.sleep(0.02)
            assert not asked.done()
        desk.screen.buffer.reset()
        questions.take_up()
        picker = questions.picker
        assert picker is not None
        assert picker.at == -1  # nothing is selected any more
        questions.move(-1)
        desk.now += LETTER_SECONDS
        questions.enter()
        await desk.until_lining()
        questions.take_line("because")
        assert await asked == "The person said no: because"


async def test_question_waits_for_line_and_list(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with seated(monkeypatch, tmp_path) as desk:
        asked = await desk.ask()
        key = asyncio.create_task(desk.questions.line("Key: ", secret=True))
        await desk.until_lining()
        await desk.wait()
        desk.questions.take_up()  # Tab
        assert desk.questions.taking is None
        desk.questions.take_line("k")
        assert await key == "k"
        listed = asyncio.create_task(desk.questions.pick("Which?", [Option(1, "one"), Option(2, "two")]))
        await desk.wait()
        desk.questions.type("n")
        await desk.until_lining()
        assert desk.questions.picker is None  # the reason is not typed into a list
        desk.questions.take_line(None)
        await asked
        while desk.questions.picker is None:
            await asyncio.sleep(0)
        assert desk.questions.taking is None  # a list that comes late takes no key at once
        await desk.wait()
        desk.questions.enter()
        assert await listed == 1


@pytest.mark.parametrize("waiting", [True, False])
async def test_early_keys_choose_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, waiting: bool) -> None:
    stopped: list[str] = []
    options = [Option("first", "first", key="f"), Option("second", "second", key="s")]

    def stop(name: str) -> list[Option[str]]:
        stopped.append(name)
        return options

    async with seated(monkeypatch, tmp_path) as desk:
        desk.bind()
        for title in ("Which?", lambda width: [(("", "Which?"),)]):
            listed = asyncio.create_task(desk.questions.pick(title, options, second=SecondKey("stops it", stop)))
            while desk.questions.picker is None:
                await asyncio.sleep(0)
            if waiting:  # in the terminal, while the list is drawn
                pressed = ["\r\x18"]
                desk.screen.app.before_render += lambda _, pressed=pressed: desk.keys.send_text("".join(pressed))
                desk.screen.app.after_render += lambda _, pressed=pressed: pressed.clear()
            else:
                desk.questions.enter()
                desk.questions.act()
                if callable(title):
                    desk.questions.type("f")
                    assert desk.screen.buffer.text == "f"
                    desk.screen.buffer.reset()
            for _ in range(9):
                await asyncio.sleep(0.01)
            assert not listed.done()
            assert not stopped
            await desk.wait()
            desk.keys.send_text("s" if callable(title) else "\x1b[B\r")
            assert await listed == "second"


async def test_long_paste_narrows_by_its_start() -> None:
    picker = Picker([(("", "Which?"),)], [Option(number, f"number {number}") for number in range(999)])
    picker.type("number 99 ")
    picker.type("word " * 100_000)
    assert picker.query.startswith("number 99 word")
    assert len(picker.query) < 1_000
    assert not picker.shown
    picker.rub(len(picker.query) - len("number 99"))
    assert [option.value for option in picker.shown][:1] == [99]


ABOUT = (
    ("used", "yesterday"),
    ("said", "The tests pass."),
    ("asked", "Why do they " + "fail " * 30),
    ("files", "a.py"),
)


def sessions_list(lookup: Lookup[int]) -> Picker[int]:
    names = ["Fix the login", "Slow build", "Orders", *(f"another {number}" for number in range(20))]
    return Picker(
        [(("", "Which session?"),)], [Option(number, name) for number, name in enumerate(names)], lookup=lookup
    )


@pytest.mark.parametrize(("width", "height", "rows", "options"), [(40, 5, 5, 2), (80, 18, 17, 8), (20, 2, 2, 1)])
async def test_preview_leaves_room_for_options(width: int, height: int, rows: int, options: int) -> None:
    picker = sessions_list(Lookup(lambda *_: {}, lambda *_: ()))
    picker.about = {0: ABOUT}
    drawn = plain(render_picker(picker, width, height)).split("\n")
    assert len(drawn) == rows
    assert max(map(len, drawn)) <= width
    assert drawn[-options].startswith("❯ Fix")
    if height > 2:
        assert all(any(text in line for line in drawn) for text in ("yesterday", "The tests pass.", "of 23"))
    picker.move(1)  # of which nothing is known yet
    assert len(render_picker(picker, width, height)) == rows
    assert "a.py" not in plain(render_picker(picker, width, height))


async def test_session_search_waits_for_idle_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sagent.repl.terminal.questions.LOOKUP_DELAY_SECONDS", 0.0)
    begun, ended, asked = threading.Event(), threading.Event(), list[str]()

    def search(words: str, stop: Stop) -> dict[int, str]:
        asked.append(words)
        if words == "linker":
            return {1: "it is the linker", 2: "another linker"}
        begun.set()
        while not stop():
            ended.wait(0.001)
        ended.set()
        return {0: "too late"}

    async with seated(monkeypatch, tmp_path) as desk:
        model = sessions_list(Lookup(search, lambda value, stop: [("used", f"number {value}")]))
        chosen = asyncio.create_task(desk.questions.pick("Which?", model.options, model.lookup))
        while (picker := desk.questions.picker) is None:
            await asyncio.sleep(0)
        while not picker.about:
            await asyncio.sleep(0)
        assert "number 0" in plain(render_picker(picker, 80, 18))
        for words in ("slow", "linker"):
            picker.query = words
            desk.press()
            while words == "slow" and not begun.is_set():
                await asyncio.sleep(0)
        while picker.sought != "linker" or len(picker.about) < 2:
            await asyncio.sleep(0)
        assert ended.is_set()
        assert [option.value for option in picker.shown] == [1, 2]
        drawn = plain(render_picker(picker, 80, 18))
        assert "❯ Slow build" in drawn
        assert "it is the linker" in drawn
        assert "number 1" in drawn
        picker.query = "linker s"  # what was found is not of these words
        assert picker.shown == []
        picker.query = "linker"
        picker.move(1)
        picker.enter()
        assert await chosen == 2
    assert asked == ["slow", "linker"]


@pytest.mark.parametrize("written", ["", "what my command says, at some length"])
async def test_status_line_fits_beside_question(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, written: str) -> None:
    async with seated(monkeypatch, tmp_path) as desk:
        display = StatusDisplay(desk.screen, Painter(desk.screen.surface, desk.screen.redraw), desk.questions, list)
        display.figures = Figures("a/claude-sonnet-4-6", mode="edit", sandboxed=False, branch="main")
        display._command = StatusCommand("true", tmp_path, Tasks(lambda error: None), lambda: None) if written else None
        if display._command:
            display._command.line = written
        for asked in (False, True):
            if asked:
                await desk.ask()
                await desk.wait()
            for width in range(1, 121):
                line = desk.screen.status(width)
                assert line_width(line) <= width
                assert "……" not in plain([line])
                assert not asked or plain([line]).startswith("Esc says no"[: width - 1].rstrip())


async def test_window_title_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with seated(monkeypatch, tmp_path) as desk:
        written: list[bytes] = []
        monkeypatch.setattr(SteadyOutput, "_write_all", lambda _, data: written.append(data))
        desk.screen.title = lambda: "a\n\x1b]0;b\x07\tc"
        await desk.screen.until_drawn()
        assert "\x1b]2;a �]0;b� c\x1b\\" in b"".join(written).decode()


@pytest.mark.parametrize(("column", "rows"), [(2, 1), (0, 0)])
async def test_lost_cursor_erases_nothing_above(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, column: int, rows: int
) -> None:
    async with seated(monkeypatch, tmp_path) as desk:
        written: list[bytes] = []
        monkeypatch.setattr(SteadyOutput, "_write_all", lambda _, data: written.append(data))
        desk.screen.resizing.cursor = 8, column
        desk.screen.resizing._erase()
        assert b"".join(written).count(b"\x1b[A") == rows


async def test_editor_gets_no_terminal_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sagent.repl.terminal.screen.ASK_AGAIN_SECONDS", 0.01)
    async with seated(monkeypatch, tmp_path) as desk:
        desk.keys.send_text("\x1b[>1;10;0c")
        await asyncio.sleep(0.1)
        await desk.ask()
        await desk.screen.until_drawn()
        desk.screen.app._running_in_terminal = True
        written: list[bytes] = []
        monkeypatch.setattr(SteadyOutput, "_write_all", lambda _, data: written.append(data))
        await asyncio.sleep(0.1)
        assert b"\x1b[>c" not in b"".join(written)
        desk.screen.app._running_in_terminal = False
        await until(lambda: b"\x1b[>c" in b"".join(written))


@pytest.mark.parametrize(("number", "rows"), [(41, 3), (1, 4)])
async def test_cut_rows_keep_those_above(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int, rows: int
) -> None:
    async with seated(monkeypatch, tmp_path) as desk:
        written: list[bytes] = []
        desk.screen.panel = lambda width, height: [(("", "x" * 60),)]
        await desk.screen.until_drawn()
        desk.keys.send_text(f"\x1b[>{number};320;0c")
        while not desk.screen.resizing.terminal:
            await asyncio.sleep(0.01)
        monkeypatch.setattr(SteadyOutput, "_write_all", lambda _, data: written.append(data))
        monkeypatch.setattr(desk.screen.output, "get_size", lambda: Size(rows=10, columns=40))
        desk.screen.resizing._erase()
        assert f"\x1b[{rows}A" in b"".join(written).decode()


async def test_esc_stops_a_slow_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with seated(monkeypatch, tmp_path) as desk:
        actions, begun, left = desk.bind(), asyncio.Event(), asyncio.Event()

        async def work() -> str:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                left.set()
            return "done"

        stopped = asyncio.create_task(actions.stoppable(work(), "/btw why?"))
        await begun.wait()
        assert actions.interruptible
        actions.escape()
        with pytest.raises(UsageError, match="/btw was stopped"):
            await stopped
        assert left.is_set() and not actions.interruptible
        assert await actions.stoppable(asyncio.sleep(0, "done"), "/btw why?") == "done"


async def test_list_after_slow_work_waits_for_quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with seated(monkeypatch, tmp_path) as desk:
        actions = desk.bind()
        await actions.stoppable(asyncio.sleep(0, "done"), "/review")
        options = [Option("fix", "Yes", key="y"), Option("", "No", key="n")]
        picked = asyncio.create_task(desk.questions.pick(lambda _: [(("", "? Fix them?"),)], options))
        while desk.questions.picker is None:
            await asyncio.sleep(0)
        desk.press()  # something else is typed
        await desk.wait(QUIET_SECONDS / 2)
        assert desk.questions.taking is None
        await desk.wait()
        assert desk.questions.taking is not None
        desk.questions.type("y")
        assert await picked == "fix"


async def test_command_waits_for_its_session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with seated(monkeypatch, tmp_path) as desk:
        actions, done = desk.bind(), list[str]()
        actions.ready.set()

        @command()
        async def which(context: CommandContext, text: str) -> None:
            """Say which session is open."""
            assert context.opened is opened
            done.append(text)

        opened = Opened(Agent(ScriptedModel()), PermissionPolicy("ask"))
        actions._context.commands = {"which": which}
        running = asyncio.create_task(actions.run_command("which", "now"))
        await desk.wait()
        assert not running.done()
        actions._context._opened = opened
        actions._session.settled.set()
        await running
        assert done == ["now"]


def test_system_errors_are_said_in_words() -> None:
    shown = list[str]()
    Tasks(lambda report: shown.append(report.text)).report(OSError(30, "Read-only file system", "/home/x/.config"))
    assert shown == ["/home/x/.config: Read-only file system."]
