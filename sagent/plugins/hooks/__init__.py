"""Hooks: commands and URLs called at fixed moments of a session, which may refuse the next action."""

from sagent.config.values import domains
from sagent.plugin import HookEvent, Part, Plugin, Setting, SlashCommand, Table, Variable

_PART, _TABLE = "sagent.plugins.hooks.part", "sagent.plugins.hooks.table"
HOOKS = Table("hooks", f"{_TABLE}:read_hooks", "ask", "hooks/hooks.json", f"{_TABLE}:show_hooks", guards=True)
HOOK_HOSTS = Setting(  # for hooks that are not the person's
    "hook_hosts", domains, (), "tuple[str, ...]", "_Names | None", adds=True
)
EVENTS = (
    HookEvent(
        "SessionStart", "before the first prompt is read", "how it begins", ("startup", "resume"), ("add",), prints=True
    ),
    HookEvent("UserPromptSubmit", "a prompt of yours is about to be read", can=("refuse", "add"), prints=True),
    HookEvent(
        "PreToolUse", "a call is about to be judged", "the tool's name",
        can=("refuse", "ask", "allow", "change", "add"), of_tools=True,
    ),
    HookEvent(
        "PermissionRequest", "you are about to be asked", "the tool's name", can=("allow", "refuse"), of_tools=True
    ),
    HookEvent("PostToolUse", "a call has ended", "the tool's name", can=("add", "refuse", "change"), of_tools=True),
    HookEvent(
        "PreCompact", "the context is about to be made smaller", "who asked for it", ("manual", "auto"), ("add",),
        prints=True,
    ),
    HookEvent("SubagentStart", "an agent below begins", "its name", can=("add",), prints=True),
    HookEvent("SubagentStop", "the turn of an agent below would end", "its name", can=("refuse",)),
    HookEvent("Stop", "the turn would end", can=("refuse",)),
    HookEvent("SessionEnd", "the session is closed", "why", ("other",)),
)  # fmt: skip
"""Events that this plugin fires itself."""
plugin = Plugin(
    "hooks",
    "commands and URLs that are asked at fixed moments of a session",
    needs=("programs",),
    parts=(Part(f"{_PART}:add_events", ("hooks",)), Part(f"{_PART}:add", ("hooks",), "around")),
    settings=(HOOK_HOSTS,),
    slash_commands=(SlashCommand("hooks", "sagent.plugins.hooks.slash:show_hooks"),),
    variables=(Variable("SAGENT_PROJECT_DIR", each=True),),
    tables=(HOOKS,),
    hook_events=EVENTS,
)
