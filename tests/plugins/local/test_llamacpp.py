"""A llama-server of our own: started, waited for, replaced, ended; against a stand-in, and the real one where it is."""

import asyncio
import contextlib
import json
import os
import random
import re
import shlex
import signal
import struct
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.agent import Agent
from sagent.cost.prices import PriceBook
from sagent.errors import ModelError, UsageError
from sagent.events import Event, Retrying
from sagent.lib.json import json_freeze_object
from sagent.messages import Image, Message, Text, user
from sagent.model import Model, ModelLimits, Provider
from sagent.plugins.local import llamacpp_server
from sagent.plugins.local.llamacpp import LlamaCpp
from sagent.plugins.local.llamacpp_server import Launch
from sagent.plugins.local.packages import cache_folder
from sagent.testing.model_suite import TIMEOUT_SECONDS, OpenModel, ServedModelSuite, ask, collect, failure
from sagent.testing.server import FakeProviderServer, Turn
from sagent.usage import Usage
from tests.depth import later
from tests.providers.llama_server import Front

STAND_IN = Path(__file__).parents[3] / "tests/providers/llama_server.py"
PIXEL = bytes.fromhex("89504e470d0a1a0a")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A directory with a program llama-server and a file tiny.gguf."""
    (tmp_path / "tiny.gguf").write_bytes(b"GGUF" + bytes(28))
    (tmp_path / "empty.gguf").touch()
    program = tmp_path / "llama-server"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STAND_IN}" "$@"\n')
    program.chmod(0o755)
    return tmp_path


@pytest.fixture
def environ(here: Path) -> Callable[..., dict[str, str]]:
    """The variables for a stand-in that behaves as told."""

    def made(**conduct: Any) -> dict[str, str]:
        conduct["starts"] = str(here / "starts")
        return {
            "LLAMA_CPP_MODEL": str(here / "tiny.gguf"),
            "LLAMA_CPP_SERVER": str(here / "llama-server"),
            "STAND_IN": json.dumps(conduct),
        }

    return made


@pytest.fixture
async def opened(environ: Callable[..., dict[str, str]]) -> AsyncGenerator[Callable[..., LlamaCpp]]:
    """Open providers of stand-ins; in the end nothing of any of them is left."""
    providers: list[LlamaCpp] = []

    def made(variables: dict[str, str] | None = None, **conduct: Any) -> LlamaCpp:
        provider = LlamaCpp.from_env(environ={**environ(**conduct), **(variables or {})})
        providers.append(provider)
        return provider

    yield made
    for provider in providers:
        await provider.aclose()
    for start in starts(Path(environ()["LLAMA_CPP_MODEL"]).parent):
        await until(lambda start=start: not group_lives(start["pid"]))
    await until(lambda: not [thread for thread in threading.enumerate() if "llama" in thread.name])


def starts(here: Path) -> list[dict[str, Any]]:
    """What the starts of the stand-in noted of themselves."""
    path = here / "starts"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def processes() -> list[tuple[int, int]]:
    """Process and group of everything that runs; what has ended and only waits for its parent does not."""
    if sys.platform == "linux":
        found: list[tuple[int, int]] = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                state, _, group = path.read_text().rpartition(")")[2].split()[:3]
                found += [(int(path.parent.name), int(group))] if state != "Z" else []
        return found
    listed = subprocess.run(["ps", "-A", "-o", "pid=,pgid=,stat="], capture_output=True, text=True, check=True)
    rows = [line.split() for line in listed.stdout.splitlines()]
    return [(int(row[0]), int(row[1])) for row in rows if not row[2].startswith("Z")]


def group_lives(group: int) -> bool:
    """Whether any process of a group runs."""
    return any(member == group for _, member in processes())


async def until(happened: Callable[[], object]) -> None:
    """Wait for something, within reason."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not happened():
            await asyncio.sleep(0.01)


# Variables


def test_defaults_to_usual_port() -> None:
    provider = LlamaCpp.from_env(environ={})
    assert (provider.name, provider.url, provider.launch) == ("llamacpp", "http://127.0.0.1:8080/v1", None)
    named: Provider = provider
    assert named.model("any/id").id == "any/id"


def test_base_url_before_model(environ: Callable[..., dict[str, str]]) -> None:
    variables = {**environ(), "LLAMA_CPP_BASE_URL": "http://127.0.0.1:9", "LLAMA_CPP_API_KEY": "secret-key"}
    for provider in (
        LlamaCpp.from_env(environ=variables),
        LlamaCpp.from_key("secret-key", base_url="http://127.0.0.1:9"),
    ):
        assert (provider.url, provider.launch) == ("http://127.0.0.1:9/v1", None)
        assert provider.headers() == {"authorization": "Bearer secret-key"}
    assert LlamaCpp.from_env(environ=environ(), base_url="http://127.0.0.1:7/v1").url == "http://127.0.0.1:7/v1"


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("LLAMA_CPP_MODEL", "{here}/gone.gguf", "gone.gguf cannot be read (No such file or directory). Name"),
        ("LLAMA_CPP_MODEL", "{here}", "{here} is a directory. Name"),
        ("LLAMA_CPP_MODEL", "~nobody-here/x.gguf", "cannot be read (No such file or directory). Name"),
        ("LLAMA_CPP_SERVER", "~nobody-here/server", "there is no such program"),
        ("LLAMA_CPP_MODEL", "{here}/llama-server", "is not a model in the GGUF format"),
        (
            "LLAMA_CPP_SERVER",
            "{here}/gone",
            "{here}/gone cannot be started, for there is no such program. Inst",
        ),
        ("LLAMA_CPP_SERVER", "{here}/tiny.gguf", "{here}/tiny.gguf cannot be started, for it is not executable"),
        ("LLAMA_CPP_SERVER", "{here}", "{here} cannot be started, for it is a directory"),
        ("LLAMA_CPP_MODEL", "/dev/null", "/dev/null is no file"),
        ("LLAMA_CPP_MODEL", "{here}/empty.gguf", "empty.gguf is empty"),
        ("LLAMA_CPP_CONTEXT", "16k", "a number of tokens is needed"),
        ("LLAMA_CPP_CONTEXT", "0", "a number of tokens is needed"),
        ("LLAMA_CPP_ARGS", "-ngl '9", "LLAMA_CPP_ARGS: No closing quotation"),
        ("LLAMA_CPP_ARGS", "-ngl 9 --port 80", "LLAMA_CPP_ARGS: --port is chosen by sagent"),
        ("LLAMA_CPP_ARGS", "--host=0.0.0.0", "LLAMA_CPP_ARGS: --host=0.0.0.0 is chosen by sagent"),
        ("LLAMA_CPP_API_KEY", "ä b", "LLAMA_CPP_API_KEY for llamacpp has characters that a key cannot have"),
    ],
)
def test_invalid_variable_named(
    environ: Callable[..., dict[str, str]], here: Path, name: str, value: str, told: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(told.format(here=here))) as caught:
        LlamaCpp.from_env(environ={**environ(), name: value.format(here=here)})
    assert name in str(caught.value)


@pytest.mark.parametrize("named", ["./llama-server", "{here}/llama-server", "../{name}/llama-server"])
def test_program_with_relative_path(
    environ: Callable[..., dict[str, str]], here: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.chdir(here)
    named = named.format(here=here, name=here.name)
    launch = LlamaCpp.from_env(environ={**environ(), "LLAMA_CPP_SERVER": named, "PATH": "/nowhere"}).launch
    assert launch is not None and Path(launch.program).samefile(here / "llama-server")


def test_missing_program_names_install(here: Path) -> None:
    variables = {"LLAMA_CPP_MODEL": str(here / "tiny.gguf"), "PATH": str(here / "nowhere")}
    with pytest.raises(UsageError, match=r"needs llama-server.*Install llama.cpp.*LLAMA_CPP_BASE_URL"):
        LlamaCpp.from_env(environ=variables)
    assert LlamaCpp.from_env(environ={**variables, "PATH": str(here)}).launch


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\0")).filter(
            lambda text: "--" not in text and not text.startswith("~/")  # a path in the home is spelled out
        )
    )
)
def test_arguments_quoted_like_shell(arguments: list[str]) -> None:
    here = Path(__file__).parent
    launch = Launch(
        "llama-server", here / "a,b.gguf", 512, llamacpp_server._arguments({"LLAMA_CPP_ARGS": shlex.join(arguments)})
    )
    command = launch.command(7)
    assert command[len(command) - len(arguments) :] == arguments
    assert command[:7] == ["llama-server", "--host", "127.0.0.1", "--port", "7", "-m", str(here / "a,b.gguf")]
    sized = [] if {"-b", "--batch-size"} & set(arguments) else ["-b", "512"]
    sized += [] if {"-np", "-sps"} & set(arguments) else ["-np", "1", "-sps", "0"]
    assert "-a" in arguments or command[7 : 12 + len(sized)] == ["--alias", "a_b", "-c", "512", *sized, "--jinja"]


@pytest.mark.parametrize(
    ("arguments", "environ", "own"),
    [
        ((), {}, False),
        (("-ngl", "99"), {"LLAMA_ARG_CTX_SIZE": "512"}, False),
        (("-np", "4"), {}, True),
        (("--parallel", "2"), {}, True),
        (("-sps", "0.5"), {}, True),
        (("--slot-prompt-similarity", "0.5"), {}, True),
        ((), {"LLAMA_ARG_N_PARALLEL": "4"}, True),
    ],
)
def test_chosen_slots_kept(arguments: tuple[str, ...], environ: dict[str, str], own: bool) -> None:
    launch = Launch("llama-server", Path("a.gguf"), arguments=arguments, environ=environ)
    command = launch.command(7)
    assert (command.count("-np"), command.count("-sps")) == (
        arguments.count("-np") + (not own),
        arguments.count("-sps") + (not own),
    )


# A child


async def test_first_call_starts_child_once(opened: Callable[..., LlamaCpp], here: Path) -> None:
    provider = opened({"LLAMA_CPP_CONTEXT": "512", "LLAMA_CPP_ARGS": "-ngl '99'"})
    model = provider.model("tiny")
    assert (starts(here), model.limits) == ([], ModelLimits(512))
    for _ in range(2):
        _, reply = await collect(model, ask())
        assert reply.message.content == "Hello from the stand-in."
    [start] = starts(here)
    port = str(start["port"])
    assert start["arguments"] == [
        *("--host", "127.0.0.1", "--port", port, "-m", str(here / "tiny.gguf"), "--alias", "tiny"),
        *("-c", "512", "-b", "512", "-np", "1", "-sps", "0", "--jinja", "-ngl", "99"),
    ]
    assert provider.access.key
    assert provider.access.key not in " ".join(start["arguments"])
    assert (os.getsid(start["pid"]), os.getpgid(start["pid"])) == (start["pid"], start["pid"])  # Ctrl-C is not for it


async def test_strangers_refused(opened: Callable[..., LlamaCpp], here: Path) -> None:
    await opened().models()
    start = starts(here)[-1]  # another port may have been taken meanwhile
    stranger = LlamaCpp.from_key("guess", base_url=f"http://127.0.0.1:{start['port']}")
    with pytest.raises(ModelError) as caught:
        await stranger.models()
    await stranger.aclose()
    assert caught.value.kind == "auth"


async def test_window_from_server(opened: Callable[..., LlamaCpp]) -> None:
    provider = opened(n_ctx=6144)
    model = provider.model("tiny")
    assert model.limits == ModelLimits()
    [info] = await provider.models()
    assert (info.id, info.limits) == ("tiny", ModelLimits(6144))
    assert model.limits == ModelLimits(6144)  # and no output limit, which would leave nothing of it for the input


async def test_one_child_while_loading(opened: Callable[..., LlamaCpp], here: Path) -> None:
    provider = opened(loading=0.4)
    model = provider.model("tiny")
    replies = await asyncio.gather(*(collect(model, ask(conversation=str(number))) for number in range(3)))
    assert [reply.message.content for _, reply in replies] == ["Hello from the stand-in."] * 3
    assert len(starts(here)) == 1


async def test_loading_is_not_silence(opened: Callable[..., LlamaCpp]) -> None:
    provider = opened(loading=1.2)
    provider.timeouts = replace(provider.timeouts, stall=1, reasoning_stall=1)
    _, reply = await collect(provider.model("tiny"), ask())
    assert reply.message.content == "Hello from the stand-in."


async def test_tool_calls_thinking_and_usage(opened: Callable[..., LlamaCpp]) -> None:
    usage: dict[str, Any] = {"input": 10, "cache_read": 200, "output": 50}
    call = {"name": "Read", "arguments": {"path": "ä.py"}}
    model = opened(script=[{"text": "On it.", "thinking": "Hm.", "calls": [call], "usage": usage}]).model("tiny")
    _, reply = await collect(model, ask())
    assert [(one.name, one.arguments) for one in reply.message.calls] == [("Read", {"path": "ä.py"})]
    assert (reply.message.content, reply.message.stop, reply.usage) == ("On it.", "tool_use", Usage(**usage))


async def test_long_prompt_is_overflow(opened: Callable[..., LlamaCpp]) -> None:
    error = {
        "code": 400,
        "message": "request (9412 tokens) exceeds the available context size (8192 tokens), try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 9412,
        "n_ctx": 8192,
    }
    model = opened(script=[{"kind": "fail", "status": 400, "body": {"error": error}}]).model("tiny")
    _, raised = await failure(model, ask())
    assert (raised.kind, raised.retryable) == ("context_overflow", False)


def test_local_model_costs_nothing() -> None:
    assert PriceBook().price("llamacpp", "whatever", Usage(input=10**6, output=10**6)) == 0


# A child that does not live


@later
async def test_failing_start_final_at_third_time(opened: Callable[..., LlamaCpp], here: Path) -> None:
    words = "ggml_abort: tensor 'blk.0' ✗"
    provider = opened(deaths=4, last_words=words)
    model = provider.model("tiny")
    errors = [(await failure(model, ask()))[1] for _ in range(3)]
    assert [(error.kind, error.retryable) for error in errors] == [
        *(("server", True), ("server", True)),
        ("invalid_request", False),
    ]
    for error in errors:
        assert "exit code 1" in str(error)
        assert str(error).endswith(words)
        assert (error.provider, error.model) == ("llamacpp", "tiny")
    assert "died 3 times in a row" in str(errors[2])
    assert await provider.models()  # who asks again gets another try, and a listing tries again by itself
    _, reply = await collect(model, ask())
    assert (reply.message.content, len(starts(here))) == ("Hello from the stand-in.", 5)


async def test_death_reported_to_all_and_once(opened: Callable[..., LlamaCpp], here: Path) -> None:
    model = opened(deaths=1).model("tiny")
    errors = await asyncio.gather(*(failure(model, ask(conversation=str(number))) for number in range(4)))
    assert [error.kind for _, error in errors] == ["server"] * 4
    await collect(model, ask())
    assert len(starts(here)) == 2


@later
async def test_child_dying_mid_call_replaced(opened: Callable[..., LlamaCpp], here: Path) -> None:
    stall = {"kind": "stall", "turn": {"text": "Hello", "pieces": 1}, "after_events": 3, "seconds": 0.3}
    provider = opened(deaths=1, mid_stream=True, script=[stall])
    model = provider.model("tiny")
    text, error = await failure(model, ask())
    assert text
    assert "Hello".startswith(text)
    assert (error.kind, error.retryable) == ("cut", True)
    assert "SIGKILL" in str(error)
    assert str(error).endswith("ggml_abort: out of memory")
    _, reply = await collect(model, ask())
    assert reply.message.content == "Hello"
    assert len({start["pid"] for start in starts(here)}) == 2


@later
async def test_engine_retries(opened: Callable[..., LlamaCpp], here: Path) -> None:
    stall = {"kind": "stall", "turn": {"text": "Hello", "pieces": 1}, "after_events": 3, "seconds": 0.3}
    events: list[Event] = []
    agent = Agent(opened(deaths=2, mid_stream=True, script=[stall]).model("tiny"))
    agent.listen(events.append)
    result = await agent.run("hi")
    await agent.aclose()
    assert (result.content, result.cost.total, result.cost.unpriced) == ("Hello", 0, ())
    assert [event.kind for event in events if isinstance(event, Retrying)] == ["cut", "cut"]
    assert len(starts(here)) == 3


@later
async def test_unnoticed_death_replaced(opened: Callable[..., LlamaCpp], here: Path) -> None:
    provider = opened()
    await provider.models()
    child = starts(here)[0]["pid"]
    os.kill(child, signal.SIGKILL)
    await until(lambda: child not in dict(processes()))
    _, reply = await collect(provider.model("tiny"), ask())
    assert (reply.message.content, len(starts(here))) == ("Hello from the stand-in.", 2)


@later
async def test_never_ready_child_killed(opened: Callable[..., LlamaCpp]) -> None:
    provider = opened(never_healthy=True)
    assert provider.launch
    provider.launch = replace(provider.launch, timeout=4.0)
    model = provider.model("tiny")
    results = await asyncio.gather(*(failure(model, ask(conversation=str(number))) for number in range(2)))
    for _, error in results:
        assert not error.retryable
        assert "after 4 s" in str(error) and "Its last output" in str(error)
    assert provider._server is None


async def test_unstartable_program_named(opened: Callable[..., LlamaCpp], here: Path) -> None:
    (here / "broken").write_text("#!/no/such/interpreter\n")
    (here / "broken").chmod(0o755)
    _, error = await failure(opened({"LLAMA_CPP_SERVER": str(here / "broken")}).model("tiny"), ask())
    assert error.kind == "invalid_request"
    assert f"LLAMA_CPP_SERVER: {here}/broken" in str(error) and "No such file" in str(error)


@pytest.mark.parametrize(
    ("body", "words", "told"),
    [
        ("exit 0", "", "LLAMA_CPP_SERVER: {program} ended at once, so it is no llama-server. Install"),
        ('exec cat "$@"', "", "LLAMA_CPP_SERVER: {program} does not know --host, so it is no llama-server. Install"),
        (
            "echo 'x: error while loading shared libraries: libx.so.0: cannot open' >&2; exit 127",
            "",
            "LLAMA_CPP_SERVER: {program} needs the library libx.so.0, which is not found. Install it",
        ),
        ("kill -ILL $$", "", "LLAMA_CPP_SERVER: {program} needs instructions that this processor lacks"),
        (
            "sh -c 'kill -ILL $$'; exit $?",
            "",
            "LLAMA_CPP_SERVER: {program} needs instructions that this processor lacks",
        ),
        ("", "read: error loading model: unknown model architecture: 'x'", "LLAMA_CPP_MODEL: llama-server cannot load"),
    ],
)
async def test_hopeless_start_final_at_once(
    opened: Callable[..., LlamaCpp], here: Path, body: str, words: str, told: str
) -> None:
    program = here / "llama-server"
    if body:
        program.write_text(f"#!/bin/sh\n{body}\n")
    _, error = await failure(opened(deaths=3, last_words=words).model("tiny"), ask())
    assert (error.kind, error.retryable) == ("invalid_request", False)
    assert told.format(program=program) in str(error)
    assert "\n" not in str(error)
    assert len(starts(here)) == (0 if body else 1)


@later
async def test_freed_memory_retried(opened: Callable[..., LlamaCpp], here: Path) -> None:
    provider = opened(deaths=2, last_words="error loading model: unable to allocate CPU buffer")
    assert [info.id for info in await provider.models()] == ["tiny"]
    assert len(starts(here)) == 3


@later
async def test_megabytes_of_log_bounded(opened: Callable[..., LlamaCpp], here: Path) -> None:
    provider = opened(noise=4)
    await collect(provider.model("tiny"), ask())
    server = provider._server
    assert server
    assert server.said().endswith("main: model loaded")
    assert len(server.said()) < 5_000
    os.kill(starts(here)[0]["pid"], signal.SIGKILL)
    await until(lambda: not server.alive)
    assert "was ended by SIGKILL" in await server.obituary()


# Its end


async def test_cancelled_start_leaves_no_child(opened: Callable[..., LlamaCpp], here: Path) -> None:
    model = opened(never_healthy=True).model("tiny")
    call = asyncio.create_task(collect(model, ask()))
    await until(lambda: starts(here))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until(lambda: not group_lives(starts(here)[0]["pid"]))


async def test_shared_child_outlives_canceller(opened: Callable[..., LlamaCpp], here: Path) -> None:
    model = opened(loading=0.8).model("tiny")
    first = asyncio.create_task(collect(model, ask(conversation="first")))
    second = asyncio.create_task(collect(model, ask(conversation="second")))
    await until(lambda: starts(here))
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    _, reply = await second
    assert (reply.message.content, len(starts(here))) == ("Hello from the stand-in.", 1)


@pytest.mark.costly
@pytest.mark.parametrize("ignore_term", [False, True])
async def test_closing_ends_child(
    opened: Callable[..., LlamaCpp], here: Path, monkeypatch: pytest.MonkeyPatch, ignore_term: bool
) -> None:
    monkeypatch.setattr(llamacpp_server, "EXIT_TIMEOUT_SECONDS", 0.3 if ignore_term else TIMEOUT_SECONDS)
    provider = opened(ignore_term=ignore_term)
    await collect(provider.model("tiny"), ask())
    await provider.aclose()
    await until(lambda: not group_lives(starts(here)[0]["pid"]))
    await provider.aclose()


async def test_closing_ends_calls_for_good(opened: Callable[..., LlamaCpp], here: Path) -> None:
    """A call that was tried again would start a child that nobody closes."""
    provider = opened(loading=TIMEOUT_SECONDS)
    call = asyncio.create_task(failure(provider.model("tiny"), ask()))
    await until(lambda: starts(here))
    await provider.aclose()
    _, error = await call
    assert (error.retryable, "was stopped while it was in use" in str(error), len(starts(here))) == (False, True, 1)


async def test_cancelled_close_kills(opened: Callable[..., LlamaCpp], here: Path) -> None:
    provider = opened(ignore_term=True)
    await provider.models()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await provider.aclose()
    await until(lambda: not group_lives(starts(here)[0]["pid"]))
    assert len(starts(here)) == 1  # and nothing was started in its place


@later
def test_one_child_over_event_loops(environ: Callable[..., dict[str, str]], here: Path) -> None:
    provider = LlamaCpp.from_env(environ=environ())

    async def once() -> str:
        _, reply = await collect(provider.model("tiny"), ask())
        await provider.transport.aclose()  # the connections belong to the loop; the child does not
        return reply.message.content

    assert [asyncio.run(once()) for _ in range(2)] == ["Hello from the stand-in."] * 2
    assert len(starts(here)) == 1
    asyncio.run(provider.aclose())
    asyncio.run(until(lambda: not group_lives(starts(here)[0]["pid"])))


@pytest.mark.costly
@pytest.mark.parametrize("end", ["SIGKILL", "SIGTERM", "exit"])
@pytest.mark.parametrize("conduct", [{}, {"never_healthy": True}], ids=["ready", "loading"])
async def test_child_ends_with_parent(
    environ: Callable[..., dict[str, str]], here: Path, end: str, conduct: dict[str, Any]
) -> None:
    script = """
        import asyncio, os, sys
        from sagent.plugins.local.llamacpp import LlamaCpp

        async def main():
            provider = LlamaCpp.from_env()
            waiting = asyncio.ensure_future(provider.models())
            await asyncio.to_thread(sys.stdin.readline)
            os._exit(0)

        asyncio.run(main())
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdin=subprocess.PIPE,
        env={**os.environ, **environ(**conduct), "PYTHONPATH": str(STAND_IN.parents[2])},
    )
    with parent:
        await until(lambda: starts(here))
        child = starts(here)[0]["pid"]
        assert group_lives(child)
        if end == "exit":
            parent.communicate(b"\n", timeout=TIMEOUT_SECONDS)
        else:
            parent.send_signal(signal.Signals[end])
    await until(lambda: not group_lives(child))
    assert len(starts(here)) == 1


# A server that runs elsewhere


@contextlib.asynccontextmanager
async def front(url: str, **conduct: Any) -> AsyncGenerator[str]:
    """llama.cpp's own endpoints before a fake provider."""
    door = Front(url, **conduct)
    port = await door.open()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await door.aclose()


class TestServed(ServedModelSuite):
    @pytest.fixture
    def open_model(self) -> OpenModel:
        @contextlib.asynccontextmanager
        async def opened(url: str) -> AsyncGenerator[Model]:
            async with front(url) as base_url:
                provider = LlamaCpp.from_env(environ={"LLAMA_CPP_BASE_URL": base_url})
                try:
                    yield provider.model("tiny")
                finally:
                    await provider.aclose()

        return opened


@pytest.mark.parametrize("vision", [True, False])
async def test_pictures_sent_to_vision_server(vision: bool) -> None:
    message = Message("user", (Text("What is this?"), Image("image/png", PIXEL)))
    async with FakeProviderServer([Turn("A dot.")]) as server, front(server.url, vision=vision) as url:
        provider = LlamaCpp.from_key("k", base_url=url)
        _, reply = await collect(provider.model("tiny"), ask(message))
        await provider.aclose()
        assert reply.message.content == "A dot."
        assert (b"image_url" in server.requests[0].body) == vision


async def test_silent_server_still_used() -> None:
    async with FakeProviderServer([Turn("one"), Turn("two")]) as server:
        provider = LlamaCpp.from_key("k", base_url=server.url)
        model = provider.model("tiny")
        said = [(await collect(model, ask()))[1].message.content for _ in range(2)]
        await provider.aclose()
        assert (said, model.limits) == (["one", "two"], ModelLimits())
        assert [request.path for request in server.requests].count("/props") == 1


async def test_missing_server_names_setup() -> None:
    provider = LlamaCpp.from_env(environ={})
    provider.url = "http://127.0.0.1:9/v1"
    _, error = await failure(provider.model("tiny"), ask())
    assert error.kind == "network"
    assert error.final, "nothing has ever answered there"
    assert "LLAMA_CPP_MODEL" in str(error)
    assert "--base-url" not in str(error), "one way to mend it is enough"


def test_remote_server_needs_no_key() -> None:
    provider = LlamaCpp.from_env(environ={"LLAMA_CPP_BASE_URL": "http://10.1.2.3:8080"})
    assert provider.url == "http://10.1.2.3:8080/v1"


# The real one


def write_model(path: Path, window: int) -> None:
    """A llama with one layer and random weights, whose tokens are single bytes, as GGUF (ggml's docs/gguf.md)."""
    width, inner, heads = 32, 64, 4
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]

    def string(text: str) -> bytes:
        return struct.pack("<Q", len(text.encode())) + text.encode()

    def member(name: str, kind: int, data: bytes) -> bytes:
        return string(name) + struct.pack("<I", kind) + data

    def array(name: str, kind: int, items: list[bytes]) -> bytes:
        return member(name, 9, struct.pack("<IQ", kind, len(items)) + b"".join(items))

    numbers = {
        "llama.context_length": window,
        "llama.embedding_length": width,
        "llama.block_count": 1,
        "llama.feed_forward_length": inner,
        "llama.attention.head_count": heads,
        "llama.rope.dimension_count": width // heads,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }
    template = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\n{% endfor %}<|assistant|>"
    members = [
        member("general.architecture", 8, string("llama")),
        *(member(name, 4, struct.pack("<I", value)) for name, value in numbers.items()),
        member("llama.attention.layer_norm_rms_epsilon", 6, struct.pack("<f", 1e-5)),
        member("tokenizer.ggml.model", 8, string("llama")),
        array("tokenizer.ggml.tokens", 8, [string(token) for token in tokens]),
        array("tokenizer.ggml.scores", 6, [struct.pack("<f", 0.0)] * len(tokens)),
        array("tokenizer.ggml.token_type", 5, [struct.pack("<i", kind) for kind in (2, 3, 3, *[6] * 256)]),
        member("tokenizer.chat_template", 8, string(template)),
    ]
    shapes = {
        "token_embd": (width, len(tokens)),
        "output": (width, len(tokens)),
        "output_norm": (width,),
        **{f"blk.0.{name}_norm": (width,) for name in ("attn", "ffn")},
        **{f"blk.0.attn_{name}": (width, width) for name in ("q", "k", "v", "output")},
        **{f"blk.0.ffn_{name}": (width, inner) for name in ("gate", "up")},
        "blk.0.ffn_down": (inner, width),
    }
    chance, heads_of, weights = random.Random(1), b"", b""
    for name, shape in shapes.items():
        heads_of += string(f"{name}.weight") + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(weights))
        size = shape[0] * (shape[1] if len(shape) > 1 else 1)
        weights += struct.pack(f"<{size}f", *(chance.gauss(0, 0.1) for _ in range(size)))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(members)) + b"".join(members) + heads_of
    path.write_bytes(head + bytes(-len(head) % 32) + weights)


LETTER = json_freeze_object({"logit_bias": {"100": 100}})  # an "a" for each token: not every random byte is text


@pytest.mark.needs("llama-server")
async def test_real_server(tmp_path: Path) -> None:
    """One start: a listing, a streamed reply with its usage, an overflow, a full window, a death, a replacement."""
    write_model(tmp_path / "tiny random.gguf", 1024)
    provider = LlamaCpp.from_env(
        environ={
            "LLAMA_CPP_MODEL": str(tmp_path / "tiny random.gguf"),
            "LLAMA_CPP_CONTEXT": "256",
            "LLAMA_CPP_ARGS": "--ignore-eos -t 1",
        }
    )
    model = provider.model("tiny random")
    request = replace(ask(user("hi", Image("image/png", PIXEL)), max_output=8), tools=(), options=LETTER)
    try:
        [info] = await provider.models()
        assert (info.id, info.limits) == ("tiny random", ModelLimits(256))
        for cached in (False, True):
            _, reply = await collect(model, request)
            assert reply.message.stop == "max_tokens"
            assert reply.usage.output == 8
            assert 0 < reply.usage.total_input <= model.max_input_tokens(request)
            assert bool(reply.usage.cache_read) == cached
        _, reply = await collect(model, replace(request, max_output=256))  # as much as the window holds
        assert reply.usage.total_input + reply.usage.output <= 256 + 1
        _, error = await failure(model, ask(user("x" * 2_000)))
        assert (error.kind, "256" in str(error)) == ("context_overflow", True)
        server = provider._server
        assert server is not None
        os.kill(server._process.pid, signal.SIGKILL)
        await until(lambda first=server: not first.alive)
        _, reply = await collect(model, request)
        assert reply.usage.output == 8
        assert provider._server is not server
        server = provider._server
        assert server
    finally:
        await provider.aclose()
    await until(lambda: not group_lives(server._process.pid))


@pytest.mark.needs("llama-server")
@pytest.mark.parametrize("children", [1, 3])
async def test_real_server_keeps_agents_apart(tmp_path: Path, children: int) -> None:
    """Agents with one system prompt take turns; each has only its own new words read, however many there are."""
    write_model(tmp_path / "tiny.gguf", 4096)
    provider = LlamaCpp.from_env(
        environ={"LLAMA_CPP_MODEL": str(tmp_path / "tiny.gguf"), "LLAMA_CPP_ARGS": "--ignore-eos -t 1"}
    )
    model = provider.model("tiny")
    requests = {
        name: replace(
            ask(user(f"{name} " * size), conversation=name), tools=(), system="s" * 600, max_output=8, options=LETTER
        )
        for name, size in (("root", 300), *((f"root/{number}", 10) for number in range(children)))
    }

    async def turn(name: str) -> int:
        """Make a call, answer it with 40 letters, and return how many tokens were read anew."""
        await asyncio.sleep(0.1)  # after a streamed reply the server closes the connection
        _, reply = await collect(model, requests[name])
        history = [*requests[name].messages, reply.message, user("n" * 40)]
        requests[name] = replace(requests[name], messages=history)
        return reply.usage.total_input - reply.usage.cache_read

    try:
        assert await turn("root") > 1_000
        below = [name for name in requests if name != "root"]
        assert all(await asyncio.gather(*(turn(name) for name in below)))
        for _ in range(2):
            assert max(await asyncio.gather(*(turn(name) for name in below))) < 200
            assert await turn("root") < 200
    finally:
        await provider.aclose()


@pytest.mark.needs("llama-server")
async def test_real_server_fault_explained(here: Path) -> None:
    """A file is refused in one line; of an argument it gives its own last lines."""
    for variables, words in (
        ({}, f"LLAMA_CPP_MODEL: llama-server cannot load {here}/tiny.gguf ("),
        ({"LLAMA_CPP_ARGS": "--no-such-thing"}, "ended with exit code 1 before it was ready. Its last output:"),
    ):
        provider = LlamaCpp.from_env(environ={"LLAMA_CPP_MODEL": str(here / "tiny.gguf"), **variables})
        _, error = await failure(provider.model("tiny"), ask())
        await provider.aclose()
        assert words in str(error)
        assert not variables or "--no-such-thing" in str(error).partition("Its last output:")[2]


async def test_proxy_not_used_for_child(opened: Callable[..., LlamaCpp], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    _, reply = await collect(opened().model("tiny"), ask(user("hi")))
    assert reply.message.stop == "end"


def test_home_in_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    (tmp_path / "server").write_text("#!/bin/sh\n")
    (tmp_path / "server").chmod(0o700)
    named = {"LLAMA_CPP_MODEL": "~/m.gguf", "LLAMA_CPP_SERVER": "~/server", "LLAMA_CPP_ARGS": "--lora ~/my.gguf"}
    launch = llamacpp_server.Launch.read(named)
    assert launch is not None
    assert (launch.model, launch.program) == (tmp_path / "m.gguf", str(tmp_path / "server"))
    assert launch.arguments == ("--lora", str(tmp_path / "my.gguf"))
    assert cache_folder({"XDG_CACHE_HOME": "~/caches"}) == tmp_path / "caches/sagent/models"
