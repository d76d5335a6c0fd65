"""Checks of a plugin: everything that it names exists, and has the right type."""

import re
from collections.abc import Iterator
from inspect import iscoroutinefunction
from pathlib import Path
from types import FunctionType

from sagent.agent.resources import tools_of
from sagent.config.plugin_index import Known
from sagent.config.plugins import Installed
from sagent.errors import UsageError
from sagent.lib.text import nearest, one_line
from sagent.plugin import (
    KINDS,
    Extra,
    Finding,
    Part,
    PathBase,
    RefusedError,
    Setting,
    SlashCommand,
    Suite,
    ToolEntry,
    resolve,
)
from sagent.repl.commands.command import Command

_NAMES = re.compile(r"(?:\w+(?:\.\w+)*|(?:/|[A-Za-z]:\\)[^:\n]+\.py):[A-Za-z_]\w*")
"""A function by its module, or by a file."""

_FAMILIES = ("plugin", "sessions", "mode")  # commands to which plugins may add operations, and permission modes


def check_plugin(plugins: Installed, source: str) -> Iterator[Finding]:
    """Yield the findings about a plugin, given by its name or the path of its file. Raises UsageError if there is
    none."""
    known = _find(plugins, source)
    name = known.plugin.name
    if known.error:
        yield Finding("bad", name, f"left out: {known.error}")
        return
    yield Finding("good", name, f"{known.plugin.about} ({known.source.origin})")
    for member, (word, _) in KINDS.items():
        for row in getattr(known.plugin, member):
            yield from _of_row(word, row)
    promised = {word for member, (word, _) in KINDS.items() if getattr(known.plugin, member)}
    for suite in plugins.every(Suite):
        if suite.name in promised:
            yield Finding("good", f"suite {suite.name}", f"tests of {suite.help} may inherit from {suite.suite}")
    for notice in plugins.notices:
        if f"the plugin {name} (" in notice:
            yield Finding("poor", name, notice)


def _find(plugins: Installed, source: str) -> Known:
    path = str(Path(source).absolute())
    for known in plugins.known:
        if source == known.plugin.name or path == str(Path(known.source.origin).absolute()):
            return known
    names = [known.plugin.name for known in plugins.known]
    raise UsageError(f"There is no plugin {source}{nearest(source, names) or ': see sagent plugin list.'}")


def _of_row(word: str, row: tuple[object, ...]) -> Iterator[Finding]:
    """Yield the findings about one of a plugin's additions."""
    named = [each for each in row if isinstance(each, str) and _NAMES.fullmatch(each)] if row else []
    label = f"{word} {row[0]}"
    if isinstance(row, Setting):
        try:
            row.read("x" if row.default is None else row.default, PathBase(Path.cwd(), Path.home()))
        except RefusedError as error:
            if isinstance(error.__cause__, Exception) and "cannot read it" in str(error):
                yield Finding("bad", label, f"its reader fails: {error.__cause__}")
                return
        yield Finding("good", label, f"--{row.flag_name}, {row.variable}" if row.help else row.variable)
    for target in named:
        try:
            found = resolve(target)
        except (Exception, SystemExit) as error:
            yield Finding("bad", label, f"{target}: {type(error).__name__}: {one_line(str(error), 300)}")
            continue
        if isinstance(row, SlashCommand) and not isinstance(found, Command):
            yield Finding("bad", label, f"{target} was not made by sagent.repl.commands.command.command")
        elif isinstance(row, Suite) and not any(name.startswith("test_") for name in dir(found)):
            yield Finding("bad", label, f"{target} has no tests: methods whose names begin with test_")
        elif isinstance(row, Part) and not iscoroutinefunction(found):
            yield Finding("bad", label, f"{target} is no coroutine function: write async def")
        elif isinstance(row, ToolEntry) and (wrong := _wrong_tool(found, row.name)):
            yield Finding("bad", label, f"{target}: {wrong}")
        elif isinstance(row, Extra) and row.help and row.to.partition(" ")[0] not in _FAMILIES:
            yield Finding("bad", label, f'operations belong to {" or ".join(_FAMILIES)}: name it "sessions NAME"')
        else:
            yield Finding("good", label, target)


def _wrong_tool(target: object, name: str) -> str:
    """Return the fault of a tool, or of its class. A function that makes a tool is not checked."""
    if isinstance(target, FunctionType):
        return ""
    try:
        (tool,) = tools_of([target])
    except UsageError as error:
        return str(error)
    return "" if tool.name == name else f"it is called {tool.name}"
