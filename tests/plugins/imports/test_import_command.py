"""`sagent import`: what is found, what is written when asked to, and that what is written is read."""

import json
import os
import tomllib
from pathlib import Path

import pytest

from sagent.config import load
from sagent.errors import UsageError
from sagent.plugins.imports.claude import translate_rule
from sagent.plugins.imports.command import write_plan
from sagent.plugins.imports.plan import Plan, without_comments
from tests.cli.program import Shell


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def home_of(shell: Shell) -> Path:
    return Path(shell.environment["HOME"])


def line_with(out: str, *words: str) -> str:
    found = [line for line in out.splitlines() if all(word in line for word in words)]
    assert len(found) == 1, (words, out)
    return found[0]


def test_claude(shell: Shell) -> None:
    home, config = home_of(shell), home_of(shell) / ".config" / "sagent" / "config.toml"
    (shell.cwd / ".git").mkdir()
    write(shell.cwd / "CLAUDE.md", "rules")
    write(shell.cwd / ".claude/skills/deploy/SKILL.md", "---\ndescription: d\n---\n")
    write(shell.cwd / ".claude/output-styles/short.md", "short")
    handler = {"type": "command", "command": '"$CLAUDE_PROJECT_DIR"/check.sh', "timeout": 5}
    settings = {
        "permissions": {
            "allow": ["Bash(npm test:*)"],
            "deny": ["Read(./.env)", "Bash(rm *)", "WebFetch(domain:x.org)"],
            "ask": ["Bash(git push:*)"],
        },
        "hooks": {
            "PreToolUse": [{"matcher": "Bash", "hooks": [handler, {"type": "prompt", "prompt": "ok?"}]}],
            "Notification": [{"hooks": [{"type": "command", "command": "beep"}]}],
        },
        "model": "opus",
    }
    write(shell.cwd / ".claude/settings.json", settings)
    write(home / ".claude/settings.json", {"permissions": {"allow": ["Bash(git log:*)"], "deny": ["mcp__x__y"]}})
    write(home / ".claude/CLAUDE.md", "I like tests.")
    servers = {
        "files": {"command": "npx", "args": ["-y", "a server"], "env": {"TOKEN": "${FILES_TOKEN:-none}"}},
        "odd one": {"type": "http", "url": "https://mcp.example.org/x", "headers": {"A": "b"}},
        "inputs": {"command": "x", "args": ["${input:key}"]},
    }
    write(shell.cwd / ".mcp.json", {"mcpServers": servers})
    write(config, '# mine\n[permissions]\nallow = ["Bash(ls:*)"]\n')
    before = {path: path.read_bytes() for path in shell.cwd.rglob("*") if path.is_file()}

    done = shell.run("import", "claude", model="")
    assert done.code == 0, done.err
    assert "in use" in line_with(done.out, "instructions", "as it is")
    assert "in use" in line_with(done.out, "short")
    assert "taken over" in line_with(done.out, "PreToolUse Bash", "check.sh")
    assert "prompt is not supported" in line_with(done.out, "PreToolUse Bash: prompt")
    assert "there is no event Notification" in line_with(done.out, "beep")
    assert "Read(./.env)" in line_with(done.out, "deny", ".env")
    assert "Bash(rm:*)" in line_with(done.out, "Bash(rm *)")
    assert "as Network(x.org)" in line_with(done.out, "WebFetch")
    assert "a project cannot allow calls" in line_with(done.out, "npm test")
    assert "${input:key} is not supported" in line_with(done.out, "inputs")
    assert "Nothing was written" in done.out
    assert before == {path: path.read_bytes() for path in shell.cwd.rglob("*") if path.is_file()}

    done = shell.run("import", "claude", "--write", model="")
    assert done.code == 0, done.err
    own = tomllib.loads(config.read_text())
    assert config.read_text().startswith("# mine\n")
    assert set(own["permissions"]["allow"]) == {"Bash(ls:*)", "Bash(git log:*)"} and own["permissions"]["deny"] == [
        "mcp__x__y"
    ]
    assert own["mcp"]["files"] == {
        "command": "npx",
        "args": ["-y", "a server"],
        "env": {"TOKEN": "${FILES_TOKEN:-none}"},
    }
    assert own["mcp"]["odd-one"]["url"] == "https://mcp.example.org/x"
    theirs = tomllib.loads((shell.cwd / ".sagent/config.toml").read_text())
    assert (
        set(theirs["permissions"]["deny"]) == {"Read(./.env)", "Bash(rm:*)", "Network(x.org)"}
        and "allow" not in theirs["permissions"]
    )
    assert theirs["hooks"]["PreToolUse"][0] == {
        "matcher": "Bash", "command": '"$CLAUDE_PROJECT_DIR"/check.sh', "timeout": 5,
    }  # fmt: skip
    read = load({}, {"HOME": str(home)}, shell.cwd)
    assert set(read.rows_of("mcp")) == {"files", "odd-one"} and read.rows_of("hooks") == {} and read.wish is not None
    assert (config.parent / "AGENTS.md").read_text() == "@~/.claude/CLAUDE.md\n"

    again = shell.run("import", "claude", "--write", model="")
    assert again.code == 0, again.err
    assert tomllib.loads(config.read_text()) == own
    assert tomllib.loads((shell.cwd / ".sagent/config.toml").read_text()) == theirs
    assert "it already exists" in line_with(again.out, "PreToolUse Bash", "check.sh")


def test_unread_setup_not_called_in_use(shell: Shell) -> None:
    (shell.cwd / ".git").mkdir()
    write(shell.cwd / "AGENTS.md", "ours")
    write(shell.cwd / "CLAUDE.md", "theirs")
    write(shell.cwd / "CLAUDE.local.md", "mine")
    write(shell.cwd / ".claude/agents/good.md", "---\ndescription: d\n---\nWork.")
    write(shell.cwd / ".claude/agents/bare.md", "Work.")
    write(shell.cwd / ".mcp.json", {"mcpServers": {"old": {"type": "sse", "url": "https://mcp.example.org/sse"}}})
    out = shell.run("import", "claude", model="").out
    assert "left out" in line_with(out, "CLAUDE.md", "only the first") and "in use" in line_with(out, "CLAUDE.local.md")
    assert "in use" in line_with(out, "agent", "good") and "left out" in line_with(out, "agent", "description", "bare")
    assert "left out" in line_with(out, "mcp", "SSE")
    write(shell.cwd / "GEMINI.md", "theirs")
    assert "left out" in line_with(shell.run("import", "gemini", model="").out, "GEMINI.md", "only the first")


def test_codex_and_other_programs_imported(shell: Shell) -> None:
    home, config = home_of(shell), home_of(shell) / ".config" / "sagent"
    (shell.cwd / ".git").mkdir()
    codex = (
        '[mcp_servers.docs]\nurl = "https://d.example.org"\nbearer_token_env_var = "DOCS"\nstartup_timeout_sec = 20\n'
    )
    write(home / ".codex/config.toml", f'model = "gpt-5.5"\nsandbox_mode = "read-only"\n{codex}')
    write(home / ".codex/prompts/fix.md", "Fix $1.")
    write(
        shell.cwd / ".codex/agents/look.toml",
        'name = "look"\ndescription = "looks"\ndeveloper_instructions = "Look."\n',
    )
    assert "choose it yourself" in line_with(shell.run("import", "codex", "--write", model="").out, "sandbox_mode")
    write(
        shell.cwd / "opencode.jsonc",
        '{// ours\n"mcp": {"x": {"type": "local", "command": ["a", "b"], "environment": {"K": "{env:KEY}"},'
        ' "timeout": 500,},'
        '"off": {"type": "remote", "url": "http://a", "enabled": false}}, /* no */ "theme": "x"}',
    )
    write(
        shell.cwd / ".opencode/agent/safe.md",
        "---\ndescription: safe\ntools:\n  write: false\n  bash: false\n---\nBe safe.",
    )
    done = shell.run("import", "opencode", "--write", model="")
    assert "switched off" in line_with(done.out, "off", "mcp"), done.err
    write(
        shell.cwd / ".gemini/settings.json",
        {
            "mcpServers": {
                "g": {"httpUrl": "http://g", "timeout": 9000, "headers": {"K": "a $TOKEN"}},
                "in": {"command": "s", "cwd": "srv"},
            }
        },
    )
    write(
        shell.cwd / ".gemini/commands/git/log.toml",
        'description = "logs"\nprompt = "Log {{args}}: !{git log} @{a.md}"\n',
    )
    assert shell.run("import", "gemini", "--write", model="").code == 0
    gallery = {"gallery": "https://mcp.example.org", "version": "0.13.0"}
    servers = {"v": {"command": "v", "env": {"K": "${env:V}"}, **gallery}}
    write(shell.cwd / ".vscode/mcp.json", {"servers": servers, "inputs": []})
    assert shell.run("import", "vscode", "--write", model="").code == 0
    mcp = tomllib.loads((config / "config.toml").read_text())["mcp"]
    assert mcp["docs"] == {
        "url": "https://d.example.org", "headers": {"Authorization": "Bearer ${DOCS:-}"}, "start_timeout": 20,
    }  # fmt: skip
    assert mcp["x"] == {"command": "a", "args": ["b"], "env": {"K": "${KEY:-}"}, "timeout": 0.5}
    assert mcp["g"] == {"url": "http://g", "timeout": 9, "headers": {"K": "a ${TOKEN:-}"}}
    assert mcp["in"]["args"][1:] == ['cd "$0" && exec "$@"', str(shell.cwd / "srv"), "s"]
    assert mcp["v"]["env"] == {"K": "${V:-}"} and "off" not in mcp
    assert (config / "commands/fix.md").read_text() == "Fix $1."
    sagent = shell.cwd / ".sagent"
    assert "name: look" in (sagent / "agents/look.md").read_text()
    assert "disallowedTools: Write, Bash" in (sagent / "agents/safe.md").read_text()
    assert "Log {{args}}: !{git log} @{a.md}" in (sagent / "commands/git/log.md").read_text()
    assert (config / "config.toml").stat().st_mode & 0o077 == 0


def test_unreadable_setup_left_out(shell: Shell) -> None:
    (shell.cwd / ".git").mkdir()
    (shell.cwd / ".claude").mkdir()
    os.mkfifo(shell.cwd / ".claude/settings.json")
    write(home_of(shell) / "outside.json", {"mcpServers": {"x": {"command": "x"}}})
    (shell.cwd / ".mcp.json").symlink_to(home_of(shell) / "outside.json")
    write(shell.cwd / ".claude/settings.local.json", "{")
    done = shell.run("import", "claude", model="")
    assert done.code == 0, done.err
    for why in ("a FIFO", "leads out of the project", "not JSON"):
        assert "left out" in line_with(done.out, why)
    assert "Nothing is set up for gemini" in shell.run("import", "gemini", model="").out


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("Bash", "Bash"),
        ("Bash(git log:*)", "Bash(git log:*)"),
        ("Bash(git log *)", "Bash(git log:*)"),
        ("Read(//etc/**)", "Read(/etc/**)"),
        ("Edit(/src/**)", "Edit(./src/**)"),
        ("Read(~/.zshrc)", "Read(~/.zshrc)"),
        ("mcp__github__*", "mcp__github__*"),
        ("MultiEdit", "Edit"),
        ("WebFetch", "WebFetch"),
        ("WebSearch", "WebSearch"),
        ("WebFetch(domain:example.org)", ""),
        ("Bash(*)", "Bash"),
        ("Read(**)", "Read"),
        ("Network(example.org)", "Network(example.org)"),
        ("Skill(x)", ""),
        ("Bash(git * main)", ""),
        ("Task(review)", ""),
        ("(", ""),
    ],
)
def test_rules_are_ours_or_left_out(text: str, rule: str) -> None:
    found, why = translate_rule(text)
    assert found == rule and bool(why) is not bool(rule)


def test_json_comments_removed() -> None:
    text = '{"a": "http://x/*y*/", // b\n "b": [1, 2,], /* c */ "c": "\\"//,]",}'
    assert json.loads(without_comments(text)) == {"a": "http://x/*y*/", "b": [1, 2], "c": '"//,]'}
    endless = '"\\' * 100_000
    assert without_comments(endless) == endless
    assert without_comments("/* " * 100_000).strip() == ""


def test_project_import_stays_inside(shell: Shell) -> None:
    """Its hooks would be the person's own there, and wait for nobody's trust."""
    config = home_of(shell) / ".config" / "sagent"
    config.mkdir(parents=True)
    (shell.cwd / ".git").mkdir()
    (shell.cwd / ".sagent").symlink_to(config)
    hooks = {"Stop": [{"hooks": [{"type": "command", "command": "touch ran"}]}]}
    write(shell.cwd / ".claude/settings.json", {"hooks": hooks})
    done = shell.run("import", "claude", "--write", model="")
    assert done.code == 2 and "is a link out of the project" in done.err
    assert not list(config.iterdir())


@pytest.mark.plugin("mcp")
def test_project_keeps_settings_readable(shell: Shell) -> None:
    config = home_of(shell) / ".config" / "sagent" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("max_turns = 7\n")
    (shell.cwd / ".git").mkdir()
    odd = {"": "x", "late": "x", "empty": "", "half": "\ud800", "good": "good", "odd": "${}"}
    servers = {name: {"command": command} for name, command in odd.items()}
    servers["late"] |= {"startup_timeout_sec": "1e400"}
    text = json.dumps({"mcpServers": servers}).replace('"1e400"', "1" + "0" * 400)
    (shell.cwd / ".mcp.json").write_text(text)
    write(shell.cwd / ".claude/settings.json", {"permissions": {"deny": ["Read(\ud800)", "Bash(rm:*)"]}})
    done = shell.run("import", "claude", "--write", model="")
    assert done.code == 0, done.err
    assert "good" in shell.run("mcp", "list", model="").out
    assert "Bash(rm:*)" in (shell.cwd / ".sagent/config.toml").read_text()
    (shell.cwd / ".mcp.json").write_text('{"mcpServers": {"n": {"command": "c", "timeout": 1e999}}}')
    assert "not JSON" in shell.run("import", "claude", model="").out


def test_broken_settings_restored(shell: Shell) -> None:
    config = home_of(shell) / ".config" / "sagent" / "config.toml"
    plan = Plan(shell.cwd, home_of(shell), config.parent)
    plan.own.mcp["x"] = {"command": ""}

    def check() -> None:
        assert "[mcp.x]" in config.read_text()
        raise UsageError("mcp.x needs a command")

    for before in (None, b"max_turns = 7\n"):
        if before is not None:
            config.write_bytes(before)
        with pytest.raises(UsageError, match="needs a command"):
            write_plan(plan, {config: plan.own}, check)
        assert (config.read_bytes() if config.exists() else None) == before


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ({"command": "x", "args": "-rf /"}, "args"),
        ({"command": "x", "env": ["A=b"]}, "env"),
        ({"url": "https://mcp.example.org", "headers": 7}, "headers"),
        ({"url": "ftp://mcp.example.org"}, "http"),
        ({"url": "https://"}, "http"),
        ({"url": "http://[::1"}, "Invalid IPv6"),
        pytest.param({"command": "{file:" * 30_000}, "is not supported", id="braces without an end"),
    ],
)
def test_server_imported_whole_or_not(shell: Shell, server: object, why: str) -> None:
    write(home_of(shell) / ".claude.json", {"mcpServers": {"odd": server}})
    done = shell.run("import", "claude", model="")
    line = line_with(done.out, "odd")
    assert "left out" in line
    assert why in line


def test_large_file_imported(shell: Shell) -> None:
    history = [{"display": "x" * 1_000}] * 2_000  # as years of use leave it
    write(home_of(shell) / ".claude.json", {"mcpServers": {"odd": {"command": "x"}}, "history": history})
    assert "taken over" in line_with(shell.run("import", "claude", model="").out, "odd")


@pytest.mark.parametrize("rules", [{"deny": "Bash(rm:*)"}, {"deny": {"Bash": "rm"}}, "deny all", ["Bash(rm:*)"]])
def test_invalid_rules_reported(shell: Shell, rules: object) -> None:
    write(home_of(shell) / ".claude/settings.json", {"permissions": rules})
    done = shell.run("import", "claude", model="")
    assert "left out" in line_with(done.out, "settings.json")
