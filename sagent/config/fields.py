"""The settings one by one: how a value is read, and what a project's file may do with it."""

from collections.abc import Mapping
from dataclasses import fields
from decimal import Decimal
from typing import NamedTuple, cast

from sagent.config import values
from sagent.config.settings import LOG_LEVELS, Project, Settings
from sagent.config.values import Reader
from sagent.model import EFFORTS
from sagent.policy.permissions import MODES
from sagent.sandbox import SANDBOX_MODES


class Field(NamedTuple):
    """One setting. `flag` is its name on the command line where that differs; `adds` joins the layers' values.

    The name of one in a table has the table's before it: "advisor_rules.max_usd" is SAGENT_ADVISOR_MAX_USD.
    """

    name: str
    read: Reader
    project: Project = "no"
    flag: str = ""
    adds: bool = False

    @property
    def member(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def variable(self) -> str:
        if self.name == self.member:
            return "SAGENT_" + self.name.upper()
        return "SAGENT_ADVISOR_" + self.member.upper().replace("ADVISOR_", "")

    @property
    def flag_name(self) -> str:
        return self.flag or self.name.replace("_", "-")


FIELDS = tuple(Field(each.name, **each.metadata) for each in fields(Settings) if each.metadata)
BY_NAME: Mapping[str, Field] = {field.name: field for field in FIELDS}
RULES: Mapping[str, Field] = {
    field.member: field
    for field in (
        Field("advisor_rules.triggers", values.triggers),
        Field("advisor_rules.failure_threshold", values.whole(1)),
        Field("advisor_rules.confidence_threshold", values.share),
        Field("advisor_rules.stagnation_turns", values.whole(2)),
        Field("advisor_rules.cooldown_turns", values.whole(0)),
        Field("advisor_rules.max_advisor_calls", values.bound, "lower"),
        Field("advisor_rules.max_session_calls", values.bound, "lower"),
        Field("advisor_rules.max_usd", values.usd, "lower"),
        Field("advisor_rules.max_share", values.share, "lower"),
        Field("advisor_rules.max_tokens", values.whole(0), "lower"),
    )
}
"""The members of sagent.advisor.rules.Rules, by name. A project's file may lower what bounds them, and no more."""

THRESHOLDS = {"failures": "failure_threshold", "confidence": "confidence_threshold", "stagnation": "stagnation_turns"}
"""The members of RULES that say from when on a trigger fires."""

ALIASES = {"executor": "model", "advisor": "advisors"}
"""Other names of settings, wherever these are named: in files, variables, flags and sweeps."""

TABLES = ("providers", "prices", "mcp", "web", "language_servers", "aliases", "hooks")
_ORDERS: Mapping[str, tuple[object, ...]] = {
    "permission_mode": MODES,
    "log_level": LOG_LEVELS,
    "effort": EFFORTS,
    "sandbox": SANDBOX_MODES,
    "diagnostics": ("off", "auto", "on"),  # from what runs least
}


def is_stricter(name: str, new: object, old: object) -> bool:
    """Whether a project's value takes nothing away from what the person set: lower limits, fewer providers, less
    effort, a log that says more."""
    if order := _ORDERS.get(name):
        return old is not None and order.index(new) <= order.index(old)
    if isinstance(new, tuple):
        fewer = set(cast("tuple[str, ...]", new))
        return old is None or (isinstance(old, tuple) and fewer <= set(cast("tuple[str, ...]", old)))
    if isinstance(new, int | float | Decimal):
        return old is None or (isinstance(old, int | float | Decimal) and new <= old)
    return False
