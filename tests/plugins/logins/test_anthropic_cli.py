"""Claude through the installed program: the promises of a Model, and those about the program.

Most tests run `claude_stand_in.py`; those marked `needs("claude")` run the real one, against a provider on loopback.
"""

# Parts of recordings, JSON and SDK objects are read as what they must be; a wrong one fails the test.
# pyright: reportArgumentType=false, reportGeneralTypeIssues=false, reportIndexIssue=false

import asyncio
import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias
from uuid import uuid4
from weakref import WeakKeyDictionary

import pytest

from sagent.errors import ModelErrorKind, UsageError
from sagent.lib.json import EMPTY, as_object, json_freeze_object
from sagent.messages import Document, Image, Message, Private, Text, Thinking, ToolCall, ToolResult, assistant, user
from sagent.model import Delta, Effort, Model, ModelLimits, Reply, Request, TextPart, ToolSpec
from sagent.plugins.logins import anthropic_cli
from sagent.plugins.logins.anthropic_cli import AnthropicCLI
from sagent.providers.wire.exchange import Timeouts
from sagent.testing.model_suite import MakeModel, ModelSuite, ServedModelSuite, ask, collect, failure
from sagent.testing.script import Call, Cut, Fail, Received, Stall, Step, Turn
from sagent.testing.server import FakeProviderServer
from sagent.usage import Usage
from tests.depth import later

STAND_IN = Path(__file__).with_name("claude_stand_in.py")
TOKEN = {"CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-nobody"}
MARKS: WeakKeyDictionary[FakeProviderServer, str] = WeakKeyDictionary()
"""Of the programs of each server: its port may have been another's before."""
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060000000"
    "050001a5f645400000000049454e44ae426082"
)
PDF = b"%PDF-1.4\n1 0 obj<</Type/Page>>endobj\n%%EOF"
READ = ToolSpec("Read", "Read a file", json_freeze_object({"type": "object", "properties": {"path": {}}}))

Opened: TypeAlias = AbstractAsyncContextManager[tuple[AnthropicCLI, FakeProviderServer]]
Open: TypeAlias = Callable[..., Opened]


@pytest.fixture
def stand_in(tmp_path: Path) -> str:
    """The path of a `claude` that needs no network and starts quickly."""
    path = tmp_path / "bin" / "claude"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "{STAND_IN}" "$@"\n')
    path.chmod(0o755)
    return str(path)


@asynccontextmanager
async def opened(
    path: str | None, script: Sequence[Step], *, timeouts: Timeouts | None = None, **variables: str
) -> AsyncGenerator[tuple[AnthropicCLI, FakeProviderServer]]:
    """A provider whose program talks to a server with a script. No program is left behind."""
    async with FakeProviderServer(script) as server:
        provider = AnthropicCLI.from_credentials(
            path=path, base_url=server.url, variables={**variables_for(server), **variables}, timeouts=timeouts
        )
        async with aclosing(provider):
            yield provider, server
        await gone(server)


def posts(server: FakeProviderServer) -> list[dict[str, object]]:
    """The bodies of the model requests."""
    return [dict(request.json) for request in server.requests if request.method == "POST"]


def variables_for(server: FakeProviderServer) -> dict[str, str]:
    return {**TOKEN, "TEST_SERVER": MARKS.setdefault(server, uuid4().hex)}


def programs(server: FakeProviderServer) -> Iterable[int]:
    """The processes that work with the server, by their environment."""
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"TEST_SERVER={MARKS[server]}".encode() in entry.read_bytes().split(b"\0"):
                yield int(entry.parent.name)


def pids(server: FakeProviderServer) -> list[str]:
    """Which run of the stand-in made each request."""
    return [request.headers["x-pid"] for request in server.requests]


def results(message: Message, *contents: str | Image | Document, is_error: bool = False) -> Message:
    """Results for the calls of a message; the same for each."""
    content = tuple(Text(part) if isinstance(part, str) else part for part in contents)
    return Message("user", tuple(ToolResult(call.id, content, is_error) for call in message.calls))


async def gone(server: FakeProviderServer) -> None:
    """Wait until no program is left."""
    async with asyncio.timeout(60):
        while list(programs(server)):
            await asyncio.sleep(0.01)


def request(*messages: Message, conversation: str = "talk", **members: object) -> Request:
    return Request(conversation, messages, "You are terse.", (READ,), **members)


class TestStandIn(ModelSuite):
    """The promises of a Model, kept through a program."""

    test_each_delta_is_valid_text = ServedModelSuite.test_each_delta_is_valid_text

    @pytest.fixture
    def make_model(self, stand_in: str) -> MakeModel:
        @asynccontextmanager
        async def made(script: Sequence[Step]) -> AsyncGenerator[Model]:
            async with opened(stand_in, script) as (provider, _):
                yield provider.model("claude-sonnet-4-6")

        return made

    async def test_the_wait_that_a_provider_asks_for_is_told(self, make_model: MakeModel) -> None:
        """The program tells when a plan's limit is lifted, and nothing of `retry-after`."""
        reset = str(int(time.time()) + 3600)
        limit = Fail(429, headers={"anthropic-ratelimit-unified-reset": reset})
        async with make_model([limit]) as model:
            _, error = await failure(model, ask())
        assert (error.kind, error.status, error.retryable) == ("rate_limit", 429, True)
        assert error.retry_after is not None
        assert 3500 < error.retry_after <= 3600
        assert "hit your 5-hour limit" in str(error)


class TestOneProgram:
    """One run of the program serves a conversation, and the API sees what it would see of one."""

    async def test_tool_conversation_uses_one_program(self, stand_in: str) -> None:
        """Parallel calls are answered in their order, errors and images included; nothing is told twice."""
        calls = (Call("Read", {"path": "a"}), Call("Read", {"path": "b"}))
        script = [Turn("On it.", thinking="Hm.", calls=calls), Turn(calls=calls[:1]), Turn("done"), Turn("bye")]
        async with opened(stand_in, script) as (provider, server):
            model, history = provider.model("claude-sonnet-4-6"), [user("fix it")]
            for shown in (["one", Image("image/png", PIXEL)], ["two"], None, None):
                _, reply = await collect(model, request(*history))
                history += [reply.message, results(reply.message, *shown) if shown else user("go on")]
            assert len(set(pids(server))) == 1
        first, second, third, fourth = (as_list(body["messages"]) for body in posts(server))
        assert second[: len(first)] == first
        assert third[: len(second)] == second
        assert fourth[: len(third)] == third
        assert [block["tool_use_id"] for block in second[2]["content"]] == [call.id for call in history[1].calls]
        assert second[2]["content"][0]["content"][1]["type"] == "image"
        assert fourth[-1]["content"] == [{"type": "text", "text": "go on"}]

    async def test_error_result_sent_as_error(self, stand_in: str) -> None:
        async with opened(stand_in, [Turn(calls=(Call("Read"),)), Turn("so be it")]) as (provider, server):
            model = provider.model("m")
            _, reply = await collect(model, request(user("hi")))
            await collect(
                model, request(user("hi"), reply.message, results(reply.message, "no such file", is_error=True))
            )
            assert len(set(pids(server))) == 1
        answer = as_list(posts(server)[1]["messages"])[-1]["content"][0]
        assert (answer["content"], answer["is_error"]) == ("no such file", True)

    @later
    @pytest.mark.costly
    @pytest.mark.parametrize(
        "content",
        [
            (Document("application/pdf", PDF, "a.pdf"),),
            ("x" * 600_000,),
        ],
        ids=["a document", "a long text"],
    )
    async def test_spoiled_input_goes_to_new_program(self, stand_in: str, content: tuple[str | Document, ...]) -> None:
        """It saves documents and long results to files and shows the model a path."""
        async with opened(stand_in, [Turn(calls=(Call("Read"),)), Turn("done")]) as (provider, server):
            model = provider.model("m")
            _, reply = await collect(model, request(user("hi")))
            _, last = await collect(model, request(user("hi"), reply.message, results(reply.message, *content)))
            assert last.message.content == "done"
            assert len(set(pids(server))) == 2
        before, after = (as_list(body["messages"]) for body in posts(server))
        assert after[0] == before[0]
        told = json.dumps(after[-1])
        assert "x" * 600_000 in told or '"document"' in told

    async def test_error_image_kept(self, stand_in: str) -> None:
        """The program keeps nothing but text of a result that is an error."""
        async with opened(stand_in, [Turn(calls=(Call("Read"),)), Turn("done")]) as (provider, server):
            model = provider.model("m")
            _, reply = await collect(model, request(user("hi")))
            bad = results(reply.message, Image("image/png", PIXEL), is_error=True)
            await collect(model, request(user("hi"), reply.message, bad))
        blocks = as_list(posts(server)[1]["messages"])[-1]["content"][0]["content"]
        assert [block["type"] for block in blocks] == ["text", "image"]
        assert blocks[0]["text"] == "Error:"

    async def test_words_with_results_sent_together(self, stand_in: str) -> None:
        async with opened(stand_in, [Turn(calls=(Call("Read"),)), Turn("done")]) as (provider, server):
            model = provider.model("m")
            _, reply = await collect(model, request(user("hi")))
            await collect(model, request(user("hi"), reply.message, results(reply.message, "ok"), user("and hurry")))
        assert [block["type"] for block in as_list(posts(server)[1]["messages"])[-1]["content"]] == [
            "tool_result",
            "text",
        ]

    @later
    async def test_changed_history_starts_anew(self, stand_in: str) -> None:
        """After a compaction, an interrupt, or with other tools, limits and words; what fits is not."""
        async with opened(stand_in, [Turn(f"{number}") for number in range(6)]) as (provider, server):
            model = provider.model("m")
            _, reply = await collect(model, request(user("hi")))
            grown = (user("hi"), reply.message, user("more"))
            _, second = await collect(model, request(*grown))
            await collect(model, request(user("summary"), user("more")))
            await collect(model, request(*grown, second.message, user("again")))
            await collect(model, request(*grown, second.message, user("again"), max_output=9))
            await collect(model, request(*grown, second.message, user("again"), conversation="other"))
        runs = pids(server)
        assert runs[0] == runs[1]
        assert len(set(runs)) == 5
        assert [len(as_list(body["messages"])) for body in posts(server)] == [1, 3, 1, 5, 5, 5]

    async def test_dead_program_replaced(self, stand_in: str) -> None:
        async with opened(stand_in, [Turn("a"), Turn("b")]) as (provider, server):
            model = provider.model("m")
            _, reply = await collect(model, request(user("hi")))
            os.kill(int(pids(server)[0]), signal.SIGKILL)
            _, second = await collect(model, request(user("hi"), reply.message, user("more")))
            assert second.message.content == "b"
            assert len(set(pids(server))) == 2

    @later
    async def test_few_programs_are_kept(self, stand_in: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each takes a lot of memory: the oldest goes first, and the others after a while."""
        monkeypatch.setattr(anthropic_cli, "_MAX_IDLE_PROGRAMS", 2)
        async with opened(stand_in, [Turn("x")] * 5) as (provider, server):
            model = provider.model("m")
            for number in range(4):
                await collect(model, request(user("hi"), conversation=f"talk-{number}"))
            living, expected = set[str](), set(pids(server)[-2:])
            async with asyncio.timeout(60):
                while living != expected:
                    await asyncio.sleep(0.01)
                    living = {str(pid) for pid in programs(server)} & set(pids(server))
            monkeypatch.setattr(anthropic_cli, "_MAX_IDLE_SECONDS", 0.0)
            await collect(model, request(user("hi"), conversation="talk-4"))
            async with asyncio.timeout(60):
                while pids(server)[-1] in {str(pid) for pid in programs(server)}:
                    await asyncio.sleep(0.01)


class TestHistory:
    async def test_foreign_history_sent_as_it_was(self, stand_in: str) -> None:
        """Its calls and results in place, its private thoughts left out, its documents seen."""
        await check_foreign_history(stand_in)

    async def test_long_tool_descriptions_in_system(self, stand_in: str) -> None:
        """The program cuts them at 2,048 characters."""
        long = ToolSpec("Long", "word " * 1000 + "end", READ.parameters)
        async with opened(stand_in, [Turn("x")]) as (provider, server):
            await collect(provider.model("m"), Request("talk", (user("hi"),), "Terse.", (READ, long)))
        body = posts(server)[0]
        assert [tool["description"] for tool in as_list(body["tools"])] == [
            "Read a file",
            "See the system prompt, at: Tool Long",
        ]
        assert f"# Tool Long\n\n{long.description}" in json.loads(json.dumps(body["system"]))[-1]["text"]

    async def test_request_options_passed_on(self, stand_in: str) -> None:
        """Model, effort, output limit, members for the body; and what cannot is said."""
        options = json_freeze_object({"temperature": 0.5, "betas": ["x"]})
        async with opened(stand_in, [Turn("x")]) as (provider, server):
            wish = request(user("hi"), max_output=77, effort="minimal", options=options)
            _, reply = await collect(provider.model("claude-opus-5"), wish)
        body = posts(server)[0]
        assert (body["model"], body["max_tokens"], body["temperature"]) == ("claude-opus-5", 77, 0.5)
        assert body["output_config"] == {"effort": "low"}
        assert reply.notes == (
            "the option betas cannot be given to the program `claude`: left out",
            "claude-opus-5 has no effort minimal: low is used",
        )
        assert reply.digest.parameters["max_tokens"] == 77


EFFORTS = [
    ("claude-opus-4-8", "none", None, ""),
    ("haiku", "none", "low", "haiku has no effort none: low is used"),
    ("claude-haiku-5-5", "none", "low", "claude-haiku-5-5 has no effort none: low is used"),
    ("claude-fable-5-2", "none", "low", "claude-fable-5-2 has no effort none: low is used"),
    ("opus", "minimal", "low", "opus has no effort minimal: low is used"),
    ("claude-sonnet-4-6", "xhigh", "high", "claude-sonnet-4-6 has no effort xhigh: high is used"),
    ("claude-haiku-4-5", "high", None, "claude-haiku-4-5 has no levels of effort: high was left out"),
    ("opus", "xhigh", "xhigh", ""),
]


class TestEffort:
    @pytest.mark.parametrize(("model", "effort", "sent", "note"), EFFORTS)
    async def test_unsupported_effort_clamped_and_noted(
        self, stand_in: str, model: str, effort: Effort, sent: str | None, note: str
    ) -> None:
        """Left alone, the program would think at its own level where it was asked for none; and say nothing."""
        async with opened(stand_in, [Turn("x"), Turn("y")]) as (provider, server):
            _, reply = await collect(provider.model(model), request(user("hi"), effort=effort))
            again = request(user("hi"), reply.message, user("more"), effort=effort)
            _, second = await collect(provider.model(model), again)
            assert len(set(pids(server))) == 1
        assert [body.get("output_config") for body in posts(server)] == [{"effort": sent} if sent else None] * 2
        assert reply.notes == second.notes == ((note,) if note else ())

    async def test_short_name_has_full_model_sizes(self, stand_in: str) -> None:
        async with opened(stand_in, [Turn("x")]) as (provider, server):
            model = provider.model("opus")
            assert model.limits == ModelLimits()
            _, reply = await collect(model, request(user("hi"), max_output=200_000))
        assert model.limits == provider.model("claude-opus-4-8").limits == ModelLimits(1_000_000, 128_000)
        assert posts(server)[0]["max_tokens"] == 128_000
        assert reply.notes == ("opus writes at most 128000 tokens: 200000 were asked for",)


class TestEnd:
    """What the program would do by itself, and how it ends."""

    async def test_limited_reply_not_continued(self, stand_in: str) -> None:
        """Left alone, the program would ask the model to go on, at our expense."""
        async with opened(stand_in, [Turn("ab", stop="max_tokens"), Turn("cd")]) as (provider, server):
            _, reply = await collect(provider.model("m"), request(user("hi")))
            assert (reply.message.content, reply.message.stop) == ("ab", "max_tokens")
            await gone(server)
        assert len(posts(server)) == 1

    @later
    async def test_program_ends_with_cut_call(self, stand_in: str) -> None:
        """Kept, it would be waited for: it does not ask for the result of a call that it does not make."""
        for stop in ("stop_sequence", "pause_turn"):
            script = [Turn(calls=(Call("Read", "", cut=True),), stop=stop), Turn("ok")]
            async with opened(stand_in, script) as (provider, server):
                model = provider.model("m")
                _, reply = await collect(model, request(user("hi")))
                await gone(server)
                await collect(model, request(user("hi"), reply.message, results(reply.message, "not run")))

    async def test_unknown_and_broken_calls_are_ours(self, stand_in: str) -> None:
        """Of an unknown tool, or with broken arguments; what we answer is what the model reads."""
        calls = (Call("Nope"), Call("Read", '{"path": "a'))
        async with opened(stand_in, [Turn(calls=calls), Turn("done")]) as (provider, server):
            model = provider.model("m")
            _, reply = await collect(model, request(user("hi")))
            assert [(call.name, call.malformed) for call in reply.message.calls] == [
                ("Nope", None),
                ("Read", '{"path": "a'),
            ]
            await gone(server)
            assert len(posts(server)) == 1
            await collect(model, request(user("hi"), reply.message, results(reply.message, "ours", is_error=True)))
        answers = as_list(posts(server)[1]["messages"])[-1]["content"]
        assert [answer["content"] for answer in answers] == ["ours", "ours"]

    async def test_closed_stream_ends_program(self, stand_in: str) -> None:
        async with opened(stand_in, [Stall(Turn("abc", pieces=1), after_events=4)]) as (provider, server):
            async with aclosing(provider.model("m").stream(request(user("hi")))) as stream:
                assert await first_text(stream) == "a"
                assert list(programs(server))
            await gone(server)

    async def test_program_ends_with_parent(self, stand_in: str) -> None:
        """SIGKILL included, in the middle of a silent stream."""
        await check_kill(stand_in)

    async def test_silence_is_error(self, stand_in: str) -> None:
        stalled = Stall(Turn("abc", pieces=1), after_events=4)
        async with opened(stand_in, [stalled], timeouts=Timeouts(stall=0.1)) as (provider, server):
            text, error = await failure(provider.model("m"), request(user("hi")))
            assert (text, error.kind) == ("a", "stalled")
            await gone(server)


class TestLogin:
    async def test_foreign_keys_not_passed(self, stand_in: str) -> None:
        """It would prefer them to its login, and a plan's call would be billed to a key."""
        async with FakeProviderServer([Turn("x")]) as server:
            environ = {
                "PATH": os.environ["PATH"],
                "ANTHROPIC_API_KEY": "sk-ant-api03-mine",
                "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
                "CLAUDECODE": "1",
                **TOKEN,
            }
            provider = AnthropicCLI.from_credentials(path=stand_in, base_url=server.url, environ=environ)
            async with aclosing(provider):
                await collect(provider.model("m"), request(user("hi")))
            assert server.requests[0].headers["authorization"] == f"Bearer {TOKEN['CLAUDE_CODE_OAUTH_TOKEN']}"
            assert "x-api-key" not in server.requests[0].headers

    async def test_no_login_says_how_to_log_in(self, stand_in: str) -> None:
        async with opened(stand_in, [], CLAUDE_CODE_OAUTH_TOKEN="") as (provider, _):
            _, error = await failure(provider.model("m"), request(user("hi")))
        assert error.kind == "auth"
        assert "`claude` and log in with /login" in str(error)

    def test_no_program_says_how_to_install_it(self) -> None:
        with pytest.raises(UsageError, match="npm install -g @anthropic-ai/claude-code"):
            AnthropicCLI.from_credentials(environ={"PATH": "/nowhere"})

    def test_api_key_refused(self) -> None:
        with pytest.raises(UsageError, match="use the provider anthropic"):
            AnthropicCLI.from_key("sk-ant-api03-x")

    @pytest.mark.parametrize("age", ["STAND_IN_OLD", "STAND_IN_ANCIENT"])
    async def test_old_program_explained(self, stand_in: str, age: str) -> None:
        """One that does not know an option, and one that answers what it is only to remember."""
        async with opened(stand_in, [Turn("x")] * 3, **{age: "1"}) as (provider, _):
            history = (user("hi"), assistant("Hello."), user("and?"))
            _, error = await failure(provider.model("m"), request(*history))
        assert (error.kind, error.retryable) == ("invalid_request", False)
        assert "too old" in str(error)
        assert "npm install -g @anthropic-ai/claude-code@latest" in str(error)

    async def test_failed_program_shows_last_words(self, tmp_path: Path) -> None:
        path = tmp_path / "claude"
        path.write_text("#!/bin/sh\necho 'no such thing' >&2\nexit 3\n")
        path.chmod(0o755)
        async with opened(str(path), []) as (provider, _):
            _, error = await failure(provider.model("m"), request(user("hi")))
        assert "ended before its reply did: no such thing" in str(error)

    async def test_models_from_program(self, stand_in: str) -> None:
        async with opened(stand_in, []) as (provider, server):
            listed = await provider.models()
            await gone(server)
        assert [(info.id, info.name) for info in listed] == [
            ("claude-haiku-5-5", "Haiku"),
            ("claude-opus-4-8", "Opus"),
            ("claude-sonnet-5", "Default (recommended)"),
        ]
        assert {info.limits.window for info in listed} == {1_000_000}

    async def test_short_name_billed_as_actual_model(self, stand_in: str) -> None:
        turn = Turn("x", model="claude-opus-4-8", usage=Usage(input=10, output=5))
        async with opened(stand_in, [turn]) as (provider, _):
            _, reply = await collect(provider.model("opus"), request(user("hi")))
        assert [(charge.model, charge.usage.output) for charge in reply.charges] == [("claude-opus-4-8", 5)]
        assert reply.message.model == "anthropic-cli/opus"


@pytest.mark.needs("claude")
class TestRealProgram:
    """Claude Code itself, as it is installed."""

    async def test_tool_conversation_uses_one_program(self) -> None:
        """The server refuses what the API refuses; the login's token is what goes out."""
        calls = (Call("Read", {"path": "a"}), Call("Read", {}))
        script = [Turn("On it.", thinking="Hm.", calls=calls), Turn(calls=calls[:1]), Turn("done"), Turn("bye")]
        async with opened(None, script) as (provider, server):
            model, history = provider.model("claude-sonnet-4-6"), [user("fix it", Image("image/png", PIXEL))]
            living = set[int]()
            for number, shown in enumerate((["one", Image("image/png", PIXEL)], ["two"], None, None)):
                _, reply = await collect(model, request(*history))
                assert len(reply.message.calls) == len(script[number].calls)
                history += [reply.message, results(reply.message, *shown) if shown else user("go on")]
                living = living & set(programs(server)) if living else set(programs(server))
            assert living, "another program went on with the conversation"
            assert {post.headers["authorization"] for post in server.requests if post.method == "POST"} == {
                f"Bearer {TOKEN['CLAUDE_CODE_OAUTH_TOKEN']}"
            }
        bodies = posts(server)
        assert len(bodies) == len(script)
        assert [tool["name"] for tool in as_list(bodies[0]["tools"])] == ["Read"]
        assert json.loads(json.dumps(bodies[0]["system"]))[-1]["text"] == "You are terse."
        told = [[bare(message) for message in as_list(body["messages"])] for body in bodies]
        for before, after in pairwise(told):
            assert after[: len(before)] == before

    async def test_foreign_history_sent_as_it_was(self) -> None:
        await check_foreign_history(None)

    async def test_personal_setup_ignored(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Memory files, settings, hooks, MCP servers and commands of user and project; and no session is kept."""
        home, project, ran = Path.home(), tmp_path / "project", tmp_path / "ran"
        hook = {"hooks": [{"type": "command", "command": f"touch {ran}"}]}
        settings = {
            "hooks": {moment: [hook] for moment in ("SessionStart", "UserPromptSubmit", "Stop")},
            "env": {"ANTHROPIC_CUSTOM_HEADERS": "x-marked: MARKED"},
            "model": "claude-MARKED",
        }
        server = {"mcpServers": {"marked": {"command": "touch", "args": [str(ran)]}}}
        for place in (home / ".claude", project / ".claude"):
            (place / "commands").mkdir(parents=True)
            (place / "settings.json").write_text(json.dumps(settings))
            (place / "CLAUDE.md").write_text("MARKED")
            (place / "commands" / "marked.md").write_text("MARKED")
        (project / "CLAUDE.md").write_text("MARKED")
        (project / ".mcp.json").write_text(json.dumps(server))
        before = sorted(project.rglob("*"))
        monkeypatch.chdir(project)
        async with opened(None, [Turn("x")]) as (provider, fake):
            await collect(provider.model("claude-sonnet-4-6"), request(user("hi")))
        sent = [request for request in fake.requests if request.method == "POST"]
        assert len(sent) == 1
        assert b"MARKED" not in sent[0].body
        assert "x-marked" not in sent[0].headers
        assert not ran.exists()
        assert sorted(project.rglob("*")) == before
        assert not list((home / ".claude").glob("projects/**/*.jsonl"))
        assert not (home / ".cache").exists()

    @pytest.mark.parametrize(
        ("step", "kind", "words"),
        [
            (Fail(403), "permission", ""),
            (Fail(400, message="prompt is too long: 210000 tokens > 200000 maximum"), "context_overflow", ""),
            (Fail(529, type="overloaded_error", message="Overloaded"), "overloaded", ""),
            (Cut(Turn("abcdefgh", pieces=1), 6, "clean"), "cut", ""),
        ],
        ids=["permission", "too long", "overloaded", "cut"],
    )
    async def test_error_has_its_kind(self, step: Step, kind: ModelErrorKind, words: str) -> None:
        async with opened(None, [step]) as (provider, server):
            _, error = await failure(provider.model("claude-sonnet-4-6"), request(user("hi")))
            assert error.kind == kind, error
            assert words in str(error)
            assert len(posts(server)) == 1, "the program has tried again by itself"

    async def test_plan_limit_has_retry_time(self) -> None:
        headers = {
            "anthropic-ratelimit-unified-status": "rejected",
            "anthropic-ratelimit-unified-reset": str(int(time.time()) + 3600),
            "anthropic-ratelimit-unified-representative-claim": "five_hour",
        }
        async with opened(None, [Fail(429, headers=headers)]) as (provider, _):
            _, error = await failure(provider.model("claude-sonnet-4-6"), request(user("hi")))
        assert error.kind == "rate_limit"
        assert error.retry_after is not None
        assert 3000 < error.retry_after <= 3600

    async def test_no_login_says_how_to_log_in(self) -> None:
        async with opened(None, [], CLAUDE_CODE_OAUTH_TOKEN="") as (provider, _):
            _, error = await failure(provider.model("claude-sonnet-4-6"), request(user("hi")))
        assert error.kind == "auth"
        assert "`claude` and log in with /login" in str(error)

    async def test_program_autonomy_left_to_us(self) -> None:
        """It goes on after `max_tokens`, and answers calls of tools it does not know."""
        script = [Turn("ab", stop="max_tokens"), Turn(calls=(Call("Read"), Call("Nope"))), Turn("done")]
        async with opened(None, script) as (provider, server):
            model = provider.model("claude-sonnet-4-6")
            _, reply = await collect(model, request(user("hi"), max_output=77))
            assert (reply.message.content, reply.message.stop) == ("ab", "max_tokens")
            _, reply = await collect(model, request(user("hi")))
            assert [call.name for call in reply.message.calls] == ["Read", "Nope"]
            await gone(server)
            await collect(model, request(user("hi"), reply.message, results(reply.message, "ours")))
        bodies = posts(server)
        assert len(bodies) == 3
        assert bodies[0]["max_tokens"] == 77
        answers = as_list(bodies[2]["messages"])[-1]["content"]
        assert all(text_of(answer["content"]).startswith("ours") for answer in answers)

    @pytest.mark.parametrize("model", ["haiku", "sonnet", "claude-fable-5-2"])
    async def test_no_effort_means_least_thinking(self, model: str) -> None:
        """Which models can stop differs between versions: what goes out is what was said."""
        async with opened(None, [Turn("x")]) as (provider, server):
            _, reply = await collect(provider.model(model), request(user("hi"), effort="none"))
        body = posts(server)[0]
        if reply.notes:
            assert reply.notes == (f"{model} has no effort none: low is used",)
            assert body["output_config"] == {"effort": "low"}
        else:
            assert body["thinking"] == {"type": "disabled"}

    async def test_closed_stream_ends_program(self) -> None:
        async with opened(None, [Stall(Turn("abc", pieces=1), after_events=4)]) as (provider, server):
            async with aclosing(provider.model("claude-sonnet-4-6").stream(request(user("hi")))) as stream:
                assert await first_text(stream) == "a"
            await gone(server)

    async def test_program_ends_with_parent(self) -> None:
        await check_kill(None)

    async def test_models_from_program(self) -> None:
        async with opened(None, []) as (provider, _):
            listed = await provider.models()
        assert all(info.id and info.name for info in listed)
        assert any(info.id.startswith("claude-") for info in listed)


# ---------------------------------------------------------------------------------------------------------------------
# The same for the stand-in and the real program


async def check_foreign_history(path: str | None) -> None:
    """A history of another provider's model, with everything in it, and a question."""
    private = Private("elsewhere", json_freeze_object({"signature": "x"}))
    calls = (ToolCall("call|1", "Read", json_freeze_object({"path": "a"}), private=private), ToolCall("2", "Gone"))
    history = (
        user("look", Document("application/pdf", PDF, "a.pdf")),
        Message("assistant", (Thinking("Hm.", private), Text("Looking."), *calls), model="x/y", stop="tool_use"),
        Message(
            "user",
            (
                ToolResult("call|1", (Text("text"), Image("image/png", PIXEL), Document("application/pdf", PDF))),
                ToolResult("2", (Text("no"),), is_error=True),
                Text("and this"),
            ),
        ),
        assistant("Fine.", model="x/y"),
        user("more"),
        Message("assistant", (ToolCall("2", "Read"),), model="x/y", stop="tool_use"),
        Message("user", (ToolResult("2", (Text("fin"),)),)),
    )
    async with opened(path, [Turn("done")]) as (provider, server):
        _, reply = await collect(provider.model("claude-sonnet-4-6"), request(*history))
        assert reply.message.content == "done"
    told = [bare(message) for message in as_list(posts(server)[0]["messages"])]
    assert [message["role"] for message in told] == ["user", "assistant"] * 3 + ["user"]
    kinds = [[block["type"] for block in message["content"] if not is_reminder(block)] for message in told]
    assert kinds == [
        ["text", "document"],
        ["text", "tool_use", "tool_use"],
        ["tool_result", "tool_result", "text"],
        ["text"],
        ["text"],
        ["tool_use"],
        ["tool_result"],
    ]
    assert [block["type"] for block in told[2]["content"][0]["content"]] == ["text", "image", "document"]
    assert told[1]["content"][1]["input"] == {"path": "a"}
    assert told[2]["content"][1]["is_error"] is True
    assert "signature" not in json.dumps(told)


async def check_kill(path: str | None) -> None:
    """Start a call in a process of its own, kill that, and see everything end."""
    code = f"""
import asyncio
from sagent.messages import user
from sagent.model import Request, TextPart
from sagent.plugins.logins.anthropic_cli import AnthropicCLI

async def main(url):
    provider = AnthropicCLI.from_credentials(path={path!r}, base_url=url, variables=VARIABLES)
    async for delta in provider.model("claude-sonnet-4-6").stream(Request("talk", (user("hi"),))):
        if isinstance(delta, TextPart):
            print("begun", flush=True)

asyncio.run(main("URL"))
"""
    async with FakeProviderServer([Stall(Turn("abc", pieces=1), after_events=4)]) as server:
        code = code.replace("URL", server.url).replace("VARIABLES", repr(variables_for(server)))
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=subprocess.PIPE)
        assert process.stdout
        async with asyncio.timeout(60):
            assert await process.stdout.readline() == b"begun\n"
        assert list(programs(server))
        process.kill()
        await process.wait()
        await gone(server)


async def first_text(stream: AsyncGenerator[Delta | Reply]) -> str:
    async with asyncio.timeout(60):
        async for item in stream:
            if isinstance(item, TextPart):
                return item.text
    raise AssertionError("no text")


def as_list(value: object) -> list[dict[str, "object | list[dict[str, object]]"]]:
    """A JSON array of objects."""
    assert isinstance(value, list)
    return value


def bare(message: dict[str, object]) -> dict[str, object]:
    """A message without what marks cached prefixes, its content a list."""
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {"role": message["role"], "content": [{**block, "cache_control": None} for block in blocks]}


def is_reminder(block: dict[str, object]) -> bool:
    return block["type"] == "text" and str(block["text"]).startswith("<system-reminder>")


def text_of(content: object) -> str:
    """A result's text, however it is written."""
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


@pytest.mark.costly
@pytest.mark.parametrize("what", ["tool", "odd tool", "image", "result"])
async def test_refused_part_is_left_out(stand_in: str, what: str) -> None:
    """A tool that the API names by its place, one by its schema, an image of a person, one that a tool returned."""
    encoded = base64.b64encode(PIXEL)[:40]
    odd = {"$.x": {}} if what == "odd tool" else {"x": {}}
    bad = ToolSpec("bad", "Is bad", json_freeze_object({"type": "object", "properties": odd}))
    words = {
        "tool": "tools.1.custom.input_schema: JSON schema is invalid",
        "odd tool": "tools.0.custom.input_schema.properties: Property keys should match pattern",  # in another order
    }.get(what, "messages.4.content.7.image.source.base64.data: Could not process image")

    def step(received: Received) -> Step:
        refused = b'"bad"' in received.body if "tool" in what else encoded in received.body
        return Fail(400, message=words) if refused else Turn("hello")

    image, see = Image("image/png", PIXEL), user("see")
    asked = ToolCall("c1", "Read", json_freeze_object({"path": "b.png"}))
    history = {
        "image": (Message("user", (Text("see"), image)),),
        "result": (see, Message("assistant", (asked,)), Message("user", (ToolResult("c1", (image,)),))),
    }.get(what, (see,))
    sent = Request("talk", history, "You are terse.", (READ, bad) if "tool" in what else (READ,))
    async with FakeProviderServer(step, strict=False) as server:
        options = EMPTY
        for _ in range(2):  # processes
            provider = AnthropicCLI.from_credentials(
                path=stand_in, base_url=server.url, variables=variables_for(server)
            )
            async with aclosing(provider):
                model = provider.model("claude-sonnet-4-6")
                _, reply = await collect(model, replace(sent, options=options))
                _, again = await collect(model, replace(sent, messages=(*history, reply.message, user("more"))))
            assert (reply.message.content, again.message.content) == ("hello", "hello")
            assert any("left out" in note for note in reply.notes)
            left = as_object(as_object(reply.digest.parameters["left_out"])["anthropic-cli"])
            options = json_freeze_object({"left_out": left})
        await gone(server)
    assert len(server.requests) == 5
    for each in server.requests:
        assert b"Read" in each.body
        assert b"left_out" not in each.body


async def test_other_api_refusal_reported(stand_in: str) -> None:
    async with opened(stand_in, [Fail(400, message="max_tokens: too many")]) as (provider, server):
        _, error = await failure(provider.model("claude-sonnet-4-6"), request(user("x")))
        assert (error.kind, error.status) == ("invalid_request", 400)
        assert len(server.requests) == 1
