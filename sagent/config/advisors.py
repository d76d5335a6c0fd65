"""Advisors as settings: who they are, where their models are reached, and the rules they are asked by."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, cast

from sagent.config.fields import Field, Place, Reader, RefusedError, decimal, nearest, texts, url, usd, whole
from sagent.config.settings import Address

if TYPE_CHECKING:
    from decimal import Decimal

    from sagent.advisor.advisor import Advisor

MEMBERS = ("name", "model", "effort", "max_calls", "max_usd", "role", "tools", "api_base", "api_key")
EXECUTOR = ("model", "api_base", "api_key")
NONE = ("none", "off")
STRANGER = (
    "it would send the conversation to whomever the project names; name advisors in your own file, or with --advisor"
)


class Placed(NamedTuple):
    """An advisor and where its model is reached."""

    advisor: "Advisor"
    address: Address = Address()


class MemberError(RefusedError):
    """A member of a table is not accepted."""

    def __init__(self, member: str, message: str) -> None:
        super().__init__(message)
        self.member = member


def read_advisors(value: object, place: Place) -> tuple[Placed, ...]:
    """Advisors from a list of texts, or from one text with `;` or new lines between; "none" is nobody."""
    items = value.replace(";", "\n").splitlines() if isinstance(value, str) else texts(value, "advisors")
    specs = [item.strip() for item in items if item.strip()]
    return () if len(specs) == 1 and specs[0] in NONE else named_apart([read_spec(spec, place) for spec in specs])


def read_spec(text: str, place: Place) -> Placed:
    """The advisor of `[NAME=]PROVIDER/MODEL[,effort=E]...`; its role's path starts at `place`."""
    from sagent.advisor.advisor import parse_advisor
    from sagent.errors import UsageError

    try:
        return Placed(_with_role(parse_advisor(text), place))
    except UsageError as error:
        raise RefusedError(str(error)) from error


def read_table(table: Mapping[str, object], place: Place) -> Placed:
    """The advisor of a table of MEMBERS, its `model` needed. Raises MemberError."""
    name = _text(table, "name") if "name" in table else ""
    if unfit := next((letter for letter in name if letter in "=,"), ""):
        raise MemberError("name", f"{unfit} cannot be in an advisor's name")
    model = _text(table, "model")
    if "," in model:
        raise MemberError("model", "give PROVIDER/MODEL alone, and what else there is to say as members of its own")
    told = [f"{name}={model}" if name else model]
    if "effort" in table:
        told.append(f"effort={_text(table, 'effort')}")
    if "max_calls" in table:
        told.append(f"max_calls={_checked(table, 'max_calls', whole(0), place)}")
    if "max_usd" in table:
        told.append(f"max_usd={cast('Decimal', _checked(table, 'max_usd', usd, place)):f}")
    if "tools" in table:
        told.append(f"tools={','.join(_tools(table))}")
    placed = read_spec(",".join(told), place)
    role = _text(table, "role") if "role" in table else ""
    return Placed(_with_role(replace(placed.advisor, role=role), place), read_address(table, place))


def read_address(table: Mapping[str, object], place: Place) -> Address:
    """`api_base` and `api_key` of a table. Raises MemberError; a key is never quoted."""
    base = cast("str", _checked(table, "api_base", url, place)) if "api_base" in table else ""
    return Address(base, _text(table, "api_key") if "api_key" in table else "")


def named_apart(found: Sequence[Placed]) -> tuple[Placed, ...]:
    """The advisors, when no two of them have one name. An advisor is known by its name, whatever its model."""
    names = [placed.advisor.name for placed in found]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise RefusedError(
            f"two advisors are named {twice!r}: give each a name of its own, as in critic=PROVIDER/MODEL"
        )
    return tuple(found)


def _with_role(advisor: "Advisor", place: Place) -> "Advisor":
    if not advisor.role:
        return advisor
    from sagent.advisor.advisor import role_text
    from sagent.errors import UsageError

    path = place.path(advisor.role)
    found = replace(advisor, role=str(path))
    try:
        role_text(found, path.parent)
    except UsageError as error:
        raise MemberError("role", str(error)) from error
    return found


def _text(table: Mapping[str, object], member: str) -> str:
    value = table.get(member)
    if not isinstance(value, str) or not value.strip():
        raise MemberError(member, f"give a text as `{member}`")
    return value.strip()


def _tools(table: Mapping[str, object]) -> list[str]:
    try:
        return [name.strip() for each in texts(table["tools"], "names") for name in each.split(",")]
    except RefusedError as error:
        raise MemberError("tools", str(error)) from error


def _checked(table: Mapping[str, object], member: str, read: Reader, place: Place) -> object:
    try:
        return read(table[member], place)
    except RefusedError as error:
        raise MemberError(member, f"{member} = {table[member]!r}: {error}") from error


# -- the rules ---------------------------------------------------------------------------------------------------------


def _triggers(value: object, place: Place) -> tuple[str, ...]:
    from sagent.advisor.rules import TRIGGERS

    del place
    names = [name.strip() for each in texts(value, "triggers") for name in each.split(",") if name.strip()]
    if names in (["none"], ["all"]):
        return TRIGGERS if names == ["all"] else ()
    for name in names:
        if name not in TRIGGERS:
            raise RefusedError(f"give all, none, or some of {', '.join(TRIGGERS)}{nearest(name, TRIGGERS)}")
    return tuple(dict.fromkeys(names))


def _part(value: object, place: Place) -> float:
    del place
    part = float(decimal(value, "give a number from 0 to 1"))
    if part > 1:
        raise RefusedError("give a number from 0 to 1")
    return part


def _bound(value: object, place: Place) -> object:
    return None if value == "none" else whole(0)(value, place)


RULES: Mapping[str, Field] = {
    field.member: field
    for field in (
        Field("advisor_rules.triggers", _triggers),
        Field("advisor_rules.failure_threshold", whole(1)),
        Field("advisor_rules.confidence_threshold", _part),
        Field("advisor_rules.stagnation_turns", whole(2)),
        Field("advisor_rules.cooldown_turns", whole(0)),
        Field("advisor_rules.max_advisor_calls", _bound, "lower"),
        Field("advisor_rules.max_session_calls", _bound, "lower"),
        Field("advisor_rules.max_usd", usd, "lower"),
        Field("advisor_rules.max_share", _part, "lower"),
        Field("advisor_rules.max_tokens", whole(0), "lower"),
    )
}
"""The members of sagent.advisor.rules.Rules, by name. A project's file may lower what bounds them, and no more."""
