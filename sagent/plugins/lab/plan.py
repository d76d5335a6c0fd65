"""The file of a sweep: tasks, grid of settings, and budget."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from decimal import Decimal
from itertools import product
from math import prod
from pathlib import Path
from typing import TypeAlias, cast

from sagent.cli.flags import plugins_of
from sagent.config.advisors import read_advisors
from sagent.config.declared import ALIASES, RULES
from sagent.config.files import File, Line, read_file
from sagent.config.settings import Settings
from sagent.config.values import path_of, texts, usd, whole
from sagent.errors import ConfigError, UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.text import nearest
from sagent.plugin import PathBase, Reader, RefusedError, Setting
from sagent.plugins.lab.trials import Task, place_tasks, read_tasks
from sagent.plugins.teams.files import TeamFile, preset_names, read_preset, read_team
from sagent.session.store import is_session

Point: TypeAlias = Mapping[str, object]
"""Values for some keys of the grid, as the file has them."""
_Axes: TypeAlias = Mapping[str, Sequence[object]]
KEYS = ("tasks", "task", "sessions", "session_check", "grid", "exclude", "include", "repeats", "jobs",
        "max_total_usd", "max_budget_usd")  # fmt: skip
MAX_CELLS = 10_000  # more is taken for a mistake
MAX_LABEL_CHARS = 60  # of a value in the name of a cell
NO_TEAM = "none"
_RULES = "advisor_rules"
_TEAM, _VISIBLE_HANDOFFS = "team", "visible_handoffs"


@dataclass(frozen=True, slots=True)
class Cell:
    """A point of the grid: one combination of settings, for an agent or a team. `settings` are as `load` takes them,
    `rules` are members of the advisors' rules."""

    name: str
    settings: Mapping[str, object] = field(default_factory=dict[str, object])
    rules: Mapping[str, object] = field(default_factory=dict[str, object])
    team: TeamFile | None = None

    def apply(self, settings: Settings) -> Settings:
        """Return settings that were loaded with `self.settings`, with the rules of the cell added."""
        if not self.rules:
            return settings
        from sagent.advisor.rules import Rules

        return replace(settings, advisor_rules=replace(settings.advisor_rules or Rules(), **self.rules))


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """The specification of a sweep. Checks find files of their tasks in `task_dir`. The prompts of `sessions` (paths or
    ids) are asked again, and `session_check` decides. USD limit all runs together, and one run."""

    tasks: tuple[Task, ...]
    task_dir: Path
    cells: tuple[Cell, ...]
    repeats: int = 1
    jobs: int = 1
    max_total_usd: Decimal | None = None
    max_budget_usd: Decimal | None = None
    sessions: tuple[str, ...] = ()
    session_check: str = ""


def read_spec(path: Path) -> Spec:
    """Return the sweep that a TOML (or YAML) file describes; its paths are relative to the file.

    Raises ConfigError naming file, line and key, and UsageError for its tasks.
    """
    file = read_file(path.absolute())
    if file is None:
        raise ConfigError(f"{path}: no such file: give the file that describes the sweep.")
    return _Reader(file).spec()


class _Reader:
    """Reads the file of a sweep, with errors that name its lines."""

    def __init__(self, file: File) -> None:
        self._file, self._error = file, file.error
        self._base = PathBase(file.path.parent, Path.home())
        self._fields: dict[str, Setting] = {}  # by the names they go by in the file
        for each in plugins_of(sys.argv[1:]).every(Setting):
            if each.is_swept:
                self._fields |= {each.name: each, each.keyword: each}
        self._fields |= {name: self._fields[meant] for name, meant in ALIASES.items()}
        self._fields |= {rule.name: rule for rule in RULES.values()}
        self._fields |= {_TEAM: Setting(_TEAM, _read_team), _VISIBLE_HANDOFFS: Setting(_VISIBLE_HANDOFFS, whole(0))}

    def spec(self) -> Spec:
        for key in self._file.data:
            if key not in KEYS:
                raise self._unknown_error((key,), KEYS, "key")
        tasks, task_dir = self._read_tasks()
        total, budget = self._read_usd("max_total_usd"), self._read_usd("max_budget_usd")
        numbers = (self._read_value((key,), whole(1), self._file.data.get(key, 1)) for key in ("repeats", "jobs"))
        repeats, jobs = cast("Iterator[int]", numbers)
        return Spec(
            tasks=tasks,
            task_dir=task_dir,
            cells=tuple(self._make_cells(budget)),
            repeats=repeats,
            jobs=jobs,
            max_total_usd=total,
            max_budget_usd=budget,
            sessions=self._read_sessions(),
            session_check=str(self._file.data.get("session_check", "")),
        )

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def _read_tasks(self) -> tuple[tuple[Task, ...], Path]:
        data, here = self._file.data, self._base.directory
        if "tasks" in data and "task" in data:
            raise self._error(("task",), "the tasks are in the file `tasks` already: keep only one of the two")
        if "tasks" in data:
            name = data["tasks"]
            if not isinstance(name, str):
                raise self._error(("tasks",), "tasks must name a file; for tasks in this file, write [[task]] for each")
            source = cast("Path", self._read_value(("tasks",), path_of, name))
            return read_tasks(source), source.parent
        rows = [
            (f"{self._file.where('task', str(number))}: task {number + 1}", row)
            for number, row in enumerate(self._rows_of("task"))
        ]
        if not rows and "sessions" not in data:
            raise ConfigError(
                f'{self._file.path}: there are no tasks: write tasks = "FILE", or [[task]] with name, prompt and check.'
            )
        return place_tasks(self._file.path, rows), here

    def _read_sessions(self) -> tuple[str, ...]:
        data = self._file.data
        if "sessions" not in data:
            if "session_check" in data:
                raise self._error(("session_check",), "session_check needs sessions: list them in sessions")
            return ()
        found = cast(
            "list[str]", self._read_value(("sessions",), lambda value, _: texts(value, "sessions"), data["sessions"])
        )
        check = data.get("session_check")
        if not found or len(set(found)) < len(found):
            raise self._error(("sessions",), "sessions must be a list of sessions, each of them once")
        if not isinstance(check, str) or not check.strip():
            missing = (
                "session_check is missing: give a command that exits with 0 when the work in its directory is done"
            )
            raise self._error(("session_check" if "session_check" in data else "sessions",), missing)
        paths = {name: cast("Path", self._read_value(("sessions",), path_of, name)) for name in found}
        return tuple(str(path) if is_session(path) else name for name, path in paths.items())

    # -- the grid ------------------------------------------------------------------------------------------------------

    def _make_cells(self, budget: Decimal | None) -> Iterator[Cell]:
        axes = self._read_axes()
        if budget is not None and "max_budget_usd" in axes:
            raise self._error(("max_budget_usd",), "max_budget_usd is in [grid] too: keep only one")
        shared: Point = {} if budget is None else {"max_budget_usd": budget}
        excluded = [self._read_exclude(number, row, axes) for number, row in enumerate(self._rows_of("exclude"))]
        names: dict[str, Point] = {}
        if axes or "include" not in self._file.data:
            for values in product(*axes.values()):
                point = dict(zip(axes, values, strict=True))
                if not any(all(point[key] in among for key, among in row.items()) for row in excluded):
                    point = self._without_useless_handoffs(point)
                    names[_cell_name(point, axes)] = point
        for number, row in enumerate(self._rows_of("include")):
            name, point = self._read_include(number, row, axes)
            if name in names or point in names.values():
                raise self._error(("include", str(number)), f"two cells are called {name!r}")
            names[name] = point
        if not names:
            raise self._error(("exclude",), "every cell of the grid is excluded: nothing would run")
        for name, point in names.items():
            yield self._make_cell(name, {**shared, **point})

    def _read_axes(self) -> dict[str, Sequence[object]]:
        axes: dict[str, Sequence[object]] = {}
        for keys, key, value in self._settings_in(
            ("grid",), self._file.table(("grid",), self._file.data.get("grid", {}))
        ):
            values = cast("list[object]", value) if isinstance(value, list) else [value]
            if not values:
                raise self._error(keys, f"{key} has no values: give at least one, or leave it out")
            for number, each in enumerate(values):
                self._read_value(
                    (*keys, str(number)) if isinstance(value, list) else keys, self._fields[key].read, each, key
                )
                if _as_text(each) in map(_as_text, values[:number]):
                    raise self._error(keys, f"{key} names {_as_text(each)!r} twice")
            axes[key] = values
        if _VISIBLE_HANDOFFS in axes and _TEAM not in axes:
            raise self._error(("grid", _VISIBLE_HANDOFFS), f"{_VISIBLE_HANDOFFS} is only for teams: give one with team")
        if (count := prod(map(len, axes.values()))) > MAX_CELLS:
            raise self._error(("grid",), f"the grid has {count:,} cells, more than the limit of {MAX_CELLS:,}")
        return axes

    def _settings_in(self, at: Line, table: Mapping[str, object]) -> Iterator[tuple[Line, str, object]]:
        """Yield the settings of a table: location, name, value."""
        seen: dict[str, str] = {}
        for name, value in table.items():
            rows = {name: value}
            if name == _RULES:
                rows = {f"{_RULES}.{member}": each for member, each in self._file.table((*at, name), value).items()}
            for key, each in rows.items():
                keys = (*at, *key.split("."))
                setting = self._fields.get(key)
                if setting is None:
                    raise self._unknown_error(keys, tuple(self._fields), "setting", key)
                if setting.name in seen:
                    raise self._error(keys, f"{key} and {seen[setting.name]} are the same setting: keep only one")
                seen[setting.name] = key
                yield keys, key, each

    def _read_exclude(self, number: int, row: object, axes: _Axes) -> dict[str, list[object]]:
        at = ("exclude", str(number))
        table = self._file.table(at, row)
        if not table:
            raise self._error(at, "an empty row would exclude every cell")
        found: dict[str, list[object]] = {}
        for keys, key, value in self._settings_in(at, table):
            if key not in axes:
                raise self._unknown_error(keys, tuple(axes), "axis of [grid]", key)
            several = isinstance(value, list) and value not in axes[key]
            found[key] = cast("list[object]", value) if several else [value]
            for each in found[key]:
                if each not in axes[key]:
                    accepted = [_as_text(value) for value in axes[key]]
                    hint = nearest(_as_text(each), accepted) or f"; its values are {', '.join(accepted)}."
                    raise self._error(keys, f"{key} has no value {_as_text(each)!r} in [grid]{hint}")
        return found

    def _read_include(self, number: int, row: object, axes: _Axes) -> tuple[str, dict[str, object]]:
        at = ("include", str(number))
        table = dict(self._file.table(at, row))
        name = table.pop("name", "")
        if not isinstance(name, str) or not name.isprintable() or len(name) > 100:
            raise self._error((*at, "name"), "give a cell a name of at most 100 printable characters")
        settings: dict[str, object] = {}
        for keys, key, value in self._settings_in(at, table):
            self._read_value(keys, self._fields[key].read, value, key)
            settings[key] = value
        set_names = {self._fields[key].name for key in settings}
        single = {key: values[0] for key, values in axes.items() if len(values) == 1}
        fixed = {key: value for key, value in single.items() if self._fields[key].name not in set_names}
        settings = self._without_useless_handoffs(settings)
        plain = " ".join(f"{key}={_as_text(value)}" for key, value in settings.items())
        short = all(_is_short(value) for value in settings.values())
        return name.strip() or (plain if plain and short else f"include-{number + 1}"), {**fixed, **settings}

    def _without_useless_handoffs(self, point: Point) -> dict[str, object]:
        """Return a point without `visible_handoffs` if its team hands nothing on."""
        team = _read_team(point.get(_TEAM, NO_TEAM), self._base)
        hands_on = team is not None and team.mode == "sequential"
        return {key: value for key, value in point.items() if key != _VISIBLE_HANDOFFS or hands_on}

    def _make_cell(self, name: str, point: Point) -> Cell:
        settings: dict[str, object] = {}
        rules: dict[str, object] = {}
        team = _read_team(point.get(_TEAM, NO_TEAM), self._base)
        if team is not None and _VISIBLE_HANDOFFS in point:
            team = replace(team, visible_handoffs=whole(0)(point[_VISIBLE_HANDOFFS], self._base))
        for key, value in point.items():
            setting = self._fields[key]
            if setting.name.startswith(f"{_RULES}."):
                rules[setting.member] = setting.read(value, self._base)
            elif setting.name == "advisors":
                placed = read_advisors(value, self._base)
                settings["advisors"] = [str(each.advisor) for each in placed] or "none"
            elif setting.name == "add_dirs":
                settings["add_dirs"] = [str(self._base.path(text)) for text in texts(value, "directories")]
            elif key not in (_TEAM, _VISIBLE_HANDOFFS):
                settings[setting.name] = value
        return Cell(name, settings, rules, team)

    # -- pieces --------------------------------------------------------------------------------------------------------

    def _read_usd(self, key: str) -> Decimal | None:
        if key not in self._file.data:
            return None
        found = cast("Decimal", self._read_value((key,), usd, self._file.data[key]))
        if not found:
            raise self._error((key,), f"{key} must be a number of USD above 0")
        return found

    def _read_value(self, keys: Line, read: Reader, value: object, key: str = "") -> object:
        try:
            return read(value, self._base)
        except RefusedError as error:
            raise self._error(keys, f"{key or keys[-1]} = {_as_quoted(value)} is not accepted: {error}") from None
        except UsageError as error:
            raise self._error(keys, f"{key or keys[-1]} = {_as_quoted(value)}: {error}") from error

    def _rows_of(self, key: str) -> list[object]:
        rows = self._file.data.get(key, [])
        if not isinstance(rows, list):
            raise self._error((key,), f"{key} must be a list: write [[{key}]] for each")
        return cast("list[object]", rows)

    def _unknown_error(self, keys: Line, names: Sequence[str], noun: str, key: str = "") -> ConfigError:
        hint = nearest(key or keys[-1], names) or f"; there are {', '.join(names)}." if names else ""
        return self._error(keys, f"{'.'.join(keys)}: there is no {noun} {key or keys[-1]!r}{hint}")


def _read_team(value: object, base: PathBase) -> TeamFile | None:
    """Read a preset by its name, or a team's file; "none" is a single agent."""
    if not isinstance(value, str) or not value.strip():
        raise RefusedError('give a preset, a FILE.toml, or "none"')
    if value == NO_TEAM:
        return None
    if value.endswith(".toml"):
        return read_team(base.path(value))
    presets = preset_names()
    if value not in presets:
        raise RefusedError(f"give a FILE.toml, none, or one of {', '.join(presets)}{nearest(value, presets)}")
    return read_preset(value)


def _cell_name(point: Point, axes: _Axes) -> str:
    """Name a cell by its values on the axes that have several."""
    several = [key for key in point if len(axes[key]) > 1] or list(point)
    labels = (
        _as_text(point[key]) if _is_short(point[key]) else f"#{list(axes[key]).index(point[key]) + 1}"
        for key in several
    )
    return " ".join(map("=".join, zip(several, labels, strict=True))) or "settings"


def _is_short(value: object) -> bool:
    text = _as_text(value)
    return 0 < len(text) <= MAX_LABEL_CHARS and text.isprintable() and " " not in text


def _as_text(value: object) -> str:
    """Return a value as it could be written in the file, without quotes."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(_as_text, cast("list[object]", value))) if isinstance(value, list) else str(value)


def _as_quoted(value: object) -> str:
    shown = _as_text(value) if isinstance(value, bool | int | Decimal) else repr(value)
    return shown if len(shown) <= 80 else f"{shown[:79]}…"
