"""Contrast of the themes, by WCAG 2.2 (www.w3.org/TR/WCAG22/#contrast-minimum), with xterm's sixteen colours."""

import colorsys
import re
import tomllib
from pathlib import Path

import pytest

from sagent.repl.view import theme as theme_module
from sagent.repl.view.theme import rules_of

LEAST = {True: 4.5, False: 3.0}  # where the colours are ours, and where they are the terminal's own
GROUNDS = {"light": "#ffffff", "dark": "#000000"}
TEXTS = {"light": "#000000", "dark": "#e5e5e5"}
XTERM = {
    "ansiblack": "#000000", "ansired": "#cd0000", "ansigreen": "#00cd00", "ansiyellow": "#cdcd00",
    "ansiblue": "#0000ee", "ansimagenta": "#cd00cd", "ansicyan": "#00cdcd", "ansigray": "#e5e5e5",
    "ansibrightblack": "#7f7f7f", "ansibrightred": "#ff0000", "ansibrightgreen": "#00ff00",
    "ansibrightyellow": "#ffff00", "ansibrightblue": "#5c5cff", "ansibrightmagenta": "#ff00ff",
    "ansibrightcyan": "#00ffff", "ansiwhite": "#ffffff",
}  # fmt: skip
ON_LINES = {  # what is drawn on the ground of a changed line
    "line-added": ("diff.added", "code.string", "code.number", "code.word", "word-added", ""),
    "line-removed": ("diff.removed", "code.string", "code.number", "code.word", "word-removed", ""),
}


def luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def colours(look: str, text: str, ground: str) -> tuple[str, str]:
    """The colours of a look on a text's and a ground's own."""
    for word in look.split():
        name = XTERM.get(word.removeprefix("bg:"), word.removeprefix("bg:"))
        if re.fullmatch("#[0-9a-f]{6}", name):
            text, ground = (text, name) if word.startswith("bg:") else (name, ground)
    return text, ground


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("theme", GROUNDS)
def test_each_style_can_be_read(theme: str, deep: bool) -> None:
    rules = rules_of(theme, deep=deep)
    poor = dict[str, float]()
    for name, look in rules.items():
        poor[name] = contrast(*colours(look, TEXTS[theme], GROUNDS[theme]))
    for line, styles in ON_LINES.items():
        text, ground = colours(rules[line], TEXTS[theme], GROUNDS[theme])
        for style in styles:
            poor[f"{style} on {line}"] = contrast(*colours(rules.get(style, ""), text, ground))
    assert not {name: round(ratio, 1) for name, ratio in poor.items() if ratio < LEAST[deep]}


@pytest.mark.parametrize("name", ["diff.added", "done", "line-added", "word-added"])
@pytest.mark.parametrize("theme", GROUNDS)
def test_what_is_added_or_done_is_green(theme: str, name: str) -> None:
    look = next(word for word in reversed(rules_of(theme, deep=True)[name].split()) if "#" in word or "ansi" in word)
    colour = XTERM.get(look, look.removeprefix("bg:"))
    hue, _, saturation = colorsys.rgb_to_hls(*(int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)))
    assert 0.25 < hue < 0.42
    assert saturation > 0.3


def test_themes_are_read_as_toml() -> None:
    tables = tomllib.loads(Path(theme_module.__file__).with_name("theme.toml").read_text("utf-8"))
    looks = {theme: {name: look for look in table for name in table[look].split()} for theme, table in tables.items()}
    assert rules_of("auto") == {**looks["every"], **looks["auto"]}
    assert rules_of("dark", deep=True) == {**looks["every"], **looks["dark"], **looks["dark-deep"]}
