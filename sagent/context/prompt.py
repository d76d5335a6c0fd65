"""The system prompt: fixed when a session starts, so that it stays the same to the byte.

Changed surroundings (a new directory, an edited AGENTS.md) are reported in messages.
"""

import re
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from sagent.messages import Message
from sagent.tool import Workspace

PROMPT_FILE = Path(__file__).with_name("system.md")
FURTHER = "Further directories: "
CUT = "(From sagent: the conversation before this point was cut; "  # begins a summary
PLACE = "place"  # sender of messages on other directories
CHANGED = "person"  # sender of messages on calls that the person has changed
SHOWN = "sagent:"
"""Prefix of the sender of a message that shows a file; the file's path follows."""
_PLACE = re.compile(r"\n\n(Working directory: .*\nPlatform: .*\nDate: .*(?:\nFurther directories: .*)?)(?=\n\n|\Z)")


def compose(
    workspace: Workspace, today: date, instructions: str = "", system: str | None = None, append: str = ""
) -> str:
    """Return the default prompt, or `system` instead, then the directory and date, the instructions, and `append`."""
    cwd, *further = directories(workspace)
    lines = [cwd, f"Platform: {sys.platform}", f"Date: {today.isoformat()}", *further]
    prompt = system if system is not None else PROMPT_FILE.read_text("utf-8").strip()
    parts = (prompt, "\n".join(lines), instructions.strip(), append.strip())
    return "\n\n".join(part for part in parts if part)


def directories(workspace: Workspace) -> list[str]:
    """Return a line with the working directory and, if there are any, one with the further directories."""
    others = [str(root) for root in workspace.roots if root != workspace.cwd]
    return [f"Working directory: {workspace.cwd}", *([f"{FURTHER}{', '.join(others)}"] if others else [])]


def changed_directories(workspace: Workspace, system: str, history: Sequence[Message]) -> str:
    """Return what to tell a model of its directories; "" if it was told of them last, or never of any."""
    said = (message.content for message in reversed(history) if message.sender == PLACE)
    told = next(said, "") or split_place(system)[1]
    known = [line for line in told.splitlines() if line.startswith(("Working directory: ", FURTHER))]
    lines = directories(workspace)
    return "\n".join(("From now on:", *lines)) if known and lines != known else ""


def split_place(prompt: str) -> tuple[str, str, str]:
    """Split a prompt of `compose` into the text before the lines on directory and date, these, and the text after."""
    match = _PLACE.search(prompt)
    return (prompt[: match.start()], match[1], prompt[match.end() :]) if match else (prompt, "", "")
