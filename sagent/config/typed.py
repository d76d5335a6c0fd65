"""The types of settings. Written by scripts/make_settings.py from declared.py."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict

from sagent.lib.dataclass import dataclass
from sagent.model import Effort
from sagent.policy.permissions import Mode
from sagent.sandbox import SandboxMode

if TYPE_CHECKING:
    from sagent.advisor.advisor import Advisor

Auth: TypeAlias = Literal["key", "bearer", "credentials"]
"""Authentication; "credentials" are those stored by the provider's own tools, or its cloud's login."""
_Path: TypeAlias = Path | str
_Names: TypeAlias = str | Sequence[str]
_Usd: TypeAlias = Decimal | float | str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSettings:
    """Every declared setting. None leaves a choice to whoever needs it."""

    model: str | None = None
    provider: str | None = None
    base_url: str | None = None
    auth: Auth = "key"
    transport: Literal["direct", "sdk"] = "direct"
    fallback: tuple[str, ...] = ()
    fallback_after: int | None = None
    effort: Effort | None = None
    options: tuple[str, ...] = ()
    allow_providers: tuple[str, ...] | None = None
    stall_seconds: float = 60.0
    reasoning_stall_seconds: float = 180.0
    max_retries: int = 6
    advisors: "tuple[Advisor, ...]" = ()
    advisor_mode: Literal["auto", "client", "native"] = "auto"
    advisor_stop: Literal["pass", "end"] = "pass"
    panel: Literal["first", "all"] = "first"
    max_budget_usd: Decimal | None = None
    max_turns: int | None = None
    max_tool_call_rounds: int | None = None
    max_exchanges: int | None = 1000
    max_response_tokens: int | None = None
    max_request_tokens: int | None = None
    max_agent_depth: int = 5
    max_live_agents: int = 32
    max_spawns: int = 256
    compact_at: float = 0.8
    compactor: str | None = None
    cwd: Path
    add_dirs: tuple[Path, ...] = ()
    tools: tuple[str, ...] | None = None
    permission_mode: Mode = "edit"
    plan: bool = False
    sandbox: SandboxMode = "auto"
    allow_domains: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    unguarded: bool = False
    env_pass: tuple[str, ...] = ()
    background_after: float | None = 600.0
    wait_for_jobs: bool = True
    system: str | None = None
    append_system: str = ""
    output_style: str = ""
    instructions: bool = True
    state_dir: Path
    continue_session: bool = False
    session: Path | None = None
    fork: str | None = None
    ephemeral: bool = False
    output_format: Literal["text", "json", "stream-json"] = "text"
    output_schema: Path | None = None
    input_format: Literal["text", "stream-json"] = "text"
    log_level: Literal["debug", "info", "warning", "error"] = "warning"
    theme: Literal["auto", "dark", "light", "plain"] = "auto"
    editing_mode: Literal["emacs", "vi"] = "emacs"
    notify: Literal["bell", "osc9", "off"] = "bell"
    status_line: str = ""
    keys: tuple[str, ...] = ()


class Overrides(TypedDict, total=False):
    """Keywords of `load_config`. They are read as on the command line, so that a text will do for each of them; None is
    as if it was left out. The command line's documentation explains them."""

    model: str | None
    provider: str | None
    base_url: str | None
    auth: Auth | None
    transport: Literal["direct", "sdk"] | None
    fallback: _Names | None
    fallback_after: int | None
    effort: Effort | None
    options: Mapping[str, object] | None
    option: _Names | None
    allow_providers: _Names | None
    stall_seconds: float | None
    reasoning_stall_seconds: float | None
    max_retries: int | None
    advisors: _Names | None
    advisor: _Names | None
    advisor_mode: Literal["auto", "client", "native"] | None
    advisor_stop: Literal["pass", "end"] | None
    panel: Literal["first", "all"] | None
    advisor_panel: Literal["first", "all"] | None
    max_budget_usd: _Usd | None
    max_turns: int | None
    max_tool_call_rounds: int | None
    max_exchanges: int | str | None
    max_response_tokens: int | None
    max_request_tokens: int | None
    max_agent_depth: int | None
    max_live_agents: int | None
    max_spawns: int | None
    compact_at: float | None
    compactor: str | None
    cwd: _Path | None
    add_dirs: _Path | Sequence[_Path] | None
    add_dir: _Path | Sequence[_Path] | None
    tools: _Names | None
    permission_mode: Mode | None
    plan: bool | None
    sandbox: SandboxMode | None
    allow_domains: _Names | None
    allow: _Names | None
    deny: _Names | None
    unguarded: bool | None
    env_pass: _Names | None
    background_after: float | None
    wait_for_jobs: bool | None
    system: str | None
    append_system: str | None
    output_style: str | None
    instructions: bool | None
    state_dir: _Path | None
    continue_session: bool | None
    session: _Path | None
    fork: str | None
    ephemeral: bool | None
    output_format: Literal["text", "json", "stream-json"] | None
    output_schema: _Path | None
    input_format: Literal["text", "stream-json"] | None
    log_level: Literal["debug", "info", "warning", "error"] | None
    theme: Literal["auto", "dark", "light", "plain"] | None
    editing_mode: Literal["emacs", "vi"] | None
    notify: Literal["bell", "osc9", "off"] | None
    status_line: str | None
    keys: Mapping[str, str] | str | None
    a2a: Mapping[str, str] | str | Sequence[str] | None
    approval_reviewer: str | None
    blame_notes: bool | None
    diagnostics: Literal["auto", "on", "off"] | None
    editor_link: bool | str | None
    trace: _Path | None
    goal: str | None
    goal_attempts: int | None
    hook_hosts: _Names | None
    memory: bool | None
    plain: bool | None
    budget_day: _Usd | None
    budget_month: _Usd | None
    budget_project: _Usd | None
    budget_team_day: _Usd | None
    budget_team_month: _Usd | None
    budget_team_bus: str | None
    quote: bool | None
    telemetry: bool | None
    tool_calls: Literal["auto", "native", "text"] | None
    web_tools: Literal["auto", "off"] | None
    worktree_setup: str | None
    worktree_copy: tuple[str, ...] | None
    worktree_changes: str | None
    executor: str | None
    executor_api_base: str | None
    advisor_api_base: _Names | None
    trust_project: bool | None
    plugin: _Path | Sequence[_Path] | None
    no_plugins: bool | None


GUARDS: Mapping[str, str] = {
    "hooks": "hooks/hooks.json",
    "budget_day": "",
    "budget_month": "",
    "budget_project": "",
    "budget_team_day": "",
    "budget_team_month": "",
}
