"""Removal of a row from the person's config.toml."""

import re
from pathlib import Path

from sagent.errors import UsageError
from sagent.lib.json import as_object
from sagent.repl.settings_file import one_by_one, read_file, replace_file


@one_by_one
def remove_row(path: Path, table: str, name: str, what: str) -> None:
    """Remove `[TABLE.NAME]`, which is a `what`. Raises as `add_rule`, and UsageError where there is none."""
    text, before = read_file(path)
    rows = as_object(before.get(table))
    if name not in rows:
        raise UsageError(f"{path} has no {what} {name!r}. It has: {', '.join(rows) or 'none'}.")
    wanted = {**before, table: {key: value for key, value in rows.items() if key != name}}
    wanted = wanted if wanted[table] else {key: value for key, value in wanted.items() if key != table}
    header = rf"""[ \t]*\[[ \t]*{table}[ \t]*\.[ \t]*["']?{re.escape(name)}["']?[ \t]*(?:\..*)?\].*"""
    text = re.sub(rf"^{header}\n?(?:(?![ \t]*\[).*\n?)*", "", text, flags=re.MULTILINE)
    replace_file(path, text, wanted, f"remove [{table}.{name}]")
