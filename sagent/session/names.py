"""Names of sessions, of their directories, and of an agent's log."""

import os
import re
from datetime import UTC, datetime
from pathlib import Path

from sagent.lib.json import sha256_hex

_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def new_session_id() -> str:
    """Sorts by the time it was made, and is not made twice."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.urandom(3).hex()}"


def is_session_id(name: str) -> bool:
    """Return True for a name made by `new_session_id`, also one made longer, as for a bus."""
    return re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{6}([0-9a-f]{6})?", name) is not None


def sessions_of(state: Path, cwd: Path) -> Path:
    """Return the directory of a working directory's sessions. Different directories never share one."""
    real = str(cwd.resolve())
    slug = "".join(letter if letter in _SAFE else "-" for letter in real).strip("-")[-60:].strip("-")
    return state / "sessions" / f"{slug or 'root'}-{sha256_hex(os.fsencode(real))[:8]}"


def is_agent(path: str) -> bool:
    """Return True if an agent may have this path."""
    first, *rest = path.split("/")
    return first == "root" and all(0 < len(name) <= 100 and _SAFE.issuperset(name) for name in rest)


def log_file(session: Path, agent: str) -> Path:
    """Return the file of an agent's log. Raises ValueError for a path that is invalid or leads elsewhere."""
    if not is_agent(agent):
        raise ValueError(f"not an agent's path: {agent!r} (like root/review/2; letters, digits, - and _)")
    return session.joinpath(*agent.split("/")).with_suffix(".jsonl")


def agent_of(session: Path, file: Path) -> str:
    return file.relative_to(session).with_suffix("").as_posix()
