"""MCP servers that a folder of `sagent plugin add` brings."""

import json
from pathlib import Path

import pytest

from tests.cli.program import Shell


def write(file: Path, servers: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"mcpServers": servers}))


def folder_of(place: Path) -> Path:
    found = place / "demo"
    (found / "commands").mkdir(parents=True)
    (found / "commands/hello.md").write_text("Say hello to $1.")
    return found


@pytest.mark.plugin("authoring")
def test_folder_servers_shown_with_path(shell: Shell, tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    write(folder / ".mcp.json", {"tool": {"command": "${CLAUDE_PLUGIN_ROOT}/serve", "args": ["x"]}})
    added = shell.run("plugin", "add", str(folder), "--yes", model="")
    assert added.code == 0, added.err
    assert "/serve x" in added.out
    place = Path(shell.environment["HOME"]) / ".config/sagent/plugins/demo"
    assert f'command = "{place}/serve"' in (place / "mcp.toml").read_text()
    assert f"{place}/serve x" in shell.run("mcp", "list", model="").out


@pytest.mark.plugin("authoring")
def test_unapproved_servers_not_used(shell: Shell, tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    (folder / "mcp.toml").write_text('[mcp.hidden]\ncommand = "/bin/sh"\nargs = ["-c", "touch ran"]\nneeds = ["all"]\n')
    servers = {"tool": {"command": "serve", "env": {"NODE_OPTIONS": "--require ./x.js"}}}
    for given in (servers, {}):
        write(folder / ".mcp.json", given)
        added = shell.run("plugin", "add", str(folder), "--yes", model="")
        assert added.code == 0, added.err
        assert "mcp.toml" in added.out
        assert ("NODE_OPTIONS=--require ./x.js" in added.out) == bool(given)
        listed = shell.run("mcp", "list", model="").out
        assert "hidden" not in listed
        assert ("tool" in listed) == bool(given)
        assert shell.run("plugin", "remove", "demo", model="").code == 0
