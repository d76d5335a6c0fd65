"""Sessions that the real programs write, on scripted models: each becomes a whole session of ours that goes on."""

import json
import os
import signal
import subprocess
import time
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from test_taken_over import FAMILIES, messages, whole
from told_transcripts import PIXEL

from sagent.context.todo import Task, tasks_in
from sagent.cost.prices import PriceBook
from sagent.messages import Image
from sagent.plugins.audit.verify import verify
from sagent.plugins.transfer.places import newest, read_transcript
from sagent.plugins.transfer.steps import Program
from sagent.plugins.transfer.writer import Taken, write_session
from sagent.testing.script import Call, Received, Stall, Turn
from sagent.testing.server import FakeProviderServer, Step
from sagent.usage import Usage
from tests.cli.program import Shell
from tests.depth import WHOLE
from tests.npm import packages

pytestmark = pytest.mark.skipif(not WHOLE, reason="runs five programs from npm; make test-all runs it")
QUIET = {"DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
SCENARIOS = ("tools", "image", "list", "resumed", "interrupted", "agent", "compaction")
LACKING = {
    ("codex", "agent"): "its agents are tools that a scripted model has to search for",
    ("codex", "list"): "its list is a tool that this version offers to some models only",
    ("gemini", "agent"): "its agents need a model that answers in a form of theirs",
    ("gemini", "image"): "it attaches files by calls",
    ("gemini", "compaction"): "it compacts at a size that takes minutes to reach",
    ("pi", "agent"): "it has none",
    ("pi", "list"): "it has none",
}


@dataclass(frozen=True)
class Told:
    """A program: where it comes from, how it is set up and called, and what its tools are called."""

    package: str
    command: Callable[[str], Sequence[str]]
    again: Callable[[str], Sequence[str]]
    read: Callable[[str], Call]
    fail: Call
    todo: Call
    agent: Call = field(default_factory=lambda: Call("none"))
    files: Callable[[str, str], Mapping[str, str]] = lambda _url, _scenario: {}
    environment: Callable[[str], Mapping[str, str]] = lambda _url: {}
    image: Sequence[str] = ()


TODO = [{"content": "one", "status": "completed"}, {"content": "two", "status": "pending"}]


def codex_files(url: str, scenario: str) -> Mapping[str, str]:
    provider = f'[model_providers.ours]\nname = "ours"\nbase_url = "{url}/v1"\nenv_key = "OPENAI_API_KEY"\n'
    limit = "model_auto_compact_token_limit = 50000\n" if scenario == "compaction" else ""
    head = f'model = "gpt-5.5"\nmodel_provider = "ours"\nanalytics.enabled = false\n{limit}'
    return {".codex/config.toml": f'{head}{provider}wire_api = "responses"\n'}


def opencode_files(url: str, scenario: str) -> Mapping[str, str]:
    model: dict[str, object] = {"tool_call": True, "attachment": True, "modalities": {"input": ["text", "image"]}}
    model["limit"] = {"context": 60_000 if scenario == "compaction" else 1_000_000, "output": 1_000}
    options = {"baseURL": f"{url}/v1", "apiKey": "k"}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"m": model}}
    quiet = {"autoupdate": False, "snapshot": False, "lsp": False, "formatter": False, "share": "disabled"}
    return {".config/opencode/opencode.json": json.dumps({"provider": {"ours": provider}, **quiet})}


def pi_files(url: str, scenario: str) -> Mapping[str, str]:
    window = 60_000 if scenario == "compaction" else 1_000_000
    model = {"id": "m", "input": ["text", "image"], "reasoning": True, "contextWindow": window, "maxTokens": 1_000}
    provider = {"baseUrl": url, "api": "anthropic-messages", "apiKey": "k", "models": [model]}
    return {
        ".pi/agent/models.json": json.dumps({"providers": {"ours": provider}}),
        ".pi/agent/settings.json": json.dumps({"compaction": {"enabled": True, "keepRecentTokens": 1}}),
    }


def gemini_files(_url: str, _scenario: str) -> Mapping[str, str]:
    quiet = {"privacy": {"usageStatisticsEnabled": False}, "general": {"enableAutoUpdate": False}}
    return {".gemini/settings.json": json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}, **quiet})}


CODEX = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
PI = ("pi", "-p", "--offline", "--provider", "ours", "--model", "m")
GEMINI = ("--approval-mode", "yolo", "-m", "gemini-2.5-flash")
TOLD: Mapping[Program, Told] = {
    "claude": Told(
        "@anthropic-ai/claude-code@2.1.197",
        lambda prompt: ("claude", "-p", prompt, "--model", "claude-sonnet-4-6", "--permission-mode", "acceptEdits"),
        lambda prompt: ("claude", "-p", prompt, "--model", "claude-sonnet-4-6", "--continue"),
        lambda path: Call("Read", {"file_path": path}),
        Call("Bash", {"command": "cat missing-file"}),
        Call("TaskCreate", {"subject": "two", "description": "later"}),
        Call("Agent", {"description": "sub", "prompt": "subtask-x", "subagent_type": "general-purpose"}),
        environment=lambda url: {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "k", **QUIET},
        image=("please look @dot.png",),
    ),
    "codex": Told(
        "@openai/codex@0.169.0",
        lambda prompt: ("codex", "exec", *CODEX, *(("-i", "dot.png") if "look at" in prompt else ()), "--", prompt),
        lambda prompt: ("codex", "exec", *CODEX, "resume", "--last", prompt),
        lambda path: Call("view_image", {"path": path}) if path.endswith("png")
                     else Call("exec_command", {"cmd": f"cat {path}"}),
        Call("exec_command", {"cmd": "cat missing-file"}),
        Call("update_plan", {"plan": []}),
        files=codex_files,
        environment=lambda _: {"OPENAI_API_KEY": "k"},
        image=("look at the picture",),
    ),
    "gemini": Told(
        "@google/gemini-cli@0.61.0",
        lambda prompt: ("gemini", "-p", prompt, *GEMINI),
        lambda prompt: ("gemini", "-p", prompt, "--resume", "latest", *GEMINI),
        lambda path: Call("read_file", {"file_path": path}),
        Call("read_file", {"file_path": "missing-file"}),
        Call("write_todos", {"todos": [{"description": each["content"], "status": each["status"]} for each in TODO]}),
        files=gemini_files,
        environment=lambda url: {
            "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_API_KEY": "k",
        },
    ),
    "opencode": Told(
        "opencode-ai@1.18.33",
        lambda prompt: ("opencode", "run", "--model", "ours/m", *(("--file", "dot.png") if "look at" in prompt else ()),
                        "--", prompt),
        lambda prompt: ("opencode", "run", "--model", "ours/m", "--continue", "--", prompt),
        lambda path: Call("read", {"filePath": path}),
        Call("bash", {"command": "cat missing-file", "description": "read"}),
        Call("todowrite", {"todos": [{**each, "priority": "high", "id": str(at)} for at, each in enumerate(TODO)]}),
        Call("task", {"description": "sub", "prompt": "subtask-x", "subagent_type": "general"}),
        files=opencode_files,
        image=("look at the picture",),
    ),
    "pi": Told(
        "@earendil-works/pi-coding-agent@0.87.1",
        lambda prompt: (*PI, *(("@dot.png",) if "look at" in prompt else ()), prompt),
        lambda prompt: (*PI, "--continue", prompt),
        lambda path: Call("read", {"path": path}),
        Call("bash", {"command": "cat missing-file"}),
        Call("none"),
        files=pi_files,
        image=("look at the picture",),
    ),
}  # fmt: skip


@dataclass
class Recording:
    """A program at work in a fresh home."""

    told: Told
    scenario: str
    home: Path
    work: Path
    compacted: bool = False
    waiting: bool = False  # a request is being answered that does not end

    def script(self, request: Received) -> Step:
        """Answer as the model of a scenario does."""
        body = request.body.decode()
        asked: Any = request.json
        if not asked.get("tools"):
            self.compacted |= "title" not in body[:2_000]
            return Turn("What came before, in short.")
        last = json.dumps([*asked.get("messages", ()), *asked.get("input", ()), *asked.get("contents", ())][-1:])
        if "CONTEXT CHECKPOINT" in last or "detailed summary" in last:
            self.compacted = True
            return Turn("What came before, in short.")
        results = len(_results(asked))
        if "subtask-x" in body and "please look" not in body:
            return Turn("Seen by the child.")
        is_claude = "claude-code" in self.told.package  # which compacts a longer conversation only, when it is asked to
        if self.scenario == "compaction" and not self.compacted and not is_claude:
            return Turn("All done.", usage=Usage(input=59_900, output=10))
        if "third?" in last or "and now?" in last:
            return Turn("Still done.")
        match self.scenario:
            case "tools" | "compaction" if not results:
                calls = (self.told.read(str(self.work / "a.txt")), self.told.fail)
                return Turn("Looking.", thinking="I should look.", calls=calls)
            case "tools" if results == 2:
                return Turn(calls=(self.told.read(str(self.work / "dot.png")),))
            case "list" if not results:
                return Turn(calls=(self.told.todo,))
            case "agent" if not results:
                return Turn(calls=(self.told.agent,))
            case "interrupted" if "wait for it" in last:
                self.waiting = True
                return Stall(Turn("This is not going to end."), after_events=4)
            case _:
                return Turn("All done.")

    def run(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        """Run it to its end, or interrupt it where its model does not answer."""
        output = self.home / "output"
        with output.open("wb") as out, subprocess.Popen(
            [str(self._program(words[0])), *words[1:]], cwd=self.work, env=dict(environment), stdin=subprocess.DEVNULL,
            stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
        ) as child:  # fmt: skip
            try:
                self._attend(child)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
        assert child.returncode == 0 or "wait for it" in words, output.read_text(errors="replace")

    def _attend(self, child: subprocess.Popen[bytes]) -> None:
        """Wait for its end; interrupt it where its model does not answer, twice if it only stops its turn."""
        deadline = time.monotonic() + 120
        interrupts = 0
        while child.poll() is None and time.monotonic() < deadline and interrupts < 4:
            if self.waiting:
                time.sleep(1)
                os.killpg(child.pid, signal.SIGINT)
                interrupts += 1
            time.sleep(0.1)

    def _program(self, name: str) -> Path:
        return packages(self.told.package).modules / ".bin" / name


def _results(asked: Any) -> list[object]:
    """Return the results of calls in a request of any family."""
    found: list[object] = []
    for message in [*asked.get("messages", ()), *asked.get("contents", ()), *asked.get("input", ())]:
        if str(message.get("type", "")).endswith("call_output") or message.get("role") == "tool":
            found.append(message)
        parts = message.get("content") or message.get("parts") or ()
        found += [each for each in parts if '"tool_result"' in json.dumps(each) or "functionResponse" in each]
    return found


def record(program: Program, scenario: str, tmp_path: Path) -> Path:
    """Have a program write a session; return its home."""
    told = TOLD[program]
    npm = packages(told.package)
    home, work = tmp_path / "their-home", tmp_path / "their-work"
    home.mkdir()
    work.mkdir()
    (work / "a.txt").write_text("alpha\nbeta\n")
    (work / "dot.png").write_bytes(b64decode(PIXEL))
    recording = Recording(told, scenario, home, work)
    with FakeProviderServer(recording.script, strict=False, require_key=False).in_thread() as server:
        for name, text in told.files(server.url, scenario).items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(text)
        environment = {**npm.environment, "HOME": str(home), **told.environment(server.url)}
        prompt = "please look" if scenario != "image" else told.image[0]
        recording.run(told.command(prompt), environment)
        if scenario == "resumed":
            recording.run(told.again("and now?"), environment)
        if scenario == "interrupted":
            recording.run(told.again("wait for it"), environment)
        if scenario == "compaction":
            recording.run(told.again("/compact" if program == "claude" else "and now?"), environment)
            recording.run(told.again("third?"), environment)
    return home


def take(program: Program, home: Path, tmp_path: Path) -> Taken:
    """Take over the session that a program wrote."""
    (place,) = newest(program, home, {})
    return write_session(read_transcript(place), tmp_path / "state", tmp_path, PriceBook())


def cases() -> list[tuple[Program, str]]:
    return [(program, scenario) for program in TOLD for scenario in SCENARIOS if (program, scenario) not in LACKING]


@pytest.mark.parametrize(("program", "scenario"), cases())
def test_recorded_session_is_taken_over(program: Program, scenario: str, tmp_path: Path, shell: Shell) -> None:
    home = record(program, scenario, tmp_path)
    taken = take(program, home, tmp_path)
    assert verify(taken.session).problems == ()
    talk, live = whole(taken.session), messages(taken.session)
    prompts = [one.content for one in talk if one.role == "user" and not one.sender and not one.results]
    results = [result for one in talk for result in one.results]
    parts = [part for one in talk for part in one.parts] + [part for result in results for part in result.content]
    images = [part for part in parts if isinstance(part, Image)]
    assert any("look" in prompt for prompt in prompts)
    assert not any("<" in prompt[:1] and "file name" not in prompt for prompt in prompts), prompts
    match scenario:
        case "tools":
            assert [call.name for one in talk for call in one.calls]
            assert any("alpha" in result.text for result in results)
            assert any("missing-file" in result.text or result.is_error for result in results)
            assert [image.data for image in images] == [b64decode(PIXEL)]
        case "image":
            assert [image.data for image in images] == [b64decode(PIXEL)]
        case "list":
            assert Task("two", "pending") in tasks_in(live)
        case "resumed":
            assert any("and now?" in prompt for prompt in prompts)
            assert any(one.content == "Still done." for one in talk)
        case "interrupted":
            assert any("wait for it" in prompt for prompt in prompts)
            assert not any(one.content == "This is not going to end." and one.stop == "end" for one in talk)
        case "agent":
            assert taken.children == 1
            assert any("Seen by the child." in result.text for result in results)
        case _:
            assert taken.compactions >= 1
            assert live[0].sender == "sagent"
            assert "What came before, in short." in live[0].content
            assert live[0] not in talk
    if scenario != "interrupted":
        assert [one.role for one in talk if one.sender != "todo"][-1] == "assistant"
    families = FAMILIES if scenario == "tools" else {[*FAMILIES][SCENARIOS.index(scenario) % 4]: 0}
    for family in families:
        model, path = FAMILIES[family]
        with FakeProviderServer([Turn("Gone on.")]).in_thread() as server:  # strict
            shell.environment |= {f"{name}_API_KEY": "k" for name in ("ANTHROPIC", "OPENAI", "MOONSHOT", "GEMINI")}
            address = ("--base-url", f"{server.url}{path}", "--max-budget-usd", "2")
            done = shell.run("--fork", str(taken.session), "go on", "--model", model, *address, model="")
        assert done.out == "Gone on.\n", done.err
        assert server.requests[0].family == family
