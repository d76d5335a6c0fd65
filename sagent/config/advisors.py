"""Advisors as settings: their names, the addresses of their models, and the rules for asking them."""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, NamedTuple, cast

from sagent.config.values import names_of, temperature, text_of, texts, url, usd, whole
from sagent.lib.dataclass import dataclass
from sagent.plugin import PathBase, Reader, RefusedError

if TYPE_CHECKING:
    from sagent.advisor.advisor import Advisor

MEMBERS = ("name", "model", "effort", "temperature", "max_calls", "max_usd", "role", "tools", "api_base", "api_key")
EXECUTOR = ("model", "api_base", "api_key")
NONE = ("none", "off")
_OPTIONS: Mapping[str, Reader] = {
    "effort": text_of,
    "temperature": temperature,
    "max_calls": whole(0),
    "max_usd": lambda value, _: f"{usd(value):f}",
    "tools": lambda value, _: ",".join(names_of(value)),
}
STRANGER = (
    "it could send the conversation to a model of the project's choice; set advisors in your own file, or with "
    "--advisor"
)


@dataclass(frozen=True, slots=True)
class Address:
    """Address and key of a model's server; "" is its provider's default."""

    base_url: str = ""
    api_key: str = field(default="", repr=False)


class Placed(NamedTuple):
    """An advisor and the address of its model."""

    advisor: "Advisor"
    address: Address = Address()


class MemberError(RefusedError):
    """A member of a table is not accepted."""

    def __init__(self, member: str, message: str) -> None:
        super().__init__(message)
        self.member = member


def read_advisors(value: object, base: PathBase) -> tuple[Placed, ...]:
    """Parse advisors from a list of texts, or from one text with `;` or new lines between; "none" is nobody."""
    items = value.replace(";", "\n").splitlines() if isinstance(value, str) else texts(value, "advisors")
    specs = [item.strip() for item in items if item.strip()]
    return () if len(specs) == 1 and specs[0] in NONE else named_apart([read_spec(spec, base) for spec in specs])


def read_spec(text: str, base: PathBase) -> Placed:
    """Return the advisor of `[NAME=]PROVIDER/MODEL[,effort=E]...`; its role's path starts at `base`."""
    from sagent.advisor.advisor import parse_advisor
    from sagent.errors import UsageError

    try:
        return Placed(_with_role(parse_advisor(text), base))
    except UsageError as error:
        raise RefusedError(str(error)) from error


def read_table(table: Mapping[str, object], base: PathBase) -> Placed:
    """Return the advisor of a table of MEMBERS, its `model` needed. Raises MemberError."""
    name = _text(table, "name") if "name" in table else ""
    if unfit := next((letter for letter in name if letter in "=,"), ""):
        raise MemberError("name", f"{unfit} cannot be in an advisor's name")
    model = _text(table, "model")
    if "," in model:
        raise MemberError("model", "give only PROVIDER/MODEL here, and other options as keys of their own")
    spec = [f"{name}={model}" if name else model]
    spec += [f"{each}={_checked(table, each, read, base)}" for each, read in _OPTIONS.items() if each in table]
    placed = read_spec(",".join(spec), base)
    role = _text(table, "role") if "role" in table else ""
    return Placed(_with_role(replace(placed.advisor, role=role), base), read_address(table, base))


def read_address(table: Mapping[str, object], base: PathBase) -> Address:
    """`api_base` and `api_key` of a table. Raises MemberError; a key is never quoted."""
    address = cast("str", _checked(table, "api_base", url, base)) if "api_base" in table else ""
    return Address(address, _text(table, "api_key") if "api_key" in table else "")


def named_apart(advisors: Sequence[Placed]) -> tuple[Placed, ...]:
    """Return the advisors if their names are unique. An advisor is identified by its name, whatever its model."""
    names = [placed.advisor.name for placed in advisors]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise RefusedError(f"two advisors are called {twice!r}: give each its own name, as in critic=PROVIDER/MODEL")
    return tuple(advisors)


def _with_role(advisor: "Advisor", base: PathBase) -> "Advisor":
    if not advisor.role:
        return advisor
    from sagent.advisor.advisor import role_text
    from sagent.errors import UsageError

    path = base.path(advisor.role)
    found = replace(advisor, role=str(path))
    try:
        role_text(found, path.parent)
    except UsageError as error:
        raise MemberError("role", str(error)) from error
    return found


def _text(table: Mapping[str, object], member: str) -> str:
    value = table.get(member)
    if not isinstance(value, str) or not value.strip():
        raise MemberError(member, f"give a string as `{member}`")
    return value.strip()


def _checked(table: Mapping[str, object], member: str, read: Reader, base: PathBase) -> object:
    try:
        return read(table[member], base)
    except RefusedError as error:
        raise MemberError(member, f"{member} = {table[member]!r}: {error}") from error
