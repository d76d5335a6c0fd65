"""Settings files, TOML or YAML: their places, contents, and line numbers."""

import os
import re
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

from sagent.errors import ConfigError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_object
from sagent.lib.regular import read_given, read_regular
from sagent.lib.text import nearest
from sagent.plugin import HookEvent, PathBase, RefusedError

if TYPE_CHECKING:
    from sagent.providers.rows import Row

NAME = "config.toml"
NAMES = (NAME, "config.yaml", "config.yml")
"""The person's file: the first existing one of these."""

NO_VARIABLES = "a project's file may not read the environment"

_PLACEHOLDERS = frozenset(
    {"in the keyring", "lm-studio", "not-needed", "not needed", "no-key-required", "sk-no-key-required"}
)
"""Lines that look like a key, and are none."""
_MAX_FILE_BYTES = 1 << 18  # of a project's file
_PIECE = r"""(?s)\"{3}(?:\\.|[^\\])*?\"{3,5}|'{3}.*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|\#[^\n]*|[\[\]{}\n]"""

Line: TypeAlias = tuple[str, ...]
"""The way to a key: ("providers", "local", "base_url"); an item of a list is its number, from 0."""


class File:
    """A settings file that was read. `lines` has those of its keys if the parser reports them."""

    def __init__(
        self, path: Path, text: str, data: Mapping[str, object], lines: Mapping[Line, int] | None = None
    ) -> None:
        self.path = path
        self.data = data
        self._text = text
        self._lines = lines

    def where(self, *keys: str) -> str:
        return f"{self.path}:{self.line(*keys)}"

    def error(self, keys: Line, message: str) -> ConfigError:
        """Build an error about a key, with its place in the file."""
        return ConfigError(f"{self.where(*keys)}: {end_sentence(message)}")

    def unknown(self, keys: Line, names: Iterable[str], noun: str = "setting") -> ConfigError:
        hint = nearest(keys[-1], names) or f"; accepted are {', '.join(names)}"
        return self.error(keys, f"there is no {noun} {'.'.join(keys)}{hint}")

    def table(self, keys: Line, value: object) -> Mapping[str, object]:
        """Return the value if it is a table. Raises ConfigError."""
        if isinstance(value, Mapping):
            return cast("Mapping[str, object]", value)
        raise self.error(keys, f"{'.'.join(keys)} must be a table, [{'.'.join(keys)}]")

    def expanded(self, keys: Line, value: object, environ: Mapping[str, str]) -> object:
        """Return a key's value with variables expanded. Raises ConfigError for an unset one."""
        try:
            return expand(value, environ)
        except ValueError as error:
            raise self.error(keys, f"{'.'.join(keys)}: {error}") from None

    def exposed_key(self) -> str:
        """Return a warning if others may read this file and it contains a key itself; else ""."""
        mode = self.path.stat().st_mode
        if not stat.S_ISREG(mode) or not mode & 0o077:
            return ""
        keys = next((keys for keys, text in _texts(self.data, ()) if _is_literal_key(keys, text)), None)
        if keys is None:
            return ""
        return (
            f"{self.where(*keys)}: {'.'.join(keys)} is a key, and others may read the file (its mode is "
            f"{stat.S_IMODE(mode):04o}). Run: chmod 600 {shlex.quote(str(self.path))}"
        )

    def written_by_others(self) -> str:
        """Return which other users may write this file, and the remedy; "" if none may."""
        return written_by_others(str(self.path))

    def line(self, *keys: str) -> int:
        """Return the line on which a key's value begins, from 1.

        TOML's parser reports no lines, so the shortest beginning of the file that defines the key is searched.
        """
        if self._lines is not None:
            return self._lines.get(keys, 1)
        import tomllib

        def has_keys(end: int) -> bool:
            data: object = tomllib.loads(self._text[:end])
            for key in keys:
                data = _member(data, key)
            return data is not None

        from bisect import bisect_left

        ends = list(_statement_ends(self._text))
        place = bisect_left(ends, 1, key=has_keys)
        return self._text.count("\n", 0, ends[place - 1]) + 1 if 0 < place < len(ends) else 1


@dataclass(frozen=True, slots=True)
class GivenTable:
    """A table of a settings file, for its reader. Relative paths start at `base`.

    `environ` has the variables that it may use, None in a project's file, which may use none. `before` is the table's
    value in earlier layers, None if there is none; `tools` are the names of all tools, `providers` the rows of plugins,
    `hook_events` those of hooks, and `warn` shows the person a warning. `folder` is the added folder with the file.
    `gone` returns the names of missing plugins' additions of a kind, each with its plugin.
    """

    name: str
    file: File
    values: Mapping[str, object]
    base: PathBase
    environ: Mapping[str, str] | None
    before: object
    tools: Sequence[str]
    providers: "Mapping[str, Row]"
    warn: Callable[[str], None]
    hook_events: Mapping[str, HookEvent] = field(default_factory=dict[str, HookEvent])
    folder: Path | None = None
    gone: Callable[[type[tuple[object, ...]]], Mapping[str, str]] = lambda _: {}

    def rows(self) -> Mapping[str, Mapping[str, object]]:
        """Return its tables, with variables expanded. Raises ConfigError for anything else."""
        return {
            name: self._filled((self.name, name), self.file.table((self.name, name), row))
            for name, row in self.values.items()
        }

    def _filled(self, keys: Line, row: Mapping[str, object]) -> Mapping[str, object]:
        if self.environ is None and "${" in repr(row):
            raise RefusedError(NO_VARIABLES)
        return {name: self.file.expanded((*keys, name), value, self.environ or {}) for name, value in row.items()}


def _statement_ends(text: str) -> Iterator[int]:
    """Yield where valid TOML may end: after each line that does not continue a string, list or table."""
    depth = 0
    for match in re.finditer(_PIECE, text):
        depth += (match[0] in ("[", "{")) - (match[0] in ("]", "}"))
        if match[0] == "\n" and not depth:
            yield match.end()
    yield len(text)


def _texts(value: object, keys: Line) -> Iterator[tuple[Line, str]]:
    """Yield every text of a file, with the way to it."""
    if isinstance(value, str):
        yield keys, value
    elif isinstance(value, Mapping):
        for key, item in cast("Mapping[str, object]", value).items():
            yield from _texts(item, (*keys, key))
    elif isinstance(value, list):
        for number, item in enumerate(cast("list[object]", value)):
            yield from _texts(item, (*keys, str(number)))


def _is_literal_key(keys: Line, text: str) -> bool:
    """Return True if a text is a key itself: by the name of its setting, or by its shape."""
    if len(text) < 8 or "${" in text or text.lower() in _PLACEHOLDERS:
        return False
    name = keys[-1] if keys[0] == "mcp" and not text.startswith(("/", "~")) else ""
    if keys[-1] == "api_key":
        return True
    if not name and not re.search(r"[\w+/=.~-]{12}|://", text):  # no shape of a key has less
        return False
    from sagent.lib.secrets import is_key

    return is_key(name, text)


def end_sentence(message: str) -> str:
    return message if message.endswith((".", "?", "!")) else f"{message}."


def _member(data: object, key: str) -> object:
    if isinstance(data, Mapping):
        return cast("Mapping[str, object]", data).get(key)
    items = cast("list[object]", data) if isinstance(data, list) else []
    return items[int(key)] if key.isdecimal() and int(key) < len(items) else None


def written_by_others(path: str) -> str:
    """Return the other users that may write or replace a file, and the remedy; "" if none may."""
    real = Path(os.path.realpath(path))
    for place in dict.fromkeys((real, real.parent, Path(path).parent)):
        with suppress(OSError):  # importing it reports that
            found = place.stat()
            if found.st_uid not in (0, os.geteuid()):
                return f"{place} belongs to another user, who may write it: make it your own"
            sticky = place.is_dir() and found.st_mode & stat.S_ISVTX  # there users can only replace their own files
            shared = found.st_mode & 0o002 or (found.st_mode & 0o020 and not _is_private(found.st_gid))
            if shared and not sticky:
                return f"other users may write {place}: run chmod go-w {shlex.quote(str(place))}"
    return ""


def _is_private(group: int) -> bool:
    """Return True for the user's own group, which has their name and no other member: with umask 002 it may write."""
    import grp
    import pwd

    with suppress(KeyError):
        user, found = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
        members = {*found.gr_mem, *(each.pw_name for each in pwd.getpwall() if each.pw_gid == group)}
        return found.gr_name == user.pw_name and members <= {user.pw_name}
    return False


def find_file(config_dir: Path) -> tuple[Path, str]:
    """Return the person's settings file, existing or not, and a note if there are several; "" if not. Raises
    ConfigError if the directory is not accessible."""
    found = [config_dir / name for name in NAMES if _is_there(config_dir / name)]
    if len(found) < 2:
        return found[0] if found else config_dir / NAME, ""
    first, *others = (path.name for path in found)
    return found[0], f"{config_dir}: {first} is used, {' and '.join(others)} is not. Keep only one."


def _is_there(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read: {error.strerror or error}. Set HOME to your own home directory: su and sudo "
            "may keep another user's."
        ) from error
    return True


def read_file(path: Path, root: Path | None = None) -> File | None:
    """Read a settings file, by its suffix YAML or JSON, else TOML; None if it is missing.

    Raises ConfigError for an unreadable one. A project's must be a regular file in `root`, and of a plausible size."""
    try:
        raw = read_regular(path, root, max_bytes=_MAX_FILE_BYTES) if root else read_given(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}.") from error
    return parse_file(path, raw)


def parse_file(path: Path, raw: bytes) -> File:
    """Return the settings file that these bytes are. Raises ConfigError."""
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
        wrong = text.find("\0") if "\0" in text else None  # as in UTF-16 without its mark
    except UnicodeDecodeError as error:
        text, wrong = "", error.start
    if wrong is not None:
        from sagent.lib.encoding import Binary, decode

        found = decode(raw)
        kind = found.kind if isinstance(found, Binary) else found.encoding.name
        line = raw[:wrong].count(b"\n") + 1
        raise ConfigError(f"{path}:{line}: not UTF-8 text, but {kind}. Save the file as UTF-8.")
    match path.suffix.lower():
        case ".yaml" | ".yml":
            return _read_yaml(path, text)
        case ".json":
            return _read_json(path, text)
        case _:
            return _read_toml(path, text)


def _read_json(path: Path, text: str) -> File:
    """Parse a folder's JSON file, with its first line for all of it."""
    import json

    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not JSON: {error}.") from error
    return File(path, text, as_object(found), {})


def _read_yaml(path: Path, text: str) -> File:
    from sagent.config.yaml import YamlError, parse_yaml

    try:
        return File(path, text, *parse_yaml(text))
    except YamlError as error:
        raise ConfigError(f"{path}:{error.line}: not valid YAML: {error}.") from error


def _read_toml(path: Path, text: str) -> File:
    import tomllib

    try:
        return File(path, text, tomllib.loads(text, parse_float=Decimal))
    except tomllib.TOMLDecodeError as error:
        match = re.search(r"^(.*) \(at line (\d+), column (\d+)\)$", str(error))
        what, line = (match.group(1), match.group(2)) if match else (str(error), str(text.count("\n") + 1))
        raise ConfigError(f"{path}:{line}: not valid TOML: {what}.") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: not valid TOML: it nests too deeply.") from error


def expand(value: object, environ: Mapping[str, str]) -> object:
    """Replace `${VAR}` and `${VAR:-default}` in every text inside a value; `$${` stands for `${`.

    Raises ValueError naming an unset variable.
    """
    if isinstance(value, str):
        return _expand_text(value, environ) if "${" in value else value
    if isinstance(value, list):
        return [expand(item, environ) for item in cast("list[object]", value)]
    if isinstance(value, Mapping):
        return {key: expand(item, environ) for key, item in cast("Mapping[str, object]", value).items()}
    return value


def _expand_text(text: str, environ: Mapping[str, str]) -> str:
    def replace(match: re.Match[str]) -> str:
        if match.group().startswith("$$"):
            return match.group()[1:]
        name, default = match.group(1), match.group(2)
        if name is None:
            raise ValueError(f"{match.group()} is not a variable: write ${{NAME}} or ${{NAME:-default}}")
        found = environ.get(name)
        if default is not None:
            return found or default
        if found is None:
            raise ValueError(f"the variable {name} is not set; set it, or write ${{{name}:-}} to do without it")
        return found

    return re.sub(r"\$?\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|[^}]*\}?)", replace, text)
