"""The settings one by one: how a value is read, and what a project's file may do with it."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Literal, NamedTuple, TypeAlias, cast

from sagent.config import values
from sagent.config.advisors import read_advisors
from sagent.config.values import Reader
from sagent.model import EFFORTS
from sagent.policy.permissions import MODES

Project: TypeAlias = Literal["no", "yes", "lower"]
"""What a project's file may do: nothing, anything, or only make it stricter."""


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


FIELDS: tuple[Field, ...] = (
    Field("model", values.name_of, "yes"),
    Field("provider", values.name_of),
    Field("base_url", values.url),
    Field("auth", values.choice("key", "bearer", "credentials")),
    Field("transport", values.choice("direct", "sdk")),
    Field("fallback", values.names_of, "yes"),
    Field("effort", values.choice(*EFFORTS), "yes"),
    Field("advisors", read_advisors, flag="advisor"),
    Field("advisor_mode", values.choice("auto", "client", "native")),
    Field("advisor_stop", values.choice("pass", "end")),
    Field("panel", values.choice("first", "all"), flag="advisor-panel"),
    Field("allow_providers", values.names_of, "lower"),
    Field("max_response_tokens", values.whole(1), "lower"),
    Field("max_request_tokens", values.whole(1), "lower"),
    Field("stall_seconds", values.seconds),
    Field("reasoning_stall_seconds", values.seconds),
    Field("max_retries", values.whole(0), "lower"),
    Field("system", values.text_of),
    Field("append_system", values.text_of),
    Field("tools", values.tools),
    Field("max_turns", values.whole(1), "lower"),
    Field("max_agent_depth", values.whole(0), "lower"),
    Field("max_live_agents", values.whole(0), "lower"),
    Field("max_spawns", values.whole(0), "lower"),
    Field("background_after", values.seconds),
    Field("wait_for_jobs", values.switch),
    Field("compact_at", values.share),
    Field("compactor", values.name_of),
    Field("max_tool_call_rounds", values.whole(1), "lower"),
    Field("max_budget_usd", values.usd, "lower"),
    Field("permission_mode", values.choice(*MODES), "lower"),
    Field("allow", values.rules, adds=True),
    Field("deny", values.rules, "yes", adds=True),
    Field("cwd", values.directory),
    Field("add_dirs", values.directories, flag="add-dir", adds=True),
    Field("state_dir", values.path_of),
    Field("continue_session", values.switch, flag="continue"),
    Field("session", values.path_of),
    Field("fork", values.name_of),
    Field("ephemeral", values.switch),
    Field("output_format", values.choice("text", "json", "stream-json")),
    Field("input_format", values.choice("text", "stream-json")),
    Field("theme", values.choice("auto", "dark", "light", "plain")),
    Field("editing_mode", values.choice("emacs", "vi")),
    Field("notify", values.choice("bell", "osc9", "off")),
    Field("log_level", values.choice("debug", "info", "warning", "error"), "yes"),
    Field("trace", values.path_of),
)
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

TABLES = ("providers", "prices", "mcp")


def is_stricter(name: str, new: object, old: object) -> bool:
    """Whether a project's value takes nothing away from what the person set: lower limits, fewer providers."""
    if name == "permission_mode":
        modes: tuple[object, ...] = MODES
        return modes.index(new) <= modes.index(old)
    if isinstance(new, tuple):
        fewer = set(cast("tuple[str, ...]", new))
        return old is None or (isinstance(old, tuple) and fewer <= set(cast("tuple[str, ...]", old)))
    if isinstance(new, int | float | Decimal):
        return old is None or (isinstance(old, int | float | Decimal) and new <= old)
    return False
