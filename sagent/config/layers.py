"""From files, environment and flags to Settings, strictest reading of each."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

from sagent.config.advisors import (
    EXECUTOR,
    MEMBERS,
    NONE,
    STRANGER,
    MemberError,
    Placed,
    named_apart,
    read_address,
    read_spec,
    read_table,
)
from sagent.config.fields import ALIASES, FIELDS, RULES, TABLES, THRESHOLDS, Field, is_stricter
from sagent.config.files import NAME, File, Line, directory, end_sentence, expand, find_file, read_file
from sagent.config.servers import addresses, own_address, place_executor, provider_of, with_path
from sagent.config.settings import Address, CustomProvider, Settings, Wanted, Wish
from sagent.config.values import PathBase, RefusedError
from sagent.context.instructions import repository_root
from sagent.context.places import plugin_folders
from sagent.errors import ConfigError, UsageError
from sagent.lib.text import nearest

if TYPE_CHECKING:
    from sagent.hooks.hook import Hook
    from sagent.tools.code.lsp.rows import ServerRow

_OTHER_VARIABLES = (
    "SAGENT_BUS",
    "SAGENT_CONFIG",
    "SAGENT_CUSTODY",
    "SAGENT_PROJECT_DIR",
)  # the last two are sagent's commands' own
_NEVER = "a project's file may not set it"
_FIELDS = {field.name: field for field in FIELDS}
_GROUPS: Mapping[str, Mapping[str, Field]] = {
    "permissions": {"allow": _FIELDS["allow"], "deny": _FIELDS["deny"]},
    "logging": {"level": _FIELDS["log_level"], "trace_file": _FIELDS["trace"]},
    "env": {"pass": _FIELDS["env_pass"]},
    "sandbox": {"mode": _FIELDS["sandbox"], "allow_domains": _FIELDS["allow_domains"]},
    "advisor_rules": RULES,
    "policy": {**RULES, "max_turns": _FIELDS["max_turns"]},
}
"""Tables of a file whose members are settings; `policy` is another name of `advisor_rules`."""
_NOT_HERE = "search"
"""A table that files of this shape have elsewhere, for searches of the web, which are in `web` here."""
_NAMES = (*_FIELDS, *ALIASES, *_GROUPS, *TABLES)
_Given: TypeAlias = tuple[Field, object, str]  # a setting, its value, and where it was given
_OWN_FLAGS = ("executor_api_base", "advisor_api_base", "trust_project")  # about what other flags and files name
_TRUSTED = ", trusted"  # ends the origin of what a project's file set with the person's trust
_MOST_WANTED = 200  # characters of a value that the person is to trust: it is shown in full


def load(
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    *,
    file: str | Path | File | None = None,
) -> Settings:
    """The settings in force. `flags` by setting or flag name, as text or as typed values; None is not given.

    `environ` and `cwd` are this process's own where left out; `file` takes the base of the person's. Raises
    ConfigError that names the place and what is accepted. What a project's file may not set is left out, with a
    warning; so is what it may set only with the person's trust, which `wish` then has. They trust it who said so when
    they were asked, or for these settings with the flag `trust_project`.
    """
    environ = os.environ if environ is None else environ
    flags = flags or {}
    cwd = _own_directory(flags, environ) if cwd is None else cwd
    granted = _build(flags, environ, cwd, file, trusting=True)
    if not granted.wanted or granted.project is None or flags.get("trust_project"):
        return granted.settings()
    from sagent.config.trust import recall, warning

    without = _build(flags, environ, cwd, file, trusting=False).settings()
    wish = Wish(granted.project, tuple(granted.wanted), granted.settings())
    if _values(without) == _values(wish.granted):  # what it asks for is so anyway, or the layers above say otherwise
        return without
    match recall(wish, without.state_dir):
        case True:
            return wish.granted
        case False:
            return replace(without, wish=replace(wish, refused=True))
        case None:
            return replace(without, wish=wish, warnings=(*without.warnings, warning(wish)))


def _values(settings: Settings) -> Settings:
    return replace(settings, origins={}, warnings=())


def _build(
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    cwd: Path,
    file: str | Path | File | None,
    *,
    trusting: bool,
) -> "_SettingsBuilder":
    """The settings of all layers; `trusting`: with what a project's file may only set when the person trusts it."""
    builder = _SettingsBuilder(environ, cwd, Path(environ.get("HOME") or Path("~").expanduser()), trusting=trusting)
    builder.choose_file(file)
    user = file if isinstance(file, File) else read_file(builder.user_file)
    if user is None and builder.named_by:
        raise ConfigError(f"{builder.named_by}: there is no file {builder.user_file}.")
    if user is not None:
        builder.take_file(user, trusted=True)
        builder.warn_of_key(user)
    builder.take_plugins()
    variables, given = _environment(environ), _by_field(flags)
    project_file = builder.project_file((*variables, *given))
    project = read_file(project_file, project_file.parent.parent)
    if project is not None and not (user is not None and user.path.samefile(project.path)):
        builder.project = project.path
        builder.take_file(project, trusted=False)
    builder.take(variables)
    builder.warn_of_variables()
    builder.take(given)
    builder.put_model_aside()
    builder.take_addresses(flags.get("executor_api_base"), flags.get("advisor_api_base"))
    return builder


def _own_directory(flags: Mapping[str, object], environ: Mapping[str, str]) -> Path:
    """This process's directory; where it was deleted, the one that is asked for, if it needs no other to start from."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        named = Path(str(flags.get("cwd") or environ.get("SAGENT_CWD") or "")).expanduser()
        if named.is_absolute():
            return named
        raise ConfigError(
            "The working directory no longer exists; cd to one that does, or give --cwd with an absolute path."
        ) from None


def _by_field(flags: Mapping[str, object]) -> list[_Given]:
    """Flags in the order of the settings. Raises ConfigError for one that is none."""
    names = {name: field for field in FIELDS for name in (field.flag_name.replace("-", "_"), field.name)}
    names |= {name: _FIELDS[meant] for name, meant in ALIASES.items()}
    for name in flags:
        if name not in names and name not in _OWN_FLAGS:
            raise ConfigError(f"--{name.replace('_', '-')}: there is no such setting{nearest(name, names)}")
    found: dict[str, _Given] = {}
    for name, value in flags.items():
        if value is not None and name in names:
            origin = f"--{name if name in ALIASES else names[name].flag_name}"
            _take_once(found, (names[name], value, origin))
    return [found[field.name] for field in FIELDS if field.name in found]


def _variables() -> Mapping[str, Field]:
    found = {field.variable: field for field in (*FIELDS, *RULES.values())}
    return found | {f"SAGENT_{name.upper()}": _FIELDS[meant] for name, meant in ALIASES.items()}


def _environment(environ: Mapping[str, str]) -> list[_Given]:
    found: dict[str, _Given] = {}
    for variable, field in _variables().items():
        if environ.get(variable):
            _take_once(found, (field, environ[variable], variable))
    return list(found.values())


def _take_once(found: dict[str, _Given], given: _Given) -> None:
    field, _, origin = given
    if field.name in found:
        both = " and ".join(sorted((origin, found[field.name][2])))
        raise ConfigError(f"{both} name the same: give one of them.")
    found[field.name] = given


class _SettingsBuilder:
    """Settings in the making: values so far, where each came from, and what was left out."""

    def __init__(self, environ: Mapping[str, str], cwd: Path, home: Path, *, trusting: bool) -> None:
        self.environ = environ
        self.cwd = cwd
        self.home = home
        self.base = PathBase(cwd, home)
        self.config_dir = directory("config", environ, home)
        self.user_file, self.named_by = self.config_dir / NAME, ""
        self.values: dict[str, object] = {}
        self.origins: dict[str, str] = {}
        self.warnings: list[str] = []
        self.project: Path | None = None  # its file
        self.wanted: list[Wanted] = []
        self._trusting = trusting
        self._apart: tuple[str, Address] | None = None  # the executor's provider, and where others reach it

    def choose_file(self, file: str | Path | File | None) -> None:
        """The person's file: the one that is named, or was read already, else that of their directory."""
        if isinstance(file, File):
            self.user_file, self.named_by = file.path, "--config"
            return
        named = str(file) if file is not None else self.environ.get("SAGENT_CONFIG", "")
        if named or file is not None:
            self.named_by = "SAGENT_CONFIG" if file is None else "--config"
            try:
                self.user_file = self.base.path(named)
            except RefusedError as error:
                raise ConfigError(f"{self.named_by}: {error}.") from error
            return
        self.user_file, several = find_file(self.config_dir)
        self.warnings += [several] if several else []

    def project_file(self, above: Sequence[_Given]) -> Path:
        """The project is that of the directory to work in, which the layers above the project's file may name."""
        work = self.values.get("cwd", self.cwd)
        for field, value, origin in above:
            if field.name == "cwd":
                work = self._read(field, value, self.base, partial(str, origin))
        assert isinstance(work, Path)
        return (repository_root(work) or work) / ".sagent" / NAME

    def settings(self) -> Settings:
        values = {name: value for name, value in self.values.items() if name != "cwd" and "." not in name}
        values |= self._advisors()
        if self.values.get("continue_session") and self.values.get("session"):
            raise ConfigError(
                f"{self.origins['continue_session']} and {self.origins['session']} name two sessions: give one of them."
            )
        cwd = self.values.get("cwd", self.cwd)
        assert isinstance(cwd, Path)
        start = Settings(
            cwd=cwd.resolve(),
            config_dir=self.config_dir,
            state_dir=directory("state", self.environ, self.home),
            origins=self.origins,
            warnings=tuple(self.warnings),
            project_file=self.project,
        )
        found = replace(start, **values)
        return replace(found, permission_mode="plan") if found.plan else found

    def _advisors(self) -> dict[str, object]:
        """Who advises, where they are reached, and their rules."""
        found: dict[str, object] = {}
        if placed := cast("tuple[Placed, ...]", self.values.get("advisors", ())):
            found["advisors"] = tuple(each.advisor for each in placed)
            found["advisor_addresses"] = dict(addresses(placed, self._rows(), self._apart))
        if rules := {rule.member: self.values[rule.name] for rule in RULES.values() if rule.name in self.values}:
            from sagent.advisor.rules import Rules

            found["advisor_rules"] = replace(Rules(), **rules)
            self._warn_of_thresholds(cast("tuple[str, ...] | None", rules.get("triggers")))
        return found

    def _warn_of_thresholds(self, triggers: tuple[str, ...] | None) -> None:
        """Warn of thresholds that can do nothing, because the triggers that were chosen leave out whose they are."""
        for trigger, member in THRESHOLDS.items():
            origin = self.origins.get(RULES[member].name)
            if origin and triggers is not None and trigger not in triggers:
                self.warnings.append(f"{origin}: {member} does nothing: triggers leaves out {trigger}.")

    def _rows(self) -> Mapping[str, CustomProvider]:
        return cast("Mapping[str, CustomProvider]", self.values.get("providers", {}))

    def put_model_aside(self) -> None:
        """A provider that a layer above the model's names has no use for another provider's model: it has its own."""
        model, provider = (self.origins.get(name, "") for name in ("model", "provider"))
        if not model or _height(provider) <= _height(model):
            return
        from sagent.providers.registry import row_called

        head, slash, _ = str(self.values["model"]).partition("/")
        rows = {name: own.row for name, own in self._rows().items()}
        its, named = row_called(head, rows), row_called(str(self.values["provider"]), rows)
        if slash and its is not None and its != named:
            del self.values["model"], self.origins["model"]

    def take_addresses(self, executor: object, advisors: object) -> None:
        """The layer of `--executor-api-base` and `--advisor-api-base`, which say where the models in force are."""
        field = _FIELDS["base_url"]
        if executor is not None:
            if self.origins.get("base_url", "").startswith("--"):
                raise ConfigError("--base-url and --executor-api-base say the same: give one of them.")
            name = str(self.values.get("provider") or "").lower()
            rows = self._rows()
            url = str(self._read(field, executor, self.base, partial(str, "--executor-api-base")))
            provider = name or provider_of(str(self.values.get("model") or ""), rows, url)
            self._set(field, with_path(url, provider, rows), "--executor-api-base")
            self._apart = provider, self._apart[1] if self._apart else own_address(provider, rows, self.environ)
        if advisors is None:
            return
        urls = [advisors] if isinstance(advisors, str) else list(cast("list[object]", advisors))
        placed = cast("tuple[Placed, ...]", self.values.get("advisors", ()))
        if len(urls) != len(placed):
            raise ConfigError(
                f"--advisor-api-base: each advisor needs one, in their order; advisors: {len(placed)}, "
                f"addresses: {len(urls)}."
            )
        read = [self._read(field, url, self.base, partial(str, "--advisor-api-base")) for url in urls]
        self.values["advisors"] = tuple(
            Placed(each.advisor, Address(str(url))) for each, url in zip(placed, read, strict=True)
        )

    def take(self, layer: Sequence[_Given]) -> None:
        """The values of a trusted layer. Raises ConfigError."""
        for field, value, origin in layer:
            where = partial(str, origin)
            found = self._read(field, value, self.base, where)
            self._check_rules(field, found, where)
            self._set(field, found, origin)

    def _check_rules(self, field: Field, value: object, where: Callable[[], str]) -> None:
        """Warn of rules that are about no tool: nobody meant to write those."""
        if field.name not in ("allow", "deny"):
            return
        from fnmatch import fnmatchcase

        from sagent.policy.rules import BEYOND_THE_SANDBOX
        from sagent.tools import EVERY

        known = (*EVERY, *BEYOND_THE_SANDBOX)
        for rule in cast("tuple[str, ...]", value):
            tool = rule.partition("(")[0]
            if not tool.startswith(("mcp__", "a2a__")) and not any(fnmatchcase(name, tool) for name in known):
                hint = nearest(tool, known) or f"; the tools are {', '.join(EVERY)}."
                self.warnings.append(f"{where()}: {field.name} = {rule!r}: there is no tool {tool}{hint}")

    def _read(self, field: Field, value: object, base: PathBase, where: Callable[[], str]) -> object:
        try:
            return field.read(value, base)
        except RefusedError as error:
            if isinstance(value, Mapping) and field.name in ("keys", "options", "a2a"):
                raise ConfigError(f"{where()}: {end_sentence(f'{field.name}: {error}')}") from None
            if isinstance(value, Mapping):  # not shown: it may hold a key
                hint = nearest(field.name, TABLES) or f": {error}."
                raise ConfigError(f"{where()}: {field.name} is no table{hint}") from None
            shown = f"{value!r}" if len(repr(value)) <= 80 else f"{repr(value)[:79]}…"
            message = end_sentence(f"{field.name} = {shown} is not accepted: {error}")
            raise ConfigError(f"{where()}: {message}") from None

    def _set(self, field: Field, value: object, origin: str) -> None:
        old = self.values.get(field.name)
        if field.adds and isinstance(old, tuple) and isinstance(value, tuple):
            value = tuple(dict.fromkeys((*cast("tuple[object, ...]", old), *cast("tuple[object, ...]", value))))
            origin = f"{self.origins[field.name]}, {origin}"
        self.values[field.name] = value
        self.origins[field.name] = origin

    def warn_of_variables(self) -> None:
        """Warn of `SAGENT_...` variables that mean nothing."""
        known = [*_variables(), *_OTHER_VARIABLES]
        for name in self.environ:
            if name.startswith("SAGENT_") and name not in known:
                self.warnings.append(f"{name}: there is no such setting{nearest(name, known)}")

    def warn_of_key(self, file: File) -> None:
        """Warn of a key that others on this machine may read."""
        with suppress(OSError):
            self.warnings += filter(None, [file.exposed_key()])

    def take_file(self, file: File, *, trusted: bool) -> None:
        """A file's layer: the person's own, or a project's, which may only make things stricter."""
        seen: dict[str, str] = {}
        for keys, field, value in _members(file):
            if field.name in seen:
                raise file.error(keys, f"{'.'.join(keys)} and {seen[field.name]} are one setting: keep one of them")
            seen[field.name] = ".".join(keys)
            if field.name == "advisors" and trusted:
                self._take_advisors(file, keys, value)
            elif keys != ("executor",) or isinstance(value, str) or not trusted:
                self._take_key(file, keys, field, value, trusted=trusted)
        for key, value in file.data.items():
            if key == _NOT_HERE and trusted and file.table((key,), value).get("enabled"):
                self.warnings.append(
                    f"{file.where(key)}: {key} does nothing: searches are set in [web], see docs/web.md."
                )
            if key == "hooks":
                self._take_hooks(file, file.table((key,), value), trusted=trusted)
            elif key == "language_servers" and not trusted:
                self._want_servers(file, file.table((key,), value))
            elif key in TABLES and not trusted:
                self.warnings.append(f"{file.where(key)}: {key} is ignored: {_NEVER}.")
            elif key in TABLES:
                self._take_table(file, key, value)
        if trusted and not isinstance(file.data.get("executor", ""), str):
            self._take_executor(file)  # last: it may add to the providers

    def _take_hooks(self, file: File, value: Mapping[str, object], *, trusted: bool) -> None:
        """The person's hooks, or a project's, which are theirs to trust as they are written."""
        from sagent.config.hooks import read_hooks

        environ = self.environ if trusted else None
        found = read_hooks(file, value, PathBase(file.path.parent, self.home), environ)
        if not trusted and found:
            self.wanted.append(Wanted("hooks", tuple(hook.wanted for hook in found), file.line("hooks")))
        if trusted or self._trusting:
            self.values["hooks"] = (*cast("tuple[Hook, ...]", self.values.get("hooks", ())), *found)
            self.origins["hooks"] = ", ".join(filter(None, (self.origins.get("hooks"), str(file.path))))

    def _want_servers(self, file: File, value: Mapping[str, object]) -> None:
        """A project's language servers, which are programs: theirs to trust as they are written."""
        from sagent.config.tables import read_language_servers

        key = "language_servers"
        if "${" in repr(value):
            self.warnings.append(f"{file.where(key)}: {key} is ignored: a project's file may not read the environment.")
            return
        known = cast("Mapping[str, ServerRow]", self.values.get(key, {}))
        tables = {name: file.table((key, name), row) for name, row in value.items()}
        found = read_language_servers(file, tables, PathBase(file.path.parent, self.home), known)
        self.wanted.append(Wanted(key, tuple(map(str, found.values())), file.line(key)))
        if self._trusting:
            self.values[key] = {**known, **found}
            self.origins[key] = ", ".join(filter(None, (self.origins.get(key), str(file.path))))

    def take_plugins(self) -> None:
        """What installed plugins add to the person's file. One whose files are wrong is left out, with a warning."""
        folders = plugin_folders(self.config_dir)
        for folder in folders:
            from sagent.config.hooks import plugin_hooks

            try:
                found = plugin_hooks(folder, self.home)
                servers = read_file(folder / "mcp.toml", folder)
                if servers is not None:
                    before = self.values.get("mcp", {}), self.origins.get("mcp")
                    self._take_table(servers, "mcp", servers.data.get("mcp", {}))
                    self._put_before("mcp", *before)
            except ConfigError as error:
                self.warnings.append(f"The plugin {folder.name} is not used whole: {error}")
                continue
            self.values["hooks"] = (*cast("tuple[Hook, ...]", self.values.get("hooks", ())), *found)

    def _put_before(self, key: str, own: object, origin: str | None) -> None:
        """Have the person's own rows of a table win over those that were read last."""
        rows = cast("Mapping[str, object]", self.values[key])
        self.values[key] = {**rows, **cast("Mapping[str, object]", own)}
        self.origins[key] = ", ".join(filter(None, (origin, self.origins[key])))

    def _take_advisors(self, file: File, keys: Line, value: object) -> None:
        items = cast("list[object]", value) if isinstance(value, list) else [value]
        if len(items) == 1 and items[0] in NONE:
            items = []
        found: list[Placed] = []
        for number, item in enumerate(items):
            here = (*keys, str(number)) if isinstance(value, list) else keys
            found.append(self._advisor(file, here, item))
            try:
                named_apart(found)
            except RefusedError as error:
                raise file.error(here, f"{error}") from None
        self._set(_FIELDS["advisors"], tuple(found), str(file.path))

    def _advisor(self, file: File, keys: Line, item: object) -> Placed:
        base = PathBase(file.path.parent, self.home)
        try:
            if isinstance(item, Mapping):
                return read_table(self._filled(file, keys, cast("Mapping[str, object]", item), MEMBERS), base)
            if isinstance(item, str):
                return read_spec(str(_expanded(file, keys, item, self.environ)), base)
        except RefusedError as error:
            where = file.where(*keys, *((error.member,) if isinstance(error, MemberError) else ()))
            raise ConfigError(end_sentence(f"{where}: {'.'.join(keys)}: {error}")) from None
        raise file.error(keys, f"{'.'.join(keys)}: give an advisor as a text, or as a table of {', '.join(MEMBERS)}")

    def _filled(
        self, file: File, keys: Line, table: Mapping[str, object], names: tuple[str, ...] | None = None
    ) -> dict[str, object]:
        """A table with its variables filled in, and its members known where `names` are given."""
        for name in table:
            if names is not None and name not in names:
                raise file.unknown((*keys, name), names)
        return {name: _expanded(file, (*keys, name), value, self.environ) for name, value in table.items()}

    def _take_executor(self, file: File) -> None:
        """`executor = {model, api_base, api_key}`: the model, and an entry of [providers] for the model's provider."""
        table = self._filled(file, ("executor",), file.table(("executor",), file.data["executor"]), EXECUTOR)
        if "model" not in table:
            raise file.error(("executor",), "executor.model is missing: give PROVIDER/MODEL")
        model = str(self._read_in(file, ("executor", "model"), _FIELDS["model"], table["model"]))
        try:
            address = read_address(table, PathBase(file.path.parent, self.home))
        except MemberError as error:
            raise file.error(("executor", error.member), f"executor.{error}") from None
        if address != Address():
            rows = self._rows()
            provider = str(self.values.get("provider") or "").lower() or provider_of(model, rows, address.base_url)
            if not provider and address.base_url:
                provider = "openai-compatible"  # the protocol nearly every server speaks
                model = f"{provider}/{model}"
            if not provider:
                raise ConfigError(
                    f"{file.where('executor', 'model')}: {model!r} does not say whose key executor.api_key is: "
                    "say provider/model."
                )
            try:
                placed = place_executor(provider, address, rows)
            except UsageError as error:
                raise file.error(("executor",), f"executor: {error}") from error
            self._apart = provider, own_address(provider, rows, self.environ)
            self.values["providers"] = {**rows, provider: placed}
            self.origins["providers"] = str(file.path)
        self._set(_FIELDS["model"], model, str(file.path))

    def _take_key(self, file: File, keys: Line, field: Field, value: object, *, trusted: bool) -> None:
        if keys[0] == "permissions" and isinstance(value, str):
            raise file.error(keys, f'{".".join(keys)} must be a list: write {keys[-1]} = ["..."]')
        if trusted:
            value = _expanded(file, keys, value, self.environ)
        elif (refusal := self._refusal(file, keys, field, value)) is not None:
            self.warnings.append(f"{file.where(*keys)}: {field.name} is ignored: {refusal}.")
            return
        found = self._read_in(file, keys, field, value)
        self._check_rules(field, found, partial(file.where, *keys))
        if not trusted and field.project == "ask" and not self._is_free(field, found):
            self._want(file, keys, field, cast("str | tuple[str, ...]", found))
            return
        if field.name == "deny" and not trusted:
            from sagent.policy.rules import Rule

            base = file.path.parent.parent
            found = tuple(str(Rule.parse(rule).anchored(base)) for rule in cast("tuple[str, ...]", found))
        self._set(field, found, str(file.path))

    def _is_free(self, field: Field, value: object) -> bool:
        """Whether a project's file may set this unasked: to what it is already, or stricter."""
        old = self.values.get(field.name, _default(field))
        return value == old or is_stricter(field.name, value, old)

    def _want(self, file: File, keys: Line, field: Field, value: str | tuple[str, ...]) -> None:
        """Keep what a project's file wants, for the person to see, and set it where they trust it."""
        wanted = Wanted(field.name, value, file.line(*keys))
        if len(wanted.text) > _MOST_WANTED:
            self.warnings.append(f"{file.where(*keys)}: {field.name} is ignored: it is too long to be asked about.")
            return
        self.wanted.append(wanted)
        if self._trusting:
            self._set(field, value, f"{file.path}{_TRUSTED}")

    def _read_in(self, file: File, keys: Line, field: Field, value: object) -> object:
        return self._read(field, value, PathBase(file.path.parent, self.home), partial(file.where, *keys))

    def _refusal(self, file: File, keys: Line, field: Field, value: object) -> str | None:
        """Why a project's file may not set this, or None."""
        if field.name == "advisors":
            return STRANGER
        if field.project == "no" or (keys == ("executor",) and not isinstance(value, str)):
            return _NEVER
        if "${" in repr(value):
            return "a project's file may not read the environment"
        if field.project == "lower":
            old = self.values.get(field.name, _default(field))
            if not is_stricter(field.name, self._read_in(file, keys, field, value), old):
                stricter = "make it stricter than" if field.name != "log_level" else "show more than"
                return f"a project's file may only {stricter} {old!s}"
        return None

    def _take_table(self, file: File, key: str, value: object) -> None:
        from sagent.config.tables import READERS, read_aliases

        rows = file.table((key,), value)
        self.origins[key] = str(file.path)
        if key == "aliases":
            self.values[key] = read_aliases(file, rows)
            return
        tables = {name: self._filled(file, (key, name), file.table((key, name), row)) for name, row in rows.items()}
        self.values[key] = READERS[key](file, tables, PathBase(file.path.parent, self.home))


def _height(origin: str) -> int:
    """How high the layer is that an origin is of: the person's file, a project's, the environment, flags."""
    return 3 if origin.startswith("--") else 2 if origin.startswith("SAGENT_") else int(origin.endswith(_TRUSTED))


def _members(file: File) -> Iterator[tuple[Line, Field, object]]:
    """What a file sets, but for TABLES: keys, setting, value. Raises ConfigError for a setting that is none."""
    for key, value in file.data.items():
        if key in ("allow", "deny"):
            raise file.error((key,), f"{key} belongs into the table [permissions]")
        if key in ALIASES:
            yield (key,), _FIELDS[ALIASES[key]], value
        elif key in _FIELDS and (key not in _GROUPS or isinstance(value, str)):
            yield (key,), _FIELDS[key], value
        elif key in _GROUPS:
            for name, item in file.table((key,), value).items():
                if name not in _GROUPS[key]:
                    raise file.unknown((key, name), tuple(_GROUPS[key]))
                yield (key, name), _GROUPS[key][name], item
        elif key not in (*TABLES, _NOT_HERE):
            raise file.unknown((key,), _NAMES)


def _default(field: Field) -> object:
    """What a setting is where nobody set it."""
    if field.name == field.member:
        return {item.name: item.default for item in fields(Settings)}[field.name]
    from sagent.advisor.rules import Rules

    found: object = getattr(Rules(), field.member)
    return found


def _expanded(file: File, keys: Line, value: object, environ: Mapping[str, str]) -> object:
    try:
        return expand(value, environ)
    except ValueError as error:
        raise file.error(keys, f"{'.'.join(keys)}: {error}") from None
