"""Styles and their looks, by theme: theme.toml."""

import os
import re
from collections.abc import Mapping
from functools import cache

THEMES = {
    "auto": "dark or light, by the background that the terminal reports",
    "dark": "for a dark background",
    "light": "for a light background",
    "plain": "no colours but the selection",
}
"""The names of themes, each with a description."""


@cache
def _looks() -> Mapping[str, Mapping[str, str]]:
    """Read the file, which has only tables of strings: importing a parser of TOML would delay the prompt."""
    with open(os.path.join(os.path.dirname(__file__), "theme.toml"), encoding="utf-8") as file:  # noqa: PTH118, PTH120, PTH123 -- as above
        tables = [part.partition("]") for part in f"\n{file.read()}".split("\n[")[1:]]
    looks = {theme: re.findall('^"(.*)" = "(.*)"$', rows, re.MULTILINE) for theme, _, rows in tables}
    return {theme: {name: look for look, names in rows for name in names.split()} for theme, rows in looks.items()}


def rules_of(name: str, *, light: bool | None = None, deep: bool = False) -> Mapping[str, str]:
    """Return the styles of a theme by class; "auto" depends on a light, dark or unknown background. A `deep` terminal
    has more than sixteen colours."""
    if name == "auto" and light is not None:
        name = "light" if light else "dark"
    every = _looks()["every"]
    own = dict.fromkeys(every, "") if name == "plain" else {**_looks()[name], **_looks().get(f"{name}-deep" * deep, {})}
    return {**every, **own, "chosen": "reverse"}
