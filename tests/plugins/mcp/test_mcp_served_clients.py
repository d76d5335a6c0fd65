"""`sagent mcp serve` with clients that others have written: codex and Claude Code from npm, on scripted models."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from sagent.testing.script import Call, Raw, Received, Turn
from sagent.testing.server import FakeProviderServer, Step
from tests.depth import WHOLE
from tests.npm import packages

CODEX, CLAUDE = "@openai/codex@0.169.0", "@anthropic-ai/claude-code@2.1.197"
CHECKOUT = Path(__file__).parents[3]
SERVE = ["-m", "sagent.bin.cli", "mcp", "serve", "--model", "anthropic/claude-sonnet-4-6"]
SERVE += ["--permission-mode", "full", "--sandbox", "off"]

pytestmark = pytest.mark.skipif(not WHOLE, reason="installs 600 MB from npm; make test-all runs it")


def served(request: Received) -> Turn:
    """What the model of a session of ours says."""
    body = request.body.decode()
    if "second task" in body:
        return Turn("second done")
    return Turn("first done") if '"tool_result"' in body else Turn(calls=(Call("Bash", {"command": "echo hi > made"}),))


def tasks(seen: Sequence[str]) -> tuple[str, Mapping[str, object]] | None:
    """The next call of the client's model, given the results that it was shown; None at the end."""
    if not seen:
        return "sagent", {"prompt": "first task"}
    session = re.search(r"session_id\W+([\w-]+)", seen[0])
    assert session is not None, seen
    return ("sagent_reply", {"session_id": session[1], "prompt": "second task"}) if len(seen) == 1 else None


def codex(request: Received, seen: list[str]) -> Step:
    """codex has the tools of a server in a namespace, of which a double knows nothing."""
    asked: Any = request.json
    seen[:] = [item["output"] for item in asked["input"] if item["type"] == "function_call_output"]
    if (wanted := tasks(seen)) is None:
        return Turn("all done")
    name, arguments = wanted
    item = {
        "type": "function_call", "id": f"fc_{len(seen)}", "call_id": f"call_{len(seen)}", "namespace": "mcp__sagent",
        "name": name, "arguments": json.dumps(arguments), "status": "completed",
    }  # fmt: skip
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    response = {"id": f"resp_{len(seen)}", "object": "response", "status": "completed", "output": [], "usage": usage}
    events = [
        {"type": "response.created", "response": {**response, "status": "in_progress"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {**response, "output": [item]}},
    ]
    text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return Raw(headers=(("content-type", "text/event-stream"),), body=text.encode())


def claude(request: Received, seen: list[str]) -> Step:
    """Claude Code begins before its servers have started; its model waits for them."""
    asked: Any = request.json
    names = {tool["name"] for tool in asked.get("tools", ())}
    if "mcp__sagent__sagent" not in names:
        waits = "WaitForMcpServers" in names and b"tool_result" not in request.body
        return Turn(calls=(Call("WaitForMcpServers", {}),)) if waits else Turn("a title")
    blocks = [block for message in asked["messages"] for block in message["content"] if isinstance(block, dict)]
    results = [json.dumps(block["content"]) for block in blocks if block.get("type") == "tool_result"]
    seen[:] = [text for text in results if "session_id" in text]
    wanted = tasks(seen)
    return Turn("all done") if wanted is None else Turn(calls=(Call(f"mcp__sagent__{wanted[0]}", wanted[1]),))


def start(client: str, url: str, home: Path) -> tuple[list[str], Mapping[str, str]]:
    """A client's command line, with our server in its configuration, and its environment."""
    npm = packages(CODEX if client == "codex" else CLAUDE)
    program = str(npm.modules / ".bin" / client)
    keys = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "k"}
    own = {"HOME": str(home), "PYTHONPATH": str(CHECKOUT), **keys}
    if client == "claude":
        config = {"mcpServers": {"sagent": {"command": sys.executable, "args": SERVE, "env": own}}}
        (home / "mcp.json").write_text(json.dumps(config))
        argv = [
            program,
            "-p",
            "go",
            "--output-format",
            "stream-json",
            "--verbose",
            "--mcp-config",
            str(home / "mcp.json"),
        ]
        quiet = {"DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        return [*argv, "--allowedTools", "mcp__sagent__sagent,mcp__sagent__sagent_reply"], {
            **npm.environment,
            **own,
            **quiet,
        }
    (home / ".codex").mkdir()
    table = "\n".join(f"{name} = {json.dumps(value)}" for name, value in own.items())
    (home / ".codex" / "config.toml").write_text(
        f'model = "gpt-5.2"\nmodel_provider = "ours"\nanalytics.enabled = false\n'
        f'[model_providers.ours]\nname = "ours"\nbase_url = "{url}/v1"\nenv_key = "OPENAI_API_KEY"\n'
        f'wire_api = "responses"\n[mcp_servers.sagent]\ncommand = "{sys.executable}"\nargs = {json.dumps(SERVE)}\n'
        f'required = true\ndefault_tools_approval_mode = "approve"\n[mcp_servers.sagent.env]\n{table}\n'
    )
    argv = [program, "exec", "--json", "--skip-git-repo-check", "go"]
    return argv, {**npm.environment, "HOME": str(home), "OPENAI_API_KEY": "k"}


@pytest.mark.parametrize("client", ["codex", "claude"])
def test_client_resumes_its_session(client: str, tmp_path: Path) -> None:
    home, work, seen = tmp_path / "home", tmp_path / "work", list[str]()
    home.mkdir()
    work.mkdir()
    answer = codex if client == "codex" else claude

    def script(request: Received) -> Step:
        return served(request) if b'"BackgroundTask"' in request.body else answer(request, seen)

    with FakeProviderServer(script, strict=False).in_thread() as server:
        argv, environment = start(client, server.url, home)
        done = subprocess.run(
            argv, cwd=work, env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "all done" in done.stdout
    assert (work / "made").read_text() == "hi\n"
    first, second = seen
    assert "first done" in first and "second done" in second
    assert "cost_usd" in first and "session_path" not in first, "what the client's model reads"
    assert os.listdir(home / ".local" / "state" / "sagent" / "sessions")
