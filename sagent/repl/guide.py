"""What is shown when no session could be opened: why, and what to do."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sagent.repl.view.blocks import Block, Page, Report

if TYPE_CHECKING:
    from sagent.repl.view.lines import Line


def guide(error: Exception) -> Sequence[Block]:
    """The error; and where no provider can be used yet, the ways to one on one screen."""
    text = str(error)
    if not text.startswith("No model was named"):
        lacking = re.match(r"No key for ([\w.-]+)", text)
        login = f"/login {lacking[1]}" if lacking else "/login"
        ways = f"Change what is wrong, then {login}, /resume or /model again; /quit leaves."
        return (Report(text, "error"), Report(ways))
    steps = (
        ("1", "/login", "a key: tested, kept for you alone, used"),
        ("2", "export ANTHROPIC_API_KEY=…", "or another provider's variable; start again"),
        ("3", "ollama serve", "or LM Studio, llama.cpp; then /login local"),
        ("4", "sagent demo", "see it work without any of them"),
    )
    lines: list[Line] = [
        (("class:heading", "Welcome to sagent."),),
        (),
        (("", f"{text.partition(chr(10))[0]} Choose one:"),),
        (),
    ]
    lines += [
        (("class:mark", f"  {number}  "), ("class:tool", f"{what:28}"), ("class:dim", f"  {told}"))
        for number, what, told in steps
    ]
    return (Page(tuple(lines)),)
