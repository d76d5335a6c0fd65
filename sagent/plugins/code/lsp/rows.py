"""Language servers as data: one row each, from servers.toml or from a person's settings; and the search for their
programs."""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from pathlib import Path

from sagent.errors import ConfigError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, Json, JsonObject, json_dump, json_freeze_object
from sagent.lib.toml import toml_beside
from sagent.sandbox.profile import is_below

_PLACES = ("node_modules/.bin", ".venv/bin", "venv/bin")
"""Places of a project's own programs."""


@dataclass(frozen=True, slots=True)
class ServerRow:
    """A language server; servers.toml says what each member is."""

    name: str
    command: tuple[str, ...] = ()
    languages: Mapping[str, str] = field(default_factory=dict[str, str])
    kind: str = "types"
    roots: tuple[str, ...] = ()
    settings: JsonObject = EMPTY
    options: JsonObject = EMPTY
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    pulls: bool = True
    install: str = ""
    off: bool = False

    def __str__(self) -> str:
        """Return all members of a project's row, for the person to trust."""
        from dataclasses import fields

        given = {each.name: getattr(self, each.name) for each in fields(self)}
        changed = {name: value for name, value in given.items() if value not in ((), "", {}, EMPTY)}
        return json_dump(changed)

    def language(self, path: Path) -> str:
        """Return the protocol's name for the language of a file; "" if it does not serve it."""
        return self.languages.get(path.suffix.lower(), "")

    def root_of(self, path: Path, roots: Iterable[Path]) -> Path | None:
        """Return the directory in which a server is started, by a file's path without links, within one of the roots;
        None for a file outside. A home directory is no project: a server would read all of it."""
        real = (Path(os.path.realpath(root)) for root in roots)
        top = max((root for root in real if path.is_relative_to(root)), key=lambda root: len(root.parts), default=None)
        if top is None:
            return None
        between = (place for place in path.parents if place.is_relative_to(top))
        root = next((place for place in between if any((place / name).exists() for name in self.roots)), top)
        return None if Path(os.path.realpath(Path("~").expanduser())).is_relative_to(root) else root


@cache
def built_in() -> Mapping[str, ServerRow]:
    """Return the rows of servers.toml, in their order; the file is read at the first call."""
    return {name: _row(ServerRow(name), table) for name, table in toml_beside(__file__, "servers.toml").items()}


def read_rows(
    tables: Mapping[str, Mapping[str, object]], known: Mapping[str, ServerRow] | None = None
) -> Mapping[str, ServerRow]:
    """Parse rows of a settings file; one with a known name changes the given members of that one.

    Raises ConfigError, whose message begins with the name of the row and of its member.
    """
    before = {**built_in(), **(known or {})}
    return {name: _row(before.get(name, ServerRow(name)), table) for name, table in tables.items()}


def every_row(custom: Mapping[str, ServerRow]) -> list[ServerRow]:
    """Return the person's rows, and after them ours."""
    return [*custom.values(), *(row for name, row in built_in().items() if name not in custom)]


def _row(known: ServerRow, table: Mapping[str, object]) -> ServerRow:
    name = known.name
    given: dict[str, object] = {}
    for key, value in table.items():
        match key, value:
            case "command" | "roots", list():
                given[key] = _texts(name, key, value)  # pyright: ignore[reportUnknownArgumentType] -- checked there
            case "languages" | "env", Mapping():
                given[key] = dict(zip(value, _texts(name, key, [*value.values()]), strict=True))  # pyright: ignore[reportUnknownArgumentType]
            case "settings" | "options", Mapping():
                given[key] = json_freeze_object(value)  # pyright: ignore[reportUnknownArgumentType] -- the same
            case "kind" | "install", str():
                given[key] = value
            case "pulls" | "off", bool():
                given[key] = value
            case _:
                raise ConfigError(f"{name}.{key}: unknown key, or a value of the wrong type (docs/code.md)")
    row = replace(known, **given)
    if not (row.command and row.languages) and not row.off:
        raise ConfigError(f'{name}: give a command, and languages such as {{ ".py" = "python" }}')
    return row


def _texts(name: str, key: str, values: Sequence[object]) -> tuple[str, ...]:
    texts = tuple([value for value in values if isinstance(value, str) and value and "\0" not in value])
    if len(texts) < len(values):
        raise ConfigError(f"{name}.{key}: give strings")
    return texts


def find_program(row: ServerRow, root: Path, roots: Sequence[Path], *, own: bool) -> str:
    """Find a row's program: in the project (if `own` programs may be run), or in PATH outside it; "" if it is
    missing."""
    command = row.command[0]
    inside = [str(place / each) for place in dict.fromkeys((root, *roots)) for each in _PLACES] if own else []
    given = [each for each in os.get_exec_path() if each.startswith("/")]
    real = [os.path.realpath(each) for each in roots]
    outside = [each for each in given if own or not is_below(os.path.realpath(each), real)]
    found = shutil.which(command, path=os.pathsep.join([*inside, *outside])) if inside or outside else None
    return found if found and (own or not is_below(os.path.realpath(found), real)) else ""


def project_python(root: Path, roots: Sequence[Path]) -> str:
    """Return the interpreter of a project's environment; "" if it has none."""
    active = [Path(os.environ["VIRTUAL_ENV"])] if os.environ.get("VIRTUAL_ENV", "").startswith("/") else []
    places = (place / name for place in dict.fromkeys((root, *roots)) for name in (".venv", "venv"))
    return next((str(place / "bin" / "python") for place in (*places, *active) if (place / "bin/python").exists()), "")


def filled(value: Json, python: str) -> Json:
    """Return settings with the interpreter inserted; without one, such settings are left out."""
    match value:
        case JsonObject():
            return JsonObject(
                {key: filled(each, python) for key, each in value.items() if python or each != "{python}"}
            )
        case "{python}":
            return python
        case _:
            return value


def serving(rows: Iterable[ServerRow], path: Path) -> Iterator[ServerRow]:
    """Return the rows for a file's language."""
    return (row for row in rows if not row.off and row.language(path))
