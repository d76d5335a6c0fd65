"""Wishes of a project's file that only the person may grant, and the person's answers in the state directory.

A file may name another company's model, and so send the conversation there, or a more expensive one. An answer applies
to one folder and one wish: a changed wish is a new question.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from sagent.config.files import NAMES, File, parse_file
from sagent.config.settings import Wish
from sagent.lib.atomic import put
from sagent.lib.json import sha256_hex
from sagent.lib.regular import read_regular
from sagent.lib.text import spelled_name


def warning(wish: Wish) -> str:
    """Return the warning about a wish if no one can be asked."""
    them = ", ".join(f"{each.name} = {each.text}" for each in wish.wanted)
    return (
        f"{spelled_name(str(wish.file))}:{wish.wanted[0].line}: ignored until you trust this folder with it: {them}. "
        "--trust-project does so for one run; in a terminal, sagent without a prompt asks."
    )


def recall(wish: Wish, state_dir: Path) -> bool | None:
    """Return the person's answer to a wish; None if there is none, or it is unreadable."""
    try:
        kept: object = json.loads(read_regular(answer_file(wish, state_dir)))
    except (OSError, ValueError, RecursionError):
        return None
    return next((said for said in (True, False) if kept == _record(wish, trusted=said)), None)


def remember(wish: Wish, state_dir: Path, *, trusted: bool) -> None:
    """Save the person's answer. Raises OSError."""
    _keep(answer_file(wish, state_dir), _record(wish, trusted=trusted))


def answer_file(wish: Wish, state_dir: Path) -> Path:
    """Return the path of the answer to a wish. Without that file the person is asked again."""
    return _answer_to([_wants(wish), os.fsencode(wish.folder).hex()], state_dir)


def find_nearby(folder: Path) -> tuple[Path, bytes] | None:
    """Return the settings file of a working directory, by its name and a key that only our files have, and its
    contents: a project may have an unrelated config.yaml."""
    for name in NAMES[1:]:
        try:
            raw = read_regular(folder / name, folder)
        except OSError:
            continue
        if re.search(rb"^(?:executor|advisor)\s*:", raw, re.MULTILINE):
            return folder / name, raw
    return None


def use_nearby(folder: Path, state_dir: Path) -> tuple[File | None, str]:
    """Return the working directory's settings file if the person trusts its present text; else a notice, "" if there is
    no file. It may name addresses, keys and commands, which could serve an attacker. Raises ConfigError."""
    if (found := find_nearby(folder)) is None:
        return None, ""
    path, raw = found
    if nearby_answer(path, raw, state_dir).is_file():
        return parse_file(path, raw), ""
    return None, (
        f"{spelled_name(str(path))} is ignored: a file that comes with a folder could send your conversation and keys "
        f"anywhere. If it is yours: --config {path.name} uses it for one run, sagent config trust {path.name} for all."
    )


def trust_nearby(path: Path, raw: bytes, state_dir: Path) -> Path:
    """Save that the person trusts a file with exactly this content; return the record's path. Raises OSError."""
    kept = nearby_answer(path, raw, state_dir)
    _keep(kept, {"file": spelled_name(str(path)), "answer": "yes"})
    return kept


def nearby_answer(path: Path, raw: bytes, state_dir: Path) -> Path:
    """Return the path that records a file as trusted with its present content."""
    return _answer_to([sha256_hex(raw), os.fsencode(path.resolve()).hex()], state_dir)


def _answer_to(question: object, state_dir: Path) -> Path:
    return state_dir / "trust" / f"{sha256_hex(json.dumps(question, sort_keys=True).encode())[:32]}.json"


def _keep(path: Path, record: Mapping[str, object]) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    put(path, json.dumps(record, indent=1).encode())


def _record(wish: Wish, *, trusted: bool) -> dict[str, object]:
    return {"folder": spelled_name(str(wish.folder)), "wants": _wants(wish), "answer": "yes" if trusted else "no"}


def _wants(wish: Wish) -> dict[str, object]:
    return {each.name: each.value if isinstance(each.value, str) else list(each.value) for each in wish.wanted}
