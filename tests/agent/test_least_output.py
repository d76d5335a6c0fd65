"""A provider that takes no output limit: under a cap a call is made only where its longest answer can be afforded."""

from decimal import Decimal

import pytest

from sagent.agent import Agent, Resources, RunLimits
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import BudgetExceeded
from sagent.model import ModelLimits
from sagent.testing import ScriptedModel

PRICES = PriceBook({"scripted/scripted": {"input": "1", "output": "1"}})  # USD per million tokens


@pytest.mark.parametrize(("cap", "calls"), [("0.0005", 0), ("0.01", 1)])
async def test_longest_answer_is_reserved(cap: str, calls: int) -> None:
    model = ScriptedModel("hi", limits=ModelLimits(10_000, 8_000, least_output=1_000))
    ledger = Ledger(Decimal(cap), PRICES)
    agent = Agent(model, limits=RunLimits(max_response_tokens=10), resources=Resources(ledger=ledger))
    if calls:
        await agent.run("hello")
        assert model.requests[0].max_output == 10
    else:
        with pytest.raises(BudgetExceeded):
            await agent.run("hello")
    assert len(model.requests) == calls
