"""Models that are made from functions."""

from collections.abc import AsyncIterator, Callable, Iterator
from decimal import Decimal

import pytest

from sagent import Agent, BudgetExceeded, ModelError, Resources, UsageError
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.events import TextDelta
from sagent.lib.json import JsonObject
from sagent.messages import Text, ToolCall, assistant
from sagent.model import Request
from sagent.plugins.functions import FunctionModel
from sagent.usage import Usage


def text(request: Request) -> str:
    return f"You said {request.messages[-1].content}."


async def later(request: Request) -> str:
    return text(request)


def pieces(request: Request) -> Iterator[object]:
    yield from ("You said ", request.messages[-1].content, Text("."), Usage(input=7, output=3))


async def streamed(request: Request) -> AsyncIterator[object]:
    for piece in pieces(request):
        yield piece


def message(request: Request) -> object:
    return assistant(text(request))


@pytest.mark.parametrize("function", [text, later, pieces, streamed, message])
async def test_function_answers(function: Callable[[Request], object]) -> None:
    async with Agent(FunctionModel("table/facts", function)) as agent:
        shown: list[str] = []
        agent.listen(lambda event: shown.append(event.text) if isinstance(event, TextDelta) else None)
        result = await agent.run("hello")
        assert result.content == "".join(shown) == "You said hello."
        assert result.model == "table/facts" and result.usage.total_input > 0
        assert (await agent.run("more")).content == "You said more."


async def test_function_calls_tools() -> None:
    def answer(request: Request) -> object:
        results = request.messages[-1].results
        return f"It is {results[0].text}." if results else ToolCall("1", "double", JsonObject({"number": 21}))

    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    async with Agent(FunctionModel("table/facts", answer), tools=[double]) as agent:
        assert (await agent.run("Go.")).content == "It is 42."


async def test_budget_needs_price_and_counts_usage() -> None:
    model = FunctionModel("table/facts", pieces)
    async with Agent(model, max_budget_usd=1) as agent:
        with pytest.raises(BudgetExceeded):
            await agent.run("hello")
    ledger = Ledger(Decimal(1), PriceBook({"table/facts": {"input": 1, "output": 1}}))
    async with Agent(model, resources=Resources(ledger=ledger)) as agent:
        result = await agent.run("x" * 10)
        assert result.cost.total + result.cost.unbilled > 0


def fails(_: Request) -> str:
    raise LookupError("no such table")


def says_nothing(_: Request) -> str:
    return ""


def wrong(_: Request) -> object:
    return 5


@pytest.mark.parametrize(
    ("function", "kind", "words"),
    [(fails, "server", "no such table"), (wrong, "protocol", "gave 5: give a text"), (says_nothing, "empty", "[a-z]")],
)
async def test_failures_are_model_errors(function: Callable[[Request], object], kind: str, words: str) -> None:
    async with Agent(FunctionModel("table/facts", function)) as agent:
        with pytest.raises(ModelError, match=words) as raised:
            await agent.run("hello")
        assert raised.value.kind == kind


@pytest.mark.parametrize("name", ["facts", "/facts", "table/"])
def test_name_has_two_parts(name: str) -> None:
    with pytest.raises(UsageError, match="provider/id"):
        FunctionModel(name, text)
