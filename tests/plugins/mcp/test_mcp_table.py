"""The table `[mcp.NAME]` of files of settings, and the slash command that shows what comes of it."""

from pathlib import Path

import pytest

from sagent.config import Settings, load
from sagent.errors import ConfigError
from sagent.plugins.mcp.table import servers_of
from tests.cli.program import Shell

KEY = "sk-ant-api03-abcdefghijklmnop"


def read(home: Path, text: str) -> Settings:
    """Return the settings of a person whose file says this."""
    file = home / ".config" / "sagent" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return load({}, {"HOME": str(home)}, home)


def test_needs_resolve_paths_from_file(tmp_path: Path) -> None:
    needs = '["network:API.example.org", "write:~/x", "read:y", "all"]'
    server = servers_of(read(tmp_path, f"[mcp.t]\ncommand = 'c'\nneeds = {needs}\nstart_timeout = 2.5"))["t"]
    assert [str(need) for need in server.needs] == [
        "network:api.example.org",
        f"write:{tmp_path}/x",
        f"read:{tmp_path}/.config/sagent/y",
        "all",
    ]
    assert server.start_timeout == 2.5


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("command = 'c'\nneeds = ['net']", "is not a need"),
        ("url = 'u'\nneeds = []", "does not run in the sandbox"),
        ("command = 'c'\nstart_timeout = 0", "start_timeout: give seconds as a number above 0"),
        ("command = 'c'\ntimeout = 0.0", "timeout: give seconds as a number above 0"),
    ],
)
def test_invalid_member_named(tmp_path: Path, table: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read(tmp_path, f"[mcp.t]\n{table}")


@pytest.mark.parametrize(
    ("members", "keys"),
    [
        ('command = "y"\nenv = { GH_TOKEN = "hand-made" }', "mcp.x.env.GH_TOKEN"),
        (f'command = "y"\nargs = ["--key", "{KEY}"]', "mcp.x.args.1"),
        (f'url = "https://a.b"\nheaders.Authorization = "Bearer {KEY}"', "Authorization"),
        ('command = "y"\nenv = { GH_TOKEN = "${GH_TOKEN:-}", TOKEN_FILE = "/run/token" }', ""),
    ],
)
def test_readable_key_file_warned_about(tmp_path: Path, members: str, keys: str) -> None:
    read(tmp_path, f"[mcp.x]\n{members}\n")
    file = tmp_path / ".config" / "sagent" / "config.toml"
    file.chmod(0o644)
    found = load({}, {"HOME": str(tmp_path)}, tmp_path).warnings
    assert len(found) == bool(keys)
    assert all(warning.startswith(f"{file}:3: ") and keys in warning for warning in found)


def test_slash_command_lists_servers(shell: Shell) -> None:
    shell.serve([])
    assert "sagent mcp add NAME URL" in shell.run("/mcp").err
    file = Path(shell.environment["HOME"]) / ".config" / "sagent" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text('[mcp.gone]\nurl = "http://127.0.0.1:9/mcp"\n')
    done = shell.run("/mcp")
    assert done.code == 0, done.err
    assert "gone" in done.out
    assert "http://127.0.0.1:9/mcp" in done.out
