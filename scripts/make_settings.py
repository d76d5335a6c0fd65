"""Write sagent/config/typed.py and docs/settings.md from the declarations of settings: their types, for type checkers,
and a table of them. Write sagent/providers/owners.json from those of providers, and sagent/config/owners.json from
those of what a person types: whose each is, for messages where its plugin was deleted."""

import json
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from keyword import iskeyword
from pathlib import Path
from typing import cast

from sagent.config.declared import ALIASES, BY_NAME, CORE, SETTINGS
from sagent.config.plugins import Installed, find_plugins
from sagent.plugin import Plugin, Setting

FILE = Path(__file__).parents[1] / "sagent/config/typed.py"
PROVIDERS = Path(__file__).parents[1] / "sagent/providers/owners.json"
TYPED = Path(__file__).parents[1] / "sagent/config/owners.json"
PAGE = Path(__file__).parents[1] / "docs/settings.md"
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
"""Authentication; "credentials" are those stored by the provider's own tools, or its cloud's login."""
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
    as if it was left out. The command line's documentation explains them."""

'''
GUARDS = "\n\nGUARDS: Mapping[str, str] = {\n"
PAGE_HEAD = """# All settings

Made from the declarations by `scripts/make_settings.py`. What is read where is in [settings](cli.md#settings).
A key with a dot is in a table: `logging.level` is `level` in `[logging]`. `sagent config show` has the values in force.

"Project" is what a project's file may set: anything, only what is stricter, or anything once the person trusts the
folder; where it is empty, nothing.
"""
TABLE = (
    "| key | flag | variable | default | project | what it does |",
    "|---|---|---|---|---|---|",
)
PROJECT = {"no": "", "yes": "any", "lower": "stricter", "ask": "trusted"}
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
        plugins = find_plugins(Path(folder), Path(folder), foreign=False)
    every = [each.plugin for each in plugins.known]
    texts = {FILE: source(every), PROVIDERS: owners(every), TYPED: typed(every), PAGE: page(plugins)}
    if "--check" in sys.argv:
        stale = [file for file, text in texts.items() if not _lines(text) <= _lines(file.read_text("utf-8"))]
        for file in stale:
            print(f"{file} is not as it would be written: run {Path(__file__).name}, then commit it")
        return 1 if stale else 0
    for file, text in texts.items():
        file.write_text(text, "utf-8")
    return 0


def _lines(text: str) -> set[str]:
    """Return the lines, without the groups and modes that plugins add."""
    text = re.sub(r"groups \([\w, ]+\)|(?<=edit \(default\), )[\w, ]+full", "groups", text)
    return {line.rstrip(",") for line in text.splitlines() if line != "{}"}


def owners(plugins: Sequence[Plugin]) -> str:
    """Return the names of providers with their plugins, as JSON."""
    rows = [(row, plugin) for plugin in plugins if plugin != CORE for row in plugin.providers]
    paths = [("./", row.name) for row, _ in rows if row.read().get("paths")]
    paths += [("./sdk", plugin.name) for plugin in plugins for extra in plugin.extras if extra.to == "sdk"]
    return json.dumps(dict([*paths, *((row.name, plugin.name) for row, plugin in rows)]), indent=2) + "\n"


def page(plugins: Installed) -> str:
    """Return the page of settings, those of each plugin after those of the core."""
    tables: dict[str, list[str]] = {}
    for owner, each in plugins.owned(Setting):
        flag = f"`--{each.flag_name}{f' {each.metavar}' if each.metavar else ''}`" if each.help else ""
        words = ", ".join(map(str, each.order))
        about = (plugins.help_of(each) or (f"one of {words}" if words else "")).replace("[", "\\[")  # no link
        cells = (f"`{each.key or each.name}`", flag, f"`{each.variable}`", _shown(each), PROJECT[each.project], about)
        row = " | ".join(cell.replace("|", "\\|") for cell in cells)
        tables.setdefault(owner, []).append(f"| {row} |")
    texts = [PAGE_HEAD]
    for owner, rows in tables.items():
        texts += [*([] if owner == CORE.name else [f"## Plugin {owner}", ""]), *TABLE, *rows, ""]
    return "\n".join(texts)


def _shown(setting: Setting) -> str:
    """Return the default as a file would have it, "" for none."""
    if (default := setting.default) in (None, (), "", ...):
        return ""
    if isinstance(default, tuple):
        return ", ".join(f"`{each}`" for each in cast("tuple[object, ...]", default))
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def source(plugins: Sequence[Plugin]) -> str:
    """Return the module's text."""
    members = "".join(f"    {each.name}: {each.type}{_default(each)}\n" for each in SETTINGS)
    given: dict[str, str] = {}
    for each in (setting for plugin in plugins for setting in plugin.settings):
        given[each.name] = _given(each)
        given[each.keyword] = "_Names | None" if each.keyword == "option" else _given(each)
    given |= {name: _given(BY_NAME[meant]) for name, meant in ALIASES.items()}
    keywords = "".join(f"    {name}: {kind}\n" for name, kind in (given | OWN).items() if not iskeyword(name))
    tables = [table for plugin in plugins for table in plugin.tables if table.guards]
    rows = [f'    "{table.name}": "{table.folder_file}",\n' for table in tables]
    rows += [f'    "{name}": "",\n' for plugin in plugins for name in _around(plugin)]
    return f"{HEAD}{members}{BETWEEN}{keywords}{GUARDS}{''.join(rows)}}}\n"


def _around(plugin: Plugin) -> Iterator[str]:
    """Yield the settings of a plugin that select a part around tools and policy, whatever their value."""
    facts = {fact for part in plugin.parts if part.moment == "around" for fact in part.when}
    yield from (setting.name for setting in plugin.settings if setting.name in facts)


def typed(plugins: Sequence[Plugin]) -> str:
    """Return what a person may type of plugins, each with its plugin, as JSON."""
    found = {name: plugin.name for plugin in plugins if plugin != CORE for name in _typed(plugin)}
    return json.dumps(found, indent=2) + "\n"


def _typed(plugin: Plugin) -> Iterator[str]:
    """Yield commands, slash commands, operations of the core's commands, flags of runs, variables, tools, groups of
    tools and keys of files."""
    yield from (command.name for command in plugin.commands)
    yield from (f"/{command.name}" for command in plugin.slash_commands)
    yield from (extra.to for extra in plugin.extras if extra.help)
    yield from (f"--{setting.flag_name}" for setting in plugin.settings if setting.help)
    yield from (f"--{flag.name}" for flag in plugin.flags if not flag.of)
    yield from (setting.variable for setting in plugin.settings)
    yield from (variable.name for variable in plugin.variables)
    yield from (name for runner in plugin.runners for name in runner.variables)
    yield from (store.variable for store in plugin.stores)
    for tool in plugin.tools:
        yield from (f"--tools {name.lower()}" for name in (tool.name, *tool.groups))
    keys = (name for each in plugin.settings for name in (each.name, each.key) if name)
    yield from (f"[{name}]" for name in (*keys, *(table.name for table in plugin.tables)))


def _given(setting: Setting) -> str:
    """Return the type of what a program may give."""
    kind = setting.keyword_type or setting.type
    return kind if kind.endswith("| None") else f"{kind} | None"


def _default(setting: Setting) -> str:
    """Return the default as it stands in a class."""
    shown = f'"{setting.default}"' if isinstance(setting.default, str) else repr(setting.default)
    return "" if setting.default is ... else f" = {shown}"


if __name__ == "__main__":
    sys.exit(main())
