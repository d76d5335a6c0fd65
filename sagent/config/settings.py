"""What may be set, as one frozen value: each setting's type, default and reader, and what a project's file may do."""

from collections.abc import Mapping
from dataclasses import field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, cast

from sagent.config import values
from sagent.config.advisors import Address, read_advisors
from sagent.config.values import Reader, choice, names_of, whole
from sagent.lib.dataclass import dataclass
from sagent.model import EFFORTS, Effort
from sagent.policy.permissions import MODES, Mode
from sagent.providers.rows import Row
from sagent.sandbox import SANDBOX_MODES, SandboxMode

if TYPE_CHECKING:
    from sagent.advisor.advisor import Advisor
    from sagent.advisor.rules import Rules
    from sagent.hooks.hook import Hook
    from sagent.sandbox.profile import Need
    from sagent.tools.code.lsp.rows import ServerRow

Auth: TypeAlias = Literal["key", "bearer", "credentials"]
"""How we say who we are; "credentials" is what the provider's own tools have stored, or its cloud's login."""
Family: TypeAlias = Literal["openai", "anthropic", "responses", "google"]
"""The API a server speaks; "openai" is Chat Completions, which nearly all of them do."""
Project: TypeAlias = Literal["no", "yes", "lower", "ask"]
"""What a project's file may do: nothing, anything, only make it stricter, or with the person's trust anything."""
LOG_LEVELS = ("debug", "info", "warning", "error")

T = TypeVar("T")


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
class McpServer:
    """A server of tools: a command that is run, or a URL. `timeout` is in seconds, for one call, `start_timeout` for
    all that comes before. A command runs in the sandbox, and `needs` is what it gets there in addition. `oauth` is what
    a login at a URL needs and its server does not say: `scope`, `client_id`, `client_secret`, `client_metadata_url`,
    `callback_port`; with `issuer` the login needs no person, but a secret or key. With `always_load` its tools
    go out with every request, however many there are."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    timeout: float = 600.0
    start_timeout: float = 10.0
    needs: "tuple[Need, ...]" = ()
    oauth: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    always_load: bool = False


def _setting(default: T, read: Reader, project: Project = "no", *, flag: str = "", adds: bool = False) -> T:
    """A member that may be set: its default, how a value is read, and the rest as in fields.Field."""
    return field(default=default, metadata={"read": read, "project": project, "flag": flag, "adds": adds})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every setting. None leaves a choice to whoever needs it; `origins` has for each name where it was set.

    `config_dir` is where the person's AGENTS.md lies, and `user_file` has their settings, or would have; these and what
    follows `prices` are not settings. `project_file` is there where it was read, and `wish` is what it asks for and
    these are without.
    """

    model: str | None = _setting(None, values.name_of, "ask")
    provider: str | None = _setting(None, values.name_of, "ask")
    base_url: str | None = _setting(None, values.url)
    auth: Auth = _setting("key", choice("key", "bearer", "credentials"))
    transport: Literal["direct", "sdk"] = _setting("direct", choice("direct", "sdk"))
    fallback: tuple[str, ...] = _setting((), names_of, "ask")  # models that take over one after the other
    fallback_after: int | None = _setting(None, whole(0))  # retries; None is all of max_retries
    effort: Effort | None = _setting(None, choice(*EFFORTS), "ask")
    tool_calls: Literal["auto", "native", "text"] = _setting("auto", choice("auto", "native", "text"))
    options: tuple[str, ...] = _setting((), values.options_of, flag="option", adds=True)  # each "name=JSON"
    advisors: "tuple[Advisor, ...]" = _setting((), read_advisors, flag="advisor")
    advisor_mode: Literal["auto", "client", "native"] = _setting("auto", choice("auto", "client", "native"))
    advisor_stop: Literal["pass", "end"] = _setting("pass", choice("pass", "end"))
    panel: Literal["first", "all"] = _setting("first", choice("first", "all"), flag="advisor-panel")
    allow_providers: tuple[str, ...] | None = _setting(None, names_of, "lower")
    max_response_tokens: int | None = _setting(None, whole(1), "lower")
    max_request_tokens: int | None = _setting(None, whole(1), "lower")
    stall_seconds: float = _setting(60.0, values.seconds)
    reasoning_stall_seconds: float = _setting(180.0, values.seconds)
    max_retries: int = _setting(6, whole(0), "lower")
    system: str | None = _setting(None, values.text_of)
    append_system: str = _setting("", values.text_of)
    instructions: bool = _setting(True, values.switch)  # noqa: FBT003 -- AGENTS.md and the like, skills
    output_style: str = _setting("", values.text_of)  # a file that says how to write
    diagnostics: Literal["auto", "on", "off"] = _setting("auto", choice("auto", "on", "off"), "lower")  # after changes
    memory: bool = _setting(False, values.switch)  # noqa: FBT003 -- files that agents keep for later sessions
    tools: tuple[str, ...] | None = _setting(None, values.tools)  # None = the default set
    max_turns: int | None = _setting(None, whole(1), "lower")
    max_agent_depth: int = _setting(5, whole(0), "lower")
    max_live_agents: int = _setting(32, whole(0), "lower")
    max_spawns: int = _setting(256, whole(0), "lower")
    max_exchanges: int | None = _setting(1_000, values.bound, "lower")  # messages among agents without a person's word
    background_after: float | None = _setting(600.0, values.seconds)  # that a call may run in the foreground
    wait_for_jobs: bool = _setting(True, values.switch)  # noqa: FBT003 -- a default, like the others
    compact_at: float = _setting(0.8, values.share)  # how full the usable window may be; 0 is never
    compactor: str | None = _setting(None, values.name_of)  # the model that sums up; None is the one that works
    max_tool_call_rounds: int | None = _setting(None, whole(1), "lower")
    max_budget_usd: Decimal | None = _setting(None, values.usd, "lower")
    permission_mode: Mode = _setting("edit", choice(*MODES), "lower")
    plan: bool = _setting(False, values.switch)  # noqa: FBT003 -- plan mode, and a run ends with the plan
    allow: tuple[str, ...] = _setting((), values.rules, adds=True)
    deny: tuple[str, ...] = _setting((), values.rules, "yes", adds=True)
    env_pass: tuple[str, ...] = _setting((), names_of, adds=True)  # variables like keys that commands get all the same
    sandbox: SandboxMode = _setting("auto", choice(*SANDBOX_MODES), "lower")
    allow_domains: tuple[str, ...] = _setting((), values.domains, adds=True)  # that sandboxed commands may reach
    hook_hosts: tuple[str, ...] = _setting((), values.domains, adds=True)  # that hooks of projects and plugins may ask
    cwd: Path = field(metadata={"read": values.directory})
    add_dirs: tuple[Path, ...] = _setting((), values.directories, flag="add-dir", adds=True)
    state_dir: Path = field(metadata={"read": values.path_of})
    continue_session: bool = _setting(False, values.switch, flag="continue")  # noqa: FBT003 -- as above
    session: Path | None = _setting(None, values.path_of)
    fork: str | None = _setting(None, values.name_of)  # a session, and with @ an entry: a copy of it is gone on with
    ephemeral: bool = _setting(False, values.switch)  # noqa: FBT003 -- as above
    output_format: Literal["text", "json", "stream-json"] = _setting("text", choice("text", "json", "stream-json"))
    input_format: Literal["text", "stream-json"] = _setting("text", choice("text", "stream-json"))
    output_schema: Path | None = _setting(None, values.path_of)  # a JSON Schema that answers are to conform to
    theme: Literal["auto", "dark", "light", "plain"] = _setting("auto", choice("auto", "dark", "light", "plain"))
    editing_mode: Literal["emacs", "vi"] = _setting("emacs", choice("emacs", "vi"))
    notify: Literal["bell", "osc9", "off"] = _setting("bell", choice("bell", "osc9", "off"))  # when long work ends
    status_line: str = _setting("", values.status_parts)  # below the input: parts in their order, or ! and a command
    keys: tuple[str, ...] = _setting((), values.keys_of, adds=True)  # each "action=key"
    editor_link: bool = _setting(True, values.switch)  # noqa: FBT003 -- what an editor with a lock file offers
    log_level: Literal["debug", "info", "warning", "error"] = _setting("warning", choice(*LOG_LEVELS), "lower")
    trace: Path | None = _setting(None, values.path_of)  # a file that every event is added to, one a line
    a2a: tuple[str, ...] = _setting((), values.agents_of, adds=True)  # agents elsewhere, each "name=URL"
    telemetry: bool = _setting(False, values.switch)  # noqa: FBT003 -- spans and metrics, by OpenTelemetry

    config_dir: Path
    user_file: Path
    advisor_addresses: Mapping[str, Address] = field(default_factory=dict[str, Address])  # of advisors, by their names
    advisor_rules: "Rules | None" = None  # None = Rules()
    providers: Mapping[str, CustomProvider] = field(default_factory=dict[str, CustomProvider])
    mcp: Mapping[str, McpServer] = field(default_factory=dict[str, McpServer])
    hooks: "tuple[Hook, ...]" = ()
    language_servers: "Mapping[str, ServerRow]" = field(default_factory=dict[str, "ServerRow"])
    web: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]], repr=False)
    prices: Mapping[str, Mapping[str, object]] = field(default_factory=dict[str, Mapping[str, object]])
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])  # of models
    origins: Mapping[str, str] = field(default_factory=dict[str, str])
    warnings: tuple[str, ...] = ()
    project_file: Path | None = None
    wish: "Wish | None" = field(default=None, repr=False)

    @property
    def rows(self) -> Mapping[str, Row]:
        """The providers that the person describes, as rows by their names."""
        return {name: own.row for name, own in self.providers.items()}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A setting that a project's file asks for, and on which line."""

    name: str
    value: str | tuple[str, ...]
    line: int

    @property
    def text(self) -> str:
        """The value in ASCII: a letter that looks like another one can be distinguished from it."""
        text = self.value if isinstance(self.value, str) else ", ".join(self.value)
        return text.encode("ascii", "backslashreplace").decode() or "none"


@dataclass(frozen=True, slots=True)
class Wish:
    """All that a project's file asks for; `granted` are the settings with it. `refused`: the person has said no."""

    file: Path
    wanted: tuple[Wanted, ...]
    granted: Settings
    refused: bool = False

    @property
    def folder(self) -> Path:
        """The project, wherever a link to it lies."""
        return self.file.parent.parent.resolve()
