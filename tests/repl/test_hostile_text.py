"""Nothing that a model, a tool, a file's name or a server says drives the terminal or looks like something else: every
text of every event, and of every question, through the terminal's view and the headless renderer, to the bytes."""

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from prompt_toolkit.document import Document
from test_painter import painted

from sagent.cli.render import JsonRenderer, StreamRenderer, TextRenderer, Transcript
from sagent.events import Event, Finished, Result
from sagent.lib.json import JsonObject
from sagent.messages import Message, ToolCall
from sagent.policy import Ask
from sagent.repl.terminal.approval import approval_options
from sagent.repl.terminal.completion import InputCompleter
from sagent.repl.terminal.picker import Lookup, Option, Picker, render_picker
from sagent.repl.view.blocks import Page, Report
from sagent.repl.view.calls import render_agents_question, render_approval
from sagent.repl.view.lines import Line
from sagent.repl.view.panel import Queued, render_panel
from sagent.repl.view.view import plain_text
from sagent.tools.ask import Question

HOSTILE = (
    "\x1b]52;c;ZXZpbA==\x07"  # the clipboard
    "\x1b]0;title\x07\x1bc\x1b[?1049h\x9b31m\x90q\x9c"  # the title, a reset, the alternate screen, C1 controls
    "kept\rgone\x08\x08\x7f\x00\x0b\x0c\x85"  # over what stands there
    "\u202etxt\u2066\u200b\u200f\ufeff\u2060a\u200db\xad\U000e0041"  # turned around, not seen, tags
)
OURS = re.compile(  # what the program itself sends to draw
    r"\x1b\[[\d;]*[mABCDGHJKLM]|\x1b\[\?(?:7|25|1004|2004|2026|12)[hl]|\x1b\[\d* ?q|\x1b\]11;\?\x1b\\|\r|\n"
)
UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\xad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]")


def assert_harmless(written: str) -> None:
    found = UNSEEN.search(OURS.sub("", written))
    assert found is None, repr(written)[max(found.start() - 80, 0) :][:200]
    assert "\rgone" not in written
    assert "\r\ngone" not in written


def hostile(kind: Any) -> Any:
    """A value of a type, with hostile text wherever a text can be."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is str or kind is object:
        return HOSTILE
    if kind in (int, float, bool, Decimal):
        return kind(1)
    if origin is Literal:
        return arguments[0]
    if origin in (Union, UnionType):
        return hostile(next(one for one in arguments if one is not NoneType))
    if origin is tuple:
        return tuple(each for one in arguments if one is not ... for each in every(one))
    if origin is not None and issubclass(origin, Mapping):
        return {HOSTILE: hostile(arguments[1])}
    if kind is JsonObject:
        return JsonObject({HOSTILE: HOSTILE, "command": HOSTILE, "file_path": HOSTILE, "old_string": HOSTILE})
    if kind is bytes:
        return HOSTILE.encode()
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{one.name: hostile(hints[one.name]) for one in fields(kind) if one.init})
    return None


def every(kind: Any) -> Iterator[Any]:
    """One of each class of a union."""
    for one in get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,):
        yield hostile(one)


def events() -> list[Event]:
    """Every class of event, said by the root and by an agent of a hostile name."""
    found: list[Event] = []
    for kind in get_args(Event):
        hints = get_type_hints(kind)
        values = {one.name: hostile(hints[one.name]) for one in fields(kind)}
        if kind is Finished:
            values["result"] = Result(**{one.name: getattr(values["result"], one.name) for one in fields(Result)})
        found += [kind(**{**values, "agent": agent}) for agent in ("root", HOSTILE)]
        if "message" in hints:
            parts = values["message"].parts
            message = Message("assistant", tuple(one for one in parts if type(one).__name__ != "ToolResult"))
            found += [kind(**{**values, "agent": "root", "message": message})]
    assert len({type(one) for one in found}) == len(get_args(Event))
    return found


async def test_event_texts_are_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    async with painted(monkeypatch) as (painter, written):
        screen = painter._surface._app
        for event in events():
            painter.show(event)
            painter.paint()
            painter.write(Page(tuple(painter.expand())))
            rows = render_panel(painter.view, [Queued(HOSTILE, sent=True)], 0.0, 80, 24)
            painter.write(Page(tuple(rows)))
        painter.write(Report(HOSTILE), Page(((("", HOSTILE), ("class:dim", HOSTILE)),)))
        painter.paint()
        screen.renderer.output.write(HOSTILE)  # what prompt_toolkit draws: the input, its completions
        screen.renderer.output.flush()
        whole = b"".join(written).decode()
        assert "kept" in whole
        assert_harmless(whole)


async def test_question_texts_are_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    call = ToolCall(HOSTILE, HOSTILE, JsonObject({HOSTILE: HOSTILE, "n": 1}))
    command = ToolCall("c", "Bash", JsonObject({"command": HOSTILE, "reason": HOSTILE}))
    edit = ToolCall("c", "Edit", JsonObject({"file_path": HOSTILE, "old_string": HOSTILE, "new_string": HOSTILE}))
    rows: list[Line] = []
    for one in (call, command, edit):
        for wants in ((), (HOSTILE,)):
            title = render_approval(one, Ask(HOSTILE, HOSTILE, HOSTILE, wants), lambda _: HOSTILE, 80)
            rows += [*title, *render_picker(Picker(title, approval_options([HOSTILE]), keys=True), 80, 24)]
    title = render_agents_question(Question(HOSTILE, HOSTILE, (HOSTILE,)), 80)
    rows += [*title, *render_picker(Picker(title, [Option(1, HOSTILE, HOSTILE)], query="k"), 80, 24)]
    looked_up = Picker([], [Option(1, HOSTILE)], lookup=Lookup(lambda *_: {}, lambda *_: ()), query="k", sought="k")
    looked_up.found, looked_up.about[1] = {1: HOSTILE}, ((HOSTILE, HOSTILE),)
    rows += render_picker(looked_up, 80, 24)
    async with painted(monkeypatch) as (painter, written):
        painter.write(Page(tuple(rows)))
        painter.paint()
        painter._surface._app.renderer.render(painter._surface._app, painter._surface._app.layout)
        assert_harmless(b"".join(written).decode())
    completer = InputCompleter(lambda: [HOSTILE], lambda: [(HOSTILE, HOSTILE)], lambda *_: [])
    for typed in ("@kept", "/kept"):
        for found in completer.get_completions(Document(typed), None):  # pyright: ignore[reportArgumentType] -- of no use here
            assert_harmless(found.display_text + found.display_meta_text)


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("live", [True, False])
def test_sessionless_events_are_harmless(live: bool) -> None:
    for make in (
        lambda out, err: TextRenderer(out, err, Transcript(err, thinking=True)),
        lambda out, err: TextRenderer(out, err, None),
        JsonRenderer,
        lambda out, err: StreamRenderer(out),
    ):
        out, err = (Tty() if live else io.StringIO()), Tty()
        renderer = make(out, err)
        for event in events():
            renderer.on_event(event)
            if isinstance(event, Finished):
                renderer.on_result(event.result)
        assert_harmless(err.getvalue())
        if live:
            assert_harmless(out.getvalue())
        elif isinstance(renderer, TextRenderer):
            assert out.getvalue() == f"{HOSTILE}\n" * 2  # a pipe gets what was said


def test_print_only_terminal_gets_no_escape() -> None:
    from sagent.repl.view.lines import printable

    assert_harmless("".join(printable(plain_text(event)) for event in events()))
