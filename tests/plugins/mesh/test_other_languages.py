"""Agents in JavaScript and in Go, by HTTP alone, with `sagent serve` between: as the documentation has it."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sagent.plugins.mesh.bus import Bus, body_object, message, request
from sagent.plugins.mesh.buses.http import http_bus
from sagent.plugins.mesh.errors import Failed, Refused
from tests.depth import WHOLE, later

EXAMPLES = Path(__file__).parents[3] / "examples" / "mesh"
PIPE = asyncio.subprocess.PIPE


LANGUAGES = ("node", "go") if WHOLE else ("node",)  # Go compiles its library for a minute


@pytest.fixture(scope="module", params=[pytest.param(name, marks=pytest.mark.needs(name)) for name in LANGUAGES])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The agent's command."""
    if request.param == "node":
        return ["node", str(EXAMPLES / "agent.mjs")]
    folder = tmp_path_factory.mktemp("go")
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}
    built = ["go", "build", "-o", str(folder / "agent"), str(EXAMPLES / "agent.go")]
    subprocess.run(built, env=environment, check=True)
    return [str(folder / "agent")]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[dict[str, str]]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "ANTHROPIC_API_KEY": "k"}
    argv = [sys.executable, "-m", "sagent.bin.cli", "serve", "--output-format", "json"]
    process = await asyncio.create_subprocess_exec(*argv, env=environment, cwd=tmp_path, stdout=PIPE)
    assert process.stdout is not None
    try:
        yield json.loads(await process.stdout.readline())
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def agent(
    program: list[str], server: dict[str, str], pause: int = 0
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The program, when it has begun."""
    environment = {"PATH": os.environ["PATH"], "SAGENT_URL": server["url"], "SAGENT_TOKEN": server["token"]}
    process = await asyncio.create_subprocess_exec(*program, env={**environment, "PAUSE": str(pause)}, stdout=PIPE)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@later
async def test_other_language_plays_and_streams(program: list[str], server: dict[str, str]) -> None:
    async with http_bus(server["url"], server["token"]) as bus, agent(program, server):
        for number in range(3):
            assert await request(bus, message("game.pong", number), timeout=30) == number + 1
        async with bus.asking(message("desk.words", {"text": "zwei drei vier"}), timeout=30) as frames:
            found = [body_object(frame.body) async for frame in frames]
        assert found[0]["tool"] == "count_words"
        assert "".join(str(frame["text"]) for frame in found[1:-1]) == "There are 3 words."
        assert found[-1]["count"] == 3
        with pytest.raises(Failed, match=r"Give a text\."):
            await request(bus, message("desk.words", 7), timeout=30)
        assert {card.address for card in await bus.cards()} == {"game.pong", "desk.words"}


@later
async def test_killed_agent_restarts_answer(program: list[str], server: dict[str, str]) -> None:
    async with http_bus(server["url"], server["token"]) as bus:
        kinds = [kind async for kind in _kinds_over_a_kill(program, server, bus)]
    assert kinds.count("restart") == 1
    after = kinds[kinds.index("restart") + 1 :]
    assert after == ["frame"] * 5 + ["reply"]


async def _kinds_over_a_kill(program: list[str], server: dict[str, str], bus: Bus) -> AsyncIterator[str]:
    asked = message("desk.words", {"text": "one two"})
    async with agent(program, server, pause=1000) as first, bus.asking(asked, timeout=60) as frames:
        for _ in range(2):
            yield (await anext(frames)).kind
        first.kill()
        await first.wait()
        async with agent(program, server):
            async for frame in frames:
                yield frame.kind


@later
async def test_token_required(server: dict[str, str]) -> None:
    async with http_bus(server["url"], "x" * 32) as bus:
        with pytest.raises(Refused, match="token"):
            await bus.cards()
        with pytest.raises(Refused, match="token"):
            async with bus.receiving("game.pong") as deliveries:
                await anext(deliveries)
