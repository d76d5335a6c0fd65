"""Output of a person's command as spans in its own colours. Other control sequences are dropped."""

import re

from sagent.repl.view.lines import TAB, Span, printable
from sagent.tools.capture import without_colours

MAX_COLOUR_CHANGES = 5_000  # in one text: beyond that it has no colours
_SGR = re.compile(r"(\x1b\[[\d;]*m)")  # ECMA-48, Select Graphic Rendition
_LEFT_OUT = {"hidden", "blink"}


def coloured(text: str, style: str) -> list[Span]:
    """Return the text in spans; text without a colour gets the style."""
    texts, changes = _SGR.split(text)[::2], _SGR.findall(text)
    if not changes or len(changes) > MAX_COLOUR_CHANGES:
        return [(style, printable(without_colours(text)))]
    from prompt_toolkit.formatted_text import ANSI

    signs = ANSI("x" + "".join(f"{change}x" for change in changes)).__pt_formatted_text__()
    spans, column = list[Span](), 0
    for (look, *_), part in zip(signs, texts, strict=True):
        before = column % len(TAB)
        shown = printable(" " * before + part)[before:]
        spans.append((" ".join(word for word in look.split() if word not in _LEFT_OUT) or style, shown))
        column = len(shown.rpartition("\n")[2]) + (0 if "\n" in shown else column)
    return spans
