"""`sagent acp` with clients that others have written: the protocol's SDKs for Python and TypeScript, and acpx."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import acp
import pytest
from acp import schema

from sagent.testing.script import Call, Turn
from sagent.testing.server import FakeProviderServer
from tests.depth import later
from tests.npm import Packages, packages

CHECKOUT = Path(__file__).parents[3]
SDK, ACPX = "@agentclientprotocol/sdk@2.4.0", "acpx@0.19.1"
AGENT = [sys.executable, "-m", "sagent.bin.cli", "acp", "--model", "anthropic/claude-sonnet-4-6"]
ASK = ["--permission-mode", "ask", "--sandbox", "off"]
SCRIPT = [
    Turn("I write.", calls=(Call("Write", {"file_path": "a.txt", "content": "hello\n"}),)),
    Turn("Done."),
    Turn("I wait.", calls=(Call("Bash", {"command": "sleep 60"}),)),
    Turn("never"),
]


@contextmanager
def provider(place: Path) -> Iterator[dict[str, str]]:
    """The environment in which a scripted provider answers."""
    with FakeProviderServer(SCRIPT, repeat_last=True).in_thread() as server:
        keys = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "k", "PYTHONPATH": str(CHECKOUT)}
        yield {"PATH": os.environ["PATH"], "HOME": str(place / "home"), **keys}


class Editor:
    """A client on the Python SDK."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.asked: list[schema.ToolCallUpdate] = []
        self.written: list[str] = []
        self.waits = asyncio.Event()

    def on_connect(self, conn: acp.Agent) -> None:
        """Nothing is to be done."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)
        if isinstance(update, schema.ToolCallStart) and update.kind == "execute":
            self.waits.set()

    async def request_permission(
        self, session_id: str, tool_call: schema.ToolCallUpdate, options: list[schema.PermissionOption], **_: Any
    ) -> schema.RequestPermissionResponse:
        self.asked.append(tool_call)
        outcome = schema.AllowedOutcome(outcome="selected", option_id=options[0].option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> None:
        self.written.append(path)
        Path(path).write_text(content)

    async def read_text_file(self, session_id: str, path: str, **_: Any) -> schema.ReadTextFileResponse:
        return schema.ReadTextFileResponse(content=Path(path).read_text())


async def test_python_sdk(work: Path, tmp_path: Path) -> None:
    editor = Editor()
    with provider(tmp_path) as environment:
        async with acp.spawn_agent_process(editor, *AGENT, *ASK, env=environment, cwd=tmp_path) as (agent, process):  # pyright: ignore[reportArgumentType] -- the methods that are used
            fs = schema.FileSystemCapabilities(read_text_file=True, write_text_file=True)
            able = schema.ClientCapabilities(fs=fs, terminal=True)
            hello = await agent.initialize(acp.PROTOCOL_VERSION, client_capabilities=able)
            assert hello.protocol_version == acp.PROTOCOL_VERSION
            session = (await agent.new_session(str(work), mcp_servers=[])).session_id
            first = await agent.prompt(session_id=session, prompt=[acp.text_block("change it")])
            assert first.stop_reason == "end_turn"
            assert work.joinpath("a.txt").read_text() == "hello\n"
            assert editor.written == [str(work / "a.txt")] and len(editor.asked) == 1
            said = [each.content.text for each in editor.updates if isinstance(each, schema.AgentMessageChunk)]
            assert said == ["I write.", "Done."]
            second = asyncio.create_task(agent.prompt(session_id=session, prompt=[acp.text_block("wait")]))
            await editor.waits.wait()
            await agent.cancel(session_id=session)
            assert (await second).stop_reason == "cancelled"
            assert (await agent.list_sessions(cwd=str(work))).sessions[0].session_id == session
            await agent.set_session_mode(session_id=session, mode_id="plan")
        assert process.returncode == 0


@pytest.fixture(scope="module")
def npm() -> Packages:
    return packages(SDK, ACPX)


def test_typescript_sdk(npm: Packages, work: Path, tmp_path: Path) -> None:
    editor = Path(__file__).with_name("acp_editor.mjs")
    with provider(tmp_path) as environment:
        done = subprocess.run(
            [npm.node, editor, npm.modules, work, *AGENT, *ASK],
            env=environment, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert (seen["first"], seen["second"]) == ({"stopReason": "end_turn"}, {"stopReason": "cancelled"})
    assert seen["written"] == [str(work / "a.txt")]
    assert seen["error"] == {"code": -32601}
    assert [each["sessionId"] for each in seen["list"]["sessions"]] == [seen["session"]["sessionId"]]
    assert seen["code"] == 0
    check_schema(npm, seen)


@later
def test_typescript_sdk_in_version_2(npm: Packages, work: Path, tmp_path: Path) -> None:
    editor = Path(__file__).with_name("acp_editor2.mjs")
    with provider(tmp_path) as environment:
        done = subprocess.run(
            [npm.node, editor, npm.modules, work, *AGENT, *ASK, "--draft"],
            env=environment, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    states = [each for each in seen["updates"] if each["sessionUpdate"] == "state_update"]
    assert [each["stopReason"] for each in states if each["state"] == "idle"] == ["end_turn", "cancelled"]
    assert "requires_action" in [each["state"] for each in states]
    assert {each["sessionUpdate"] for each in seen["replayed"]} >= {"user_message_chunk", "tool_call_update"}
    assert not any(each["sessionUpdate"] in ("tool_call", "plan", "current_mode_update") for each in seen["updates"])
    assert work.joinpath("a.txt").read_text() == "hello\n"
    (change,) = (each for each in seen["asked"][0]["subject"]["toolCall"]["content"] if each["type"] == "diff")
    patch = tmp_path / "patch"
    patch.write_text(change["patch"]["text"].replace(str(work), "a"))
    subprocess.run(["git", "apply", "--check", patch], cwd=tmp_path, check=True)
    check_schema(npm, seen, 2)


def check_schema(npm: Packages, seen: Mapping[str, Any], version: int = 1) -> None:
    """What the agent has sent, against the protocol's JSON schema."""
    from jsonschema import Draft202012Validator

    whole = json.loads((npm.modules / f"@agentclientprotocol/sdk/schema/v{version}/schema.json").read_text())

    def check(name: str, value: object) -> None:
        Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": whole["$defs"]}).validate(value)

    for update in seen["updates"]:
        check("SessionUpdate", update)
    for request in seen["asked"]:
        check("RequestPermissionRequest", request)
    for name, kind in (
        ("initialize", "InitializeResponse"), ("session", "NewSessionResponse"), ("loaded", "LoadSessionResponse"),
        ("options", "SetSessionConfigOptionResponse"), ("list", "ListSessionsResponse"),
        ("resumed", "ResumeSessionResponse"), ("second", "PromptResponse"),
    ):  # fmt: skip
        if name in seen:
            check(kind, seen[name])


@later
@pytest.mark.plugin("audit")
def test_acpx(npm: Packages, work: Path, tmp_path: Path) -> None:
    with provider(tmp_path) as environment:

        def run(*argv: str) -> str:
            command = [npm.node, npm.modules / "acpx/dist/cli.js", "--cwd", work, "--agent", " ".join([*AGENT, *ASK])]
            variables = {**environment, **npm.environment}
            done = subprocess.run(
                [*command, *argv], env=variables, capture_output=True, text=True, check=False, timeout=60
            )
            assert done.returncode == 0, (argv, done.stdout, done.stderr)
            return done.stdout

        lines = [json.loads(line) for line in run("--approve-all", "--format", "json", "exec", "go").splitlines()]
        assert lines[-1]["result"] == {"stopReason": "end_turn"}
        assert work.joinpath("a.txt").read_text() == "hello\n"
        assert any(line.get("method") == "fs/write_text_file" for line in lines)
        assert "go" in run("sessions", "list")
