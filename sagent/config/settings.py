"""The effective settings, as one frozen value."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypeVar, cast

from sagent.config.advisors import Address
from sagent.config.plugins import Installed
from sagent.config.typed import DeclaredSettings
from sagent.lib.dataclass import dataclass
from sagent.plugin import ProviderRow, Setting, Table
from sagent.providers.rows import Row

if TYPE_CHECKING:
    from sagent.advisor.rules import Rules

S = TypeVar("S")
T = TypeVar("T")
Family: TypeAlias = Literal["openai", "anthropic", "responses", "google"]
"""The API of a server; "openai" is Chat Completions, which nearly all of them have."""


@dataclass(frozen=True, slots=True)
class CustomProvider:
    """A provider described by the person, or one of ours with changes; `given` names the members they set."""

    row: Row
    api_key: str = field(default="", repr=False)
    given: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def base_url(self) -> str:
        """Address of the provider; "" for the default of a built-in one."""
        return self.row.base_url if "base_url" in self.given else ""

    @property
    def family(self) -> Family:
        return "openai" if self.row.family == "chat" else cast("Family", self.row.family)


class Converted(Mapping[str, T], Generic[S, T]):
    """A mapping whose values are made of those of another on demand."""

    def __init__(self, values: Mapping[str, S], convert: Callable[[S], T]) -> None:
        self._given, self._convert = values, convert

    def __getitem__(self, name: str) -> T:
        return self._convert(self._given[name])

    def __contains__(self, name: object) -> bool:
        return name in self._given

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)


def rows_by_name(providers: Mapping[str, CustomProvider]) -> Mapping[str, Row]:
    """Return the rows of providers, by name, read on demand."""
    return Converted(providers, lambda each: each.row)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(DeclaredSettings):
    """Every setting. `origins` has the source of each.

    `config_dir` has the person's AGENTS.md, and `user_file` is the path of their settings; these and the members after
    `prices` are not settings. `project_file` is set if it was read, and `wish` is its unfulfilled wish. `plugged` has
    the values of the settings and tables of `plugins`, by name.
    """

    config_dir: Path
    user_file: Path
    advisor_addresses: Mapping[str, Address] = field(default_factory=dict[str, Address])  # of advisors, by their names
    advisor_rules: "Rules | None" = None  # None = Rules()
    providers: Mapping[str, CustomProvider] = field(default_factory=dict[str, CustomProvider])
    prices: Mapping[str, Mapping[str, object]] = field(default_factory=dict[str, Mapping[str, object]])
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])  # of models
    origins: Mapping[str, str] = field(default_factory=dict[str, str])
    warnings: tuple[str, ...] = ()
    project_file: Path | None = None
    wish: "Wish | None" = field(default=None, repr=False)
    plugins: Installed = field(default=Installed(), repr=False)
    plugged: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)

    def of(self, declared: Setting | Table) -> object:
        """Return the value of a setting, or of a plugin's table in files: {} if it is not set."""
        if not isinstance(declared, Setting):
            return self.plugged.get(declared.name, {})
        return self.plugged.get(declared.name, getattr(self, declared.name, declared.default))

    def says(self, fact: str) -> bool:
        """Return True for "always", for the name of a setting that is not its default or of a table that is not empty,
        and for a setting with this value ("diagnostics=on")."""
        name, equals, value = fact.partition("=")
        found = self.plugins.named(Setting).get(name)
        if found is None or fact == "always":
            return fact == "always" or (not equals and bool(self.plugged.get(name) or getattr(self, name, None)))
        return str(self.of(found)) == value if equals else self.of(found) != found.default

    def rows_of(self, table: str) -> Mapping[str, object]:
        """Return the rows of a plugin's table by name; none if the plugin is missing."""
        return cast("Mapping[str, object]", self.plugged.get(table, {}))

    def without(self, *tables: str) -> "Settings":
        """Return the settings without what files have of tables of plugins."""
        return replace(self, plugged={name: value for name, value in self.plugged.items() if name not in tables})

    @property
    def rows(self) -> Mapping[str, Row]:
        """The providers that the person or a plugin describes, as rows by their names."""
        return rows_by_name(self.providers)

    def row(self, name: str) -> Row:
        """Return the row of a provider that a person names. Raises UsageError, also with its missing plugin."""
        from sagent.providers.registry import row_called, row_named

        return row_called(name, self.rows) or row_named(name, self.rows, self.plugins.gone(ProviderRow))


@dataclass(frozen=True, slots=True)
class Wanted:
    """A setting that a project's file wishes, and its line."""

    name: str
    value: str | tuple[str, ...]
    line: int

    @property
    def text(self) -> str:
        """The value in ASCII, so that look-alike letters can be told apart."""
        text = self.value if isinstance(self.value, str) else ", ".join(self.value)
        return text.encode("ascii", "backslashreplace").decode() or "none"


@dataclass(frozen=True, slots=True)
class Wish:
    """All wishes of a project's file; `granted` are the settings with them. `refused`: the person has said no."""

    file: Path
    wanted: tuple[Wanted, ...]
    granted: Settings
    refused: bool = False

    @property
    def folder(self) -> Path:
        """The project's folder, with links resolved."""
        return self.file.parent.parent.resolve()
