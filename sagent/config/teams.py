"""Teams as files: TOML that names roles, and the presets that come with sagent."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import cast

from sagent.config.files import File, Line, read_file
from sagent.config.values import PathBase, Reader, RefusedError, choice, texts, usd, whole
from sagent.errors import ConfigError, UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.text import nearest
from sagent.model import EFFORTS
from sagent.patterns.team import MODES, ROLE_NAME, VISIBLE, Mode, Role

PRESETS = Path(__file__).with_name("team_presets")
FILE = "team.toml"
NO_ADVISOR = ("none", "off")


@dataclass(frozen=True, slots=True)
class TeamFile:
    """A team as its file has it. `system` takes the place of the default system prompt; `budget_usd` caps the team.

    `unadvised` names the roles that are to have no advisor.
    """

    name: str
    roles: tuple[Role, ...]
    mode: Mode = "sequential"
    editor: str = ""
    visible_handoffs: int = VISIBLE
    budget_usd: Decimal | None = None
    description: str = ""
    system: str = ""
    unadvised: frozenset[str] = frozenset()


def preset_names() -> Sequence[str]:
    return sorted(path.name for path in PRESETS.iterdir() if (path / FILE).is_file())


def read_preset(name: str) -> TeamFile:
    """A preset. Raises UsageError naming those there are."""
    return read_team(_preset_file(name))


def preset_text(name: str) -> str:
    """A preset as one TOML file, its prompts in it: what a team of one's own can begin with. Raises UsageError."""
    file = _preset_file(name)

    def prompt(match: re.Match[str]) -> str:
        text = (file.parent / match[1]).read_text("utf-8").strip()
        return f"prompt = '''\n{text}\n'''"

    return re.sub(r'^prompt_file = "([^"]*)"$', prompt, file.read_text("utf-8"), flags=re.MULTILINE)


def _preset_file(name: str) -> Path:
    known = preset_names()
    if name not in known:
        hint = nearest(name, known) or f"; there are {', '.join(known)}."
        raise UsageError(f"--preset {name}: there is no such preset{hint}")
    return PRESETS / name / FILE


def read_team(path: Path) -> TeamFile:
    """A team's file. Raises ConfigError with file and line, the key, and what is accepted."""
    file = read_file(path)
    if file is None:
        raise ConfigError(f"{path}: there is no such file. `sagent team list` shows the presets.")
    return _Reader(file).team()


class _Reader:
    def __init__(self, file: File) -> None:
        self._file = file
        self._base = PathBase(file.path.absolute().parent, Path.home())

    def team(self) -> TeamFile:
        data = self._file.data
        self._known(data, _TEAM, ())
        roles = data.get("roles")
        if not isinstance(roles, list) or not roles:
            raise self._error(("roles",), "a team needs roles: [[roles]], each with a name and a prompt")

        items = cast("list[object]", roles)
        found = [self._role(item, place) for place, item in enumerate(items)]
        self._apart([role.name for role, _ in found])
        team = TeamFile(
            name=self._text(data, ("name",)) if "name" in data else self._file.path.stem,
            roles=tuple(role for role, _ in found),
            mode=cast("Mode", self._read(data, ("mode",), choice(*MODES), "sequential")),
            editor=self._text(data, ("editor",)) if "editor" in data else "",
            visible_handoffs=cast("int", self._read(data, ("visible_handoffs",), _number(0), VISIBLE)),
            budget_usd=cast("Decimal | None", self._read(data, ("budget_usd",), usd, None)),
            description=self._text(data, ("description",)) if "description" in data else "",
            system=self._text(data, ("system",)) if "system" in data else "",
            unadvised=frozenset(role.name for role, advised in found if not advised),
        )
        self._check_editor(team)
        return team

    def _role(self, item: object, place: int) -> tuple[Role, bool]:
        """A role, and whether it may have advisors."""
        at = ("roles", str(place))
        if not isinstance(item, Mapping):
            raise self._error(("roles",), "write each role as a table of its own: [[roles]]")
        table = cast("Mapping[str, object]", item)
        self._known(table, _ROLE, at)
        if "name" not in table:
            raise self._error(at, f"roles[{place + 1}] needs a name")
        name = self._text(table, (*at, "name"))
        if not ROLE_NAME.fullmatch(name) or name == "parent":
            rule = "give a letter, then letters, digits, - and _, at most 32"
            raise self._error((*at, "name"), f"{_shown(at)}.name = {name!r} is not accepted: {rule}")
        specs = self._texts(table, (*at, "advisor")) or ()
        unadvised = len(specs) == 1 and specs[0] in NO_ADVISOR
        tools = self._texts(table, (*at, "tools"))
        return (
            Role(
                name=name,
                prompt=self._prompt(table, at),
                model=self._text(table, (*at, "model")) if "model" in table else "",
                effort=str(self._read(table, (*at, "effort"), choice(*EFFORTS), "")),
                tools=() if tools in (("none",), ()) else tools,
                max_turns=cast("int | None", self._read(table, (*at, "max_turns"), _number(1), None)),
                budget_usd=cast("Decimal | None", self._read(table, (*at, "budget_usd"), usd, None)),
                advisors=() if unadvised else tuple(self._advisor(spec, (*at, "advisor")) for spec in specs),
            ),
            not unadvised,
        )

    def _prompt(self, table: Mapping[str, object], at: tuple[str, ...]) -> str:
        """The role's prompt, of the file or next to it: a team of somebody else's may not send any file to a model."""
        if ("prompt" in table) == ("prompt_file" in table):
            raise self._error(at, f"{_shown(at)} needs a prompt or a prompt_file, and not both")
        if "prompt" in table:
            return self._text(table, (*at, "prompt"))
        key = (*at, "prompt_file")
        name = self._text(table, key)
        path = cast("Path", self._read(table, key, lambda value, base: base.path(str(value)), None))
        self._check_near(path, key)
        try:
            text = path.read_text("utf-8-sig").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise self._error(key, f"prompt_file = {name!r} cannot be read: {reason}") from error
        if not text:
            raise self._error(key, f"prompt_file = {name!r} is empty")
        return text

    def _advisor(self, spec: str, at: tuple[str, ...]) -> str:
        from sagent.config.advisors import read_spec

        try:
            advisor = read_spec(spec, self._base).advisor
        except RefusedError as error:
            raise self._error(at, f"{_shown(at)} = {spec!r} is not accepted: {error}") from error
        if advisor.role:
            self._check_near(Path(advisor.role), at)
        return str(advisor)

    def _check_near(self, path: Path, at: tuple[str, ...]) -> None:
        try:
            near = path.resolve().is_relative_to(self._base.directory.resolve())
        except (OSError, RuntimeError, ValueError):  # links that lead in a circle
            near = False
        if not near:
            raise self._error(at, f"{_shown(at)}: {path} must lie in the directory of the team's file, or below")

    def _apart(self, names: Sequence[str]) -> None:
        lower = [name.lower() for name in names]
        for place, name in enumerate(lower):
            if name in lower[:place]:
                at = ("roles", str(place), "name")
                raise self._error(at, f"two roles are named {names[place]!r}: give each its own name")

    def _check_editor(self, team: TeamFile) -> None:
        names = [role.name for role in team.roles]
        if team.editor and team.mode != "parallel":
            raise self._error(("editor",), 'an editor joins roles that work at once: it goes with mode = "parallel"')
        if team.editor and team.editor not in names:
            hint = nearest(team.editor, names) or f"; there are {', '.join(names)}."
            raise self._error(("editor",), f"editor = {team.editor!r} is not one of the roles{hint}")

    def _known(self, table: Mapping[str, object], keys: Iterable[str], at: tuple[str, ...]) -> None:
        for key in table:
            if key not in keys:
                hint = nearest(key, keys) or f"; accepted are {', '.join(keys)}"
                raise self._error((*at, key), f"there is no key {_shown((*at, key))}{hint}")

    def _text(self, table: Mapping[str, object], at: tuple[str, ...]) -> str:
        value = table[at[-1]]
        if not isinstance(value, str) or not value.strip():
            raise self._error(at, f"{_shown(at)} = {value!r} is not accepted: give a text")
        return value.strip()

    def _texts(self, table: Mapping[str, object], at: tuple[str, ...]) -> tuple[str, ...] | None:
        """A list, or one text; of tools one text may name several."""
        if at[-1] not in table:
            return None
        value = table[at[-1]]
        if at[-1] == "advisor" and isinstance(value, str):
            value = [value]
        found = cast("list[str]", self._read(table, at, lambda _, __: texts(value, "texts"), []))
        return tuple(text.strip() for text in found)

    def _read(
        self,
        table: Mapping[str, object],
        at: tuple[str, ...],
        read: Callable[[object, PathBase], object],
        default: object,
    ) -> object:
        key = at[-1]
        if key not in table:
            return default
        try:
            return read(table[key], self._base)
        except RefusedError as error:
            raise self._error(at, f"{_shown(at)} = {table[key]!r} is not accepted: {error}") from None

    def _error(self, keys: Line, message: str) -> ConfigError:
        return self._file.error(keys, message)


def _number(least: int) -> Reader:
    """A whole number that is written as one: in a file, "3" is a text."""
    return lambda value, _: whole(least)(value if isinstance(value, int) else "")


def _shown(at: tuple[str, ...]) -> str:
    """A key as a person would call it: roles are counted from 1."""
    if at[0] != "roles" or len(at) < 2:
        return ".".join(at)
    return ".".join((f"roles[{int(at[1]) + 1}]", *at[2:]))


_TEAM = ("name", "description", "mode", "editor", "visible_handoffs", "budget_usd", "system", "roles")
_ROLE = ("name", "prompt", "prompt_file", "model", "effort", "tools", "max_turns", "budget_usd", "advisor")
