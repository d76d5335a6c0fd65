"""Names of styles and what they look like. Only the terminal's own colours, so that light and dark both work."""

from collections.abc import Mapping

_DIM = "dim"
BASE: Mapping[str, str] = {
    "dim": _DIM,
    "strong": "bold",
    "em": "italic",
    "strike": "strike",
    "link": "underline",
    "inline-code": "ansicyan",
    "heading": "bold",
    "heading.first": "bold underline",
    "mark": "ansicyan",
    "quote": "italic",
    "code": "",
    "code.comment": "dim italic",
    "code.string": "ansigreen",
    "code.number": "ansicyan",
    "code.word": "ansimagenta",
    "diff.added": "ansigreen",
    "diff.removed": "ansired",
    "diff.context": _DIM,
    "diff.place": "ansicyan",
    "said": "bold",
    "news": "ansiblue",
    "queued": "italic",
    "thinking": "dim italic",
    "tool": "bold",
    "argument": "",
    "outcome": _DIM,
    "output": _DIM,
    "done": "ansigreen",
    "failed": "ansired",
    "warning": "ansiyellow",
    "working": "ansicyan",
    "advice": "ansimagenta",
    "status": "",
    "mode": "ansiyellow",
    "prompt": "ansicyan bold",
    "chosen": "reverse",
    "ask": "ansiyellow bold",
}
THEMES: Mapping[str, Mapping[str, str]] = {
    "auto": {"warning": "ansimagenta", "mode": "ansimagenta", "ask": "ansimagenta bold"},
    "dark": {"news": "ansibrightblue", "code.word": "ansibrightmagenta", "advice": "ansibrightmagenta"},
    "light": {
        **dict.fromkeys(("mark", "inline-code", "code.string", "code.number", "diff.place", "working"), "ansiblue"),
        **dict.fromkeys(("diff.added", "done"), "ansiblue"),
        **dict.fromkeys(("warning", "mode"), "ansimagenta"),
        "prompt": "ansiblue bold",
        "ask": "ansimagenta bold",
    },
    "plain": dict.fromkeys(BASE, ""),
}
"""What each theme changes. "auto" is "dark" or "light" where the terminal tells what its background is. "plain" has no
styles but those that tell what is chosen."""


def rules_of(name: str, *, light: bool | None = None) -> Mapping[str, str]:
    """The styles of a theme by class; of "auto" for a background that is light, or dark, or not known."""
    if name == "auto" and light is not None:
        name = "light" if light else "dark"
    rules = {**BASE, **THEMES[name]}
    return {**rules, "chosen": "reverse"}
