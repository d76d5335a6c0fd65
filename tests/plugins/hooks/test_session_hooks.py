"""Hooks in a session: real commands and a server on loopback, a model that says what a test wrote down."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from sagent.agent import Agent, Resources
from sagent.errors import ModelError
from sagent.lib.json import json_freeze_object
from sagent.messages import Message, ToolCall, ToolResult
from sagent.peer import Compact, SpawnRequest
from sagent.plugins.hooks import EVENTS
from sagent.plugins.hooks.hook import Hook, Source
from sagent.plugins.hooks.policy import MAX_RETURNS, HookPolicy
from sagent.plugins.hooks.runner import HookRunner
from sagent.plugins.hooks.session import SessionHooks
from sagent.plugins.hooks.tool import with_hooks
from sagent.policy import Allow, AllowAll, Ask, Deny, Policy, Verdict
from sagent.sandbox import Sandbox
from sagent.testing import ScriptedModel
from sagent.testing.scripted import Line
from sagent.tool import Effect, Workspace
from sagent.tools import Bash, Read
from tests.waiting import until

NAMED = {event.name: event for event in EVENTS}


class Judge(AllowAll):
    """A policy that says one thing, and remembers what it was asked about."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict, self.judged = verdict, list[ToolCall]()

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        self.judged.append(call)
        return self.verdict


class Session:
    """An agent with hooks, in a directory of its own, and what was reported to the person."""

    def __init__(self, directory: Path, *hooks: Hook, policy: Policy | None = None) -> None:
        self.directory, self.said = directory, list[str]()
        sandbox = Sandbox("off")
        environment = {"PATH": "/usr/bin:/bin"}
        self.runner = HookRunner(
            sandbox, lambda: pytest.fail("nothing is confined"), directory, lambda: environment, self.said.append
        )
        self.hooks = SessionHooks(
            hooks,
            NAMED,
            self.runner,
            lambda: "edit",
            lambda _, text: self.said.append(text),
        )
        self.policy = HookPolicy(self.hooks, policy or AllowAll())

    async def run(self, *script: Line, prompt: str = "go") -> "Agent[object]":
        model = ScriptedModel(*script)
        resources = Resources(
            workspace=Workspace(self.directory),
            ask=self.hooks.asker(None),
            admit=self.hooks.admit,
            before_compaction=self.hooks.before_compaction,
        )
        agent = Agent(model, tools=with_hooks([Bash(), Read()], self.hooks), policy=self.policy, resources=resources)
        async with agent:
            self.result = await agent.run(prompt)
        self.requests = model.requests
        await self.hooks.end()
        return agent

    def results(self) -> list[ToolResult]:
        return [result for message in self.requests[-1].messages for result in message.results]

    def added(self) -> list[str]:
        return [message.content for message in self.requests[-1].messages if message.sender == "hook"]


def hook(event: str, command: str, matcher: str = "", source: Source = "person", timeout: float = 10) -> Hook:
    return Hook(event, command, "", matcher, timeout, source=source)


def runs(pid: Path) -> bool:
    """Whether the process still runs whose number is in a file; one that nobody has waited for has no command line."""
    try:
        return bool(Path(f"/proc/{pid.read_text().strip()}/cmdline").read_bytes())
    except FileNotFoundError:
        return False


def says(event: str, **said: object) -> str:
    """A command that answers in JSON."""
    return f"echo '{json.dumps({'hookSpecificOutput': {'hookEventName': event, **said}})}'"


def call(command: str, call_id: str = "1") -> ToolCall:
    return ToolCall(call_id, "Bash", json_freeze_object({"command": command}))


async def test_hook_input(tmp_path: Path) -> None:
    session = Session(
        tmp_path,
        *(hook(event, f"cat > {event}.json") for event in ("SessionStart", "PreToolUse", "PostToolUse", "Stop")),
    )
    await session.run(call("echo hi"), "done")
    told = json.loads((tmp_path / "PreToolUse.json").read_text())
    assert told["tool_name"] == "Bash" and told["tool_input"] == {"command": "echo hi"} and told["tool_use_id"] == "1"
    assert (told["hook_event_name"], told["cwd"], told["permission_mode"]) == (
        "PreToolUse", str(tmp_path), "acceptEdits",
    )  # fmt: skip
    assert json.loads((tmp_path / "SessionStart.json").read_text())["source"] == "startup"
    came = json.loads((tmp_path / "PostToolUse.json").read_text())
    assert came["tool_response"]["content"].startswith("hi") and isinstance(came["duration_ms"], int)
    ended = json.loads((tmp_path / "Stop.json").read_text())
    assert ended["last_assistant_message"] == "done" and ended["stop_hook_active"] is False


async def test_refused_call_not_made(tmp_path: Path) -> None:
    session = Session(tmp_path, hook("PreToolUse", "echo not here >&2; exit 2", "Bash"))
    await session.run(call("touch made"), "ok")
    (result,) = session.results()
    assert result.denied and "not here" in result.text and not (tmp_path / "made").exists()


async def test_reused_call_id_of_cut_turn_asked(tmp_path: Path) -> None:
    """Servers that number the calls of each reply from 0 give such ids."""
    session = Session(tmp_path, hook("PreToolUse", "if grep -q touch; then exit 2; fi", "Bash"))
    agent = Agent(
        ScriptedModel(call(": > begun; sleep 60", "call_0"), call("touch made", "call_0"), "ok"),
        tools=[Bash()],
        policy=session.policy,
        resources=Resources(workspace=Workspace(tmp_path), admit=session.hooks.admit),
    )
    async with agent:
        running = asyncio.create_task(agent.run("go"))
        await until((tmp_path / "begun").exists, "the call")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await agent.run("go on")
    await session.hooks.end()
    assert not (tmp_path / "made").exists()


async def test_changed_arguments_judged_and_told(tmp_path: Path) -> None:
    changed = says("PreToolUse", updatedInput={"command": "echo other"})
    judge = Judge(Allow())
    session = Session(tmp_path, hook("PreToolUse", f"echo >> asked; {changed}"), policy=judge)
    await session.run(call("echo one"), "ok")
    assert [each.arguments for each in judge.judged] == [{"command": "echo other"}]
    assert "other" in session.results()[0].text and "one" not in session.results()[0].text
    assert "echo other" in session.added()[0]
    assert (tmp_path / "asked").read_text() == "\n", "a hook is asked once about a call"


async def test_invalid_changed_arguments_refused(tmp_path: Path) -> None:
    session = Session(tmp_path, hook("PreToolUse", says("PreToolUse", updatedInput={"command": 3, "x": 1})))
    await session.run(ToolCall("1", "Read", json_freeze_object({"file_path": "a"})), "ok")
    (result,) = session.results()
    assert result.is_error and "Invalid arguments for Read" in result.text


@pytest.mark.parametrize("source", ["person", "project", "plugin"])
@pytest.mark.parametrize("verdict", [Deny("a rule"), Ask("why?")])
async def test_hook_never_allows_denied_call(tmp_path: Path, source: Source, verdict: Verdict) -> None:
    allow = hook("PreToolUse", says("PreToolUse", permissionDecision="allow"), source=source)
    session = Session(tmp_path, allow, policy=Judge(verdict))
    await session.run(call("echo ran"), "ok")
    ran = source == "person" and isinstance(verdict, Ask)
    assert session.results()[0].denied is not ran


@pytest.mark.parametrize("first", ["project", "person"])
async def test_allow_covers_only_own_change(tmp_path: Path, first: Source) -> None:
    allows = hook("PreToolUse", says("PreToolUse", permissionDecision="allow"))
    change = says("PreToolUse", updatedInput={"command": "touch made"})
    changes = hook("PreToolUse", change, source="project")
    both = (changes, allows) if first == "project" else (allows, changes)
    await Session(tmp_path, *both, policy=Judge(Ask("?"))).run(call("ls"), "ok")
    assert not (tmp_path / "made").exists()
    own = hook("PreToolUse", says("PreToolUse", permissionDecision="allow", updatedInput={"command": "touch made"}))
    await Session(tmp_path, own, policy=Judge(Ask("?"))).run(call("ls"), "ok")
    assert (tmp_path / "made").exists()


async def test_own_guard_judges_project_change(tmp_path: Path) -> None:
    guard = hook("PreToolUse", "if grep -q touch; then echo not here >&2; exit 2; fi", "Bash")
    changes = hook("PreToolUse", says("PreToolUse", updatedInput={"command": "touch made"}), source="project")
    session = Session(tmp_path, guard, changes)
    await session.run(call("ls"), "ok")
    (result,) = session.results()
    assert result.denied and "not here" in result.text and not (tmp_path / "made").exists()


async def test_asking_is_stricter_than_allowing(tmp_path: Path) -> None:
    ask = says("PreToolUse", permissionDecision="ask", permissionDecisionReason="is that wise?")
    session = Session(tmp_path, hook("PreToolUse", ask))
    await session.run(call("echo ran"), "ok")
    assert "is that wise?" in session.results()[0].text and session.results()[0].denied


async def test_hook_may_answer_question(tmp_path: Path) -> None:
    allow = hook("PermissionRequest", says("PermissionRequest", decision={"behavior": "allow"}), "Bash")
    session = Session(tmp_path, allow, policy=Judge(Ask("why?")))
    await session.run(call("echo ran"), "ok")
    assert "ran" in session.results()[0].text
    (tmp_path / "other").mkdir()
    refused = Session(tmp_path / "other", hook("PermissionRequest", "exit 0"), policy=Judge(Ask("why?", "--allow it")))
    await refused.run(call("echo ran"), "ok")
    assert "why? There is nobody to ask in this run. --allow it" in refused.results()[0].text


async def test_prompt_refused_or_extended(tmp_path: Path) -> None:
    refuse = "grep -q secret && { echo it names a secret >&2; exit 2; }; echo the branch is main"
    session = Session(tmp_path, hook("UserPromptSubmit", refuse))
    await session.run("fine", prompt="hello")
    assert session.requests[0].messages[0].content == "hello"
    assert "the branch is main" in session.added()[0]
    session = Session(tmp_path, hook("UserPromptSubmit", refuse))
    await session.run(prompt="the secret")
    assert session.result.error is not None and "it names a secret" in session.result.error.message
    assert session.requests == []


async def test_result_extended_or_replaced(tmp_path: Path) -> None:
    session = Session(tmp_path, hook("PostToolUse", says("PostToolUse", additionalContext="formatted"), "Bash"))
    await session.run(call("echo hi"), "ok")
    assert session.results()[0].text.startswith("hi") and "(formatted)" in session.results()[0].text
    session = Session(tmp_path, hook("PostToolUse", "echo lint failed >&2; exit 2"))
    await session.run(call("echo hi"), "ok")
    assert "A hook objects: lint failed" in session.results()[0].text
    session = Session(tmp_path, hook("PostToolUse", says("PostToolUse", updatedToolOutput="nothing")))
    await session.run(call("echo hi"), "ok")
    assert session.results()[0].text == "nothing"


async def test_refused_stop_continues_but_ends(tmp_path: Path) -> None:
    session = Session(tmp_path, hook("Stop", "cat >> told; echo go on >&2; exit 2"))
    await session.run(*["done"] * (MAX_RETURNS + 1))
    assert len(session.requests) == MAX_RETURNS + 1 and session.result.error is None
    told = (tmp_path / "told").read_text().replace("}{", "}\n{").splitlines()
    assert [json.loads(each)["stop_hook_active"] for each in told] == [False] + [True] * MAX_RETURNS


async def test_hook_ends_run(tmp_path: Path) -> None:
    session = Session(tmp_path, hook("PreToolUse", """echo '{"continue": false, "stopReason": "enough"}'"""))
    await session.run(call("touch made"))
    assert session.result.error is not None and session.result.stop_reason == "hook_stop"
    assert not (tmp_path / "made").exists() and any("enough" in text for text in session.said)


async def test_subagents_start_and_stop_hooks(tmp_path: Path) -> None:
    hooks = (hook("SubagentStart", "cat >> began; echo be brief", "review"), hook("SubagentStop", "cat >> ended"))
    session = Session(tmp_path, *hooks)
    model = ScriptedModel("looked")
    resources = Resources(workspace=Workspace(tmp_path), admit=session.hooks.admit)
    async with Agent(model, policy=session.policy, resources=resources) as agent:
        child = await agent.spawn(SpawnRequest("look", "review"))
        assert (await child.wait()).content == "looked"
    assert "be brief" in "".join(message.content for message in model.requests[0].messages)
    assert json.loads((tmp_path / "began").read_text())["agent_id"] == "root/review"
    assert json.loads((tmp_path / "ended").read_text())["last_assistant_message"] == "looked"
    await session.hooks.end()


async def test_summary_gets_hook_context(tmp_path: Path) -> None:
    session = Session(tmp_path, hook("PreCompact", "cat > told; echo keep the port number", "manual"))
    model = ScriptedModel(*["word " * 900] * 13, ModelError("invalid_request", "not now", provider="scripted"), "end")
    resources = Resources(
        workspace=Workspace(tmp_path), admit=session.hooks.admit, before_compaction=session.hooks.before_compaction
    )
    async with Agent(model, policy=session.policy, resources=resources) as agent:
        for _ in range(13):
            await agent.run("go on " * 900)
        agent.apply(Compact("be short"))
        await agent.run("more")
    asked = model.requests[13].messages[-1].content
    assert "be short" in asked and "keep the port number" in asked
    assert json.loads((tmp_path / "told").read_text())["trigger"] == "manual"
    await session.hooks.end()


async def test_failing_or_slow_hook_reported(tmp_path: Path) -> None:
    hooks = (
        hook("PreToolUse", "sleep 60 & echo $! > pid; wait", timeout=2),
        hook("PreToolUse", "exit 3"),
        hook("PreToolUse", "head -c 2000000 /dev/zero"),
        hook("PreToolUse", "kill -9 $$"),
    )
    session = Session(tmp_path, *hooks)
    await session.run(call("echo ran"), "ok")
    assert session.results()[0].text.startswith("ran")
    for why in ("did not answer within 2 s", "exit code 3", "more than 1 MiB", "signal 9"):
        assert any(why in text for text in session.said), session.said
    assert not runs(tmp_path / "pid")


async def test_background_process_blocks_nobody(tmp_path: Path) -> None:
    session = Session(tmp_path, hook("PreToolUse", "sleep 60 & echo $! > pid; exit 2", timeout=30))
    await asyncio.wait_for(session.run(call("echo ran"), "ok"), 20)
    assert session.results()[0].denied
    assert not runs(tmp_path / "pid"), "it ends with the session"


@contextmanager
def server(status: int, body: str) -> Iterator[tuple[str, list[tuple[str, object]]]]:
    """A server on loopback that answers each POST so, and what it was sent."""
    got: list[tuple[str, object]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers["content-length"]))
            got.append((self.headers.get("x-token", ""), json.loads(sent)))
            self.send_response(status)
            self.send_header("location", "http://127.0.0.1:9/elsewhere")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- as it is called above
            pass

    found = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=found.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{found.server_port}/hook", got
    finally:
        found.shutdown()
        thread.join()
        found.server_close()


async def test_url_hook_posts_and_answers(tmp_path: Path) -> None:
    said = json.dumps({"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "by post"}})
    with server(200, said) as (url, got):
        session = Session(tmp_path, Hook("PreToolUse", url=url, timeout=10, headers={"x-token": "t"}))
        await session.run(call("echo ran"), "ok")
    assert "by post" in session.results()[0].text
    ((token, told),) = got
    assert token == "t" and isinstance(told, dict) and told["tool_name"] == "Bash"


@pytest.mark.parametrize("status", [302, 500])
async def test_failing_or_redirecting_url_reported(tmp_path: Path, status: int) -> None:
    with server(status, '{"decision": "block"}') as (url, got):
        session = Session(tmp_path, Hook("PreToolUse", url=url, timeout=10))
        await session.run(call("echo ran"), "ok")
    assert len(got) == 1 and session.results()[0].text.startswith("ran")
    assert any(f"status {status}" in text for text in session.said)


async def test_cut_calls_not_sent_to_hooks(tmp_path: Path) -> None:
    events: tuple[str, ...] = ("PreToolUse", "PostToolUse")
    session = Session(tmp_path, *(hook(event, "cat >> heard") for event in events))
    second = replace(call("touch ran", "b1"), whole=False)
    reply = Message("assistant", (call("echo first", "b0"), second), stop="max_tokens")
    await session.run(reply, "ok")
    heard = (tmp_path / "heard").read_text()
    assert "echo first" in heard
    assert "touch ran" not in heard
    assert not (tmp_path / "ran").exists()
    assert "not run" in session.results()[1].text


async def test_hooks_judge_a_changed_call(tmp_path: Path) -> None:
    refuse = "grep -q forbidden && { echo 'not that' >&2; exit 2; }; exit 0"
    session = Session(tmp_path, hook("PreToolUse", refuse), policy=Judge(Ask("Why.")))
    policy, workspace = session.policy, Workspace(tmp_path)
    made = map(call, ("touch a", "touch forbidden", "touch a"))
    verdicts = [await policy.before_tool(one, Effect("execute"), workspace) for one in made]
    assert [type(verdict) for verdict in verdicts] == [Ask, Deny, Ask]
