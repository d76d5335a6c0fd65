"""The core as a plugin: its settings, commands and parts of an agent, each declared once.

`scripts/make_settings.py` writes the types of settings to typed.py.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import cast

from sagent.config import values
from sagent.config.advisors import read_advisors
from sagent.config.values import names_of, switch, whole
from sagent.plugin import (
    EVERYDAY,
    Command,
    Extra,
    Part,
    Plugin,
    ProviderRow,
    Setting,
    SlashCommand,
    StatusPart,
    Suite,
    Table,
    ToolEntry,
    Trigger,
    Variable,
    choice,
)

_NAMES, _COUNT, _SWITCH, _PATH = "_Names | None", "int | None", "bool | None", "_Path | None"  # types for programs

MODEL, ADVISOR, LIMITS, WORK = "model", "advisor", "limits", "work"
SESSION = "session and output"
GROUPS = (MODEL, ADVISOR, LIMITS, WORK, SESSION)
"""Groups of flags, in the order of their help."""

SETTINGS: tuple[Setting, ...] = (
    Setting(
        "model", values.name_of, project="ask", group=MODEL, metavar="M", uses=("remote", "asked_again"),
        everyday=True, help="provider/model, or a model whose name implies its provider",
    ),
    Setting(
        "provider", values.name_of, project="ask", group=MODEL, metavar="NAME", uses=("asked_again",),
        help="anthropic, openai, moonshot, ..., openai-compatible",
    ),
    Setting(
        "base_url", values.url, group=MODEL, metavar="URL", uses=("asked_again",),
        everyday=True, help="an endpoint that speaks the provider's API",
    ),
    Setting(
        "auth", choice("key", "bearer", "credentials"), "key", "Auth", group=MODEL, metavar="HOW",
        help="key (default), bearer, or credentials: a login stored elsewhere",
    ),
    Setting(
        "transport", choice("direct", "sdk"), "direct", 'Literal["direct", "sdk"]', group=MODEL, metavar="WAY",
        uses=("shared",), help="direct (default), or sdk to use the provider's own SDK",
    ),
    Setting(
        "fallback", names_of, (), "tuple[str, ...]", _NAMES, "ask", group=MODEL, metavar="M", each=True,
        uses=("shared",), everyday=True, help="a model to switch to when the one in use is down (repeatable)",
    ),
    Setting(
        "fallback_after", whole(0), None, "int | None", group=MODEL, metavar="N", uses=("shared",),
        help="switch after N retries (default: after all of them)",
    ),
    Setting(
        "effort", choice("none", "minimal", "low", "medium", "high", "xhigh", "max"), None, "Effort | None",
        project="ask", group=MODEL, metavar="E", uses=("remote", "shared", "asked_again"), everyday=True,
        help="none, minimal, low, medium, high, xhigh or max",
    ),
    Setting(  # each "name=JSON"
        "options", values.options_of, (), "tuple[str, ...]", "Mapping[str, object] | None", adds=True, group=MODEL,
        flag="option", metavar="NAME=VALUE", each=True, uses=("shared",),
        help="a field to add to each request, by the provider's own name, as in temperature=0.2 (repeatable)",
    ),
    Setting(
        "allow_providers", names_of, None, "tuple[str, ...] | None", _NAMES, "lower", group=MODEL, metavar="A,B",
        help="allow no other providers",
    ),
    Setting("stall_seconds", values.seconds, 60.0, "float"),
    Setting("reasoning_stall_seconds", values.seconds, 180.0, "float"),
    Setting("max_retries", whole(0), 6, "int", project="lower"),
    Setting(
        "advisors", read_advisors, (), '"tuple[Advisor, ...]"', _NAMES, group=ADVISOR, flag="advisor",
        metavar="M", each=True, uses=("asked_again",), everyday=True,
        help="[name=]provider/model[,effort=E][,temperature=T][,max_calls=N][,max_usd=N][,role=FILE][,tools=A,B]: a "
        "model to consult (repeatable); none for no advisor",
    ),
    Setting(
        "advisor_mode", choice("auto", "client", "native"), "auto", 'Literal["auto", "client", "native"]',
        group=ADVISOR, metavar="MODE", uses=("shared",), help="auto (default), client, or native: the provider runs it",
    ),
    Setting(
        "advisor_stop", choice("pass", "end"), "pass", 'Literal["pass", "end"]', group=ADVISOR, metavar="WHAT",
        uses=("shared",), help="on its verdict stop: pass (default) it on, or end the run",
    ),
    Setting(
        "panel", choice("first", "all"), "first", 'Literal["first", "all"]', group=ADVISOR, flag="advisor-panel",
        metavar="WHO", uses=("shared",), help="which advisors to ask: first (default), or all at once",
    ),
    Setting(
        "max_budget_usd", values.usd, None, "Decimal | None", "_Usd | None", "lower", group=LIMITS, metavar="N",
        uses=("remote", "asked_again"), everyday=True, help="spend at most N USD in this session, at list prices",
    ),
    Setting(
        "max_turns", whole(1), None, "int | None", project="lower", group=LIMITS, metavar="N",
        uses=("remote", "shared", "asked_again"), help="at most N model calls",
    ),
    Setting(
        "max_tool_call_rounds", whole(1), None, "int | None", project="lower", group=LIMITS, metavar="N",
        uses=("remote", "shared"), help="at most N rounds of tool calls",
    ),
    Setting(  # messages among agents without one from a person
        "max_exchanges", values.bound, 1_000, "int | None", "int | str | None", "lower", group=LIMITS, metavar="N",
        help="at most N messages between agents without a prompt",
    ),
    Setting(
        "max_response_tokens", whole(1), None, "int | None", project="lower", group=LIMITS, metavar="N",
        uses=("remote", "shared", "asked_again"), help="at most N tokens in one reply",
    ),
    Setting(
        "max_request_tokens", whole(1), None, "int | None", project="lower", group=LIMITS, metavar="N",
        uses=("remote", "shared"), help="at most N tokens in one request",
    ),
    Setting("max_agent_depth", whole(0), 5, "int", project="lower"),
    Setting("max_live_agents", whole(0), 32, "int", project="lower"),
    Setting("max_spawns", whole(0), 256, "int", project="lower"),
    Setting("compact_at", values.share, 0.8, "float"),  # how full the usable window may be; 0 is never
    Setting("compactor", values.name_of),  # the summarizing model; None is the working one
    Setting("cwd", values.directory, ..., "Path", _PATH, metavar="DIR", scope="place", swept=False, help="work in DIR"),
    Setting(
        "add_dirs", values.directories, (), "tuple[Path, ...]", "_Path | Sequence[_Path] | None", adds=True,
        flag="add-dir", metavar="DIR", each=True, scope="place",
        everyday=True, help="another directory to work in (repeatable)",
    ),
    Setting(  # None is the default set
        "tools", values.tools, None, "tuple[str, ...] | None", _NAMES, metavar="A,B", uses=("shared", "acting"),
        everyday=True, help="only these tools, groups ({groups}) or Python files with tools, or none",
    ),
    Setting(
        "permission_mode", choice("plan", "ask", "edit", "full"), "edit", "Mode", project="lower", metavar="MODE",
        uses=("shared", "asked_again", "acting"), everyday=True, help="plan, ask, edit (default), {modes}or full",
    ),
    Setting(
        "plan", switch, default=False, type="bool", swept=False, uses=("acting",),
        everyday=True, help="change no files: print a plan, or in the REPL propose one",
    ),
    Setting(
        "sandbox", choice("required", "auto", "off"), "auto", "SandboxMode", project="lower", metavar="MODE",
        key="sandbox.mode", everyday=True, help="sandbox for commands: auto (default), required or off",
    ),
    Setting(
        "allow_domains", values.domains, (), "tuple[str, ...]", _NAMES, adds=True, metavar="A,B",
        key="sandbox.allow_domains", help="hosts that sandboxed commands may connect to",
    ),
    Setting(
        "allow", values.rules, (), "tuple[str, ...]", _NAMES, adds=True, metavar="RULE", each=True,
        key="permissions.allow", uses=("shared", "asked_again", "acting"),
        everyday=True, help="allow calls: 'Bash(git status:*)' (repeatable)",
    ),
    Setting(
        "deny", values.rules, (), "tuple[str, ...]", _NAMES, "yes", adds=True, metavar="RULE", each=True,
        key="permissions.deny", uses=("shared", "asked_again"),
        everyday=True, help="deny calls: 'Edit(secrets/**)' (repeatable)",
    ),
    Setting(
        "unguarded", switch, default=False, type="bool", swept=False,
        help="run even if a plugin that guards runs (hooks) is missing or failed",
    ),
    Setting("env_pass", names_of, (), "tuple[str, ...]", _NAMES, adds=True, key="env.pass"),  # though like keys
    Setting(  # that a call may run in the foreground
        "background_after", values.seconds, 600.0, "float | None", metavar="S",
        help="move calls to the background after S seconds (600)",
    ),
    Setting(
        "wait_for_jobs", switch, default=True, type="bool", flag="no-wait",
        help="exit without waiting for background jobs",
    ),
    Setting(
        "system", values.text_of, metavar="TEXT", uses=("remote", "shared", "acting"), help="replace the system prompt",
    ),
    Setting(
        "append_system", values.text_of, "", "str", metavar="TEXT", uses=("remote", "shared", "acting"),
        help="add to the system prompt",
    ),
    Setting(  # a file that says how to write
        "output_style", values.text_of, "", "str", metavar="NAME", uses=("acting",),
        help="follow the style described in output-styles/NAME.md",
    ),
    Setting("instructions", switch, default=True, type="bool"),  # AGENTS.md and the like, skills
    Setting("state_dir", values.path_of, ..., "Path", _PATH, scope="place", swept=False),
    Setting(
        "continue_session", switch, default=False, type="bool", group=SESSION, flag="continue", short="-c",
        scope="session", everyday=True, help="continue the last session of this directory",
    ),
    Setting(
        "session", values.path_of, None, "Path | None", _PATH, group=SESSION, metavar="PATH", scope="session",
        help="continue this session, or start one at a new path",
    ),
    Setting(
        "fork", values.name_of, group=SESSION, metavar="S[@E]", scope="session",
        everyday=True, help="continue in a copy of session S, up to entry E",
    ),
    Setting(
        "ephemeral", switch, default=False, type="bool", group=SESSION, scope="session",
        help="do not save the session to disk",
    ),
    Setting(
        "output_format", choice("text", "json", "stream-json"), "text", 'Literal["text", "json", "stream-json"]',
        group=SESSION, metavar="F", scope="surface", everyday=True, help="text (default), json or stream-json",
    ),
    Setting(  # for answers
        "output_schema", values.path_of, None, "Path | None", _PATH, group=SESSION, metavar="FILE",
        help="a JSON Schema that the answer must match; exits with 6 if it does not",
    ),
    Setting(
        "input_format", choice("text", "stream-json"), "text", 'Literal["text", "stream-json"]', group=SESSION,
        metavar="F", scope="surface", help="text (default) or stream-json: one message per line",
    ),
    Setting(
        "log_level", choice("debug", "info", "warning", "error"), "warning",
        'Literal["debug", "info", "warning", "error"]', project="lower", group=SESSION, metavar="L", scope="surface",
        key="logging.level", help="debug, info, warning (default) or error, on stderr",
    ),
    Setting(
        "theme", choice("auto", "dark", "light", "plain"), "auto", 'Literal["auto", "dark", "light", "plain"]',
        scope="surface",
    ),
    Setting("editing_mode", choice("emacs", "vi"), "emacs", 'Literal["emacs", "vi"]', scope="surface"),
    Setting("notify", choice("bell", "osc9", "off"), "bell", 'Literal["bell", "osc9", "off"]', scope="surface"),
    Setting("status_line", values.status_parts, "", "str", scope="surface"),  # parts in their order, or ! and a command
    Setting(  # each "action=key"
        "keys", values.keys_of, (), "tuple[str, ...]", "Mapping[str, str] | str | None", adds=True, scope="surface",
    ),
)  # fmt: skip
BY_NAME: Mapping[str, Setting] = {setting.name: setting for setting in SETTINGS}

_PARTS, _TOOLS, _TOOL_MAKERS = "sagent.app.parts", "sagent.tools", "sagent.app.makers"
_TABLES = "sagent.config.tables"
_DEFAULT = ("default",)
_SLASH = {
    "conversation": "quit:leave exit:leave_too compact clear",
    "model": "model executor provider effort advisor ask-advisor",
    "session": "resume new rename cost",
    "setup": "permissions plan",
}
"""Modules of slash commands, with the names of commands in each, and of the function if that differs."""
_MAKERS = ("anthropic", "openai", "google")  # their rows are in sagent/providers/rows.py, as are their data
_ROWS = str(Path(__file__).parents[1] / "providers/providers.toml")
_PROVIDERS = (
    *("moonshot", "dashscope", "minimax", "openai-compatible", "openai-chat", "deepseek", "openrouter", "groq"),
    *("mistral", "xai", "zai", "together", "fireworks", "cerebras", "huggingface", "ollama", "lmstudio"),
    "vllm",
)

CORE = Plugin(
    "sagent",
    commands=(
        Command("run", "run one task without a terminal", "sagent.cli.commands.run:run_run", group=EVERYDAY),
        Command("config", "show every setting and its origin", "sagent.cli.commands.config:run_config", group=EVERYDAY),
    ),
    parts=(
        Part(f"{_PARTS}.advisors:add", ("advisors", "had advisors")),
        Part(f"{_PARTS}.plan:add", ("proposes a plan",)),
    ),
    settings=SETTINGS,
    extras=(Extra("examples", str(Path(__file__).parents[1] / "cli/examples.txt")),),
    variables=(
        Variable("SAGENT_CONFIG"),
        Variable("SAGENT_CUSTODY", each=True),  # marks of processes
        Variable("SAGENT_MCP_TOKEN"),
    ),
    providers=tuple(ProviderRow(name, "" if name in _MAKERS else _ROWS) for name in (*_MAKERS, *_PROVIDERS)),
    slash_commands=tuple(
        SlashCommand(name, f"sagent.repl.commands.{module}:{function or name.replace('-', '_')}")
        for module, names in _SLASH.items()
        for name, _, function in (each.partition(":") for each in names.split())
    ),
    triggers=(
        Trigger("need_advice", "the executor asks for advice in its reply"),
        Trigger("failures", "calls, or the same test, fail again and again"),
        Trigger("confidence", "the executor reports little confidence"),
        Trigger("stagnation", "the executor repeats itself"),
        Trigger("first_write", "the executor is about to make its first change in a task"),
        Trigger("destructive", "the executor is about to do something that cannot be undone"),
        Trigger("done", "the executor is about to declare its task done", at_end=True),
        Trigger("no_change", "the executor is about to answer, and nothing was changed", at_end=True),
        Trigger("no_calls", "the executor is about to answer without having called a tool", at_end=True),
    ),
    status_parts=tuple(
        StatusPart(name, text, f"sagent.repl.view.panel:show_{name}")
        for name, text in (
            ("model", "the model and its effort"),
            ("advisor", "the advisors"),
            ("context", "how full the context is"),
            ("cost", "what the session has cost"),
            ("shares", "the cost by role"),
            ("jobs", "how many jobs are running"),
            ("mode", "the permission mode, and whether commands run in a sandbox"),
            ("branch", "the branch that is checked out"),
        )
    ),
    suites=(
        Suite("model", "a model of a provider", "sagent.testing.model_suite:ModelSuite"),
        Suite("served model", "a model and the server behind it", "sagent.testing.model_suite:ServedModelSuite"),
        Suite("tool", "a tool", "sagent.testing.tool_suite:ToolSuite"),
        Suite("log", "a log of sessions", "sagent.testing.log_suite:LogSuite"),
    ),
    tools=(
        ToolEntry("Read", f"{_TOOLS}.read:Read", _DEFAULT),
        ToolEntry("Write", f"{_TOOLS}.write:Write", _DEFAULT),
        ToolEntry("Edit", f"{_TOOLS}.edit:Edit", _DEFAULT),
        ToolEntry("Glob", f"{_TOOLS}.glob:Glob", _DEFAULT),
        ToolEntry("Grep", f"{_TOOLS}.grep:Grep", _DEFAULT),
        ToolEntry("List", f"{_TOOLS}.list:List", _DEFAULT),
        ToolEntry("Bash", f"{_TOOL_MAKERS}:bash", _DEFAULT),
        ToolEntry("AgentSpawn", f"{_TOOL_MAKERS}:agent_spawn", _DEFAULT),
        ToolEntry("AgentSend", f"{_TOOLS}.agents:AgentSend", _DEFAULT),
        ToolEntry("AgentSelf", f"{_TOOLS}.agents:AgentSelf", _DEFAULT),
        ToolEntry("BackgroundTask", f"{_TOOLS}.background:BackgroundTask", _DEFAULT),
        ToolEntry("TodoWrite", f"{_TOOLS}.todo:TodoWrite"),
        ToolEntry("AskUser", f"{_TOOL_MAKERS}:ask_user"),
        *map(ToolEntry, ("ExitPlan", "ToolSearch", "advisor")),
    ),
    tables=(
        Table("providers", f"{_TABLES}:read_providers"),
        Table("prices", f"{_TABLES}:read_prices"),
        Table("aliases", f"{_TABLES}:read_aliases"),
    ),
)  # fmt: skip
"""The core's additions: its commands, parts of an agent, settings, providers and more, like a plugin's."""

RULES: Mapping[str, Setting] = {
    setting.member: setting
    for setting in (
        Setting("advisor_rules.triggers", values.triggers),
        Setting("advisor_rules.failure_threshold", whole(1)),
        Setting("advisor_rules.confidence_threshold", values.share),
        Setting("advisor_rules.stagnation_turns", whole(2)),
        Setting("advisor_rules.cooldown_turns", whole(0)),
        Setting("advisor_rules.max_advisor_calls", values.bound, project="lower"),
        Setting("advisor_rules.max_session_calls", values.bound, project="lower"),
        Setting("advisor_rules.max_usd", values.usd, project="lower"),
        Setting("advisor_rules.max_share", values.share, project="lower"),
        Setting("advisor_rules.max_tokens", whole(0), project="lower"),
    )
}
"""The members of sagent.advisor.rules.Rules, by name. A project's file may lower what bounds them, and no more."""

THRESHOLDS = {"failures": "failure_threshold", "confidence": "confidence_threshold", "stagnation": "stagnation_turns"}
"""The members of RULES with the threshold of a trigger."""

ALIASES = {"executor": "model", "advisor": "advisors"}
"""Other names of settings, wherever these are named: in files, variables, flags and sweeps."""

RESERVED = (
    *("help", "image", "print", "resume", "json", "config", "version", "trust_project", "plugin", "no_plugins"),
    *("executor_api_base", "advisor_api_base", "prompt", "search", "policy", "advisor_rules", "permissions"),
    *("logging", "env"),
)
"""Names of other flags, and of tables of files, which no setting of a plugin can have."""


def is_stricter(setting: Setting, new: object, old: object) -> bool:
    """Return True if a project's value allows no more than the person's: lower limits, fewer providers, less effort, a
    more complete log."""
    if order := setting.order:
        most = order.index(old) if old in order else 1  # a plugin's mode asks as "ask" does
        return old is not None and new in order and order.index(new) <= most
    if isinstance(new, tuple):
        fewer = set(cast("Sequence[str]", new))
        return old is None or (isinstance(old, tuple) and fewer <= set(cast("Sequence[str]", old)))
    if isinstance(new, int | float | Decimal):
        return old is None or (isinstance(old, int | float | Decimal) and new <= old)
    return False
