"""What blocks and the panel look like, escape sequences included: by theme, by colours, by width. The sheets lie in
`looks/`; DRAW_LOOKS=1 draws them anew."""

import io
import os
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pytest
from prompt_toolkit import print_formatted_text
from prompt_toolkit.data_structures import Size
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from samples import CALL, DIFF, EDIT, answer

from sagent.config.plugins import Installed
from sagent.events import (
    Advice,
    AdviceDelta,
    Advised,
    Failure,
    Finished,
    Notice,
    Received,
    ReplyFinished,
    Result,
    Retrying,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from sagent.messages import assistant, user
from sagent.policy import Ask
from sagent.repl.status import find_segments
from sagent.repl.terminal.approval import approval_options
from sagent.repl.terminal.history import ProjectHistory
from sagent.repl.terminal.picker import Picker, render_picker
from sagent.repl.terminal.screen import Screen
from sagent.repl.view.blocks import Block, Shell, render_block, separated
from sagent.repl.view.calls import render_approval
from sagent.repl.view.lines import Line, line_width
from sagent.repl.view.panel import Figures, PanelContext, Queued, render_panel, render_status
from sagent.repl.view.theme import rules_of
from sagent.repl.view.view import View, reduce
from sagent.usage import Cost, Usage

SHEETS = Path(__file__).with_name("looks")
ANSWER = """# Done
It *works* with **all** of `them`, 宽字符 too; see [the page](https://example.org).

- one
- [x] two

```python
def f(x):  # why
    return "s" + 12
```

| a | b |
|---|--:|
| x | 1 |

> quoted
"""


def transcript() -> list[Block]:
    """One of everything."""
    advice = Advice("opus", "x/o", "stuck", "answered", "Look at **x**.", "adjust", usd=Decimal("0.0421"), seconds=3.4)
    events = (
        Received("root", user("fix it")),
        ThinkingDelta("root", "Let me see what there is."),
        TextDelta("root", ANSWER),
        ReplyFinished("root", assistant("x", CALL), Usage(), None),
        ToolFinished("root", CALL, answer(CALL, "1 failed", failed=True), 3.2, "exit 1"),
        ToolFinished("root", EDIT, answer(EDIT, "ok"), 0.1, "Edited a.py", DIFF),
        Advised("root", advice),
        Received("root", user("is done", sender="root/review")),
        Notice("root", "warning", "The context is full."),
        Finished("root/review", Result("All is well.", (), "end", turns=3, duration=42.0)),
        Finished("root", Result("", (), "error", Failure("auth", "The key is wrong."))),
    )
    view, blocks = View(), list[Block]()
    for at, event in enumerate(events):
        view, new = reduce(view, event, 2.0 * at)
        blocks += new
    return [*blocks, Shell("ls", "a\nb\n", 1)]


def progress() -> View:
    """A turn in full swing."""
    events = (
        Received("root", user("go")),
        ToolStarted("root", CALL),
        ToolProgress("root", "c1", "one\ntwo\n"),
        ReplyFinished("root/review", assistant("x", CALL), Usage(input=12_000, output=345), Decimal("0.0123")),
        ToolStarted("root/review", CALL),
        AdviceDelta("root", "opus", "asked", "Look at the cache."),
        Retrying("root", "overloaded", "overloaded", 1, 12.0),
    )
    view = View()
    for at, event in enumerate(events):
        view, _ = reduce(view, event, float(at))
    return view


async def sheet(width: int) -> list[Line]:
    """Everything there is to see, in so many columns."""
    lines, last = list[Line](), None
    for block in transcript():
        lines += [()] if separated(last, block) else []
        lines += render_block(block, width)
        last = block
    ask = Ask("Outside of the project.", agent="root/review")
    question = render_approval(EDIT, ask, lambda _: "x = 1\n", width, 1)
    spent = {"root": Decimal("1.25"), "root/review": Decimal("0.25")}
    cost = Cost(Decimal("1.5"), Decimal("1.0"), Decimal("0.5"), by_agent=spent)
    figures = Figures("x/sonnet", "high", "gpt-5.2 off", 150_000, 200_000, cost, 2, "edit", "main")
    return [
        *lines,
        (),
        *render_panel(progress(), [Queued("and then", sent=False)], 10.0, width, 20, PanelContext(spent)),
        *render_picker(Picker(question, approval_options(["Edit"]), keys=True, row=True), width, 16),
        render_status(figures, width, find_segments(Installed())),
    ]


def drawn(lines: Sequence[Line], theme: str, depth: ColorDepth) -> str:
    """What a terminal is sent, with its escape character made visible."""
    written = io.StringIO()
    output = Vt100_Output(written, lambda: Size(rows=100, columns=200), term="xterm-256color")
    style = Style.from_dict(dict(rules_of(theme, deep=depth == ColorDepth.DEPTH_8_BIT)))
    for line in lines:
        text = FormattedText([(one, part) for one, part in line])
        print_formatted_text(text, style=style, output=output, color_depth=depth, include_default_pygments_style=False)
    return (
        written.getvalue().replace("\r\n", "\n").replace("\x1b", "␛").replace("␛[0m␛[?7h", "").replace("␛[0m␛[?7l", "")
    )


@pytest.mark.parametrize(
    ("name", "theme", "depth", "width"),
    [
        ("auto", "auto", ColorDepth.DEPTH_4_BIT, 80),
        ("dark", "dark", ColorDepth.DEPTH_4_BIT, 80),
        ("light", "light", ColorDepth.DEPTH_4_BIT, 80),
        ("deep-dark", "dark", ColorDepth.DEPTH_8_BIT, 80),
        ("deep-light", "light", ColorDepth.DEPTH_8_BIT, 80),
        ("plain", "plain", ColorDepth.DEPTH_4_BIT, 80),
        ("no-color", "auto", ColorDepth.DEPTH_1_BIT, 80),
        ("narrow", "auto", ColorDepth.DEPTH_1_BIT, 40),
    ],
)
async def test_sheet_of_looks(name: str, theme: str, depth: ColorDepth, width: int) -> None:
    lines = await sheet(width)
    assert all(line_width(line) <= width for line in lines)
    found, file = drawn(lines, theme, depth), SHEETS / f"{name}.txt"
    if os.environ.get("DRAW_LOOKS"):
        file.write_text(found, encoding="utf-8")
    assert found == file.read_text(encoding="utf-8")


async def test_themes_use_sixteen_colours_or_none() -> None:
    lines = await sheet(80)
    for theme in ("auto", "dark", "light"):
        assert "38;" not in drawn(lines, theme, ColorDepth.DEPTH_4_BIT)
    without = drawn(lines, "auto", ColorDepth.DEPTH_1_BIT)
    for colour in (*range(30, 38), *range(90, 98)):
        assert f"[{colour}m" not in without
        assert f";{colour}m" not in without


XTERM = {  # https://invisible-island.net/xterm/manpage/xterm.html, color0 to color15
    "black": 0x000000, "red": 0xCD0000, "green": 0x00CD00, "yellow": 0xCDCD00, "blue": 0x0000EE, "magenta": 0xCD00CD,
    "cyan": 0x00CDCD, "gray": 0xE5E5E5, "brightblack": 0x7F7F7F, "brightred": 0xFF0000, "brightgreen": 0x00FF00,
    "brightyellow": 0xFFFF00, "brightblue": 0x5C5CFF, "brightmagenta": 0xFF00FF, "brightcyan": 0x00FFFF,
    "white": 0xFFFFFF,
}  # fmt: skip


def contrast(one: int, other: int) -> float:
    """https://www.w3.org/TR/WCAG21/#dfn-contrast-ratio"""

    def luminance(colour: int) -> float:
        parts = [(colour >> shift & 255) / 255 for shift in (16, 8, 0)]
        red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(
    ("theme", "light", "background", "least"),
    [
        ("dark", None, 0x000000, 3.0),
        ("light", None, 0xFFFFFF, 3.0),
        ("auto", False, 0x000000, 3.0),
        ("auto", True, 0xFFFFFF, 3.0),
        ("auto", None, 0x000000, 1.9),  # where the background is not known, nothing is lost on either
        ("auto", None, 0xFFFFFF, 1.9),
        ("plain", None, 0x000000, 21.0),
        ("plain", None, 0xFFFFFF, 21.0),
    ],
)
def test_colours_have_contrast(theme: str, light: bool | None, background: int, least: float) -> None:
    for name, style in rules_of(theme, light=light).items():
        for word in style.split():
            if word.startswith("ansi"):
                assert contrast(XTERM[word.removeprefix("ansi")], background) >= least, name


@pytest.mark.parametrize(("theme", "text"), [("dark", 0xE5E5E5), ("light", 0x000000)])
def test_changed_lines_have_contrast(theme: str, text: int) -> None:
    rules = rules_of(theme, deep=True)

    def value(word: str) -> int:
        return XTERM[word[4:]] if word.startswith("ansi") else int(word[1:], 16)

    words = {name: [word for word in look.split() if "#" in word or "ansi" in word] for name, look in rules.items()}
    for name in ("line-added", "line-removed"):
        (back,) = words[name]
        for code in ("code", "code.word", "code.string", "code.number", "code.comment"):
            assert contrast(value((words[code] or [f"#{text:06x}"])[0]), value(back[3:])) >= 3, (name, code)
    for name in ("word-added", "word-removed"):
        front, back = words[name]
        assert contrast(value(front), value(back[3:])) >= 4.5


def test_number_of_colours_by_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def fileno(self) -> int:
            raise io.UnsupportedOperation

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert Screen(ProjectHistory(), stdout=Terminal()).app.color_depth == ColorDepth.DEPTH_4_BIT
    monkeypatch.setenv("NO_COLOR", "1")
    assert Screen(ProjectHistory(), stdout=Terminal()).app.color_depth == ColorDepth.DEPTH_1_BIT
