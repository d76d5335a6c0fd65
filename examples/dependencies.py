"""Dependencies: a shop's tools work on the shop that a run is given, and so do its prompt and the choice of tools.

python examples/dependencies.py
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from sagent.agent import Agent
from sagent.model import ToolSpec
from sagent.providers import Anthropic
from sagent.testing.server import Call, FakeProviderServer, Turn
from sagent.tool import RunContext
from sagent.tools import tool


@dataclass
class Shop:
    """What the program knows: no model sees it, and no log has it."""

    name: str
    stock: dict[str, int]
    is_open: bool = True


@tool(effect="read")
async def in_stock(run: RunContext[Shop], item: str) -> int:
    """How many of an item there are."""
    return run.deps.stock.get(item, 0)


@tool(effect="write")
async def sell(run: RunContext[Shop], item: str, number: int) -> str:
    """Sell some of an item."""
    run.deps.stock[item] -= number
    return f"{run.deps.stock[item]} are left"


def prompt(run: RunContext[Shop]) -> str:
    return f"You serve the customers of {run.deps.name}."


def choose(run: RunContext[Shop], tools: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
    """A closed shop sells nothing."""
    return [spec for spec in tools if run.deps.is_open or spec.name != "sell"]


async def main() -> None:
    script = [
        Turn(text="I'll sell them.", calls=(Call("sell", {"item": "pears", "number": 2}),)),
        Turn(text="Two pears are yours."),
        Turn(text="We are closed."),
    ]
    async with FakeProviderServer(script) as server:
        provider = Anthropic.from_key("no-key-needed", base_url=server.url)
        model = provider.model("claude-sonnet-4-6")
        shop = Shop("the corner shop", {"pears": 3})
        async with Agent(model, deps_type=Shop, system=prompt, prepare_tools=choose, tools=[in_stock, sell]) as agent:
            result = await agent.run("Two pears, please.", deps=shop)
            print(result.content, shop.stock)
            shop.is_open = False
            result = await agent.run("One more?", deps=shop)
            print(result.content, [tool.name for tool in agent.tools])
        await provider.aclose()


if __name__ == "__main__":
    asyncio.run(main())
