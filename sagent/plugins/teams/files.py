"""Teams as files: TOML that names roles, and the presets that come with sagent."""

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TypeVar, cast

from sagent.config import values
from sagent.config.advisors import NONE
from sagent.config.files import File, Line, read_file
from sagent.config.values import option, options_of, shown, usd
from sagent.errors import ConfigError, UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.encoding import text_in
from sagent.lib.regular import read_regular
from sagent.lib.text import nearest, why_unread
from sagent.model import EFFORTS
from sagent.plugin import PathBase, RefusedError, choice
from sagent.plugins.teams.handoffs import HandoffBudget
from sagent.plugins.teams.team import MODES, ROLE_NAME, VISIBLE, Mode, Role

PRESETS = Path(__file__).with_name("presets")
FILE = "team.toml"

T = TypeVar("T")
D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class TeamFile:
    """A team from its file. `system` replaces the default system prompt. `budget_usd` limits the team's costs.

    `unadvised` names the roles without advisors.
    """

    name: str
    roles: tuple[Role, ...]
    mode: Mode = "sequential"
    editor: str = ""
    visible_handoffs: int = VISIBLE
    budget_usd: Decimal | None = None
    description: str = ""
    system: str = ""
    handoff: HandoffBudget = HandoffBudget()
    unadvised: frozenset[str] = frozenset()


def preset_names() -> Sequence[str]:
    return sorted(path.name for path in PRESETS.iterdir() if (path / FILE).is_file())


def read_preset(name: str) -> TeamFile:
    """Return a preset. Raises UsageError that lists the presets."""
    return read_team(_preset_file(name))


def preset_text(name: str) -> str:
    """Return a preset as one TOML file with its prompts, to begin a new team with. Raises UsageError."""
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
    """Read a team's file. Raises ConfigError with file and line, the key, and the accepted values."""
    file = read_file(path)
    if file is None:
        raise ConfigError(f"{path}: no such file. `sagent team list` shows the presets.")
    top = _Table(file, (), file.data, _TEAM)
    rows = file.data.get("roles")
    if not isinstance(rows, list) or not rows:
        raise top.error("a team needs roles: [[roles]], each with a name and a prompt", "roles")
    found = [_read_role(file, top, item, place) for place, item in enumerate(cast("list[object]", rows))]
    names = [role.name for role, _ in found]
    for place, name in enumerate(names):
        if name.lower() in map(str.lower, names[:place]):
            raise top.error(f"two roles are called {name!r}: give each its own name", "roles", str(place), "name")
    team = TeamFile(
        name=top.read("name", _text, file.path.stem),
        roles=tuple(role for role, _ in found),
        mode=cast("Mode", top.read("mode", choice(*MODES), "sequential")),
        editor=top.read("editor", _text, ""),
        visible_handoffs=top.read("visible_handoffs", _number(0), VISIBLE),
        budget_usd=top.read("budget_usd", usd, None),
        description=top.read("description", _text, ""),
        system=top.read("system", _text, ""),
        handoff=_read_handoff(top),
        unadvised=frozenset(role.name for role, advised in found if not advised),
    )
    if team.editor and team.mode != "parallel":
        raise top.error('an editor merges the work of parallel roles: it needs mode = "parallel"', "editor")
    if team.editor and team.editor not in names:
        hint = nearest(team.editor, names) or f"; there are {', '.join(names)}."
        raise top.error(f"editor = {team.editor!r} is not one of the roles{hint}", "editor")
    return team


class _Table:
    """A table of the file, whose members are read one by one. Invalid members raise ConfigError with file and line."""

    def __init__(self, file: File, at: Line, members: Mapping[str, object], names: Sequence[str]) -> None:
        self.base = PathBase(file.path.absolute().parent, Path.home())
        self.members = members
        self._file, self._at = file, at
        for key in members:
            if key not in names:
                hint = nearest(key, names) or f"; accepted are {', '.join(names)}"
                raise self.error(f"there is no key {self.name(key)}{hint}", key)

    def name(self, *keys: str) -> str:
        """Return a key as a person would call it: roles are counted from 1."""
        return ".".join((f"roles[{int(self._at[1]) + 1}]", *keys) if self._at else keys)

    def error(self, message: str, *keys: str) -> ConfigError:
        return self._file.error((*self._at, *keys), message)

    def read(self, key: str, read: Callable[[object, PathBase], T], default: D) -> T | D:
        if key not in self.members:
            return default
        try:
            return read(self.members[key], self.base)
        except RefusedError as error:
            raise self.error(f"{self.name(key)} = {shown(self.members[key])} is not accepted: {error}", key) from None

    def check_near(self, path: Path, key: str) -> None:
        try:
            near = path.resolve().is_relative_to(self.base.directory.resolve())
        except (OSError, RuntimeError, ValueError):  # links that lead in a circle
            near = False
        if not near:
            raise self.error(f"{self.name(key)}: {path} must lie in the directory of the team's file, or below", key)


def _read_role(file: File, top: _Table, item: object, place: int) -> tuple[Role, bool]:
    """Return a role, and whether it may have advisors."""
    if not isinstance(item, Mapping):
        raise top.error("write each role as a table of its own: [[roles]]", "roles")
    table = _Table(file, ("roles", str(place)), cast("Mapping[str, object]", item), _ROLE)
    if "name" not in table.members:
        raise table.error(f"{table.name()} needs a name")
    name = table.read("name", _role_name, "")
    if {"executor", "model"} <= table.members.keys():
        raise table.error("executor and model are the same setting: keep only one", "executor")
    specs = table.read("advisor", lambda value, _: _texts([value] if isinstance(value, str) else value), ())
    unadvised = len(specs) == 1 and specs[0] in NONE
    tools = table.read("tools", _texts, None)
    role = Role(
        name=name,
        prompt=_read_prompt(table),
        model=table.read("executor" if "executor" in table.members else "model", _text, ""),
        effort=str(table.read("effort", choice(*EFFORTS), "")),
        options=_read_options(table),
        tools=() if tools in (("none",), ()) else tools,
        max_turns=table.read("max_turns", _number(1), None),
        budget_usd=table.read("budget_usd", usd, None),
        handoff=_read_handoff(table) or None,
        advisors=() if unadvised else tuple(_read_advisor(table, spec) for spec in specs),
    )
    return role, not unadvised


def _read_handoff(table: _Table) -> HandoffBudget:
    tokens, most = (table.read(key, _number(1), None) for key in _HANDOFF)
    return HandoffBudget(tokens, most)


def _read_options(table: _Table) -> Mapping[str, object] | None:
    """Members of its requests: those of the table `options`, and `temperature`, the most common one."""
    pairs = table.read("options", options_of, ())
    if "temperature" in table.members:
        pairs = (*pairs, *options_of({"temperature": table.read("temperature", values.temperature, 0.0)}))
    return dict(map(option, pairs)) or None


def _read_prompt(table: _Table) -> str:
    """Return the role's prompt, from the file or a file next to it. A stranger's team must not send other files to a
    model."""
    key = "prompt_file"
    if ("prompt" in table.members) == (key in table.members):
        raise table.error(f"{table.name()} needs a prompt or a prompt_file, and not both")
    if "prompt" in table.members:
        return table.read("prompt", _text, "")
    name = table.read(key, _text, "")
    path = table.read(key, lambda value, base: base.path(str(value)), Path())
    table.check_near(path, key)
    try:
        text = text_in(read_regular(path))
    except OSError as error:
        raise table.error(f"prompt_file = {name!r} cannot be read: {why_unread(error)}", key) from error
    if text is None:
        raise table.error(f"prompt_file = {name!r} is not text", key)
    if not (text := text.strip()):
        raise table.error(f"prompt_file = {name!r} is empty", key)
    return text


def _read_advisor(table: _Table, spec: str) -> str:
    from sagent.config.advisors import read_spec

    try:
        advisor = read_spec(spec, table.base).advisor
    except RefusedError as error:
        raise table.error(f"{table.name('advisor')} = {spec!r} is not accepted: {error}", "advisor") from error
    if advisor.role:
        table.check_near(Path(advisor.role), "advisor")
    return str(advisor)


def _text(value: object, _: object = None) -> str:
    if text := values.text_of(value).strip():
        return text
    raise RefusedError("give a string")


def _texts(value: object, _: object = None) -> tuple[str, ...]:
    """Return a list, or one text that may name several items."""
    return tuple(text.strip() for text in values.texts(value, "strings"))


def _role_name(value: object, _: object) -> str:
    name = _text(value)
    if not ROLE_NAME.fullmatch(name) or name == "parent":
        raise RefusedError("give a name of at most 32 letters, digits, - and _ that begins with a letter")
    return name


def _number(minimum: int) -> Callable[[object, PathBase], int]:
    """Return a whole number. In a file, "3" is a text."""
    return lambda value, _: values.whole(minimum)(value if isinstance(value, int) else "")


_HANDOFF = ("handoff_tokens", "handoff_bytes")
_TEAM = ("name", "description", "mode", "editor", "visible_handoffs", *_HANDOFF, "budget_usd", "system", "roles")
_ROLE = (
    *("name", "prompt", "prompt_file", "model", "executor", "effort", "temperature", "options"),
    *("tools", "max_turns", "budget_usd", "advisor", *_HANDOFF),
)
