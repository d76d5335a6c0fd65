"""Style names and their looks. Only the terminal's own colours, so that light and dark both work."""

from collections.abc import Mapping

_LOOKS = {
    "": "code argument status",
    "dim": "dim diff.context outcome output",
    "bold": "strong heading said tool",
    "italic": "em quote queued",
    "strike": "strike",
    "underline": "link",
    "reverse": "chosen",
    "bold underline": "heading.first",
    "dim italic": "code.comment thinking",
    "ansiblue": "news",
    "ansicyan": "inline-code mark code.number diff.place working",
    "ansigreen": "code.string diff.added done",
    "ansimagenta": "code.word advice",
    "ansired": "diff.removed failed",
    "ansiyellow": "warning mode",
    "ansicyan bold": "prompt",
    "ansiyellow bold": "ask",
}
BASE: Mapping[str, str] = {name: look for look, names in _LOOKS.items() for name in names.split()}
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
"""Changes of each theme. "auto" is "dark" or "light" by the terminal's reported background. "plain" only has styles
that show the selection."""


def rules_of(name: str, *, light: bool | None = None) -> Mapping[str, str]:
    """Return the styles of a theme by class; "auto" depends on a light, dark or unknown background."""
    if name == "auto" and light is not None:
        name = "light" if light else "dark"
    return {**BASE, **THEMES[name], "chosen": "reverse"}
