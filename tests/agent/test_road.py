"""How far it is from a prompt to the model: frames and files on the way, and how often a request is made ready."""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

import pytest

import sagent
from sagent.agent import Agent, Resources
from sagent.app import open_agent
from sagent.config import load
from sagent.lib.json import json_freeze_object
from sagent.messages import ToolCall
from sagent.model import Request
from sagent.providers import provider_named
from sagent.testing import ScriptedModel
from sagent.testing.server import Call, FakeProviderServer, Turn
from sagent.tool import Workspace
from sagent.tools import Read

HOME = str(Path(sagent.__file__).parent)
FAMILIES = (
    "anthropic/claude-sonnet-4-6",
    "openai/gpt-5.6-terra",
    "moonshot/kimi-k2.6",
    "google/gemini-3.1-pro-preview",
)
MAX_FILES = 45  # of sagent that one prompt and one Read pass, with the scripted model
READY = ("WireModel._fit", "_dialect", "EncodingCache.conversation")  # once for each call of a model


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Count how often functions are entered, by their names with and without the class, and by their files."""
    entered = Counter[str]()

    def enter(frame: FrameType, event: str, argument: object) -> None:
        code: CodeType = frame.f_code
        if event == "call" and code.co_filename.startswith(HOME):
            entered.update({code.co_name, code.co_qualname, code.co_filename})

    sys.setprofile(enter)
    try:
        yield entered
    finally:
        sys.setprofile(None)


async def test_two_frames_from_program_to_turn() -> None:
    names: list[str] = []

    def look(request: Request) -> str:
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            if frame.f_code.co_filename.startswith(HOME):
                names.append(frame.f_code.co_qualname)
            frame = frame.f_back
        return "Hello."

    assert (await Agent(ScriptedModel(look)).run("hi")).content == "Hello."
    turn = names.index("take_turn")
    assert names[turn : turn + 3] == ["take_turn", "Runner.take", "Agent.run"]


async def test_one_read_passes_few_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    read = ToolCall("c", "Read", json_freeze_object({"file_path": "a.txt"}))
    agent = Agent(
        ScriptedModel("Hi.", read, "Hello."), tools=[Read()], resources=Resources(workspace=Workspace(tmp_path))
    )
    await agent.run("What a process reads once is not counted.")
    with counted() as entered:
        assert (await agent.run("Look.")).content == "Hello."
    await agent.aclose()
    assert "hello" in agent.messages[4].results[0].text
    assert len(passed := {name for name in entered if name.endswith(".py")}) <= MAX_FILES, sorted(passed)


@pytest.mark.parametrize("family", FAMILIES)
async def test_request_is_prepared_once(family: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    name, _, model = family.partition("/")
    path = {"openai": "/v1", "moonshot": "/v1"}.get(name, "")
    async with FakeProviderServer([Turn(calls=(Call("Read", {"file_path": "a.txt"}),)), Turn(text="Hello.")]) as server:
        provider = provider_named(name, key="k", base_url=server.url + path)
        agent = Agent(provider.model(model), tools=[Read()], resources=Resources(workspace=Workspace(tmp_path)))
        with counted() as entered:
            assert (await agent.run("Look.")).content == "Hello."
        await agent.aclose()
        await provider.aclose()
    assert len(server.requests) == 2
    assert {name: entered[name] for name in READY} == dict.fromkeys(READY, 2)


async def test_unwatched_session_is_encoded_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeProviderServer([Turn(text="Hello.")]) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        settings = load({"model": FAMILIES[0], "state_dir": str(tmp_path / "state"), "cwd": str(tmp_path)})
        with counted() as entered:
            async with open_agent(settings, lambda _: None) as agent:
                assert entered["EncodingCache.conversation"] == 0
                await agent.run("hi")
    assert entered["EncodingCache.conversation"] == 1
