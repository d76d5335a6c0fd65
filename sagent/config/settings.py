"""What may be set, as one frozen value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Literal, TypeAlias

from sagent.model import Effort
from sagent.policy.permissions import Mode

Auth: TypeAlias = Literal["key", "bearer"]
Family: TypeAlias = Literal["openai", "anthropic", "responses", "google"]
"""The API a server speaks; "openai" is Chat Completions, which nearly all of them do."""


@dataclass(frozen=True, slots=True)
class CustomProvider:
    """A provider that the person describes: an endpoint that speaks a known family's protocol."""

    name: str
    base_url: str
    family: Family = "openai"
    api_key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every setting. None leaves a choice to whoever needs it; `origins` tells for each name where it was set.

    `config_dir` is where the person's config.toml and AGENTS.md lie; it and `origins`, `warnings` are not settings.
    """

    cwd: Path
    config_dir: Path
    state_dir: Path
    add_dirs: tuple[Path, ...] = ()

    model: str | None = None
    provider: str | None = None
    base_url: str | None = None
    auth: Auth = "key"
    effort: Effort | None = None
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
    max_tool_call_rounds: int | None = None
    max_budget_usd: Decimal | None = None

    permission_mode: Mode = "edit"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    continue_session: bool = False
    session: Path | None = None
    ephemeral: bool = False
    output_format: Literal["text", "json", "stream-json"] = "text"
    input_format: Literal["text", "stream-json"] = "text"
    log_level: Literal["debug", "info", "warning", "error"] = "warning"

    providers: Mapping[str, CustomProvider] = field(default_factory=dict[str, CustomProvider])
    prices: Mapping[str, Mapping[str, object]] = field(default_factory=dict[str, Mapping[str, object]])

    origins: Mapping[str, str] = field(default_factory=dict[str, str])
    warnings: tuple[str, ...] = ()
