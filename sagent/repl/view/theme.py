"""Styles and their looks, by theme: theme.toml."""

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
    from sagent.lib.toml import toml_beside

    themes: dict[str, dict[str, str]] = toml_beside(__file__, "theme.toml")
    return {theme: {name: look for look in looks for name in looks[look].split()} for theme, looks in themes.items()}


def rules_of(name: str, *, light: bool | None = None, deep: bool = False) -> Mapping[str, str]:
    """Return the styles of a theme by class; "auto" depends on a light, dark or unknown background. A `deep` terminal
    has more than sixteen colours."""
    if name == "auto" and light is not None:
        name = "light" if light else "dark"
    every = _looks()["every"]
    own = dict.fromkeys(every, "") if name == "plain" else {**_looks()[name], **_looks().get(f"{name}-deep" * deep, {})}
    return {**every, **own, "chosen": "reverse"}
