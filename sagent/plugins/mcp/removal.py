"""Rows of the person's config.toml, added and removed."""

import re
from collections.abc import Mapping
from pathlib import Path

from sagent.errors import UsageError
from sagent.lib.json import as_object
from sagent.lib.toml import toml_members
from sagent.repl.settings_file import checked, one_by_one, read_file, with_table


@one_by_one
def add_row(path: Path, table: str, name: str, options: Mapping[str, object], refusal: str) -> bytes:
    """Add `[TABLE.NAME]` with these members. Raises as `add_rule`, and UsageError with the text `refusal` if the name
    exists."""
    text, before = read_file(path)
    rows = as_object(before.get(table))
    if name in rows:
        raise UsageError(f"{path} has {refusal}")
    wanted = {**before, table: {**rows, name: dict(options)}}
    return checked(path, with_table(text, f"{table}.{name}", toml_members(options)), wanted, f"add [{table}.{name}]")


@one_by_one
def remove_row(path: Path, table: str, name: str, noun: str) -> bytes:
    """Remove `[TABLE.NAME]`, which is a `noun`. Raises as `add_rule`, and UsageError if it does not exist."""
    text, before = read_file(path)
    rows = as_object(before.get(table))
    if name not in rows:
        raise UsageError(f"{path} has no {noun} {name!r}. It has: {', '.join(rows) or 'none'}.")
    wanted = {**before, table: {key: value for key, value in rows.items() if key != name}}
    wanted = wanted if wanted[table] else {key: value for key, value in wanted.items() if key != table}
    header = rf"""[ \t]*\[[ \t]*{table}[ \t]*\.[ \t]*["']?{re.escape(name)}["']?[ \t]*(?:\..*)?\].*"""
    text = re.sub(rf"^{header}\n?(?:(?![ \t]*\[).*\n?)*", "", text, flags=re.MULTILINE)
    return checked(path, text, wanted, f"remove [{table}.{name}]")
