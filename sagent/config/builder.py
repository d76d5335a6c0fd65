"""Builds settings from layers, with the source of each value."""

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

from sagent.config.advisors import Placed
from sagent.config.declared import BY_NAME, CORE, RULES, THRESHOLDS
from sagent.config.files import NAME, File, end_sentence, find_file
from sagent.config.plugins import GONE, Installed, find_plugins
from sagent.config.settings import Address, Converted, CustomProvider, Settings, Wanted
from sagent.config.values import shown
from sagent.context.instructions import repository_root
from sagent.context.places import directory
from sagent.errors import ConfigError
from sagent.lib.text import nearest
from sagent.plugin import PathBase, RefusedError, Setting, StatusPart, Table, ToolEntry, Trigger, choice

if TYPE_CHECKING:
    from sagent.providers.rows import Row

SettingValue: TypeAlias = tuple[Setting, object, str]  # a setting, its value, and its source
TRUSTED = ", trusted"  # ends the source of a project's setting that the person's trust allows


class SettingsBuilder:
    """Settings under construction: values so far, their sources, and notes on left-out ones."""

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
        self.lacking: list[str] = []  # missing guards of runs
        self.project: Path | None = None  # its file
        self.wanted: list[Wanted] = []
        self.trusting = trusting
        self.plugins = Installed()
        self.plugged: Mapping[str, Row] = {}  # the providers of plugins
        self.every: Mapping[str, Setting] = BY_NAME  # settings by their names, including plugins'
        self.apart: tuple[str, Address] | None = None  # the executor's provider, and its address for others

    def choose_file(self, file: str | Path | File | None) -> None:
        """Choose the person's file: the named one, the one already read, or the one in their directory."""
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

    def files_of(self, value: object) -> Sequence[Path]:
        """Return the files of `--plugin`. Raises ConfigError for a missing one."""
        names = [value] if isinstance(value, str | Path) else cast("Sequence[object]", value or ())
        files = [self.base.path(str(name)) for name in names]
        if missing := [file for file in files if not file.is_file()]:
            raise ConfigError(f"--plugin: there is no file {missing[0]}.")
        return files

    def find_plugins(self, files: Sequence[Path], *, foreign: bool) -> None:
        """Find the plugins' settings, and report left-out ones."""
        state = directory("state", self.environ, self.home)
        self.plugins = find_plugins(self.config_dir, state, files, foreign=foreign)
        self.plugged = self.plugins.rows
        self.every = self.plugins.named(Setting)
        self.warnings += self.plugins.notices
        self.lacking += self.plugins.broken_guards

    def project_file(self, above: Sequence[SettingValue]) -> Path:
        """Return the project's settings file, for the `cwd` that the layers above it give."""
        work = self.values.get("cwd", self.cwd)
        for field, value, origin in above:
            if field.name == "cwd":
                work = self.read(field, value, self.base, partial(str, origin))
        assert isinstance(work, Path)
        return (repository_root(work) or work) / ".sagent" / NAME

    def settings(self) -> Settings:
        """Return the settings so far. Raises ConfigError if they contradict each other."""
        if self.lacking and not self.values.get("unguarded"):
            raise ConfigError(f"{self.lacking[0]} It may guard what agents do; --unguarded runs without it.")
        own = {*self.every, *self.plugins.named(Table)} - {*BY_NAME, *(table.name for table in CORE.tables)}
        values = {name: value for name, value in self.values.items() if name not in {"cwd", *own} and "." not in name}
        values |= {"providers": self.rows, **self._advisors()}
        if self.values.get("continue_session") and self.values.get("session"):
            raise ConfigError(
                f"{self.origins['continue_session']} and {self.origins['session']} are two sessions: give only one."
            )
        cwd = self.values.get("cwd", self.cwd)
        assert isinstance(cwd, Path)
        start = Settings(
            cwd=cwd.resolve(),
            config_dir=self.config_dir,
            user_file=self.user_file,
            state_dir=directory("state", self.environ, self.home),
            origins=self.origins,
            warnings=tuple(self.warnings),
            project_file=self.project,
            plugins=self.plugins,
            plugged={name: self.values[name] for name in own if name in self.values},
        )
        found = replace(start, **values)
        return replace(found, permission_mode="plan") if found.plan else found

    def _advisors(self) -> dict[str, object]:
        """Return the advisors, their addresses and their rules."""
        found: dict[str, object] = {}
        if placed := cast("tuple[Placed, ...]", self.values.get("advisors", ())):
            from sagent.config.servers import addresses

            found["advisors"] = tuple(each.advisor for each in placed)
            found["advisor_addresses"] = dict(addresses(placed, self.rows, self.apart))
        if rules := {rule.member: self.values[rule.name] for rule in RULES.values() if rule.name in self.values}:
            from sagent.advisor.rules import Rules

            found["advisor_rules"] = replace(Rules(), **rules)
            self._warn_of_thresholds(cast("tuple[str, ...] | None", rules.get("triggers")))
        return found

    def _warn_of_thresholds(self, triggers: tuple[str, ...] | None) -> None:
        """Warn of thresholds without effect, because the chosen triggers exclude theirs."""
        for trigger, member in THRESHOLDS.items():
            origin = self.origins.get(RULES[member].name)
            if origin and triggers is not None and trigger not in triggers:
                self.warnings.append(f"{origin}: {member} does nothing: triggers leaves out {trigger}.")

    @property
    def described(self) -> Mapping[str, CustomProvider]:
        """The providers that the person describes."""
        return cast("Mapping[str, CustomProvider]", self.values.get("providers", {}))

    @property
    def rows(self) -> Mapping[str, CustomProvider]:
        """The person's providers, and those of plugins."""
        layers = self.described, Converted(self.plugged, CustomProvider)
        return ChainMap(*cast("tuple[dict[str, CustomProvider], ...]", layers))  # they are only read

    def put_model_aside(self) -> None:
        """Drop another provider's model if a higher layer names the provider, which has a default model."""
        model, provider = (self.origins.get(name, "") for name in ("model", "provider"))
        if not model or _height(provider) <= _height(model):
            return
        from sagent.providers.registry import row_called

        head, slash, _ = str(self.values["model"]).partition("/")
        rows = {name: own.row for name, own in self.rows.items()}
        its, named = row_called(head, rows), row_called(str(self.values["provider"]), rows)
        if slash and its is not None and its != named:
            del self.values["model"], self.origins["model"]

    def take_addresses(self, executor: object, advisors: object) -> None:
        """Apply `--executor-api-base` and `--advisor-api-base`, the addresses of the chosen models."""
        if executor is None and advisors is None:
            return
        from sagent.config.servers import own_address, provider_of, with_path

        field = BY_NAME["base_url"]
        if executor is not None:
            if self.origins.get("base_url", "").startswith("--"):
                raise ConfigError("--base-url and --executor-api-base mean the same: give only one.")
            name = str(self.values.get("provider") or "").lower()
            rows = self.rows
            url = str(self.read(field, executor, self.base, partial(str, "--executor-api-base")))
            provider = name or provider_of(str(self.values.get("model") or ""), rows, url)
            self.set(field, with_path(url, provider, rows), "--executor-api-base")
            self.apart = provider, self.apart[1] if self.apart else own_address(provider, rows, self.environ)
        if advisors is None:
            return
        urls = [advisors] if isinstance(advisors, str) else list(cast("list[object]", advisors))
        placed = cast("tuple[Placed, ...]", self.values.get("advisors", ()))
        if len(urls) != len(placed):
            raise ConfigError(
                f"--advisor-api-base: each advisor needs one, in their order; advisors: {len(placed)}, "
                f"addresses: {len(urls)}."
            )
        read = [self.read(field, url, self.base, partial(str, "--advisor-api-base")) for url in urls]
        self.values["advisors"] = tuple(
            Placed(each.advisor, Address(str(url))) for each, url in zip(placed, read, strict=True)
        )

    def take(self, layer: Sequence[SettingValue]) -> None:
        """Apply the values of a trusted layer. Raises ConfigError."""
        for field, value, origin in layer:
            where = partial(str, origin)
            found = self.read(field, value, self.base, where)
            self.check_rules(field, found, where)
            self.set(field, found, origin)

    def check_rules(self, field: Setting, value: object, locate: Callable[[], str]) -> None:
        """Warn of rules that match no tool, which must be a mistake."""
        if field.name not in ("allow", "deny"):
            return
        from fnmatch import fnmatchcase

        from sagent.policy.rules import BEYOND_THE_SANDBOX

        every = [*self.plugins.named(ToolEntry)]
        known, served = (*every, *BEYOND_THE_SANDBOX), self.plugins.served_tools
        for rule in cast("tuple[str, ...]", value):
            tool = rule.partition("(")[0]
            if not tool.startswith(served) and not any(fnmatchcase(name, tool) for name in known):
                start, more, _ = tool.lower().partition("__")
                owner = self.plugins.former_owner(f"--tools {start}{more and '__*'}")
                hint = f": it is of the plugin {owner}, which is not loaded." if owner else nearest(tool, known)
                hint = hint or f"; the tools are {', '.join(every)}."
                self.warnings.append(f"{locate()}: {field.name} = {rule!r}: there is no tool {tool}{hint}")

    def read(self, field: Setting, value: object, base: PathBase, locate: Callable[[], str]) -> object:
        try:
            if field.name == "permission_mode" and (name := str(value).strip().lower()) not in field.order:
                if owner := self.plugins.former_owner(f"mode {name}"):
                    raise RefusedError(GONE.format(owner))
                return choice(*map(str, field.order), *self.plugins.operations("mode"))(value, base)
            return self._known(field, field.read(value, base), locate)
        except RefusedError as error:
            if isinstance(value, Mapping) and "Mapping" in field.keyword_type:
                raise ConfigError(f"{locate()}: {end_sentence(f'{field.name}: {error}')}") from None
            if isinstance(value, Mapping):  # not shown: it may contain a key
                hint = nearest(field.name, self.plugins.named(Table)) or f": {error}."
                raise ConfigError(f"{locate()}: {field.name} is not a table{hint}") from None
            message = end_sentence(f"{field.name} = {shown(value)} is not accepted: {error}")
            raise ConfigError(f"{locate()}: {message}") from None

    def _known(self, field: Setting, value: object, locate: Callable[[], str]) -> object:
        """Return a value without names of missing plugins, with a warning. Raises RefusedError for unknown names."""
        if field.name == "status_line" and not str(value).startswith("!"):
            words, wanted = str(value).split(), "give parts, of {}, or ! and a command{}"
            return " ".join(self._present(StatusPart, words, wanted, locate))
        if field.name == "advisor_rules.triggers":
            every, named = tuple(self.plugins.named(Trigger)), cast("tuple[str, ...]", value)
            wanted = "give all, none, or some of {}{}"
            return every if named == ("all",) else (*self._present(Trigger, named, wanted, locate),)
        return value

    def _present(
        self, kind: type[tuple[object, ...]], words: Sequence[str], refusal: str, locate: Callable[[], str]
    ) -> Iterator[str]:
        known = self.plugins.named(kind)
        for word in words:
            if word in known:
                yield word
            elif owner := self.plugins.gone(kind).get(word):
                self.warnings.append(f"{locate()}: {word} is ignored: {GONE.format(owner)}.")
            else:
                raise RefusedError(refusal.format(", ".join(known), nearest(word, known)))

    def set(self, field: Setting, value: object, origin: str) -> None:
        old = self.values.get(field.name)
        if field.adds and isinstance(old, tuple) and isinstance(value, tuple):
            value = tuple(dict.fromkeys((*cast("tuple[object, ...]", old), *cast("tuple[object, ...]", value))))
            origin = f"{self.origins[field.name]}, {origin}"
        self.values[field.name] = value
        self.origins[field.name] = origin

    def join(self, key: str, value: object, origin: str) -> None:
        """Append a value to the earlier layers' one."""
        self.values[key] = value
        self.origins[key] = ", ".join(filter(None, (self.origins.get(key), origin)))


def _height(origin: str) -> int:
    """Rank the layer of an origin: the person's file 0, a project's 1, the environment 2, flags 3."""
    return 3 if origin.startswith("--") else 2 if origin.startswith("SAGENT_") else int(origin.endswith(TRUSTED))
