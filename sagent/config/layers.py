"""From files, environment and flags to Settings, strictest reading of each."""

import os
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import cast

from sagent.config.fields import FIELDS, TABLES, Field, Place, RefusedError, is_stricter, nearest
from sagent.config.files import NAME, File, directory, expand, read_file
from sagent.config.settings import Settings
from sagent.context.instructions import repository_root
from sagent.errors import ConfigError

_OTHER_VARIABLES = ("SAGENT_CONFIG", "SAGENT_CUSTODY")  # the second marks sagent's own commands
_NEVER = "a project's file may not set it"


def load(
    flags: Mapping[str, object] | None = None, environ: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Settings:
    """The settings in force. `flags` by setting or flag name, as text or as typed values; None is not given.

    `environ` and `cwd` are this process's own where left out. Raises ConfigError that names the place and what is
    accepted. What a project's file may not set is left out, with a warning.
    """
    environ = os.environ if environ is None else environ
    cwd = _own_directory(flags or {}, environ) if cwd is None else cwd
    home = Path(environ.get("HOME") or Path("~").expanduser())
    draft = _Draft(environ, cwd, home)
    user = read_file(draft.user_file)
    if user is None and environ.get("SAGENT_CONFIG"):
        raise ConfigError(f"SAGENT_CONFIG: there is no file {draft.user_file}.")
    if user is not None:
        draft.take_file(user, trusted=True)
    given = _by_field(flags or {})
    project = read_file(_project_file(draft, given))
    if project is not None and not (user is not None and user.path.samefile(project.path)):
        draft.take_file(project, trusted=False)
    draft.take_environment()
    for field, value in given:
        draft.take(field, value, f"--{field.flag_name}", Place(cwd, home))
    return draft.settings()


def _own_directory(flags: Mapping[str, object], environ: Mapping[str, str]) -> Path:
    """This process's directory; where it was deleted, the one that is asked for, if it needs no other to start from."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        named = Path(str(flags.get("cwd") or environ.get("SAGENT_CWD") or "")).expanduser()
        if named.is_absolute():
            return named
        raise ConfigError(
            "The working directory no longer exists; cd to one that does, or give --cwd with an absolute path."
        ) from None


def _by_field(flags: Mapping[str, object]) -> list[tuple[Field, object]]:
    """Flags in the order of the settings. Raises ConfigError for one that is none."""
    names = {name: field for field in FIELDS for name in (field.flag_name.replace("-", "_"), field.name)}
    for name in flags:
        if name not in names:
            raise ConfigError(f"--{name.replace('_', '-')}: there is no such setting{nearest(name, names)}")
    found = {names[name].name: value for name, value in flags.items() if value is not None}
    return [(field, found[field.name]) for field in FIELDS if field.name in found]


def _project_file(draft: "_Draft", given: list[tuple[Field, object]]) -> Path:
    """The project is that of the directory to work in, which the layers above the project's file may name."""
    probe = _Draft(draft.environ, draft.cwd, draft.home)
    probe.values = {"cwd": draft.values.get("cwd", draft.cwd)}
    for field, value in [*_environment(draft.environ), *given]:
        if field.name == "cwd":
            origin = f"--{field.flag_name}" if (field, value) in given else field.variable
            probe.take(field, value, origin, Place(draft.cwd, draft.home))
    work = probe.values["cwd"]
    assert isinstance(work, Path)
    return (repository_root(work) or work) / ".sagent" / NAME


def _environment(environ: Mapping[str, str]) -> list[tuple[Field, str]]:
    return [(field, environ[field.variable]) for field in FIELDS if environ.get(field.variable)]


class _Draft:
    """Settings in the making: values so far, where each came from, and what was left out."""

    def __init__(self, environ: Mapping[str, str], cwd: Path, home: Path) -> None:
        self.environ = environ
        self.cwd = cwd
        self.home = home
        self.config_dir = directory("config", environ, home)
        named = environ.get("SAGENT_CONFIG")
        self.user_file = Place(cwd, home).path(named) if named else self.config_dir / NAME
        self.values: dict[str, object] = {}
        self.origins: dict[str, str] = {}
        self.warnings: list[str] = []

    def settings(self) -> Settings:
        """The value."""
        values = {name: value for name, value in self.values.items() if name != "cwd"}
        if self.values.get("continue_session") and self.values.get("session"):
            raise ConfigError(
                f"{self.origins['continue_session']} and {self.origins['session']} name two sessions: give one of them."
            )
        start = Settings(
            cwd=self._directory(),
            config_dir=self.config_dir,
            state_dir=directory("state", self.environ, self.home),
            origins=self.origins,
            warnings=tuple(self.warnings),
        )
        return replace(start, **values)

    def _directory(self) -> Path:
        cwd = self.values.get("cwd", self.cwd)
        assert isinstance(cwd, Path)
        return cwd.resolve()

    def take(self, field: Field, value: object, origin: str, place: Place) -> None:
        """A value of a trusted layer. Raises ConfigError."""
        found = self._read(field, value, origin, place)
        self._check_rules(field, found, origin)
        self._set(field, found, origin)

    def _check_rules(self, field: Field, value: object, where: str) -> None:
        """Warn of rules that are about no tool: nobody meant to write those."""
        if field.name not in ("allow", "deny"):
            return
        from fnmatch import fnmatchcase

        from sagent.tools import BUILTIN

        for rule in cast("tuple[str, ...]", value):
            tool = rule.partition("(")[0]
            if not tool.startswith("mcp__") and not any(fnmatchcase(name, tool) for name in BUILTIN):
                hint = nearest(tool, BUILTIN) or f"; the tools are {', '.join(BUILTIN)}."
                self.warnings.append(f"{where}: {field.name} = {rule!r}: there is no tool {tool}{hint}")

    def _read(self, field: Field, value: object, origin: str, place: Place) -> object:
        try:
            return field.read(value, place)
        except RefusedError as error:
            shown = f"{value!r}" if len(repr(value)) <= 80 else f"{repr(value)[:79]}…"
            message = str(error)
            raise ConfigError(f"{origin}: {field.name} = {shown} is not accepted: {message}{_stop(message)}") from None

    def _set(self, field: Field, value: object, origin: str) -> None:
        old = self.values.get(field.name)
        if field.adds and isinstance(old, tuple) and isinstance(value, tuple):
            value = tuple(dict.fromkeys((*cast("tuple[object, ...]", old), *cast("tuple[object, ...]", value))))
            origin = f"{self.origins[field.name]}, {origin}"
        self.values[field.name] = value
        self.origins[field.name] = origin

    def take_environment(self) -> None:
        """The layer of `SAGENT_...` variables; one that means nothing is warned of."""
        for field, value in _environment(self.environ):
            self.take(field, value, field.variable, Place(self.cwd, self.home))
        known = [*(field.variable for field in FIELDS), *_OTHER_VARIABLES]
        for name in self.environ:
            if name.startswith("SAGENT_") and name not in known:
                self.warnings.append(f"{name}: there is no such setting{nearest(name, known)}")

    def take_file(self, file: File, *, trusted: bool) -> None:
        """A file's layer: the person's own, or a project's, which may only make things stricter."""
        by_name = {field.name: field for field in FIELDS}
        for key, value in file.data.items():
            if key in ("allow", "deny"):
                raise ConfigError(f"{file.where(key)}: {key} belongs into the table [permissions].")
            if key in by_name:
                self._take_key(file, (key,), by_name[key], value, trusted=trusted)
            elif key == "permissions":
                for name, rules in _table(file, (key,), value).items():
                    if name not in ("allow", "deny"):
                        raise ConfigError(_unknown(file, (key, name), ("allow", "deny")))
                    self._take_key(file, (key, name), by_name[name], rules, trusted=trusted)
            elif key not in TABLES:
                raise ConfigError(_unknown(file, (key,), (*by_name, *TABLES)))
            elif not trusted:
                self.warnings.append(f"{file.where(key)}: {key} is ignored: {_NEVER}.")
            else:
                self._take_table(file, key, value)

    def _take_key(self, file: File, keys: tuple[str, ...], field: Field, value: object, *, trusted: bool) -> None:
        if keys[0] == "permissions" and isinstance(value, str):
            raise ConfigError(f'{file.where(*keys)}: {".".join(keys)} must be a list: write {keys[-1]} = ["..."].')
        if trusted:
            value = _expanded(file, keys, value, self.environ)
            found = self._read_in(file, keys, field, value)
            self._check_rules(field, found, file.where(*keys))
            self._set(field, found, str(file.path))
        elif (refusal := self._refusal(file, keys, field, value)) is not None:
            self.warnings.append(f"{file.where(*keys)}: {field.name} is ignored: {refusal}.")
        else:
            found = self._read_in(file, keys, field, value)
            self._check_rules(field, found, file.where(*keys))
            if field.name == "deny" and isinstance(found, tuple):
                from sagent.policy.rules import Rule

                base = file.path.parent.parent
                found = tuple(str(Rule.parse(rule).anchored(base)) for rule in cast("tuple[str, ...]", found))
            self._set(field, found, str(file.path))

    def _read_in(self, file: File, keys: tuple[str, ...], field: Field, value: object) -> object:
        try:
            return self._read(field, value, "", Place(file.path.parent, self.home))
        except ConfigError as error:
            raise ConfigError(f"{file.where(*keys)}{error}") from None

    def _refusal(self, file: File, keys: tuple[str, ...], field: Field, value: object) -> str | None:
        """Why a project's file may not set this, or None."""
        if field.project == "no":
            return _NEVER
        if "${" in repr(value):
            return "a project's file may not read the environment"
        if field.project == "lower":
            default = {item.name: item.default for item in fields(Settings)}[field.name]
            old = self.values.get(field.name, default)
            if not is_stricter(field.name, self._read_in(file, keys, field, value), old):
                return f"a project's file may only make it stricter than {old!s}"
        return None

    def _take_table(self, file: File, key: str, value: object) -> None:
        from sagent.config.tables import read_prices, read_providers

        table = _table(file, (key,), value)
        for name, row in table.items():
            _table(file, (key, name), row)
        expanded = {
            name: _table(file, (key, name), _expanded_row(file, (key, name), row, self.environ))
            for name, row in table.items()
        }
        self.values[key] = read_providers(file, expanded) if key == "providers" else read_prices(file, expanded)
        self.origins[key] = str(file.path)


def _expanded_row(file: File, keys: tuple[str, ...], row: object, environ: Mapping[str, str]) -> object:
    return {name: _expanded(file, (*keys, name), value, environ) for name, value in _table(file, keys, row).items()}


def _expanded(file: File, keys: tuple[str, ...], value: object, environ: Mapping[str, str]) -> object:
    try:
        return expand(value, environ)
    except ValueError as error:
        raise ConfigError(f"{file.where(*keys)}: {'.'.join(keys)}: {error}.") from None


def _table(file: File, keys: tuple[str, ...], value: object) -> Mapping[str, object]:
    if isinstance(value, Mapping):
        return cast("Mapping[str, object]", value)
    raise ConfigError(f"{file.where(*keys)}: {'.'.join(keys)} must be a table, [{'.'.join(keys)}].")


def _unknown(file: File, keys: tuple[str, ...], names: tuple[str, ...]) -> str:
    hint = nearest(keys[-1], names)
    accepted = hint or f"; accepted are {', '.join(names)}."
    return f"{file.where(*keys)}: there is no setting {'.'.join(keys)}{accepted}"


def _stop(message: str) -> str:
    return "" if message.endswith((".", "?", "!")) else "."
