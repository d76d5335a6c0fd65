"""Changes single values in the person's config.toml and leaves everything else as written."""

import re
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec

from sagent.config.files import NAMES
from sagent.errors import UsageError
from sagent.lib.filelock import rewrite
from sagent.lib.json import as_array, as_object
from sagent.lib.regular import read_given
from sagent.lib.toml import toml_value

P = ParamSpec("P")
_YAML = (".yaml", ".yml")


def one_by_one(change: Callable[Concatenate[Path, P], bytes | None]) -> Callable[Concatenate[Path, P], None]:
    """Replace a file by the result of `change`, so that no process overwrites another's change."""

    @wraps(change)
    def changed(path: Path, *args: P.args, **kwargs: P.kwargs) -> None:
        rewrite(path, path.parent, lambda: change(path, *args, **kwargs))

    return changed


@one_by_one
def add_rule(path: Path, rule: str, name: str = "allow") -> bytes | None:
    """Add a rule to `allow` or `deny` of `[permissions]`. Raises OSError, and UsageError if that is not safe."""
    text, before = read_file(path)
    table = as_object(before.get("permissions"))
    rules = as_array(table.get(name))
    if rule in rules:
        return None
    quoted = toml_value(rule)
    place = find_table(text, "permissions")
    if place is None:
        changed = with_table(text, "permissions", f"{name} = [{quoted}]")
    elif name not in table:
        changed = f"{text[: place[0]]}\n{name} = [{quoted}]{text[place[0] :]}"
    else:
        opening = re.compile(rf"^[ \t]*{name}[ \t]*=[ \t]*\[", re.MULTILINE).search(text, *place)
        at = opening.end() if opening else 0
        changed = f"{text[:at]}{quoted}{', ' if rules else ''}{text[at:]}"
    wanted = {**before, "permissions": {**table, name: [rule, *rules]}}
    return checked(path, changed, wanted, f"add {quoted} to permissions.{name}")


def read_file(path: Path) -> tuple[str, dict[str, object]]:
    """Return a file's text and values. YAML next to it is refused, as it would no longer be read after a change."""
    others = (path, *map(path.with_name, NAMES)) if path.suffix in _YAML or not path.exists() else ()
    if yaml := next((each for each in others if each.suffix in _YAML and each.exists()), None):
        raise UsageError(f"Your settings are in {yaml}, and YAML is not changed automatically: edit it yourself.")
    try:
        data = read_given(path)  # with the line ends that it has
    except FileNotFoundError:
        return "", {}
    try:
        return (text := data.decode()), tomllib.loads(text)
    except ValueError as error:
        raise UsageError(f"{path} is not valid TOML, so it was not changed: {error}") from error


def find_table(text: str, name: str) -> tuple[int, int] | None:
    """Return the first line of a table and the one after its last; `name` is a pattern."""
    header = re.search(rf"^[ \t]*\[[ \t]*{name}[ \t]*\].*$", text, re.MULTILINE)
    if header is None:
        return None
    following = re.compile(r"^[ \t]*\[", re.MULTILINE).search(text, header.end())
    return header.end(), following.start() if following else len(text)


def with_table(text: str, name: str, lines: str) -> str:
    """Return a text with a table at its end."""
    end = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{end}\n[{name}]\n{lines}\n".lstrip("\n")


def checked(path: Path, text: str, values: Mapping[str, object], by_hand: str) -> bytes:
    """Return a file's new content if it has the wanted change and no other, and make its directory. Otherwise raises
    UsageError, which advises to change it `by_hand`."""
    try:
        done = tomllib.loads(text) == values
    except tomllib.TOMLDecodeError:
        done = False
    if not done:
        raise UsageError(f"{path} is written in a way that cannot be changed automatically: {by_hand} yourself.")
    with suppress(FileNotFoundError):
        if not path.stat().st_mode & 0o222:
            raise UsageError(f"{path} is read-only, so it was not changed: {by_hand} yourself.")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return text.encode()
