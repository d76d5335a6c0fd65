"""MCP servers are added, listed, tested and removed from the shell; nothing else of the file changes."""

import sys
from pathlib import Path

import pytest
from program import Shell

SERVER = """
from mcp.server import MCPServer
server = MCPServer("things")

@server.tool(description="Adds two numbers.")
def add(a: int, b: int) -> int:
    return a + b

server.run()
"""
BEFORE = """# mine
model = "anthropic/claude-sonnet-4-6"   # the usual

[mcp.kept]
command = "true"
args = [
  "a",
]

[permissions]
allow = ["Read"]
"""


def config(shell: Shell) -> Path:
    path = Path(shell.environment["HOME"]) / ".config" / "sagent" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def test_a_server_is_added_listed_and_removed_and_the_rest_stays(shell: Shell) -> None:
    path = config(shell)
    path.write_text(BEFORE)
    add = shell.run(
        "mcp", "add", "new-1", "--env", "A=b=c", "--needs", "read:~/x", "--", "prog", "--flag", "two words", model=""
    )
    assert add.code == 0, add.err
    listed = shell.run("mcp", "list", model="")
    assert "prog --flag 'two words'" in listed.out
    assert shell.run("mcp", "add", "web", "https://example.org/mcp", "--header", "x-a=1", model="").code == 0
    assert "https://example.org/mcp" in shell.run("mcp", "list", model="").out
    assert shell.run("mcp", "add", "web", "https://example.org/2", model="").code == 2
    for name in ("web", "new-1"):
        assert shell.run("mcp", "remove", name, model="").code == 0
    assert path.read_text().rstrip() == BEFORE.rstrip()
    assert shell.run("mcp", "remove", "kept", model="").code == 0
    assert "mcp" not in path.read_text()
    assert 'allow = ["Read"]' in path.read_text()


@pytest.mark.parametrize(
    "words",
    [("bad name", "https://example.org"), ("a", "--env", "X", "--", "prog"), ("a", "https://x", "--needs", "all")],
)
def test_what_cannot_be_added_leaves_the_file_as_it_is(shell: Shell, words: tuple[str, ...]) -> None:
    path = config(shell)
    path.write_text(BEFORE)
    assert shell.run("mcp", "add", *words, model="").code == 2
    assert path.read_text() == BEFORE


def test_a_server_is_tested(shell: Shell) -> None:
    script = shell.cwd / "server.py"
    script.write_text(SERVER)
    assert shell.run("mcp", "add", "things", "--", sys.executable, str(script), model="").code == 0
    assert shell.run("mcp", "add", "gone", "--", "/no/such/program", model="").code == 0
    tested = shell.run("mcp", "test", "things", model="")
    assert tested.code == 0, tested.err
    assert "mcp__things__add" in tested.out and "Adds two numbers." in tested.out
    failed = shell.run("mcp", "test", "gone", model="")
    assert failed.code == 1
    assert "/no/such/program" in failed.err


def test_tools_that_have_changed_are_approved_by_hand(shell: Shell) -> None:
    script = shell.cwd / "server.py"
    script.write_text(SERVER)
    assert shell.run("mcp", "add", "things", "--", sys.executable, str(script), model="").code == 0
    first = shell.run("mcp", "approve", "things", model="")
    assert first.out == "1 tool of things approved as defined now.\n"
    script.write_text(SERVER.replace("two numbers", "three numbers"))
    changed = shell.run("mcp", "approve", "things", model="")
    assert "mcp__things__add" in changed.out
    assert "Adds three numbers." in changed.out
    assert "three" not in shell.run("mcp", "approve", "things", model="").out
    assert shell.run("mcp", "approve", "other", model="").code == 2
