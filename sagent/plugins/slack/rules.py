"""The rules of a chat: permissions and budgets by place, in a TOML file. Other places are not served."""

import tomllib
from collections.abc import Mapping
from dataclasses import field
from decimal import Decimal
from pathlib import Path
from typing import Literal, TypeAlias

from sagent.errors import ConfigError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_object, as_str
from sagent.lib.names import path_of
from sagent.lib.regular import read_given
from sagent.lib.text import nearest
from sagent.plugins.slack.surface import Person

ChatMode: TypeAlias = Literal["plan", "ask", "edit"]
MODES: tuple[ChatMode, ...] = ("plan", "ask", "edit")  # not "full": everyone who may write would have a shell
MEMBERS = "members"
DIRECT = "direct"  # the name of direct messages, among channels
_KEYS = ("users", "approvers", "mode", "cwd", "model", "usd_per_thread", "usd_per_day")


@dataclass(frozen=True, slots=True)
class PlaceRules:
    """`users` may write; None is every member of the workspace. `approvers` may answer the policy's questions, and must
    be listed. Sums are USD."""

    cwd: Path
    users: frozenset[str] | None = None
    approvers: frozenset[str] = frozenset()
    mode: ChatMode = "plan"
    model: str = ""
    usd_per_thread: Decimal = Decimal(1)
    usd_per_day: Decimal = Decimal(5)

    def may_write(self, person: Person) -> bool:
        return person.is_member and (self.users is None or person.id in self.users)

    def may_approve(self, person: Person) -> bool:
        return person.is_member and person.id in self.approvers


@dataclass(frozen=True, slots=True)
class ChatRules:
    places: Mapping[str, PlaceRules] = field(default_factory=dict[str, PlaceRules])
    usd_per_day: Decimal = Decimal(20)


def read_rules(file: Path) -> ChatRules:
    """Return the rules in a file. Raises ConfigError."""
    try:
        value = as_object(tomllib.loads(read_given(file).decode()))
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not TOML: {error}") from error
    for name in value:
        if name not in ("usd_per_day", "channels"):
            raise ConfigError(f"{file}: there is no setting {name!r}{nearest(name, ('usd_per_day', 'channels'))}")
    places = {
        name: _place(as_object(each), f"{file}: channels.{name}", file.parent)
        for name, each in as_object(value.get("channels")).items()
    }
    if not places:
        raise ConfigError(f"{file}: add at least one channel, as in [channels.C0123ABCD].")
    return ChatRules(places, _usd(value.get("usd_per_day", 20), f"{file}: usd_per_day"))


def _place(table: Mapping[str, object], location: str, base: Path) -> PlaceRules:
    for name in table:
        if name not in _KEYS:
            raise ConfigError(f"{location}: there is no setting {name!r}{nearest(name, _KEYS)}")
    if "users" not in table:
        raise ConfigError(
            f'{location}: users is missing: give a list of ids, or "{MEMBERS}" for everyone in the workspace.'
        )
    mode = as_str(table.get("mode"), "plan")
    if mode not in MODES:
        raise ConfigError(f"{location}: mode {mode!r}: give one of {', '.join(MODES)}.")
    cwd = (base / path_of(as_str(table.get("cwd"), "."))).resolve()
    if not cwd.is_dir():
        raise ConfigError(f"{location}: cwd: {cwd} is not a directory.")
    users = table["users"]
    return PlaceRules(
        cwd,
        users=None if users == MEMBERS else _ids(users, f"{location}: users"),
        approvers=_ids(table.get("approvers", []), f"{location}: approvers"),
        mode=mode,
        model=as_str(table.get("model")),
        usd_per_thread=_usd(table.get("usd_per_thread", 1), f"{location}: usd_per_thread"),
        usd_per_day=_usd(table.get("usd_per_day", 5), f"{location}: usd_per_day"),
    )


def _ids(value: object, location: str) -> frozenset[str]:
    found = [each for each in as_array(value) if isinstance(each, str)]
    if not isinstance(value, list) or len(found) != len(as_array(value)):  # pyright: ignore[reportUnknownArgumentType]
        raise ConfigError(f"{location}: give a list of ids.")
    return frozenset(found)


def _usd(value: object, location: str) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1_000_000:
        raise ConfigError(f"{location}: give an amount in USD above 0.")
    return Decimal(str(value))
