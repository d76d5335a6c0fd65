"""What may be set, as one frozen value."""

from collections.abc import Mapping
from dataclasses import field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from sagent.lib.dataclass import dataclass
from sagent.model import Effort
from sagent.policy.permissions import Mode
from sagent.providers.rows import Row

if TYPE_CHECKING:
    from sagent.advisor.advisor import Advisor
    from sagent.advisor.rules import Rules

Auth: TypeAlias = Literal["key", "bearer", "credentials"]
"""How we say who we are; "credentials" is what the provider's own tools have stored, or its cloud's login."""
Family: TypeAlias = Literal["openai", "anthropic", "responses", "google"]
"""The API a server speaks; "openai" is Chat Completions, which nearly all of them do."""


@dataclass(frozen=True, slots=True)
class CustomProvider:
    """A provider that the person describes, or one of ours described otherwise; `given` names what they set of it."""

    row: Row
    api_key: str = field(default="", repr=False)
    given: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def base_url(self) -> str:
        """Where it is; "" for the address that a provider of ours has anyway."""
        return self.row.base_url if "base_url" in self.given else ""

    @property
    def family(self) -> Family:
        return "openai" if self.row.family == "chat" else cast("Family", self.row.family)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a model is reached and with what key; "" is what its provider has anyway."""

    base_url: str = ""
    api_key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class McpServer:
    """A server of tools: a command that is run, or a URL. `timeout` is in seconds, for one call."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    timeout: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every setting. None leaves a choice to whoever needs it; `origins` has for each name where it was set.

    `config_dir` is where the person's config.toml (or config.yaml) and AGENTS.md lie; it and `origins`, `warnings` are
    not settings.
    """

    cwd: Path
    config_dir: Path
    state_dir: Path
    add_dirs: tuple[Path, ...] = ()

    model: str | None = None
    provider: str | None = None
    base_url: str | None = None
    auth: Auth = "key"
    transport: Literal["direct", "sdk"] = "direct"
    fallback: tuple[str, ...] = ()  # models that take over, one after the other, when the one in use is down
    effort: Effort | None = None
    advisors: "tuple[Advisor, ...]" = ()
    advisor_addresses: Mapping[str, Address] = field(default_factory=dict[str, Address])  # of advisors, by their names
    advisor_mode: Literal["auto", "client", "native"] = "auto"
    advisor_stop: Literal["pass", "end"] = "pass"
    panel: Literal["first", "all"] = "first"
    advisor_rules: "Rules | None" = None  # None = Rules()
    allow_providers: tuple[str, ...] | None = None
    max_response_tokens: int | None = None
    max_request_tokens: int | None = None
    stall_seconds: float = 60.0
    reasoning_stall_seconds: float = 180.0
    max_retries: int = 6

    system: str | None = None
    append_system: str = ""
    tools: tuple[str, ...] | None = None  # None = the default set
    max_turns: int | None = None
    max_agent_depth: int = 5
    max_live_agents: int = 32
    max_spawns: int = 256
    background_after: float | None = 600.0  # seconds that a call may run before it goes on in the background
    wait_for_jobs: bool = True
    compact_at: float = 0.8  # how full the usable window may be before the context is made smaller; 0 is never
    compactor: str | None = None  # the model that sums up; None is the one that works
    max_tool_call_rounds: int | None = None
    max_budget_usd: Decimal | None = None

    permission_mode: Mode = "edit"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    continue_session: bool = False
    session: Path | None = None
    fork: str | None = None  # a session, and with @ an entry of it, of which a copy is gone on with
    ephemeral: bool = False
    output_format: Literal["text", "json", "stream-json"] = "text"
    input_format: Literal["text", "stream-json"] = "text"
    theme: Literal["auto", "dark", "light", "plain"] = "auto"
    editing_mode: Literal["emacs", "vi"] = "emacs"
    notify: Literal["bell", "osc9", "off"] = (
        "bell"  # how the end of long work is announced to someone who looks elsewhere
    )
    log_level: Literal["debug", "info", "warning", "error"] = "warning"
    trace: Path | None = None  # a file that every event is added to, one a line

    providers: Mapping[str, CustomProvider] = field(default_factory=dict[str, CustomProvider])
    mcp: Mapping[str, McpServer] = field(default_factory=dict[str, McpServer])
    prices: Mapping[str, Mapping[str, object]] = field(default_factory=dict[str, Mapping[str, object]])

    origins: Mapping[str, str] = field(default_factory=dict[str, str])
    warnings: tuple[str, ...] = ()
