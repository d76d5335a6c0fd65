"""A message is given to an agent once, though the node that had it dies before it could acknowledge it."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from sagent.plugins.mesh import session_worker
from sagent.plugins.mesh.commands.node import opener
from sagent.plugins.mesh.node import Node
from sagent.plugins.mesh.remote import Mesh
from sagent.plugins.mesh.session_worker import NodeOptions
from sagent.plugins.mesh.streams import LeasedMessage
from sagent.testing.server import Turn
from tests.depth import slow
from tests.plugins.mesh.places import MODEL, Place, by_results, place


def node(here: Place, name: str, warn: Callable[[str], None] = pytest.fail) -> Node:
    """A node in this process."""
    options = NodeOptions(name, 2, (), here.directory / name)
    flags = {"model": MODEL, "permission_mode": "full", "sandbox": "off"}
    return Node(here.bus, options, opener(flags), warn)


@slow
async def test_lost_acknowledgement_not_redelivered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with place(tmp_path, by_results([Turn("One."), Turn("Two.")])) as here, asyncio.timeout(60):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", here.server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        acknowledge = LeasedMessage.ack

        async def lost(self: LeasedMessage) -> bool:
            return False

        monkeypatch.setattr(LeasedMessage, "ack", lost)
        first = asyncio.create_task(node(here, "n1").run())
        async with Mesh(here.bus).spawn("hello") as peer:
            while not here.server.answered:
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.5)
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            monkeypatch.setattr(LeasedMessage, "ack", acknowledge)
            second = asyncio.create_task(node(here, "n2").run())
            assert (await peer.wait()).content == "One."
            peer.send("more")
            assert (await peer.wait()).content == "Two."
            second.cancel()
            await asyncio.gather(second, return_exceptions=True)
        assert len(here.server.requests) == 2


async def test_session_tried_again_after_surprise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that nobody has thought of ends neither the node nor the session."""
    async with place(tmp_path, by_results([Turn("One.")])) as here, asyncio.timeout(40):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", here.server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        take_over, warned = session_worker.take_over, list[str]()

        async def surprised(*_: object) -> int:
            monkeypatch.setattr(session_worker, "take_over", take_over)
            raise LookupError("what is this?")

        monkeypatch.setattr(session_worker, "take_over", surprised)
        working = asyncio.create_task(node(here, "n1", warned.append).run())
        async with Mesh(here.bus).spawn("hello") as peer:
            assert (await peer.wait()).content == "One."
        assert len(warned) == 1
        assert "what is this?" in warned[0]
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
