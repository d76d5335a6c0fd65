"""Tasks that end with an error when nobody waits for them any more are reported to nobody."""

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

from sagent.plugins.mesh import session_worker
from sagent.plugins.mesh.mirror import Mirror
from sagent.plugins.mesh.remote import Mesh
from sagent.plugins.mesh.tasks import end
from sagent.testing.server import Turn
from tests.plugins.mesh.places import by_results, place
from tests.plugins.mesh.test_inbox_once import node


async def slow_to_stop() -> None:
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0.2)
        raise OSError("the connection is closed")


async def test_call_cancelled_twice_is_quiet(tmp_path: Path) -> None:
    """As the call that stores a snapshot, when its node is stopped."""
    async with place(tmp_path, ()) as here:
        reported = list[dict[str, Any]]()
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        calling = asyncio.create_task(here.bus.call(slow_to_stop, 30))
        await asyncio.sleep(0.05)
        calling.cancel()
        await asyncio.sleep(0.05)
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        del calling
        await asyncio.sleep(0.3)
        gc.collect()
        assert reported == []


async def test_ended_tasks_are_quiet() -> None:
    reported = list[dict[str, Any]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    task = asyncio.create_task(slow_to_stop())
    await asyncio.sleep(0)
    await end(task)
    del task
    gc.collect()
    assert reported == []


async def test_lost_helper_of_session_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a session needs and fails is said, and the session goes on."""
    async with place(tmp_path, by_results([Turn("One.")])) as here, asyncio.timeout(40):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", here.server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        warned = list[str]()

        class Failing(Mirror):
            async def run(self) -> None:
                monkeypatch.setattr(session_worker, "Mirror", Mirror)
                raise LookupError("no such blob")

        monkeypatch.setattr(session_worker, "Mirror", Failing)
        working = asyncio.create_task(node(here, "n1", warned.append).run())
        async with Mesh(here.bus).spawn("hello") as peer:
            assert (await peer.wait()).content == "One."
        assert len(warned) == 1
        assert "no such blob" in warned[0]
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
