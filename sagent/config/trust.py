"""What a project's file asks for and only the person may grant, and what they said to it, kept in the state directory.

It may name another company's model, and so send the conversation there, or one that costs more. An answer holds for one
folder and one wish: what asks for anything else is asked about again.
"""

import hashlib
import json
import os
from pathlib import Path

from sagent.config.settings import Wish
from sagent.lib.atomic import atomic_write
from sagent.lib.regular import read_regular


def warning(wish: Wish) -> str:
    """What is said where nobody can be asked."""
    them = ", ".join(f"{each.name} = {each.text}" for each in wish.wanted)
    return (
        f"{visible(wish.file)}:{wish.wanted[0].line}: ignored until you trust this folder with it: {them}. "
        "--trust-project does for one run; sagent without a prompt asks, in a terminal."
    )


def visible(path: Path) -> str:
    """A path without what would turn or hide the text around it."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in str(path))


def recall(wish: Wish, state_dir: Path) -> bool | None:
    """What the person said to a wish; None where they did not, or it cannot be read."""
    try:
        kept: object = json.loads(read_regular(answer_file(wish, state_dir)))
    except (OSError, ValueError, RecursionError):
        return None
    return next((said for said in (True, False) if kept == _record(wish, trusted=said)), None)


def remember(wish: Wish, state_dir: Path, *, trusted: bool) -> None:
    """Keep what the person said. Raises OSError."""
    path = answer_file(wish, state_dir)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(json.dumps(_record(wish, trusted=trusted), indent=1).encode())


def answer_file(wish: Wish, state_dir: Path) -> Path:
    """Where the answer to a wish is kept. Without it the person is asked again."""
    asked = json.dumps([_wants(wish), os.fsencode(wish.folder).hex()], sort_keys=True)
    return state_dir / "trust" / f"{hashlib.sha256(asked.encode()).hexdigest()[:32]}.json"


def _record(wish: Wish, *, trusted: bool) -> dict[str, object]:
    return {"folder": visible(wish.folder), "wants": _wants(wish), "answer": "yes" if trusted else "no"}


def _wants(wish: Wish) -> dict[str, object]:
    return {each.name: each.value if isinstance(each.value, str) else list(each.value) for each in wish.wanted}
