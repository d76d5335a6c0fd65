"""The setups of codex, opencode, Gemini CLI and VS Code."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from sagent.context.frontmatter import read_document
from sagent.lib.json import as_object, as_str, json_dump
from sagent.plugins.imports.claude import take_hooks
from sagent.plugins.imports.plan import Plan, add_front_matter
from sagent.plugins.imports.servers import take_servers

_TOOLS: Mapping[str, str] = {
    "read": "Read",
    "write": "Write",
    "edit": "Edit",
    "patch": "Edit",
    "bash": "Bash",
    "grep": "Grep",
    "glob": "Glob",
    "list": "List",
    "task": "AgentSpawn",
    "read_file": "Read",
    "read_many_files": "Read",
    "write_file": "Write",
    "replace": "Edit",
    "run_shell_command": "Bash",
    "search_file_content": "Grep",
    "grep_search": "Grep",
    "list_directory": "List",
}
"""Tools of ours by what opencode and Gemini CLI call them."""
_YOURS = "choose it yourself in config.toml"


def take_codex(plan: Plan) -> None:
    home = plan.home / ".codex"
    _take_own_rules(plan, home / "AGENTS.md", "@~/.codex/AGENTS.md\n")
    for folder in (home, plan.project / ".codex"):
        if (config := plan.toml(folder / "config.toml")) is not None:
            for name, value in config.items():
                if name == "mcp_servers":
                    take_servers(plan, value, folder / "config.toml", expands=False)
                elif name == "hooks":
                    take_hooks(plan, as_object(value), folder / "config.toml")
                else:
                    plan.leave_out("setting", name, folder / "config.toml", _YOURS)
        if (config := plan.json(folder / "hooks.json")) is not None:
            take_hooks(plan, as_object(config.get("hooks", config)), folder / "hooks.json")
        for file in plan.listed(folder, "agents/*.toml"):
            if (definition := plan.toml(file)) is not None:
                name = as_str(definition.get("name")) or file.stem
                fields = {"name": name, "description": as_str(definition.get("description"))}
                body = as_str(definition.get("developer_instructions"))
                plan.write("agent", name, file, f"agents/{file.stem}.md", add_front_matter(fields, body))
    _take_commands(plan, plan.listed(home, "prompts/*.md"))


def take_opencode(plan: Plan) -> None:
    home, project = plan.home / ".config" / "opencode", plan.project / ".opencode"
    _take_own_rules(plan, home / "AGENTS.md", "@~/.config/opencode/AGENTS.md\n")
    for folder in (home, plan.project):
        for file in (folder / "opencode.json", folder / "opencode.jsonc"):
            _take_opencode_settings(plan, file)
    for folder in (home, project):
        _take_commands(plan, [*plan.listed(folder, "command/*.md"), *plan.listed(folder, "commands/*.md")])
        for file in [*plan.listed(folder, "agent/*.md"), *plan.listed(folder, "agents/*.md")]:
            if (text := plan.text(file)) is not None:
                _take_opencode_agent(plan, file, text)
        for file in plan.listed(folder, "skills/*/SKILL.md"):
            if (text := plan.text(file)) is not None:
                plan.write("skill", file.parent.name, file, f"skills/{file.parent.name}/SKILL.md", text)


def take_gemini(plan: Plan) -> None:
    home, project = plan.home / ".gemini", plan.project / ".gemini"
    if (plan.project / "GEMINI.md").is_file():
        plan.use("instructions", plan.project / "GEMINI.md")
    _take_own_rules(plan, home / "GEMINI.md", "@~/.gemini/GEMINI.md\n")
    for directory in (home, project):
        for name, value in (plan.json(directory / "settings.json") or {}).items():
            file = directory / "settings.json"
            if name == "mcpServers":
                braced = re.sub(r"\$(\w+)", r"${\1}", json_dump(value))  # `$NAME` is a variable there too
                take_servers(plan, json.loads(braced), file, milliseconds=True)
            elif name == "hooks":
                plan.leave_out("setting", name, file, "its events and answers are different: see hooks.md")
            else:
                plan.leave_out("setting", name, file, _YOURS)
        for file in plan.listed(directory, "commands/**/*.toml"):
            if (command := plan.toml(file)) is not None:
                text = add_front_matter(
                    {"description": as_str(command.get("description"))}, as_str(command.get("prompt"))
                )
                folder = "" if file.parent.name == "commands" else f"{file.parent.name}/"
                plan.write("command", file.stem, file, f"commands/{folder}{file.stem}.md", text)
        for file in plan.listed(directory, "agents/*.md"):
            if (text := plan.text(file)) is not None:
                _take_gemini_agent(plan, file, text)


def take_vscode(plan: Plan) -> None:
    file = plan.project / ".vscode" / "mcp.json"
    for name, value in (plan.json(file) or {}).items():
        if name == "servers":
            take_servers(plan, value, file)
        else:
            plan.leave_out("setting", name, file, "its inputs are written as variables, ${NAME}")
    if (plan.project / ".github" / "copilot-instructions.md").is_file():
        file = plan.project / ".github" / "copilot-instructions.md"
        plan.leave_out("instructions", file.name, file, "name it in AGENTS.md: @.github/copilot-instructions.md")


def _take_own_rules(plan: Plan, file: Path, text: str) -> None:
    if file.is_file():
        plan.write("instructions", file.name, file, "AGENTS.md", text)


def _take_commands(plan: Plan, files: Iterable[Path]) -> None:
    for file in files:
        if (text := plan.text(file)) is not None:
            plan.write("command", file.stem, file, f"commands/{file.name}", text)


def _take_opencode_settings(plan: Plan, file: Path) -> None:
    for name, value in (plan.json(file) or {}).items():
        if name == "mcp":
            take_servers(plan, value, file, milliseconds=True, expands=False)
        elif name != "$schema":
            reason = "files in agents/ and commands/ are taken over" if name in ("agent", "command") else _YOURS
            plan.leave_out("setting", name, file, reason)


def _take_opencode_agent(plan: Plan, file: Path, text: str) -> None:
    document = read_document(text)
    disabled = re.findall(r"\b(\w+)\s*:\s*false", document.fields.get("tools", ""))
    fields = {
        "name": file.stem,
        "description": document.fields.get("description", ""),
        "disallowedTools": ", ".join(dict.fromkeys(_TOOLS[name] for name in disabled if name in _TOOLS)),
        "model": document.fields.get("model", ""),
    }
    plan.write("agent", file.stem, file, f"agents/{file.name}", add_front_matter(fields, document.body))


def _take_gemini_agent(plan: Plan, file: Path, text: str) -> None:
    document = read_document(text)
    if document.fields.get("kind") == "remote":
        plan.leave_out("agent", file.stem, file, "it is on another machine")
        return
    tools = document.words("tools")
    fields = {
        "name": document.fields.get("name", file.stem),
        "description": document.fields.get("description", ""),
        "tools": "" if tools is None else ", ".join(_TOOLS.get(name, name) for name in tools),
        "maxTurns": document.fields.get("max_turns", ""),
    }
    plan.write("agent", file.stem, file, f"agents/{file.name}", add_front_matter(fields, document.body))
