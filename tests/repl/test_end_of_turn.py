"""The line at the end of a turn: its cost and its changes, apart from those of earlier turns."""

from dataclasses import replace
from decimal import Decimal

import pytest

from sagent.agent import Agent, Resources
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.events import ToolFinished
from sagent.lib.diff import LEFT_OUT
from sagent.lib.json import json_freeze_object
from sagent.messages import Text, ToolCall, ToolResult
from sagent.repl.ending import TurnTally
from sagent.repl.view.blocks import render_block
from sagent.repl.view.lines import plain
from sagent.testing import ScriptedModel
from sagent.usage import Charge, Usage

DIFF = "--- a/{0}\n+++ b/{0}\n@@ -1,1 +1,2 @@\n-a\n+b\n+c\n"


def edit(name: str, diff: str, *, failed: bool = False) -> ToolFinished:
    call = ToolCall("a", "Edit", json_freeze_object({"file_path": name}))
    return ToolFinished("root", call, ToolResult("a", (Text("ok"),), failed), 0.1, "", diff)


@pytest.fixture
def agent() -> Agent:
    book = PriceBook({"scripted/scripted": {"input": 1, "output": 1}})
    return Agent(ScriptedModel("Yes."), resources=Resources(ledger=Ledger(None, book)))


def shown(tally: TurnTally) -> str:
    return plain(render_block(tally.line(), 100)).partition(" · ")[2]


async def test_end_line_counts_its_turn_alone(agent: Agent) -> None:
    spent = Charge("m", Usage(), usd=Decimal(3), at_most=Decimal(4), role="executor", provider="p", agent="root")
    agent.ledger.restore([spent, replace(spent, usd=None, at_most=None)])
    tally = TurnTally(agent)
    assert shown(tally) == "$0"
    agent.ledger.restore([replace(spent, usd=Decimal(2), at_most=Decimal("2.25"))])
    assert shown(tally) == "$2.00 +$0.2500?"
    agent.ledger.restore([replace(spent, usd=None, at_most=None)])
    assert shown(tally) == "≥$2.00 +$0.2500?"


async def test_end_line_counts_files_once(agent: Agent) -> None:
    tally = TurnTally(agent)
    for event in (edit("x", DIFF.format("x")), edit("x", DIFF.format("x")), edit("y", DIFF.format("y"), failed=True)):
        tally.take(event)
    assert shown(tally).endswith("1 file +4 -2")
    tally.take(edit("z", DIFF.format("z") + LEFT_OUT + "\n"))
    assert shown(tally).endswith("2 files ≥+6 -3")
