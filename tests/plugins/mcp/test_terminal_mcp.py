"""MCP servers at the terminal: prompts are commands, resources mentioned, and questions put to the person."""

import json
import sys
from pathlib import Path

import pytest

from sagent.testing.server import Call, Received, Turn
from tests.repl.console import Console, last_text
from tests.waiting import wait_until

pytestmark = pytest.mark.needs("tmux")
SERVER = Path(__file__).with_name("odd_server.py")
ASK = """
form = {"type": "object", "required": ["who"], "properties": {"who": {"type": "string", "title": "Your \\x1b[2Jname"}}}
text = json.dumps(ask("elicitation/create", message="Who are you?", requestedSchema=form)["result"]["content"])
"""


def test_prompts_resources_and_questions(console: Console) -> None:
    def answer(request: Received) -> Turn:
        text = last_text(request)
        if "ask me" in text:
            return Turn(calls=(Call("mcp__odd__do", {"code": ASK}),))
        return Turn(text="Well then.")

    server = console.serve(answer)
    folder = console.cwd.parent
    offer = {
        "tools": [{"name": "do", "inputSchema": {"type": "object"}}],
        "prompts": [{"name": "words", "description": "Finds words.", "arguments": [{"name": "first"}]}],
        "resources": [{"uri": "odd://notes", "name": "notes"}],
        "read": {"odd://notes": {"contents": [{"uri": "odd://notes", "text": "what was noted"}]}},
    }
    (folder / "offer.json").write_text(json.dumps(offer))
    (folder / "config.toml").write_text(
        f'[permissions]\nallow = ["mcp__odd__*"]\n[mcp.odd]\ncommand = "{sys.executable}"\n'
        f'needs = ["all"]\nstart_timeout = 30\nargs = ["{SERVER}", "{folder / "offer.json"}"]\n'
    )
    console.environment["SAGENT_CONFIG"] = str(folder / "config.toml")
    console.start()
    console.type("/mcp")
    console.until("connected:")
    console.type("/mcp__odd__words some thing")
    wait_until(lambda: "words" in last_text(server.requests[-1]) if server.requests else False)
    assert 'words {"first": "some thing"}' in last_text(server.requests[-1])
    console.keys("@", "o", "d", "d", ":", "n")
    console.until("odd:odd://notes")
    console.keys("Escape", "C-u")
    console.type("look at @odd:odd://notes now")
    wait_until(lambda: len(server.requests) == 2)
    assert "what was noted" in last_result(server.requests[-1])
    console.type("ask me")
    screen = console.until("The MCP server odd asks", "Who are you?", "1 Decline", "answer ›")
    assert "Your \ufffd[2Jname" in screen
    console.type("Zoë")
    wait_until(lambda: "who" in last_result(server.requests[-1]))
    assert "Zo" in last_result(server.requests[-1])


def last_result(request: Received) -> str:
    return json.dumps(json.loads(request.body)["messages"][-1])
