"""A login in a browser, on a terminal in which a session goes on."""

import json

import pytest

from sagent.testing.server import FakeProviderServer, Turn
from tests.plugins.logins.github_stand_in import GitHub
from tests.repl.console import Console

pytestmark = pytest.mark.needs("tmux")


def test_browser_login_leaves_session_free(console: Console) -> None:
    github = GitHub([{"error": "authorization_pending"}] * 1_000)
    api = console.stack.enter_context(FakeProviderServer([Turn(text="By the plan.")], strict=False).in_thread())
    github.api = api.url
    address = console.stack.enter_context(github.in_thread())
    console.serve([Turn(text="By the key.")])
    console.start("--model", "anthropic/claude-sonnet-4-6", ready="│ $0")
    console.type(f"/login copilot {address}")
    console.until("enter this code there:", "WDJB-MJHT")
    console.type("hello")
    console.until("By the key.")
    github.polls.clear()
    console.until("Logged in at")
    console.type("/model copilot/gpt-4.1")
    console.until("copilot/gpt-4.1")
    console.type("hello again")
    screen = console.until("By the plan.")
    assert "gho_" not in screen
    assert "hello" in json.dumps(next(asked for asked in api.requests if asked.method == "POST").json)
