"""The plugins that are there, known from an index: none is imported until something of it is used.

The index lies in the state directory. It is written anew when a directory where plugins may be has changed since, and
may be deleted at any time.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import replace
from errno import EIO, ENOSPC, EPIPE
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, cast, get_args, get_origin, get_type_hints

from sagent.config.declared import ALIASES, CORE, RESERVED
from sagent.errors import SagentError, UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.raised import reason
from sagent.plugin import (
    API,
    GROUP,
    KINDS,
    OURS,
    CallForm,
    Check,
    Choice,
    Command,
    ExportFormat,
    Extra,
    Flag,
    HookEvent,
    ModelLayer,
    Part,
    PathBase,
    Plugin,
    ProviderRow,
    Reader,
    RefusedError,
    Setting,
    SlashCommand,
    StatusPart,
    Store,
    Suite,
    Table,
    ToolEntry,
    Trigger,
    Use,
    Variable,
    placed,
    resolve,
)
from sagent.version import __version__

if TYPE_CHECKING:
    from sagent.providers.rows import Row

INDEX = "plugins.json"
_FORM = 11  # of the index
MAX_FORMER = 500
"""Names in the index of what plugins had that are gone."""
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,60}")
_EVENT_NAME = re.compile(r"[A-Z][A-Za-z0-9]{0,60}")
_TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}\*?")  # what every provider takes, or a beginning


class Known(NamedTuple):
    """A plugin as the index has it: where it comes from, what to import for it, and why it is left out."""

    plugin: Plugin
    origin: str
    target: str
    error: str = ""


def core() -> Known:
    """Return the core, which is always there."""
    return Known(CORE, "the core", "")


@dataclass(frozen=True, slots=True)
class Installed:
    """All plugins, the core first. Of two things by one name the first counts; `notices` name what is left out."""

    known: tuple[Known, ...] = (core(),)
    notices: tuple[str, ...] = ()
    formerly: tuple[tuple[str, str, str], ...] = ()
    """What plugins had that are not there now: a member of Plugin, a name, and whose it was."""
    foreign: bool = True

    @property
    def plugins(self) -> Sequence[Plugin]:
        """Plugins that can be used."""
        return [each.plugin for each in self.known if not each.error]

    @property
    def commands(self) -> Mapping[str, Command]:
        """The subcommands by their names."""
        return {command.name: command for plugin in self.plugins for command in plugin.commands}

    @property
    def slash_commands(self) -> Sequence[tuple[Plugin, SlashCommand]]:
        """Commands of the REPL, each with the plugin that adds it."""
        return [(plugin, one) for plugin in self.plugins for one in plugin.slash_commands]

    @property
    def export_formats(self) -> Sequence[ExportFormat]:
        """Formats in which sessions are exported."""
        return [one for plugin in self.plugins for one in plugin.export_formats]

    @property
    def status_parts(self) -> Sequence[StatusPart]:
        """Parts of the status line, in the order in which they are shown."""
        return [one for plugin in self.plugins for one in plugin.status_parts]

    @property
    def triggers(self) -> Sequence[Trigger]:
        """Reasons to ask an advisor."""
        return [one for plugin in self.plugins for one in plugin.triggers]

    @property
    def hook_events(self) -> Mapping[str, HookEvent]:
        """The events of hooks by their names."""
        return {event.name: event for plugin in self.plugins for event in plugin.hook_events}

    @property
    def call_forms(self) -> Sequence[CallForm]:
        """Forms of calls in the text of replies."""
        return [one for plugin in self.plugins for one in plugin.call_forms]

    @property
    def model_layers(self) -> Sequence[tuple[Plugin, ModelLayer]]:
        """What is put around models, each with whose it is."""
        return [(plugin, layer) for plugin in self.plugins for layer in plugin.model_layers]

    @property
    def settings(self) -> Sequence[Setting]:
        """The settings of all plugins."""
        return [setting for plugin in self.plugins for setting in plugin.settings]

    @property
    def stores(self) -> Sequence[Store]:
        """The places where sessions are kept that are not on this machine."""
        return [store for plugin in self.plugins for store in plugin.stores]

    @property
    def suites(self) -> Sequence[Suite]:
        """The tests of what interfaces promise."""
        return [suite for plugin in self.plugins for suite in plugin.suites]

    @property
    def secret_folders(self) -> Sequence[str]:
        """The names of folders in the state directory that agents of sessions for others leave alone."""
        return [folder.name for plugin in self.plugins for folder in plugin.secret_folders]

    @property
    def variables(self) -> Sequence[Variable]:
        """The environment variables that are no settings."""
        own = [variable for plugin in self.plugins for variable in plugin.variables]
        runners = [Variable(name) for plugin in self.plugins for runner in plugin.runners for name in runner.variables]
        return [*own, *runners, *(Variable(store.variable) for store in self.stores)]

    def flags(self, command: str = "") -> Sequence[Flag]:
        """Return the flags that are no settings, of runs or of a command."""
        return [flag for plugin in self.plugins for flag in plugin.flags if flag.of == command]

    def extras(self, place: str) -> Iterator[tuple[Plugin, Extra]]:
        """Yield what plugins add to a place that a plugin offers, with whose it is."""
        yield from ((plugin, extra) for plugin in self.plugins for extra in plugin.extras if extra.to == place)

    def operations(self, command: str) -> Mapping[str, Extra]:
        """Return what plugins add to a command, by the word after its name."""
        found = [(extra.to.partition(" "), extra) for plugin in self.plugins for extra in plugin.extras]
        return {name: extra for (first, _, name), extra in found if first == command}

    @property
    def rows(self) -> Mapping[str, "Row"]:
        """The providers of plugins, each row read when it is asked for."""
        from sagent.providers.rows import DeclaredRows

        declared = ((plugin.name, row) for plugin in self.plugins if plugin != CORE for row in plugin.providers)
        return DeclaredRows({row.name: (plugin, row) for plugin, row in declared})

    @property
    def tools(self) -> Sequence[ToolEntry]:
        """The tools of all plugins, in the order in which a model sees them."""
        return [tool for plugin in self.plugins for tool in plugin.tools]

    @property
    def served_tools(self) -> tuple[str, ...]:
        """How the names of tools begin that only their servers know."""
        return tuple([tool.name[:-1] for tool in self.tools if tool.name.endswith("*")])

    def help_of(self, setting: Setting) -> str:
        """Return the help of a setting's flag, with the groups of tools where it names them."""
        groups = dict.fromkeys(group for tool in self.tools for group in tool.groups)
        return setting.help.replace("{groups}", ", ".join(groups))

    @property
    def tables(self) -> Mapping[str, Table]:
        """The tables of files of settings by their names."""
        return {table.name: table for plugin in self.plugins for table in plugin.tables}

    @property
    def checks(self) -> Sequence[tuple[Plugin, Check]]:
        """The checks of `sagent doctor`, each with whose it is."""
        return [(plugin, check) for plugin in self.plugins for check in plugin.checks]

    def passed_on(self, use: Use) -> Sequence[Setting]:
        """Return the settings of the core and of plugins that have a use."""
        return [setting for setting in self.settings if use in setting.uses]

    def parts(self, moment: str) -> Iterator[tuple[Plugin, Part]]:
        """Yield what may be added to an agent at this moment, with whose it is."""
        yield from ((plugin, part) for plugin in self.plugins for part in plugin.parts if part.moment == moment)

    def former_owner(self, command: str) -> str:
        """Return the name of the plugin that has a command, a slash command ("/export") or an operation of a command
        ("sessions repair") where it is there; "" for what no known plugin has."""
        from sagent.config.typed import COMMANDS

        return COMMANDS.get(command) or self.gone("commands").get(command, "")

    def gone(self, member: str) -> Mapping[str, str]:
        """Return the names of things of a kind that plugins had which are not there now, with whose they were."""
        return {name: plugin for kind, name, plugin in self.formerly if kind == member}

    @property
    def lacks_some(self) -> bool:
        """Return True if there are plugins that are left out, of which more is not known."""
        return not self.foreign or any(each.error for each in self.known)

    def owner(self, member: str, name: str) -> Plugin:
        """Return the plugin that something of a kind is of, by the member of Plugin that holds it."""
        return next(plugin for plugin in self.plugins if any(each.name == name for each in getattr(plugin, member)))


@contextmanager
def named_errors(what: str, plugin: str) -> Generator[None]:
    """Raise UsageError with the plugin's name for whatever its code raises in the block. SagentErrors say themselves
    what happened, and errors of standard output are nobody's. Python's development mode shows the traceback."""
    try:
        yield
    except Exception as error:
        lost = isinstance(error, OSError) and error.filename is None and error.errno in (EPIPE, ENOSPC, EIO)
        if isinstance(error, SagentError) or lost or sys.flags.dev_mode:
            raise
        raise UsageError(
            f"{what} of the plugin {plugin} failed: {reason(error)}. PYTHONDEVMODE=1 shows its traceback."
        ) from error


def find_plugins(config_dir: Path, state_dir: Path, files: Sequence[Path] = (), *, foreign: bool = True) -> Installed:
    """Return the plugins there are: ours; and where `foreign` ones are wanted those of installed distributions, the
    person's own files in `config_dir`/plugins, and these `files`."""
    stamps = (f"{_FORM} {__version__} {API} {sys.version}", *_stamps(config_dir, files, foreign=foreign))
    return _installed(stamps, state_dir / INDEX, config_dir, tuple(files), foreign)


@cache
def _installed(stamps: Sequence[str], place: Path, config_dir: Path, files: Sequence[Path], foreign: bool) -> Installed:  # noqa: FBT001 -- for the cache
    former: Sequence[tuple[str, str, str]] = ()
    with suppress(OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        kept = json.loads(place.read_bytes() if place.is_file() else b"")
        known, notices = (core(), *map(_from_json, kept["plugins"])), tuple(map(str, kept["notices"]))
        former = [(str(member), str(name), str(plugin)) for member, name, plugin in kept["formerly"]]
        if kept["stamps"] == list(stamps) and all(_stamp(Path(path)) == at for path, at in kept["files"].items()):
            return Installed(known, notices, tuple(former), foreign)
        former = [*_parts_known(known), *former]
    found = without_doubles([known_plugin(*source) for source in _sources(config_dir, files, foreign=foreign)])
    there = {each[:2] for each in _parts_known(found.known, ours=True)}
    lost = tuple(dict.fromkeys(each for each in former if each[:2] not in there))[:MAX_FORMER]
    found = replace(found, formerly=lost, foreign=foreign)
    with suppress(OSError):
        # nothing is kept here yet, and with --ephemeral nothing ever is; or a pipe has the name, which would not end
        if not place.parent.is_dir() or (place.exists() and not place.is_file()):
            return found
        from sagent.lib.atomic import put

        rows = [_as_json(each) for each in found.known[1:]]
        times = {path: _stamp(Path(path)) for path in _declared_in(found)}
        index = {"stamps": stamps, "files": times, "plugins": rows, "notices": found.notices, "formerly": lost}
        put(place, json.dumps(index).encode())
    return found


def _parts_known(known: Sequence[Known], *, ours: bool = False) -> Iterator[tuple[str, str, str]]:
    """Yield what a file or a command line may name of plugins: a member, a name, and whose it is."""
    for each in known:
        if not each.error and (ours or each.origin not in ("sagent", "the core")):
            plugin = each.plugin
            for member in ("commands", "settings", "tables"):
                yield from ((member, row.name, plugin.name) for row in getattr(plugin, member))
            yield from (("commands", f"/{row.name}", plugin.name) for row in plugin.slash_commands)
            yield from (("commands", row.to, plugin.name) for row in plugin.extras if row.help)
            yield from (("guards", table.name, plugin.name) for table in plugin.tables if table.guards)


def _stamps(config_dir: Path, files: Sequence[Path], *, foreign: bool) -> Iterator[str]:
    """Yield what changes when plugins do: the times of the files and directories where they are found."""
    own = (*_own(config_dir), *files) if foreign else ()
    theirs = (*_sites(), *own, *_beside(own)) if foreign else ()
    yield from (f"{path} {at}" for path in (*_ours(), *theirs) if (at := _stamp(path)))


def _stamp(path: Path) -> int:
    """Return the time of a file or directory in nanoseconds, 0 where there is none."""
    with suppress(OSError):
        return path.stat().st_mtime_ns
    return 0


def _declared_in(found: Installed) -> Iterator[str]:
    """Yield the files of plugins of distributions: an editable one may change without anything being installed."""
    for each in found.known:
        module = sys.modules.get(each.target.rpartition(":")[0])
        if each.origin != "sagent" and module is not None and module.__file__:
            yield module.__file__


def _sites() -> Sequence[Path]:
    """Return where packages are installed."""
    return [Path(each) for each in sys.path if each.endswith(("site-packages", "dist-packages"))]


def _has_points(site: Path) -> bool:
    """Return True if a distribution has a plugin. To be told so by importlib.metadata takes 15 ms where none has."""
    with suppress(OSError):
        for entry in os.scandir(site):
            if entry.name.endswith((".dist-info", ".egg-info")):
                with suppress(OSError):
                    if f"[{GROUP}]".encode() in Path(entry.path, "entry_points.txt").read_bytes():
                        return True
    return False


def _ours() -> Sequence[Path]:
    return sorted(OURS.glob("*/__init__.py"))


def _own(config_dir: Path) -> Sequence[Path]:
    with suppress(OSError):
        return sorted((config_dir / "plugins").glob("*.py"))
    return ()


def _beside(files: Iterable[Path]) -> Sequence[Path]:
    """Return the data that may lie beside plugins."""
    return [path for folder in dict.fromkeys(file.parent for file in files) for path in sorted(folder.glob("*.toml"))]


def _sources(config_dir: Path, files: Sequence[Path], *, foreign: bool) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the origin and what to import of each plugin."""
    for path in _ours():
        yield path.parent.name, "sagent", f"sagent.plugins.{path.parent.name}:plugin"
    if not foreign:
        return
    if any(map(_has_points, _sites())):
        from importlib.metadata import distributions

        # not of the whole path, on which a project may be; of two copies of a distribution the first counts
        found = {each.name: each for each in reversed([*distributions(path=[str(site) for site in _sites()])])}
        points = [(point, dist) for dist in found.values() for point in dist.entry_points if point.group == GROUP]
        for point, dist in sorted(points, key=lambda each: each[0].name):
            target = point.value if ":" in point.value else f"{point.value}:plugin"
            yield point.name, f"{dist.name} {dist.version}", target
    for path in (*_own(config_dir), *files):
        yield path.stem, str(path), f"{path.absolute()}:plugin"


def known_plugin(name: str, origin: str, target: str) -> Known:
    """Import a plugin's declaration, once, and return what it says."""
    try:
        with redirect_stdout(sys.stderr):  # what it prints is no part of an answer
            plugin = resolve(target)
        if type(plugin) is not Plugin:
            raise TypeError(f"its `plugin` is no sagent.plugin.Plugin, but {type(plugin).__name__}")
        if type(plugin.api) is not int:
            raise TypeError("its api is no number")
        if plugin.api > API:
            raise ValueError(
                f"it is made for version {plugin.api} of plugins, and this sagent has {API}: update sagent"
            )
        known = Known(_placed(plugin, target), origin, target)
        _check(known)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # what others wrote may do anything
        return Known(Plugin(name), origin, target, reason(error))
    return known


def _check(known: Known) -> None:
    """Raise an error for what the index cannot keep, and for names that nothing of a plugin can have."""
    plugin = known.plugin
    for member, (word, kind) in KINDS.items():
        for each in _tuple(getattr(plugin, member), member):
            if type(each) is not kind:
                raise TypeError(f"its {member} hold {each!r}, which is no {kind.__name__}")
            for name, hint in get_type_hints(kind).items():
                if not _fits(getattr(each, name), hint):
                    raise TypeError(f"the {word} {each[0]!r} has {getattr(each, name)!r} as its {name}")
    texts = (plugin.name, plugin.about, plugin.version, *_tuple(plugin.needs, "needs"))
    if not all(isinstance(each, str) for each in texts):
        raise TypeError("it gives something else where a text is needed")
    back = _from_json(json.loads(json.dumps(_as_json(known))))
    if _without_readers(back.plugin) != _without_readers(plugin):
        raise ValueError("it has a default that is neither text, number, truth value, tuple of these, nor None")
    for form in plugin.call_forms:
        re.compile(form.likely)
    _check_names(plugin)


def _check_names(plugin: Plugin) -> None:
    """Raise an error for a name that is none, as a command, a key of a file or a provider takes it."""
    for name in (plugin.name, *(command.name for command in plugin.commands)):
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name: use small letters, digits, - and _")
    for key in (*plugin.settings, *plugin.tables):
        if not _NAME.fullmatch(key.name) or not key.name.isidentifier():
            raise ValueError(f"{key.name!r} is no name of a setting or a table: use small letters, digits and _")
    for tool in plugin.tools:
        if not _TOOL_NAME.fullmatch(tool.name) or not all(map(_NAME.fullmatch, tool.groups)):
            names = ", ".join((tool.name, *tool.groups))
            raise ValueError(f"{names!r} are no names of a tool and its groups: use letters, digits, - and _")
    if strange := [event.name for event in plugin.hook_events if not _EVENT_NAME.fullmatch(event.name)]:
        raise ValueError(f"{strange[0]!r} is no name of an event: use letters and digits, the first a capital")
    for each in (*plugin.flags, *plugin.stores):
        if not _NAME.fullmatch(each.name):
            raise ValueError(f"{each.name!r} is no name of a flag: use small letters, digits and -")
    if len(plugin.runners) > 1:
        raise ValueError("it has more than one runner")
    if not plugin.runners and any(not flag.of for flag in plugin.flags):
        raise ValueError("it has flags of runs, and no runner that is given them")


def _tuple(value: object, member: str) -> Sequence[tuple[object, ...]]:
    if not isinstance(value, tuple):
        raise TypeError(f"its {member} are no tuple, but {type(value).__name__}")
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


def _without_readers(plugin: Plugin) -> Plugin:
    return replace(plugin, settings=tuple(each._replace(read=print) for each in plugin.settings))


def _placed(plugin: Plugin, target: str) -> Plugin:
    """Return a plugin whose functions are named with their module: ":run" is in that of the plugin."""
    home = target.rpartition(":")[0]

    def with_place(row: object, kind: type[tuple[object, ...]]) -> object:
        if isinstance(row, Setting):
            return row._replace(read=_late(row, target, plugin.name))
        if type(row) is not kind:
            return row
        whole = cast("Callable[..., object]", kind)(*(placed(each, home) for each in row))
        return _with_data(whole, plugin.name) if isinstance(whole, ProviderRow) else whole

    rows = {
        member: tuple(with_place(one, kind) for one in getattr(plugin, member)) for member, (_, kind) in KINDS.items()
    }
    return replace(plugin, **rows)


def _with_data(row: ProviderRow, plugin: str) -> ProviderRow:
    """Return a provider's row with its data as JSON, which is read without a parser of TOML. Raises ConfigError for
    data that are wrong."""
    from sagent.providers.rows import declared_row

    declared_row(row, plugin)
    return row._replace(data=json.dumps(row.read()))


def _late(setting: Setting, target: str, plugin_name: str) -> Reader:
    """Return the reader of a setting, which imports its plugin when there is a value to read."""
    if words := setting.order:
        return _choice(tuple(map(str, words)))

    def read(value: object, base: PathBase) -> object:
        try:
            plugin = cast("Plugin", resolve(target))
            return next(each for each in plugin.settings if each.name == setting.name).read(value, base)
        except (SagentError, RefusedError):
            raise
        except (Exception, SystemExit) as error:  # what others wrote may do anything
            raise RefusedError(f"the plugin {plugin_name} cannot read it: {reason(error)}") from error

    return read


def _choice(words: tuple[str, ...]) -> Choice:
    return Choice(lambda: words)


def without_doubles(found: Sequence[Known]) -> Installed:
    """Return the core and these plugins without what another one has by the same name, which the notices say."""
    owners = {("setting", name): CORE.name for name in (*RESERVED, *ALIASES)}
    notices: list[str] = []

    def takes(each: Known, kind: str, *names: str, among: str = "") -> bool:
        keys = [(among or kind, name) for name in names]
        if owner := next((owners[key] for key in keys if key in owners), ""):
            whose = f"the plugin {each.plugin.name} ({each.origin})"
            if kind == "plugin":
                notices.append(f"T{whose[1:]} is left out: {places[owner]} has a plugin of that name.")
            else:
                notices.append(f"The {kind} {names[0]} of {whose} is left out: {owner} has one of that name.")
            return False
        owners.update(dict.fromkeys(keys, each.plugin.name))
        return True

    kept: list[Known] = []
    there = _there((core(), *found))
    places = {each.plugin.name: each.origin for each in reversed((core(), *found)) if not each.error}
    for each in (core(), *found):
        plugin, error = each.plugin, each.error
        if error:
            notices.append(f"The plugin {plugin.name} ({each.origin}) is left out: {error}.")
        elif lacks := [name for name in plugin.needs if name not in there]:
            error = f"it needs the plugin {lacks[0]}, which is not there"
            notices.append(f"The plugin {plugin.name} ({each.origin}) is left out: {error}.")
        elif not takes(each, "plugin", plugin.name):
            error = "another plugin has its name"
        else:
            rows = {
                member: tuple(
                    one for one in getattr(plugin, member) if takes(each, word, *_names(one, each), among=_among(one))
                )
                for member, (word, _) in KINDS.items()
            }
            plugin = replace(plugin, **rows)
        kept.append(each._replace(plugin=plugin, error=error))
    return Installed(tuple(kept), tuple(notices))


def _there(found: Sequence[Known]) -> Collection[str]:
    """Return the names of the plugins that have all they need."""
    needs = {each.plugin.name: each.plugin.needs for each in found if not each.error}
    while lacking := [name for name, wanted in needs.items() if not needs.keys() >= set(wanted)]:
        for name in lacking:
            del needs[name]
    return needs


def _names(row: tuple[object, ...], known: Known) -> Sequence[str]:
    """Return the names that something takes. The core's may have names that are reserved, as the flag of advisors."""
    if isinstance(row, Flag):
        return [f"{row.of} --{row.name}" if row.of else row.keyword]
    if not isinstance(row, Setting):
        name = getattr(row, "name", None)
        return [] if name is None else [str(name).lower()]  # tools are chosen whatever their case
    names = dict.fromkeys((row.name, row.keyword))
    return [name for name in names if known.plugin != CORE or name not in (*RESERVED, *ALIASES)]


def _among(row: tuple[object, ...]) -> str:
    """Return the kind whose names a thing must not have, "" for its own: flags of runs are read
    beside settings, and tables beside them in files."""
    return "setting" if isinstance(row, Table) or (isinstance(row, Flag) and not row.of) else ""


def _as_json(known: Known) -> Mapping[str, object]:
    plugin = known.plugin
    rows = {member: list(map(_row, getattr(plugin, member))) for member in KINDS}
    return {
        "name": plugin.name, "about": plugin.about, "version": plugin.version, "api": plugin.api,
        "needs": plugin.needs, "origin": known.origin, "target": known.target, "error": known.error, **rows,
    }  # fmt: skip


def _row(row: tuple[object, ...]) -> object:
    if not isinstance(row, Setting):
        return row
    return {**{name: value for name, value in row._asdict().items() if name != "read"}, "words": list(row.order)}


def _from_json(row: Mapping[str, object]) -> Known:
    """Return a plugin of the index. Raises KeyError, TypeError and ValueError for what is none."""
    target = str(row["target"])

    def made(kind: type[tuple[object, ...]], values: object) -> tuple[object, ...]:
        if isinstance(values, dict):
            return _setting(cast("dict[str, object]", values), target, str(row["name"]))
        make = cast("Callable[..., tuple[object, ...]]", kind)
        return make(*map(_tupled, cast("list[object]", values)))

    rows = {
        member: tuple(made(kind, each) for each in cast("list[object]", row[member]))
        for member, (_, kind) in KINDS.items()
    }
    texts = {name: str(row[name]) for name in ("name", "about", "version")}
    needs = tuple(map(str, cast("list[object]", row["needs"])))
    plugin = cast("Callable[..., Plugin]", Plugin)(**texts, **rows, needs=needs)
    return Known(plugin, str(row["origin"]), target, str(row["error"]))


def _setting(row: dict[str, object], target: str, plugin: str) -> Setting:
    words = tuple(map(str, cast("list[str]", row.pop("words"))))
    values = {name: _tupled(each) for name, each in row.items()}
    setting = cast("Callable[..., Setting]", Setting)(read=_choice(words), **values)
    return setting if words else setting._replace(read=_late(setting, target, plugin))


def _tupled(value: object) -> object:
    return tuple(map(_tupled, cast("list[object]", value))) if isinstance(value, list) else value
