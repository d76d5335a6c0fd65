"""A run that was recorded: its trace and its session."""

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pytest

from sagent.agent import Agent, Resources
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.policy import Allow, Deny
from sagent.providers import Anthropic
from sagent.session.contents import Unknown
from sagent.session.store import Session
from sagent.testing.script import Call, Fail, Turn
from sagent.testing.server import FakeProviderServer
from sagent.tools import tool


@dataclass(frozen=True)
class Recorded:
    """Where a run was recorded."""

    trace: Path
    session: Path


class NoDeleting:
    """A policy that denies what is called delete."""

    async def before_tool(self, call, effect, workspace):
        return Deny("deleting is not wanted") if call.name == "delete" else Allow()

    async def after_turn(self, turn):
        return ()


@tool
def look(path: str) -> str:
    """Look at something."""
    return f"{path} is blue\nand large"


@tool
def delete(path: str) -> str:
    """Delete something."""
    return f"{path} is gone"


SCRIPT = [
    Turn(text="I look first.", calls=(Call("look", {"path": "sky"}), Call("delete", {"path": "sky"}))),
    Fail(529, headers={"retry-after": "0"}),
    Turn(text="The sky stays."),
]


@pytest.fixture
async def recorded(tmp_path: Path) -> Recorded:
    """A run of two turns with a call, a denial and a second try, and one more run in the same session."""
    from sagent.plugins.exports.trace_file import TraceFile

    trace = TraceFile(tmp_path / "run.jsonl", pytest.fail)
    async with FakeProviderServer([*SCRIPT, Turn(text="Yes.")]) as server:
        provider = Anthropic.from_key("k", base_url=server.url)
        with Session.create(tmp_path / "state", tmp_path) as session:
            session.log().append(Unknown("opened", {"session": session.id, "cwd": "/w", "version": 1}))
            ledger = Ledger(Decimal(9), PriceBook())
            resources = Resources(log=session.log(), ledger=ledger)
            model = provider.model("claude-sonnet-4-6")
            agent = Agent(model, tools=[look, delete], policy=NoDeleting(), resources=resources)
            agent.listen(trace.on_event)
            await agent.run("Remove the sky.")
            await agent.run("Are you sure?")
            await agent.aclose()
        await provider.aclose()
    trace.close()
    return Recorded(trace._path, session.path)
