"""A long session is opened beside whoever types: the event loop goes on, and nothing stays open when nobody waits."""

import asyncio
from pathlib import Path

import pytest

from sagent.app.assembly import open_agent
from sagent.config import load
from sagent.config.settings import Settings
from sagent.messages import assistant, user
from sagent.session.contents import MessageEntry, Opened, StoredMessage
from sagent.session.store import Session
from tests.depth import later


@pytest.fixture
def long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    given = {"cwd": str(tmp_path), "model": "anthropic/claude-sonnet-4-6"}
    state = load(given).state_dir
    with Session.create(state, tmp_path) as session:
        log = session.log()
        log.append(Opened(session.id, "root", str(tmp_path), {}))
        for number in range(600):
            for message in (user(f"Step {number}?"), assistant(f"Done with {number}.", model=given["model"])):
                log.append(MessageEntry(StoredMessage.of(message, None)))
    return load({**given, "continue": True})


async def test_loop_runs_during_opening(long: Settings) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    async with open_agent(long, lambda _: None) as agent:
        ticking.cancel()
        assert len(agent.messages) == 1_200
    assert ticks > 100


@later
@pytest.mark.costly
@pytest.mark.parametrize("rounds", [1, 3, 30])
async def test_leaving_during_opening_closes_it(long: Settings, rounds: int) -> None:
    async def opening() -> None:
        async with open_agent(long, lambda _: None):
            await asyncio.Event().wait()

    task = asyncio.create_task(opening())
    for _ in range(rounds):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with open_agent(long, lambda _: None) as agent:
        assert len(agent.messages) == 1_200
