"""What a program may set in addition to the person's files, for type checkers: each setting by its name."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Literal, TypeAlias, TypedDict

from sagent.config.settings import Auth
from sagent.model import Effort
from sagent.policy.permissions import Mode
from sagent.sandbox import SandboxMode

_Path: TypeAlias = Path | str
_Names: TypeAlias = str | Sequence[str]
_Usd: TypeAlias = Decimal | float | str


class Overrides(TypedDict, total=False):
    """Keywords of `load_config`. They are read as on the command line, so that a text will do for each of them; None is
    as if it was left out. What they mean stands in the command line's documentation."""

    executor: str | None  # "provider/model", as `model`
    model: str | None
    advisor: _Names | None  # "[name=]provider/model[,options]", one or several; "none" is nobody
    advisors: _Names | None
    provider: str | None
    base_url: str | None
    executor_api_base: str | None
    advisor_api_base: _Names | None  # one for each advisor
    auth: Auth | None
    transport: Literal["direct", "sdk"] | None
    fallback: _Names | None
    fallback_after: int | None
    effort: Effort | None
    options: Mapping[str, object] | None  # members of each request
    option: _Names | None  # the same, each "name=JSON"
    tool_calls: Literal["auto", "native", "text"] | None
    advisor_mode: Literal["auto", "client", "native"] | None
    advisor_stop: Literal["pass", "end"] | None
    panel: Literal["first", "all"] | None
    advisor_panel: Literal["first", "all"] | None
    allow_providers: _Names | None
    max_response_tokens: int | None
    max_request_tokens: int | None
    stall_seconds: float | None
    reasoning_stall_seconds: float | None
    max_retries: int | None
    system: str | None
    append_system: str | None
    output_style: str | None
    memory: bool | None
    instructions: bool | None
    tools: _Names | None
    max_turns: int | None
    max_tool_call_rounds: int | None
    max_budget_usd: _Usd | None
    max_agent_depth: int | None
    max_live_agents: int | None
    max_spawns: int | None
    max_exchanges: int | str | None
    background_after: float | None
    wait_for_jobs: bool | None
    compact_at: float | None
    compactor: str | None
    permission_mode: Mode | None
    plan: bool | None
    allow: _Names | None
    deny: _Names | None
    env_pass: _Names | None
    sandbox: SandboxMode | None
    allow_domains: _Names | None
    diagnostics: Literal["auto", "on", "off"] | None
    hook_hosts: _Names | None
    cwd: _Path | None
    add_dirs: _Path | Sequence[_Path] | None
    add_dir: _Path | Sequence[_Path] | None
    state_dir: _Path | None
    continue_session: bool | None
    session: _Path | None
    fork: str | None
    ephemeral: bool | None
    trace: _Path | None
    a2a: Mapping[str, str] | str | Sequence[str] | None  # agents elsewhere, each "name=URL"
    telemetry: bool | None
    output_schema: _Path | None
    output_format: Literal["text", "json", "stream-json"] | None
    input_format: Literal["text", "stream-json"] | None
    theme: Literal["auto", "dark", "light", "plain"] | None
    editing_mode: Literal["emacs", "vi"] | None
    notify: Literal["bell", "osc9", "off"] | None
    status_line: str | None
    keys: Mapping[str, str] | str | None
    editor_link: bool | str | None
    log_level: Literal["debug", "info", "warning", "error"] | None
    trust_project: bool | None  # whether what a project's file only sets with the person's trust is in force
