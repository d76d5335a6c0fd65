"""The present plugins, known from an index: a plugin is imported only when it is used."""

import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from errno import EBADF, EIO, ENOSPC, EPIPE
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from sagent.config.declared import CORE
from sagent.config.plugin_index import INDEX, NOTHING, Index, Known, Places, Source, made, names_kept, read_index
from sagent.errors import SagentError, UsageError
from sagent.lib.raised import advice, reason
from sagent.plugin import (
    KINDS,
    OURS,
    Command,
    Extra,
    Flag,
    Plugin,
    ProviderRow,
    Runner,
    Setting,
    Store,
    ToolEntry,
    Use,
    Variable,
)

if TYPE_CHECKING:
    from sagent.providers.rows import Row

INDEXES = (INDEX, "plugins-ours.json", "plugins-files.json")  # of all plugins, of ours, and of all with a run's files
GONE = "it belongs to the plugin {}, which is not loaded"
_MEMBERS = {kind: member for member, (_, kind) in KINDS.items()}
T = TypeVar("T", bound=tuple[object, ...])


class Installed:
    """All plugins, the core first. The first of two additions with one name counts; `notices` list left-out ones,
    `broken_guards` those that may refuse actions."""

    def __init__(self, index: Index = NOTHING, *, foreign: bool = True, beside: Sequence[Path] = ()) -> None:
        self._index, self._foreign, self._beside = index, foreign, beside
        self._made: dict[type, Sequence[tuple[str, tuple[object, ...]]]] = {}
        self._named: dict[type, Mapping[str, tuple[object, ...]]] = {}
        self.notices = index.notices
        self.broken = any(head.error for head in index.heads)
        broken = [head for head in index.heads if head.error and head.guards]
        self.broken_guards = [f"The plugin {each.name} ({each.origin}) is left out: {each.error}." for each in broken]

    def owned(self, kind: type[T]) -> Sequence[tuple[str, T]]:
        """Return all of a kind, each with the name of its plugin."""
        if kind not in self._made:
            member, heads = _MEMBERS[kind], self._index.heads
            ours = ((CORE.name, each) for each in getattr(CORE, member))
            theirs = ((heads[at].name, made(kind, row, heads[at])) for at, row in self._index.rows.get(member, ()))
            self._made[kind] = (*ours, *theirs)
        return self._made[kind]  # pyright: ignore[reportReturnType] -- under each kind are those of it

    def every(self, kind: type[T]) -> Sequence[T]:
        """Return all additions of a kind: those of the core, then those of plugins."""
        return [each for _, each in self.owned(kind)]

    def named(self, kind: type[T]) -> Mapping[str, T]:
        """Return all of a kind by their names."""
        if kind not in self._named:
            self._named[kind] = {str(getattr(each, "name")): each for each in self.every(kind)}  # noqa: B009 -- a kind without names has no such index
        return self._named[kind]  # pyright: ignore[reportReturnType] -- as above

    def owner(self, kind: type[T], name: str) -> str:
        """Return the plugin of an addition."""
        return next(owner for owner, each in self.owned(kind) if getattr(each, "name", None) == name)

    @cached_property
    def known(self) -> Sequence[Known]:
        """Each plugin with all its additions, including left-out ones."""
        rows: list[dict[str, list[tuple[object, ...]]]] = [{} for _ in self._index.heads]
        for member, (_, kind) in KINDS.items():
            for at, row in self._index.rows.get(member, ()):
                rows[at].setdefault(member, []).append(made(kind, row, self._index.heads[at]))
        own = ({member: tuple(each) for member, each in row.items()} for row in rows)
        plugins = (
            Known(replace(head.bare, **each), head.source, head.error)
            for head, each in zip(self._index.heads, own, strict=True)
        )
        return [Known(CORE, Source(CORE.name, "the core", "")), *plugins]

    @property
    def names(self) -> Sequence[str]:
        """Names of the plugins that can be used."""
        return [CORE.name, *(head.name for head in self._index.heads if not head.error)]

    @property
    def variables(self) -> Sequence[Variable]:
        """The environment variables that are not settings."""
        runners = [Variable(name) for runner in self.every(Runner) for name in runner.variables]
        return [*self.every(Variable), *runners, *(Variable(store.variable) for store in self.every(Store))]

    @property
    def served_tools(self) -> tuple[str, ...]:
        """Beginnings of the names of tools that only their servers know."""
        return tuple([tool.name[:-1] for tool in self.every(ToolEntry) if tool.name.endswith("*")])

    def flags(self, command: str = "") -> Sequence[Flag]:
        """Return the flags that are not settings, of runs or of a command."""
        return [flag for flag in self.every(Flag) if flag.of == command]

    def extras(self, place: str) -> Iterator[tuple[str, Extra]]:
        """Yield the additions to a plugin's extension point, with their plugins."""
        yield from (each for each in self.owned(Extra) if each[1].to == place)

    @property
    def rows(self) -> Mapping[str, "Row"]:
        """The providers of plugins, each row read on demand."""
        from sagent.providers.rows import DeclaredRows

        return DeclaredRows({row.name: (owner, row) for owner, row in self.owned(ProviderRow) if owner != CORE.name})

    def help_of(self, setting: Setting) -> str:
        """Return the help of a setting's flag, with the groups of tools and plugins' permission modes inserted."""
        if "{" not in setting.help:
            return setting.help
        groups = dict.fromkeys(group for tool in self.every(ToolEntry) for group in tool.groups)
        modes = "".join(f"{name}, " for name in self.operations("mode"))
        return setting.help.replace("{groups}", ", ".join(groups)).replace("{modes}", modes)

    def passed_on(self, use: Use) -> Sequence[Setting]:
        """Return the settings of the core and of plugins that have a use."""
        return [setting for setting in self.every(Setting) if use in setting.uses]

    def operations(self, command: str) -> Mapping[str, Extra]:
        """Return the operations that plugins add to a command, by the word after its name."""
        found = [(extra.to.partition(" "), extra) for extra in self.every(Extra)]
        return {name: extra for (first, _, name), extra in found if first == command}

    def former_owner(self, typed: str) -> str:
        """Return the missing plugin that has a command, a slash command ("/export"), an operation of a command
        ("sessions repair"), a flag ("--bus"), a variable, a tool ("--tools code") or a key of files ("[mcp]")."""
        import json

        file = Path(__file__).with_name("owners.json")  # by scripts/make_settings.py
        ours: Mapping[str, str] = json.loads(file.read_text("utf-8"))
        setting = typed.removeprefix("--").replace("-", "_").removeprefix("SAGENT_").lower()
        tool = typed.removeprefix("--tools ")
        shared = {group for each in self.every(ToolEntry) for group in each.groups}
        found = self.gone(ToolEntry).items()
        tools = {name.lower(): plugin for name, plugin in found if tool != typed and name not in shared}
        owner = ours.get(typed) or self.gone(Command).get(typed) or self.gone(Setting).get(setting) or tools.get(tool)
        return "" if owner is None or owner in self.names else owner

    def gone(self, kind: type[tuple[object, ...]]) -> Mapping[str, str]:
        """Return the names of missing plugins' additions of a kind, with the plugins."""
        return self._formerly(_MEMBERS[kind])

    @property
    def lost_guards(self) -> Mapping[str, str]:
        """The guarding tables of missing plugins, with the plugins."""
        return self._formerly("guards")

    def _formerly(self, kind: str) -> Mapping[str, str]:
        return {name: plugin for member, name, plugin in self._former if member == kind}

    @cached_property
    def _former(self) -> Sequence[tuple[str, str, str]]:
        """Additions of missing plugins, with those that only the other indexes know."""
        beside = [read_index(path, ())[0] for path in self._beside]
        known = [*self._index.formerly, *(each for index in beside for each in (*names_kept(index), *index.formerly))]
        there = {each[:2] for each in names_kept(self._index, ours=True)} if known else set[tuple[str, str]]()
        return [each for each in known if each[:2] not in there]

    @property
    def lacks_some(self) -> bool:
        """True if plugins were left out whose additions are unknown."""
        return not self._foreign or self.broken


@contextmanager
def named_errors(part: str, plugin: str, *also: type[BaseException]) -> Generator[None]:
    """Raise UsageError with the plugin's name for errors of its code in the block, including errors in `also`.
    SagentErrors, errors about a file given to one of our plugins or about standard output, and the core's are passed
    on; in dev mode all are."""
    try:
        yield
    except (Exception, SystemExit) as error:
        lost = isinstance(error, OSError) and error.filename is None and error.errno in (EBADF, EPIPE, ENOSPC, EIO)
        ours = (OURS / plugin).is_dir()  # otherwise another plugin may have raised it, such as a provider's
        told = isinstance(error, OSError) and error.filename is not None and ours
        blamed = blame(error) if ours else ""
        left = isinstance(error, SystemExit) and not (also or blamed)
        if isinstance(error, SagentError) or plugin == CORE.name or lost or told or left or sys.flags.dev_mode:
            raise
        said = f"{part} of the plugin {plugin} failed: {reason(error)}. PYTHONDEVMODE=1 shows its traceback."
        raise UsageError(blamed or said) from error


def blame(error: BaseException) -> str:
    """Return a sentence that names the third-party plugin whose code raised an error; else ""."""
    found, trace = "", None if sys.flags.dev_mode else error.__traceback__
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__"))
        while module and not module.startswith("sagent."):
            if type(plugin := getattr(sys.modules.get(module), "plugin", None)) is Plugin:
                found = plugin.name
            module = module.rpartition(".")[0]
        trace = trace.tb_next
    return found and f"The plugin {found} failed: {reason(error)}. {advice(found)}"


def find_plugins(config_dir: Path, state_dir: Path, files: Sequence[Path] = (), *, foreign: bool = True) -> Installed:
    """Return the present plugins: ours, and if `foreign` those of installed distributions, the person's own files in
    `config_dir`/plugins, and these `files`. Runs with files or without foreign plugins have separate indexes, so that
    they do not overwrite each other; missing additions are known to all."""
    places = Places.of(config_dir, files) if foreign else Places()
    index, *beside = INDEXES if foreign and not files else INDEXES[::-1] if foreign else (INDEXES[1], *INDEXES[::2])
    paths = tuple(state_dir / each for each in (index, *beside))
    return _installed(places, tuple(places.stamps()), paths, foreign)


@cache
def _installed(places: Places, stamps: tuple[str, ...], paths: tuple[Path, ...], foreign: bool) -> Installed:  # noqa: FBT001 -- for the cache
    index, *beside = paths
    kept, holds = read_index(index, stamps)
    if not holds:
        from sagent.config.plugin_loading import load_anew

        kept = load_anew(places, stamps, index, kept)
    return Installed(kept, foreign=foreign, beside=beside)
