"""The system prompt: fixed when a session starts, so that not one byte of it changes while the session lives.

News of the surroundings (a changed directory, an edited AGENTS.md) travels as messages.
"""

import re
import sys
from datetime import date
from pathlib import Path

from sagent.tool import Workspace

PROMPT_FILE = Path(__file__).with_name("system.md")
FURTHER = "Further directories: "
SHOWN = "sagent:"
"""The beginning of the sender of a message that shows a file, after which its path stands."""
_PLACE = re.compile(r"\n\n(Working directory: .*\nPlatform: .*\nDate: .*(?:\nFurther directories: .*)?)(?=\n\n|\Z)")


def compose(
    workspace: Workspace, today: date, instructions: str = "", system: str | None = None, append: str = ""
) -> str:
    """Return the default prompt, or `system` in its place, then where we are, the instructions found, and `append`."""
    lines = [f"Working directory: {workspace.cwd}", f"Platform: {sys.platform}", f"Date: {today.isoformat()}"]
    others = [str(root) for root in workspace.roots if root != workspace.cwd]
    if others:
        lines.append(f"{FURTHER}{', '.join(others)}")
    prompt = system if system is not None else PROMPT_FILE.read_text("utf-8").strip()
    parts = (prompt, "\n".join(lines), instructions.strip(), append.strip())
    return "\n\n".join(part for part in parts if part)


def split_place(prompt: str) -> tuple[str, str]:
    """Return a prompt of `compose` without the lines on directory and date, and these; "" if it has none."""
    found = _PLACE.search(prompt)
    return (prompt[: found.start()] + prompt[found.end() :], found[1]) if found else (prompt, "")
