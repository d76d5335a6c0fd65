"""What a local server does before its first word is told, and waited for as long as it says that it works."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from sagent.app import models as choices
from sagent.app.models import choose_model
from sagent.config import load
from sagent.errors import ModelError
from sagent.model import full_name
from sagent.plugins.local.llamacpp import LlamaCpp
from sagent.plugins.local.waiting import reading_line
from sagent.providers.wire.exchange import Timeouts
from sagent.providers.wire.waiting import is_loading, when_loaded
from sagent.testing.model_suite import ask, collect
from sagent.testing.server import FakeProviderServer, Turn
from tests.providers.llama_server import Front

READING = {"steps": 5, "seconds": 0.2}


@contextlib.asynccontextmanager
async def served(**conduct: Any) -> AsyncGenerator[tuple[Front, str]]:
    """A server that somebody else has started."""
    async with FakeProviderServer([Turn("Hello.")], repeat_last=True) as server:
        door = Front(server.url, **conduct)
        port = await door.open()
        try:
            yield door, f"http://127.0.0.1:{port}/v1"
        finally:
            await door.aclose()


async def test_loading_server_awaited_any_time() -> None:
    async with served(loading=0.6) as (door, url):
        told: list[str] = []
        provider = LlamaCpp.from_key("k", base_url=url)
        provider.on_waiting = lambda _, line: told.append(line)
        for _ in range(2):
            told.clear()
            _, reply = await collect(provider.model("tiny"), ask())
            assert reply.message.content == "Hello."
            assert told[0].startswith("Loading ")
            assert told[-1] == ""
            door.since = 0.0  # somebody starts it again
            for task in door.tasks:
                task.cancel()
            await asyncio.sleep(0.1)  # for the connections to be seen closed
        assert [info.id for info in await when_loaded(provider.models, lambda _, line: told.append(line))] == ["tiny"]
        await provider.aclose()


async def test_reading_server_not_silent() -> None:
    async with served(reading=READING) as (_, url):
        told: list[str] = []
        provider = LlamaCpp.from_key("k", base_url=url, timeouts=Timeouts(stall=0.6, reasoning_stall=0.6))
        provider.on_waiting = lambda _, line: told.append(line)
        _, reply = await collect(provider.model("tiny"), ask())
        await provider.aclose()
        assert reply.message.content == "Hello."
        lines = list(dict.fromkeys(told))
        assert lines[1] == "Reading the prompt: 0 % (0 of 1,000 tokens)"
        assert "Reading the prompt: 80 % (800 of 1,000 tokens, 1,000 tokens a second)" in lines
        assert told[-1] == ""


async def test_silent_server_shown_as_wait() -> None:
    async with served(queue=2.2) as (_, url):
        told: list[tuple[str, str]] = []
        provider = LlamaCpp.from_key("k", base_url=url)
        provider.on_waiting = lambda agent, line: told.append((agent, line))
        _, reply = await collect(provider.model("tiny"), ask(conversation="session:root/worker"))
        await provider.aclose()
        assert reply.message.content == "Hello."
        assert ("root/worker", "Waiting for the server… 1 s") in told
        assert told[-1] == ("root/worker", "")


async def test_queued_call_is_not_silence() -> None:
    async with served(slots=1, reading={"steps": 4, "seconds": 0.2}) as (door, url):
        provider = LlamaCpp.from_key("k", base_url=url, timeouts=Timeouts(stall=1, reasoning_stall=1))
        told: dict[str, list[str]] = {}
        provider.on_waiting = lambda agent, line: told.setdefault(agent, []).append(line)
        await collect(provider.model("tiny"), ask())  # it has said how many slots it has
        model, names = provider.model("tiny"), [f"root/{number}" for number in range(4)]
        answers = await asyncio.gather(*(collect(model, ask(conversation=f"session:{name}")) for name in names))
        assert [reply.message.content for _, reply in answers] == ["Hello."] * 4
        assert any("Waiting for the server" in line for line in told[names[-1]])
        assert all(told[name][-1] == "" for name in names)
        door.conduct["slots"] = 2  # started again with others
        provider._met = False
        await asyncio.gather(*(collect(model, ask(conversation=f"session:{name}")) for name in names))
        assert provider.turns is not None and provider.turns[0] == 2
        stopped = asyncio.create_task(collect(model, ask(conversation="session:root/stopped")))
        await asyncio.sleep(0.1)
        stopped.cancel()
        await asyncio.wait([stopped])
        assert not provider.turns[1].locked()
        assert not provider.waits
        await provider.aclose()


def test_silence_limit_scales_unless_set() -> None:
    usual, own = (
        LlamaCpp.from_key("k", base_url="http://127.0.0.1:9", timeouts=timeouts).model("tiny").max_silence
        for timeouts in (Timeouts(stall=7), Timeouts(reasoning_stall=7))
    )
    assert (usual > 2_048 / 5, own) == (True, 7)


@pytest.mark.parametrize("model", [None, "any"])
async def test_loading_server_at_address_found(tmp_path: Path, model: str | None) -> None:
    async with served(loading=0.6) as (_, url):
        told: list[str] = []
        given = {"base_url": url, "state_dir": str(tmp_path / "state"), "model": model}
        choice = await choose_model(
            load(given, {"HOME": str(tmp_path)}, tmp_path), on_waiting=lambda _, line: told.append(line)
        )
        assert full_name(choice.model) == "llamacpp/tiny"
        assert any(line.startswith("Loading the model…") for line in told)
        assert told[-1] == ""
        await choice.aclose()


async def test_loading_server_at_port_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(loading=0.6) as (_, url):
        monkeypatch.setattr(choices, "LOCAL_SERVERS", {"Dead": "http://127.0.0.1:9/v1", "Slow": url})
        settings = load({"state_dir": str(tmp_path / "state")}, {"HOME": str(tmp_path)}, tmp_path)
        choice = await choose_model(settings)
        assert full_name(choice.model) == "llamacpp/tiny"
        await choice.aclose()


@pytest.mark.parametrize(
    ("progress", "line"),
    [
        ({"total": 2_471, "cache": 71, "processed": 1_031, "time_ms": 12_000}, "40 % (960 of 2,400 tokens, 80 tokens"),
        ({"total": 100, "cache": 0, "processed": 0, "time_ms": 0}, "0 % (0 of 100 tokens)"),
        ({"total": 100, "cache": 0, "processed": 100, "time_ms": 9}, ""),
        ({"total": 100, "cache": 100, "processed": 100, "time_ms": 0}, ""),
        ({"total": "x", "cache": None, "processed": -1, "time_ms": 1e999}, ""),
        ({}, ""),
    ],
)
def test_prompt_progress_in_words(progress: dict[str, object], line: str) -> None:
    assert reading_line(progress).startswith(f"Reading the prompt: {line}" if line else "")
    assert bool(reading_line(progress)) == bool(line)


def test_only_loading_is_awaited() -> None:
    assert is_loading(ModelError("server", "x: Loading model", provider="x", status=503))
    assert not is_loading(ModelError("server", "x: Loading model", provider="x", status=500))
    assert not is_loading(ModelError("overloaded", "x: busy", provider="x", status=503))
