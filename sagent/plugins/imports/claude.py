"""The setup of Claude Code: rules files, skills, agents, commands, settings, servers."""

import re
from collections.abc import Mapping
from pathlib import Path

from sagent.config.files import File
from sagent.errors import ConfigError
from sagent.lib.json import as_array, as_object, as_str
from sagent.plugin import HookEvent, PathBase, Table
from sagent.plugins.imports.plan import Plan, read_hooks
from sagent.plugins.imports.servers import take_servers
from sagent.policy.rules import Rule

_TOOLS = ("Bash", "Read", "Edit", "Write", "Grep", "Glob")
_ALIKE = {"MultiEdit": "Edit", "NotebookEdit": "Edit", "LS": "List", "Task": "AgentSpawn", "Agent": "AgentSpawn"}
_WHY: Mapping[str, str] = {
    "model": "choose it yourself: model = ... or --model",
    "env": "export what commands need, or give it in [env] pass",
    "outputStyle": "choose it yourself: output_style = ... or --output-style",
    "statusLine": "status_line = ... is yours to set",
    "enabledPlugins": "add a plugin with sagent plugin add",
    "extraKnownMarketplaces": "add a plugin with sagent plugin add",
}
_HANDLER = ("type", "command", "url", "headers", "timeout")


def take_claude(plan: Plan) -> None:
    """Plan the import of everything, from the project and the person's home."""
    home, project = plan.home / ".claude", plan.project / ".claude"
    for file in (plan.project / "CLAUDE.md", project / "CLAUDE.md", plan.project / "CLAUDE.local.md"):
        if file.is_file():
            plan.use("instructions", file)
    if (home / "CLAUDE.md").is_file():
        plan.write("instructions", "CLAUDE.md", home / "CLAUDE.md", "AGENTS.md", "@~/.claude/CLAUDE.md\n")
    for place in (home, project):
        for kind, pattern in (
            ("skill", "skills/*/SKILL.md"),
            ("agent", "agents/*.md"),
            ("command", "commands/**/*.md"),
            ("output style", "output-styles/*.md"),
        ):
            for file in plan.listed(place, pattern):
                plan.use(kind, file)
        for name in ("settings.json", "settings.local.json"):
            if (found := plan.json(place / name)) is not None:
                take_settings(plan, found, place / name)
    if (found := plan.json(plan.project / ".mcp.json")) is not None:
        take_servers(plan, found.get("mcpServers"), plan.project / ".mcp.json")
        for name in (each for each in found if each != "mcpServers"):
            plan.leave_out("setting", name, plan.project / ".mcp.json", "servers are read from mcpServers")
    state = plan.home / ".claude.json"
    if (found := plan.json(state)) is not None:
        take_servers(plan, found.get("mcpServers"), state)
        own = as_object(as_object(found.get("projects")).get(str(plan.project)))
        take_servers(plan, own.get("mcpServers"), state)


def take_settings(plan: Plan, values: Mapping[str, object], file: Path) -> None:
    """Plan the import of a settings file: its permissions and hooks. Record for each other setting why it is left
    out."""
    for name, value in values.items():
        match name:
            case "permissions":
                if value and not as_object(value):
                    plan.leave_out("permission", name, file, "it is not a table")
                _take_permissions(plan, as_object(value), file)
            case "hooks":
                take_hooks(plan, as_object(value), file)
            case "$schema":
                pass
            case _:
                plan.leave_out("setting", name, file, _WHY.get(name, "sagent does not have it"))


def _take_permissions(plan: Plan, values: Mapping[str, object], file: Path) -> None:
    local = file.name == "settings.local.json" and plan.is_shared(file)
    for name, value in values.items():
        if name not in ("allow", "deny"):
            why = {"ask": "sagent has no such rules: it asks about everything that no rule allows"}
            plan.leave_out(
                "permission", name, file, why.get(name, "the mode and further directories are yours to choose")
            )
            continue
        if value and not as_array(value):
            plan.leave_out(name, str(value), file, "it is not a list of rules")
        for text in map(str, as_array(value)):
            rule, why = translate_rule(
                re.sub(r"WebFetch\(domain:(.*)\)", r"Network(\1)", text) if name == "deny" else text
            )
            if why:
                plan.leave_out(name, text, file, why)
            elif name == "allow" and plan.is_shared(file):
                what = (
                    "it is for this project only, and config.toml is for all projects"
                    if local
                    else "a project cannot allow calls"
                )
                plan.leave_out(name, text, file, f"{what}: give --allow, or write it into your config.toml")
            else:
                getattr(plan.additions(file), name).append(rule)
                whose = "the project's" if plan.is_shared(file) else "your"
                plan.add(name, text, file, "taken over", f"as {rule} in [permissions] of {whose} config.toml")


def translate_rule(text: str) -> tuple[str, str]:
    """Return a rule as we write it, or why it cannot be."""
    match = re.fullmatch(r"([\w*?.-]+)(?:\((.*)\))?", text.strip(), re.DOTALL)
    if match is None:
        return "", "it is not a rule"
    tool, pattern = match[1], match[2]
    tool = _ALIKE.get(tool, tool)
    if pattern in ("*", "**"):
        pattern = None
    if tool not in (*_TOOLS, "List", "AgentSpawn", "WebFetch", "WebSearch", "Network") and not tool.startswith("mcp__"):
        return "", f"there are no rules about {tool}"
    if pattern is not None and tool not in (*_TOOLS, "Network"):
        hosts = ": Network(HOST) lets commands reach one too" if tool == "WebFetch" else ""
        return "", f"a rule about {tool} has no pattern here{hosts}"
    if pattern is not None and tool == "Bash":
        pattern = re.sub(r" \*$", ":*", pattern)
        if "*" in pattern.removesuffix(":*"):
            return "", "a wildcard stands only at the end of a command here, as in Bash(git log:*)"
    elif pattern is not None and tool != "Network":
        if pattern.startswith("/") and not pattern.startswith("//"):
            pattern = f".{pattern}"  # from the root of the project
        pattern = pattern.removeprefix("/") if pattern.startswith("//") else pattern
    try:
        return str(Rule.parse(tool if pattern is None else f"{tool}({pattern})")), ""
    except ConfigError as error:
        return "", str(error)


def take_hooks(plan: Plan, values: Mapping[str, object], file: Path) -> None:
    """Hooks in the shape that several programs share."""
    for event, groups in values.items():
        for group in map(as_object, as_array(groups)):
            matcher = as_str(group.get("matcher"))
            for handler in map(as_object, as_array(group.get("hooks"))):
                what = as_str(handler.get("command")) or as_str(handler.get("url")) or as_str(handler.get("type"))
                name = f"{event} {matcher}".strip()
                _take_hook(plan, event, matcher, handler, f"{name}: {what}", file)


def _take_hook(plan: Plan, event: str, matcher: str, handler: Mapping[str, object], name: str, file: Path) -> None:
    if "hooks" not in plan.plugins.named(Table) or event not in plan.plugins.named(HookEvent):
        plan.leave_out("hook", name, file, f"there is no event {event} here")
        return
    if strangers := [key for key in handler if key not in (*_HANDLER, "statusMessage")]:
        plan.leave_out("hook", name, file, f"{strangers[0]} is not supported")
        return
    about = {"matcher": matcher} if matcher not in ("", "*") else {}
    table = {**about, **{key: handler[key] for key in _HANDLER if key in handler and key != "type"}}
    shared = plan.is_shared(file)
    try:
        kind = {"type": handler["type"]} if "type" in handler else {}
        target = File(file, "", {})
        (hook,) = read_hooks(plan.plugins, target, {event: [{**kind, **table}]}, PathBase(file.parent, plan.home))
    except ConfigError as error:
        plan.leave_out("hook", name, file, str(error).partition(": ")[2])
        return
    if str(hook) in plan.hooks:
        plan.add("hook", name, file, "in use", "it already exists")
        return
    plan.additions(file).hooks.setdefault(event, []).append(table)
    note = (
        "as [[hooks]] of the project's config.toml, which waits for your trust" if shared else "as [[hooks]] of yours"
    )
    plan.add("hook", name, file, "taken over", note)
