"""MCP servers are added, listed, tested and removed from the shell; nothing else of the file changes."""

import json
import sys
from pathlib import Path

import pytest

from sagent.testing.server import Call, Turn
from tests.cli.program import Shell
from tests.depth import later
from tests.plugins.mcp.odd import Odd, tool

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


def add_odd(shell: Shell) -> Odd:
    """Add a server called things, and return it. It writes a log, which no sandbox would let it."""
    odd = Odd(shell.cwd, tools=[tool("add", "Adds two numbers.")])
    argv = ("mcp", "add", "things", "--needs", "all", "--", odd.config.command, *odd.config.args)
    assert shell.run(*argv, model="").code == 0
    return odd


def test_server_added_listed_and_removed(shell: Shell) -> None:
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
    ("words", "why"),
    [
        (("bad name", "https://example.org"), "'bad name' is not a valid server name"),
        (("a", "--env", "X", "--", "prog"), "X"),
        (("a", "https://x", "--needs", "all"), "--needs"),
        (("a", "ftp://example.org"), "ftp://example.org is not the URL"),
    ],
)
def test_invalid_server_leaves_file_alone(shell: Shell, words: tuple[str, ...], why: str) -> None:
    path = config(shell)
    path.write_text(BEFORE)
    done = shell.run("mcp", "add", *words, model="")
    assert done.code == 2 and why in done.err
    assert path.read_text() == BEFORE


@later
def test_server_tested(shell: Shell) -> None:
    add_odd(shell)
    assert shell.run("mcp", "add", "gone", "--", "/no/such/program", model="").code == 0
    tested = shell.run("mcp", "test", "things", model="")
    assert tested.code == 0, tested.err
    assert "mcp__things__add" in tested.out and "Adds two numbers." in tested.out
    failed = shell.run("mcp", "test", "gone", model="")
    assert failed.code == 1
    assert "/no/such/program" in failed.err


@later
def test_changed_tools_approved_by_hand(shell: Shell) -> None:
    odd = add_odd(shell)
    first = shell.run("mcp", "approve", "things", model="")
    assert first.out.startswith("1 tool of things approved")
    odd.offer(tools=[tool("add", "Adds three numbers.")])
    changed = shell.run("mcp", "approve", "things", model="")
    assert "mcp__things__add" in changed.out
    assert "Adds three numbers." in changed.out
    assert "three" not in shell.run("mcp", "approve", "things", model="").out
    assert shell.run("mcp", "approve", "other", model="").code == 2


ODD = Path(__file__).with_name("odd_server.py")


def test_prompt_runs_and_changed_tool_refused(shell: Shell) -> None:
    def offer(about: str) -> None:
        tool = {"name": "do", "description": about, "inputSchema": {"type": "object"}}
        prompt = {"name": "words", "arguments": [{"name": "first"}, {"name": "rest"}]}
        (shell.cwd / "offer.json").write_text(json.dumps({"tools": [tool], "prompts": [prompt]}))

    offer("Does it.")
    config(shell).write_text(
        f'[mcp.odd]\ncommand = "{sys.executable}"\nargs = ["{ODD}", "{shell.cwd / "offer.json"}"]\nneeds = ["all"]\n'
        "start_timeout = 60\n"
    )
    call = Turn(text="", calls=(Call("mcp__odd__do", {"code": "text = ask('elicitation/create', message='m')"}),))
    server = shell.serve([Turn(text="Well."), call, Turn(text="Done."), call, Turn(text="Not done.")])
    done = shell.run("/mcp__odd__words 'a b' c d")
    assert done.out == "Well.\n", done.err
    assert r"words {\"first\": \"a b\", \"rest\": \"c d\"}" in json.dumps(server.requests[0].json)
    assert shell.run("go", "--allow", "mcp__odd__*").out == "Done.\n"
    offer("Does something else.")
    shell.run("go", "--allow", "mcp__odd__*")
    said = json.dumps(server.requests[-1].json)
    assert "definition of do" in said and "It is now: Does something else." in said
    assert "sagent mcp approve odd" in said


@pytest.mark.parametrize(
    ("oauth", "said"),
    [
        ('issuer = "https://a.example", client_id = "c"', "give client_id and a client_secret or private_key"),
        ('issuer = "https://a.example", client_id = "c", client_secret = "s"', "needs no login"),
    ],
)
def test_login_needs_a_terminal(shell: Shell, oauth: str, said: str) -> None:
    config(shell).write_text(f'[mcp.web]\nurl = "https://example.org/mcp"\noauth = {{{oauth}}}\n')
    failed = shell.run("mcp", "login", "web", model="")
    assert failed.code == 2
    assert said in failed.err
