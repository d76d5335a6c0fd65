"""A directory to work in, and a provider on loopback."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from sagent.testing.script import Step
from sagent.testing.server import FakeProviderServer


@pytest.fixture
def work(tmp_path: Path) -> Path:
    place = tmp_path / "work"
    place.mkdir()
    return place


@pytest.fixture
def place(work: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory in which the test runs, with a key for a provider."""
    monkeypatch.chdir(work)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    return work


@pytest.fixture
async def provider(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[list[Step]]:
    """What a provider answers, one step after another: each test adds its own."""
    async with FakeProviderServer(lambda _: steps.pop(0)) as server:
        steps: list[Step] = []
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        yield steps
