"""A session that goes on in another directory: its model learns of it, once, and the past stays as it was sent."""

from pathlib import Path

import pytest

from sagent.app import open_agent
from sagent.config import load
from sagent.peer import Compact
from sagent.testing.server import FakeProviderServer, Turn


async def test_model_learns_of_other_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    for directory in (first, second, third):
        directory.mkdir()
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    async with FakeProviderServer([Turn(text="ok")], repeat_last=True) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        environment = {"HOME": str(tmp_path), "SAGENT_STATE_DIR": str(tmp_path / "state")}
        flags: dict[str, object] = {"model": "anthropic/claude-sonnet-4-6"}

        async def ask(where: Path, *more: Path, speaks: bool = True, clears: bool = False) -> str:
            """Continue the session there; return what the request says after the messages before."""
            settings = load({**flags, "add_dirs": [str(each) for each in more]}, environment, where)
            async with open_agent(settings, lambda _: None) as agent:
                flags["session"] = agent.log.path
                if clears:
                    agent.apply(Compact(clear=True))
                if speaks:
                    await agent.run("go")
            bodies = [request.body.decode() for request in server.requests]
            assert len({body.partition('"messages"')[0] for body in bodies}) <= 1  # the system prompt stays
            said = server.requests[-1].json["messages"] if bodies else ()
            return str(list(said)[-1]) if isinstance(said, (list, tuple)) else ""

        assert "From now on" not in await ask(first)
        assert "From now on" not in await ask(first)
        await ask(second, speaks=False)  # not read yet
        assert (await ask(second)).count(f"Working directory: {second}") == 1
        assert "Working directory" not in await ask(second)
        assert f"Working directory: {second}" in await ask(second, clears=True)
        assert f"Further directories: {third}" in await ask(second, third)
        assert "Further" not in (back := await ask(first)) and f"Working directory: {first}" in back
