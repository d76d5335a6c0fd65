"""Finds and imports plugins once, checked, when the index is not current.

Faulty ones are left out, and one sentence names the plugin, the problem and the remedy.
"""

import atexit
import json
import os
import re
import sys
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, cast, get_args, get_origin, get_type_hints

from sagent.config.declared import ALIASES, CORE, RESERVED
from sagent.config.files import written_by_others
from sagent.config.plugin_index import (
    OWN,
    Head,
    Index,
    Known,
    Places,
    Source,
    as_row,
    made,
    names_kept,
    stamp,
    write_index,
)
from sagent.lib import flock
from sagent.lib.raised import reason
from sagent.plugin import API, KINDS, OURS, Flag, Plugin, ProviderRow, Setting, Table, entry_points, placed, resolve

MAX_FORMER = 500
"""Names in the index of what plugins had that are gone."""
_GUARDS = re.compile(rb"""guards\s*=\s*True|["']around["']""")
_PLAIN = "[a-z][a-z0-9_-]{0,60}", "small letters, digits, - and _"
_KEY = "[a-z][a-z0-9_]{0,60}", "small letters, digits and _"
_WORDS = "[A-Za-z0-9_-]+( [A-Za-z0-9_-]+)*", "words of letters, digits, - and _"
_FORMS: Mapping[str, tuple[str, str]] = {
    "settings": _KEY,
    "tables": _KEY,
    "checks": _WORDS,
    "extras": _WORDS,
    "suites": _WORDS,
    "variables": ("[A-Za-z_][A-Za-z0-9_]*", "letters, digits and _"),
    "hook_events": ("[A-Z][A-Za-z0-9]{0,60}", "letters and digits, the first a capital"),
    "tools": (r"[A-Za-z_][A-Za-z0-9_-]{0,63}\*?", "letters, digits, - and _"),  # as providers do; or a beginning
    "providers": (".+", "a text of one line"),  # its data were parsed with it
}
"""The forms of names, by member of Plugin, if they are special."""
_FLAG = re.compile("--[a-z][a-z0-9_-]{0,60}|-[A-Za-z]")


def load_anew(places: Places, stamps: Sequence[str], place: Path, old: Index) -> Index:
    """Import the declarations of all plugins, and write the index. Known additions that are gone are kept as such."""
    found = [*sources(places)]
    index = index_of([*_imported(found, places.own_folder, place)])
    guards = {head.target for head in old.heads if head.guards}
    heads = (head._replace(guards=head.guards or (bool(head.error) and head.target in guards)) for head in index.heads)
    index = index._replace(heads=tuple(heads))
    there = {each[:2] for each in names_kept(index, ours=True)}
    former = dict.fromkeys(each for each in (*names_kept(old), *old.formerly) if each[:2] not in there)
    index = index._replace(formerly=(*former,)[:MAX_FORMER])
    now = [*places.stamps()]
    if now != [*stamps] and found == [*sources(places)]:
        stamps = now  # a cache folder that Python wrote beside an imported module is no change
    if os.path.isdir(place.parent):  # noqa: PTH112 -- False for a name that is too long
        _write(place, index, stamps)
    else:
        atexit.register(_write, place, index, stamps)  # there may be a state directory by then
    return index


def _imported(sources: Sequence[Source], own_folder: str, place: Path) -> Iterator[Known]:
    """Yield the declarations. One that crashed the process the last time is left out, and so is one in the person's
    `own_folder` that another user may write."""
    with _mark(place.with_suffix(".importing")) as (ended, mark):
        for source in sources:
            others = os.path.dirname(source.origin) == own_folder and written_by_others(source.origin)  # noqa: PTH120 -- a text
            if why := source.fault or others:
                yield Known(Plugin(source.name), source, why)
                continue
            if ended == source.target:
                again = f"sagent ended while it was imported; delete {place} to have it tried again"
                yield Known(Plugin(source.name), source, again)
                continue
            if source.origin != OWN:
                mark(source.target)
            yield known_plugin(source)


@contextmanager
def _mark(place: Path) -> Generator[tuple[str, Callable[[str], object]]]:
    """Record the work of the block in a file; yield the record of a last process that ended without leaving the block.
    Does nothing without a state directory, or while another process holds the record."""
    with ExitStack() as stack:
        try:
            file = stack.enter_context(os.fdopen(os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b"))
            flock.lock(file.fileno())
        except OSError:
            yield "", lambda _: None
            return

        def mark(text: str) -> None:
            with suppress(OSError):  # no room is left
                os.ftruncate(file.fileno(), 0)
                os.pwrite(file.fileno(), text.encode(), 0)

        stack.callback(place.unlink, missing_ok=True)
        yield file.read().decode(errors="replace"), mark


def _write(place: Path, index: Index, stamps: Sequence[str]) -> None:
    with suppress(OSError):
        write_index(place, _with_data(index), stamps, dict(_times(index)))


def _times(index: Index) -> Iterator[tuple[str, int]]:
    """Yield the files of plugins in distributions: an editable one may change without an installation."""
    for head in index.heads:
        module = sys.modules.get(head.target.rpartition(":")[0])
        if head.origin != OWN and module is not None and module.__file__:
            yield module.__file__, stamp(module.__file__)


def sources(places: Places) -> Iterator[Source]:
    """Yield the sources of plugins: ours, those of installed distributions, and files."""
    for path in sorted(OURS.glob("*/__init__.py")):
        yield Source(path.parent.name, OWN, f"sagent.plugins.{path.parent.name}:plugin")
    yield from (Source(*entry_point) for entry_point in entry_points(places.sites))
    for file in places.files:
        yield Source(Path(file).stem, file, f"{file}:plugin")


def known_plugin(source: Source) -> Known:
    """Import a plugin's declaration, once, and return it."""
    try:
        with redirect_stdout(sys.stderr):  # its output is no part of an answer
            plugin = resolve(source.target)
        if type(plugin) is not Plugin:
            raise TypeError(f"its `plugin` must be a sagent.plugin.Plugin, not {type(plugin).__name__}")
        if type(plugin.api) is not int:
            raise TypeError("its api must be a whole number")
        if plugin.api > API:
            raise ValueError(f"it is made for plugin API {plugin.api}, and this sagent has {API}")
        known = Known(_placed(plugin, source), source)
        _check(known)
    except KeyboardInterrupt as error:
        error.add_note(
            f"The plugin {source.name} ({source.origin}) was being imported. --no-plugins starts without plugins."
        )
        raise
    except BaseException as error:  # third-party code
        return Known(Plugin(source.name), source, reason(error))
    return known


def _placed(plugin: Plugin, source: Source) -> Plugin:
    """Return a plugin whose functions are named with their module: ":run" is in that of the plugin."""
    home = source.target.rpartition(":")[0]

    def with_place(row: object, kind: type[tuple[object, ...]]) -> object:
        if isinstance(row, Setting) or type(row) is not kind:
            return row
        whole = cast("Callable[..., object]", kind)(*(placed(each, home) for each in row))
        if isinstance(whole, ProviderRow) and source.origin != OWN:  # ours are read on use
            from sagent.providers.rows import declared_row

            declared_row(whole, plugin.name)
            whole = whole._replace(data=json.dumps(whole.read()))
        return whole

    rows = {
        member: tuple(with_place(one, kind) for one in _tuple(getattr(plugin, member), member))
        for member, (_, kind) in KINDS.items()
    }
    return replace(plugin, **rows)


def _with_data(index: Index) -> Index:
    """Return the index with all data of providers as JSON, which needs no TOML parser."""
    rows = [
        (at, {**row, "data": json.dumps(made(ProviderRow, row, index.heads[at]).read())})
        for at, row in index.rows.get("providers", ())
    ]
    return index._replace(rows={**index.rows, "providers": rows})


def _check(known: Known) -> None:
    """Raise an error for data that the index cannot store, and for impossible names."""
    plugin = known.plugin
    for member, (word, kind) in KINDS.items():
        for each in _tuple(getattr(plugin, member), member):
            if type(each) is not kind:
                raise TypeError(f"its {member} contain {each!r}, which is not of type {kind.__name__}")
            for name, hint in _hints(kind).items():
                if not _fits(getattr(each, name), hint):
                    raise TypeError(f"the {word} {each[0]!r} has {getattr(each, name)!r} as its {name}")
    texts = (plugin.name, plugin.about, plugin.version, *_tuple(plugin.needs, "needs"))
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("its name, about, version and needs must be texts")
    for setting in plugin.settings:
        with suppress(TypeError):
            kept = made(Setting, json.loads(json.dumps(as_row(setting))), _head(known))
            if kept._replace(read=print) == setting._replace(read=print):
                continue
        raise ValueError(f"the default of {setting.name} must be a text, number, truth value, tuple of these, or None")
    for form in plugin.call_forms:
        re.compile(form.likely)
    _check_names(plugin)


_hints = cache(get_type_hints)


def _check_names(plugin: Plugin) -> None:
    """Raise an error for a name that is invalid for a command, a file's key or a provider."""
    named = [("plugin", _PLAIN, plugin.name)]
    for member, (word, _) in KINDS.items():
        names = (getattr(row, "name", getattr(row, "to", None)) for row in getattr(plugin, member))
        named += [(word, _FORMS.get(member, _PLAIN), name) for name in names if name is not None]
    named += [("group of tools", _PLAIN, group) for tool in plugin.tools for group in tool.groups]
    for word, (form, letters), name in named:
        if not re.fullmatch(form, name):
            raise ValueError(f"no {word} can be called {name!r}: use {letters}")
    flags = [flag for setting in plugin.settings for flag in (f"--{setting.flag_name}", setting.short) if flag]
    for flag in (*flags, *(flag for command in plugin.commands for flag in command.flags)):
        if not _FLAG.fullmatch(flag):
            raise ValueError(f"{flag!r} is not a flag: use -- and small letters, digits and -, or - and one letter")
    if len(plugin.runners) > 1:
        raise ValueError("it has more than one runner")
    if not plugin.runners and any(not flag.of for flag in plugin.flags):
        raise ValueError("it has flags for runs, but no runner to take them")


def _tuple(value: object, member: str) -> Sequence[tuple[object, ...]]:
    if not isinstance(value, tuple):
        raise TypeError(f"its {member} must be a tuple, not {type(value).__name__}")
    return cast("Sequence[tuple[object, ...]]", value)


def _fits(value: object, hint: object) -> bool:
    """Return True if a value is of the type that a member is declared with."""
    kinds = get_args(hint)
    if hint is object:
        return True
    if get_origin(hint) is Literal:
        return value in kinds
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(_fits(each, kinds[0]) for each in cast("tuple[object, ...]", value))
    return isinstance(value, hint) if isinstance(hint, type) else callable(value)


def index_of(plugins: Sequence[Known]) -> Index:
    """Return the index of these plugins; additions with a name taken by the core or another one are in its notices."""
    owners = {("setting", name): CORE.name for name in (*RESERVED, *ALIASES, "-h", "-i", "-p", "-r", "-V")}
    owners["command", "help"] = CORE.name
    origins = {CORE.name: "the core"}
    there = _there(plugins)
    notices: list[str] = []
    heads: list[Head] = []
    rows: dict[str, list[tuple[int, Mapping[str, object]]]] = {member: [] for member in KINDS}

    for member, (word, _) in KINDS.items():
        for row in getattr(CORE, member):
            _take(owners, row, word, CORE)
    for known in plugins:
        plugin, source, error = known.plugin, known.source, known.error
        named = f"plugin {plugin.name} ({source.origin})"
        if not error and (lacks := [name for name in plugin.needs if name not in there]):
            error = f"it needs the plugin {lacks[0]}, which is not loaded"
        if not error and plugin.name in origins:
            error = f"{origins[plugin.name]} has a plugin of that name"
        heads.append(_head(known)._replace(error=error))
        if error:
            notices.append(f"The {named} is left out: {error}. {_advice(source)}")
            continue
        origins[plugin.name] = source.origin
        for member, (word, _) in KINDS.items():
            for row in getattr(plugin, member):
                if why := _take(owners, row, word, plugin):
                    notices.append(
                        f"The {word} {row[0]} of the {named} is left out: {why}. "
                        "Rename it there, or remove one of the two."
                    )
                else:
                    rows[member].append((len(heads) - 1, as_row(row)))
    return Index(tuple(heads), {member: each for member, each in rows.items() if each}, tuple(notices))


def _head(known: Known) -> Head:
    plugin, source = known.plugin, known.source
    guards = any(table.guards for table in plugin.tables) or any(part.moment == "around" for part in plugin.parts)
    guards = source.origin != OWN and (guards or (bool(known.error) and _may_guard(source.target.rpartition(":")[0])))
    return Head(
        plugin.name, plugin.about, plugin.version, plugin.needs, source.origin, source.target, known.error, guards
    )


def _may_guard(home: str) -> bool:
    """Return True if the source of a module that cannot be imported says that its plugin guards runs."""
    with suppress(Exception):  # as an import of its parent package
        path = home if "/" in home else str(getattr(find_spec(home), "origin", ""))
        return Path(path).is_file() and bool(_GUARDS.search(Path(path).read_bytes()))
    return False


def _advice(source: Source) -> str:
    """Return a remedy for a plugin that is left out."""
    if source.origin == OWN:
        return "Reinstall sagent."
    if os.path.isabs(source.origin) or source.origin.endswith(".py"):  # noqa: PTH117 -- a text
        return f"Fix or remove it; `sagent plugin test {source.origin}` shows what is wrong."
    package = source.origin.partition(" ")[0]
    return f"Update or uninstall {package}; `sagent plugin test {source.name}` shows what is wrong."


def _there(plugins: Sequence[Known]) -> Collection[str]:
    """Return the names of the plugins that have all they need."""
    needs = {CORE.name: CORE.needs, **{each.plugin.name: each.plugin.needs for each in plugins if not each.error}}
    while lacking := [name for name, wanted in needs.items() if not needs.keys() >= set(wanted)]:
        for name in lacking:
            del needs[name]
    return needs


def _take(owners: dict[tuple[str, str], str], row: tuple[object, ...], kind: str, plugin: Plugin) -> str:
    """Register all names of an addition for this plugin, and return ""; or return one that another plugin has."""
    taken = _taken(row, kind, plugin)
    for key in taken:
        if key in owners:
            return f"{owners[key]} has {'one of that name' if key[1] == str(row[0]).lower() else f'{key[1]} already'}"
    owners.update(dict.fromkeys(taken, plugin.name))
    return ""


def _taken(row: tuple[object, ...], kind: str, plugin: Plugin) -> Sequence[tuple[str, str]]:
    """Return the kinds and names that an addition occupies: flags of runs share names with settings, and tables with
    settings in files. The core's may have reserved names, such as the flag of advisors."""
    if isinstance(row, Setting):
        names = dict.fromkeys(filter(None, (row.name, row.keyword, row.short, row.key)))
        return [("setting", name) for name in names if plugin is not CORE or name not in (*RESERVED, *ALIASES)]
    if isinstance(row, Flag):
        return [(kind, f"{row.of} --{row.name}") if row.of else ("setting", row.keyword)]
    operation = getattr(row, "to", None) if getattr(row, "help", "") else None
    name, own = getattr(row, "name", operation), "setting" if isinstance(row, Table) else kind
    named = [] if name is None else [(own, str(name).lower())]  # tools are chosen whatever their case
    flags = [flag.removeprefix("--").replace("-", "_") if flag[2:] else flag for flag in getattr(row, "flags", ())]
    return [*named, *(("setting", flag) for flag in flags)]
