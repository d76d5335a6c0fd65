"""Write sagent/config/typed.py from the declarations of settings: their types, for type checkers. Write
sagent/providers/owners.json from those of providers: whose each is, for messages where its plugin was deleted."""

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from keyword import iskeyword
from pathlib import Path

from sagent.config.declared import ALIASES, BY_NAME, CORE, SETTINGS
from sagent.config.plugins import find_plugins
from sagent.plugin import Plugin, Setting

FILE = Path(__file__).parents[1] / "sagent/config/typed.py"
PROVIDERS = Path(__file__).parents[1] / "sagent/providers/owners.json"
HEAD = '''"""The types of settings. Written by scripts/make_settings.py from declared.py."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict

from sagent.lib.dataclass import dataclass
from sagent.model import Effort
from sagent.policy.permissions import Mode
from sagent.sandbox import SandboxMode

if TYPE_CHECKING:
    from sagent.advisor.advisor import Advisor

Auth: TypeAlias = Literal["key", "bearer", "credentials"]
"""How we say who we are; "credentials" is what the provider's own tools have stored, or its cloud's login."""
_Path: TypeAlias = Path | str
_Names: TypeAlias = str | Sequence[str]
_Usd: TypeAlias = Decimal | float | str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSettings:
    """Every declared setting. None leaves a choice to whoever needs it."""

'''
BETWEEN = '''

class Overrides(TypedDict, total=False):
    """Keywords of `load_config`. They are read as on the command line, so that a text will do for each of them; None is
    as if it was left out. What they mean stands in the command line's documentation."""

'''
OWNERS = """

OWNERS: Mapping[str, str] = {
"""
GUARDS = """}

GUARDS: Mapping[str, str] = {
"""
COMMANDS = """}

COMMANDS: Mapping[str, str] = {
"""
OWN = {
    "executor_api_base": "str | None",
    "advisor_api_base": "_Names | None",
    "trust_project": "bool | None",
    "plugin": "_Path | Sequence[_Path] | None",
    "no_plugins": "bool | None",
}
"""Keywords that are about what other settings name."""


def main() -> int:
    """Write the files; with --check, only say whether they have all lines that would be written: those of a plugin that
    was deleted may stay."""
    with tempfile.TemporaryDirectory() as folder:
        plugins = find_plugins(Path(folder), Path(folder), foreign=False).plugins
    texts = {FILE: source(plugins), PROVIDERS: owners(plugins)}
    if "--check" in sys.argv:
        return 0 if all(_lines(text) <= _lines(file.read_text("utf-8")) for file, text in texts.items()) else 1
    for file, text in texts.items():
        file.write_text(text, "utf-8")
    return 0


def _lines(text: str) -> set[str]:
    return {line.rstrip(",") for line in text.splitlines()}


def owners(plugins: Sequence[Plugin]) -> str:
    """Return the names of providers with their plugins, as JSON."""
    rows = [(row, plugin) for plugin in plugins if plugin != CORE for row in plugin.providers]
    paths = [("./", row.name) for row, _ in rows if row.read().get("paths")]
    return json.dumps(dict([*paths, *((row.name, plugin.name) for row, plugin in rows)]), indent=2) + "\n"


def source(plugins: Sequence[Plugin]) -> str:
    """Return the module's text."""
    ours = {key.name: plugin.name for plugin in plugins if plugin != CORE for key in (*plugin.settings, *plugin.tables)}
    members = "".join(f"    {each.name}: {each.type}{_default(each)}\n" for each in SETTINGS)
    given: dict[str, str] = {}
    for each in (setting for plugin in plugins for setting in plugin.settings):
        given[each.name] = _given(each)
        given[each.keyword] = "_Names | None" if each.keyword == "option" else _given(each)
    given |= {name: _given(BY_NAME[meant]) for name, meant in ALIASES.items()}
    keywords = "".join(f"    {name}: {kind}\n" for name, kind in (given | OWN).items() if not iskeyword(name))
    owners = "".join(f'    "{name}": "{plugin}",\n' for name, plugin in ours.items())
    tables = [table for plugin in plugins for table in plugin.tables if table.guards]
    guards = "".join(f'    "{table.name}": "{table.folder_file}",\n' for table in tables)
    started = [(name, plugin.name) for plugin in plugins if plugin != CORE for name in _commands(plugin)]
    commands = "".join(f'    "{name}": "{plugin}",\n' for name, plugin in started)
    return f"{HEAD}{members}{BETWEEN}{keywords}{OWNERS}{owners}{GUARDS}{guards}{COMMANDS}{commands}}}\n"


def _commands(plugin: Plugin) -> Iterator[str]:
    """Yield what a person may type of a plugin: its commands, slash commands, and operations of the core's commands."""
    yield from (command.name for command in plugin.commands)
    yield from (f"/{command.name}" for command in plugin.slash_commands)
    yield from (extra.to for extra in plugin.extras if extra.help)


def _given(setting: Setting) -> str:
    """Return the type of what a program may give."""
    kind = setting.given or setting.type
    return kind if kind.endswith("| None") else f"{kind} | None"


def _default(setting: Setting) -> str:
    """Return the default as it stands in a class."""
    shown = f'"{setting.default}"' if isinstance(setting.default, str) else repr(setting.default)
    return "" if setting.default is ... else f" = {shown}"


if __name__ == "__main__":
    sys.exit(main())
