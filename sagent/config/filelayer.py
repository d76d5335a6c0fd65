"""A file's layer of settings: the person's own, or a project's, which may only make things stricter."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import cast

from sagent.config import advisors
from sagent.config.builder import TRUSTED, SettingsBuilder
from sagent.config.declared import ALIASES, BY_NAME, CORE, RULES, is_stricter
from sagent.config.files import NO_VARIABLES, File, GivenTable, Line, end_sentence, read_file
from sagent.config.plugins import GONE
from sagent.config.servers import own_address, place_executor, provider_of
from sagent.config.settings import Address, Wanted
from sagent.config.typed import GUARDS
from sagent.errors import ConfigError, UsageError
from sagent.lib.raised import ends, reason
from sagent.plugin import HookEvent, PathBase, RefusedError, Setting, Table, ToolEntry, resolve

_NEVER = "a project's file may not set it"
_RULES = {"advisor_rules": RULES, "policy": {**RULES, "max_turns": BY_NAME["max_turns"]}}
"""Tables of a file whose members are rules for advisors, by their two names."""
_NOT_HERE = "search"
"""A table that other programs' files have for web searches, which are in `web` here."""
_OPENING = frozenset({"allow", "env_pass", "permission_mode", "sandbox", "unguarded"})
"""Settings that may let a model run more programs."""
_MAX_WANTED_CHARS = 200  # of a value that the person has to trust, which is shown in full


def take_plugin(into: SettingsBuilder, folder: Path) -> None:
    """Add the tables of an installed plugin; the person's own rows win. Raises ConfigError."""
    tables = into.plugins.named(Table)
    for name, path in GUARDS.items():
        if path and name not in tables and (folder / path).exists():
            into.lacking.append(
                f"{folder / path}: {name} cannot be used: {GONE.format(into.plugins.former_owner(f'[{name}]'))}."
            )
    for table in tables.values():
        file = read_file(folder / table.folder_file, folder) if table.folder_file else None
        if file is not None and not (layer := FileLayer(into, file, trusted=True)).leaves_out(table):
            own, found = into.values.get(table.name), layer.read(table, folder)
            if isinstance(found, Mapping):
                found = {**found, **cast("Mapping[str, object]", own or {})}
            else:
                found = _joined(own, found)
            into.join(table.name, found, str(file.path))


class FileLayer:
    """Settings of one file. The person trusts their own (`trusted`)."""

    def __init__(self, into: SettingsBuilder, file: File, *, trusted: bool) -> None:
        self._into, self._file, self._trusted = into, file, trusted
        is_named = into.named_by and file.path == into.user_file  # by whoever started this
        self._shared = file.written_by_others() if trusted and not is_named else ""
        self._base = PathBase(file.path.parent, into.home)
        self._origin = str(file.path)

    def _ignore(self, keys: Line, name: str, reason: str, *, guards: bool = False) -> None:
        where = self._file.where(*keys)
        self._into.warnings.append(f"{where}: {name} is ignored: {reason}.")
        if guards:
            self._into.lacking.append(f"{where}: {name} cannot be used: {reason}.")

    def leaves_out(self, table: Table) -> bool:
        """Return True for a table whose programs others may have written, with a warning."""
        if self._shared:
            self._ignore((table.name,), table.name, self._shared, guards=table.guards)
        return bool(self._shared)

    def take(self) -> None:
        """Take it into the settings. Raises ConfigError."""
        seen: dict[str, str] = {}
        for keys, field, value in self._members():
            if field.name in seen:
                raise self._file.error(
                    keys, f"{'.'.join(keys)} and {seen[field.name]} are the same setting: keep only one"
                )
            seen[field.name] = ".".join(keys)
            if field.name == "advisors" and self._trusted:
                self._take_advisors(keys, value)
            elif keys != ("executor",) or isinstance(value, str) or not self._trusted:
                self._take_key(keys, field, value)
        for key, value in self._file.data.items():
            if key == _NOT_HERE and self._trusted and self._file.table((key,), value).get("enabled"):
                self._into.warnings.append(
                    f"{self._file.where(key)}: {key} has no effect: set searches in [web], see docs/web.md."
                )
            if table := self._into.plugins.named(Table).get(key):
                self._take_table(table)
        if self._trusted and not isinstance(self._file.data.get("executor", ""), str):
            self._take_executor()  # last: it may add to the providers

    def _take_table(self, table: Table) -> None:
        """Take a table; a project's, whose rows are programs, only with the person's trust."""
        name = table.name
        if not self._trusted and table.project == "no":
            self._ignore((name,), name, _NEVER)
            return
        if self.leaves_out(table):
            return
        try:
            found = self.read(table)
        except RefusedError as error:
            self._ignore((name,), name, str(error), guards=table.guards and self._trusted)
            return
        except BaseException as error:  # third-party code
            if isinstance(error, ConfigError) or table in CORE.tables or ends(error):
                raise
            self._ignore((name,), name, f"its plugin cannot read it: {reason(error)}", guards=table.guards)
            return
        if not self._trusted:
            rows = found.values() if isinstance(found, Mapping) else found
            if texts := tuple(getattr(row, "wanted", None) or str(row) for row in rows):
                self._into.wanted.append(Wanted(name, texts, self._file.line(name)))
        if self._trusted or self._into.trusting:
            self._into.join(name, _joined(self._into.values.get(name), found), self._origin)

    def read(self, table: Table, folder: Path | None = None) -> Mapping[str, object] | tuple[object, ...]:
        """Parse a table of the file. Raises ConfigError, and RefusedError for values that a project may not set."""
        into = self._into
        values = self._file.table((table.name,), self._file.data.get(table.name, {}))
        environ = into.environ if self._trusted else None
        read = cast("Callable[[GivenTable], Mapping[str, object] | tuple[object, ...]]", resolve(table.read))
        before, names = into.values.get(table.name), [tool.name for tool in into.plugins.every(ToolEntry)]
        return read(
            GivenTable(
                table.name, self._file, values, self._base, environ, before, names, into.plugged,
                into.warnings.append, into.plugins.named(HookEvent), folder, into.plugins.gone,
            )
        )  # fmt: skip

    def _take_advisors(self, keys: Line, value: object) -> None:
        items = cast("list[object]", value) if isinstance(value, list) else [value]
        if len(items) == 1 and items[0] in advisors.NONE:
            items = []
        found: list[advisors.Placed] = []
        for number, item in enumerate(items):
            here = (*keys, str(number)) if isinstance(value, list) else keys
            found.append(self._advisor(here, item))
            try:
                advisors.named_apart(found)
            except RefusedError as error:
                raise self._file.error(here, f"{error}") from None
        self._into.set(BY_NAME["advisors"], tuple(found), self._origin)

    def _advisor(self, keys: Line, item: object) -> advisors.Placed:
        try:
            if isinstance(item, Mapping):
                return advisors.read_table(
                    self._filled(keys, cast("Mapping[str, object]", item), advisors.MEMBERS), self._base
                )
            if isinstance(item, str):
                return advisors.read_spec(str(self._expanded(keys, item)), self._base)
        except RefusedError as error:
            where = self._file.where(*keys, *((error.member,) if isinstance(error, advisors.MemberError) else ()))
            raise ConfigError(end_sentence(f"{where}: {'.'.join(keys)}: {error}")) from None
        raise self._file.error(
            keys, f"{'.'.join(keys)}: give an advisor as a string, or as a table of {', '.join(advisors.MEMBERS)}"
        )

    def _filled(
        self, keys: Line, table: Mapping[str, object], names: tuple[str, ...] | None = None
    ) -> dict[str, object]:
        """Return a table with its variables expanded, and its members checked if `names` are given."""
        for name in table:
            if names is not None and name not in names:
                raise self._file.unknown((*keys, name), names)
        return {name: self._expanded((*keys, name), value) for name, value in table.items()}

    def _take_executor(self) -> None:
        """Parse `executor = {model, api_base, api_key}`: the model, and an entry of [providers] for its provider."""
        table = self._filled(
            ("executor",), self._file.table(("executor",), self._file.data["executor"]), advisors.EXECUTOR
        )
        if "model" not in table:
            raise self._file.error(("executor",), "executor.model is missing: give PROVIDER/MODEL")
        model = str(self._read_in(("executor", "model"), BY_NAME["model"], table["model"]))
        try:
            address = advisors.read_address(table, self._base)
        except advisors.MemberError as error:
            raise self._file.error(("executor", error.member), f"executor.{error}") from None
        if address != Address():
            rows = self._into.rows
            provider = str(self._into.values.get("provider") or "").lower() or provider_of(
                model, rows, address.base_url
            )
            if not provider and address.base_url:
                provider = "openai-compatible"  # the protocol nearly every server speaks
                model = f"{provider}/{model}"
            if not provider:
                raise ConfigError(
                    f"{self._file.where('executor', 'model')}: {model!r} does not name the provider of "
                    "executor.api_key: write provider/model."
                )
            try:
                placed = place_executor(provider, address, rows)
            except UsageError as error:
                raise self._file.error(("executor",), f"executor: {error}") from error
            self._into.apart = provider, own_address(provider, rows, self._into.environ)
            self._into.values["providers"] = {**self._into.described, provider: placed}
            self._into.origins["providers"] = self._origin
        self._into.set(BY_NAME["model"], model, self._origin)

    def _take_key(self, keys: Line, field: Setting, value: object) -> None:
        if keys[0] == "permissions" and isinstance(value, str):
            raise self._file.error(keys, f'{".".join(keys)} must be a list: write {keys[-1]} = ["..."]')
        if self._trusted:
            value = self._expanded(keys, value)
        elif (refusal := self._refusal(keys, field, value)) is not None:
            self._ignore(keys, field.name, refusal)
            return
        found = self._read_in(keys, field, value)
        runs = {"tools": "/" in str(found), "status_line": str(found)[:1] == "!"}.get(field.name, False)
        if self._shared and (runs or (field.name in _OPENING and not self._is_free(field, found))):
            self._ignore(keys, field.name, self._shared)
            return
        self._into.check_rules(field, found, partial(self._file.where, *keys))
        if field.name == "tools":
            found = tuple(name for name in cast("tuple[str, ...]", found) if self._is_offered(keys, name))
        if not self._trusted and field.project == "ask" and not self._is_free(field, found):
            self._want(keys, field, cast("str | tuple[str, ...]", found))
            return
        if field.name == "deny" and not self._trusted:
            from sagent.policy.rules import Rule

            base = self._file.path.parent.parent
            found = tuple(str(Rule.parse(rule).anchored(base)) for rule in cast("tuple[str, ...]", found))
        self._into.set(field, found, self._origin)

    def _is_offered(self, keys: Line, name: str) -> bool:
        """Return False for a tool or group of a missing plugin, with a warning."""
        if owner := self._into.plugins.former_owner(f"--tools {name.lower()}"):
            self._ignore(keys, name, GONE.format(owner))
        return not owner

    def _is_free(self, field: Setting, value: object) -> bool:
        """Return True if a project's file may set this unasked: to its present value, or stricter."""
        old = self._into.values.get(field.name, _default(field))
        return value == old or is_stricter(field, value, old)

    def _want(self, keys: Line, field: Setting, value: str | tuple[str, ...]) -> None:
        """Record a project file's wish, for the person to see, and apply it if they trust the file."""
        wanted = Wanted(field.name, value, self._file.line(*keys))
        if len(wanted.text) > _MAX_WANTED_CHARS:
            self._ignore(keys, field.name, "it is too long to be shown for your approval")
            return
        self._into.wanted.append(wanted)
        if self._into.trusting:
            self._into.set(field, value, f"{self._origin}{TRUSTED}")

    def _read_in(self, keys: Line, field: Setting, value: object) -> object:
        return self._into.read(field, value, self._base, partial(self._file.where, *keys))

    def _refusal(self, keys: Line, field: Setting, value: object) -> str | None:
        """Return the reason why a project's file may not set this, or None."""
        if field.name == "advisors":
            return advisors.STRANGER
        if field.project == "no" or (keys == ("executor",) and not isinstance(value, str)):
            return _NEVER
        if "${" in repr(value) and field.name != "deny":  # it may be a part of a name
            return NO_VARIABLES
        if field.project == "lower":
            old = self._into.values.get(field.name, _default(field))
            if not is_stricter(field, self._read_in(keys, field, value), old):
                stricter = "make it stricter than" if field.name != "log_level" else "show more than"
                return f"a project's file may only {stricter} {old!s}"
        return None

    @property
    def _groups(self) -> Mapping[str, Mapping[str, Setting]]:
        """Return the tables of a file whose members are settings, with these by name."""
        keys = [(*each.key.split("."), each) for each in self._into.every.values() if each.key]
        return {table: {name: each for at, name, each in keys if at == table} for table, *_ in keys} | _RULES

    def _members(self) -> Iterator[tuple[Line, Setting, object]]:
        """Yield a file's settings outside tables: keys, setting, value. Raises ConfigError for an unknown key."""
        groups = self._groups
        for key, value in self._file.data.items():
            if key in ("allow", "deny"):
                raise self._file.error((key,), f"{key} belongs in the table [permissions]")
            if key in ALIASES:
                yield (key,), BY_NAME[ALIASES[key]], value
            elif key in self._into.every and (key not in groups or isinstance(value, str)):
                yield (key,), self._into.every[key], value
            elif key in groups:
                for name, item in self._file.table((key,), value).items():
                    if name in groups[key]:
                        yield (key, name), groups[key][name], item
                    elif owner := self._into.plugins.former_owner(f"[{key}.{name}]"):
                        self._ignore((key, name), f"{key}.{name}", GONE.format(owner))
                    else:
                        raise self._file.unknown((key, name), tuple(groups[key]))
            elif key in (*self._into.plugins.named(Table), _NOT_HERE):
                continue
            else:
                self._ignore_of_plugin(key)

    def _ignore_of_plugin(self, key: str) -> None:
        """Ignore a key that may belong to a missing plugin. Raises ConfigError for any other."""
        plugins = self._into.plugins
        if owner := plugins.former_owner(f"[{key}]") or plugins.gone(Setting).get(key) or plugins.gone(Table).get(key):
            self._ignore((key,), key, GONE.format(owner), guards=key in GUARDS or key in plugins.lost_guards)
        elif key in ("plugin", "plugins", "no_plugins"):
            folder = self._into.config_dir / "plugins"
            raise self._file.error((key,), f"a file cannot name plugins: put them into {folder}, or give --plugin FILE")
        elif plugins.lacks_some:
            why = "there is no such setting, unless it belongs to a plugin that is not loaded"
            self._ignore((key,), key, why, guards=plugins.broken and isinstance(self._file.data[key], Mapping))
        else:
            raise self._file.unknown((key,), (*self._into.every, *ALIASES, *self._groups, *plugins.named(Table)))

    def _expanded(self, keys: Line, value: object) -> object:
        return self._file.expanded(keys, value, self._into.environ)


def _joined(values: object, layer: Mapping[str, object] | tuple[object, ...]) -> object:
    """Return a table's values of the layers so far and of this one."""
    if isinstance(layer, Mapping):
        return {**cast("Mapping[str, object]", values or {}), **layer}
    return (*cast("tuple[object, ...]", values or ()), *layer)


def _default(field: Setting) -> object:
    """Return the default of a setting."""
    if field.name == field.member:
        return field.default
    from sagent.advisor.rules import Rules

    found: object = getattr(Rules(), field.member)
    return found
