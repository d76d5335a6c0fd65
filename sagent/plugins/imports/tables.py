"""Tables that are added to the person's config.toml."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from sagent.lib.atomic import put
from sagent.lib.json import as_object
from sagent.repl.settings_file import checked, one_by_one, read_file


@one_by_one
def add_tables(path: Path, tables: str) -> bytes:
    """Add tables at the end. Raises as `add_rule`."""
    text, before = read_file(path)
    end = "" if not text or text.endswith("\n") else "\n"
    wanted = _joined(before, tomllib.loads(tables))
    return checked(path, f"{text}{end}\n{tables}".lstrip("\n"), as_object(wanted), f"add these lines\n\n{tables}\n")


def write_private(path: Path, data: bytes) -> None:
    """Replace a file in one step, readable by its owner alone. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    put(path, data)


def _joined(left: object, right: object) -> object:
    """Join two values of one key: tables and lists are joined; others cannot be."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        first, second = cast("Mapping[str, object]", left), cast("Mapping[str, object]", right)
        return {**first, **{key: _joined(first[key], second[key]) if key in first else second[key] for key in second}}
    if isinstance(left, list) and isinstance(right, list):
        return [*cast("list[object]", left), *cast("list[object]", right)]
    return None
