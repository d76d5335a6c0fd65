"""The goal and the loop of a session in its directory, so that they outlive the process that pursues them."""

import json
from contextlib import suppress
from dataclasses import asdict, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.lib.atomic import put
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_int, as_object, as_str, json_load
from sagent.lib.regular import read_given

if TYPE_CHECKING:
    from sagent.agent import Agent

FILE = "goals.json"


@dataclass(frozen=True, slots=True)
class Kept:
    """A goal with its attempts so far, and a loop that is `due` at a time in seconds since 1970; "" for none."""

    goal: str = ""
    attempts: int = 0
    max_attempts: int = 0
    loop: str = ""
    interval_seconds: float = 0.0
    due: float = 0.0


def read(session: str) -> Kept:
    """Return what is kept in a session's directory; nothing if its file is missing or damaged."""
    with suppress(OSError, ValueError):
        found = as_object(json_load(read_given(Path(session, FILE))))
        seconds = (found.get(name) for name in ("interval_seconds", "due"))
        interval, due = (float(each) if isinstance(each, int | float) and isfinite(each) else 0.0 for each in seconds)
        attempts, most = (max(as_int(found.get(name)), 0) for name in ("attempts", "max_attempts"))
        return Kept(as_str(found.get("goal")), attempts, most, as_str(found.get("loop")), interval, due)
    return Kept()


def keep(agent: "Agent", **changes: object) -> None:
    """Change what is kept for an agent's session; say so if that is impossible."""
    if not (session := agent.log.path):
        return
    kept = replace(read(session), **changes)
    try:
        if kept.goal or kept.loop:
            put(Path(session, FILE), json.dumps(asdict(kept)).encode())
        else:
            Path(session, FILE).unlink(missing_ok=True)
    except OSError as error:
        text = f"The goal or loop ends with this process, because it cannot be noted: {error.strerror}."
        agent.state.journal.notify("warning", text)
