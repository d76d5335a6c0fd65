"""A model of your own: a function from a request to an answer, which works wherever a model does.

python examples/own_provider.py
"""

import asyncio

from sagent import Agent
from sagent.model import Request
from sagent.plugins.functions import FunctionModel

TABLE = {"capital of france": "Paris.", "largest lake of africa": "Lake Victoria."}


def look_up(request: Request) -> str:
    """Answer the last message. It could also yield pieces, calls of tools, and the tokens that were used."""
    asked = request.messages[-1].content.lower()
    return next((value for key, value in TABLE.items() if key in asked), "I do not know.")


async def main() -> None:
    """It has prices of its own, or none: then a budget is refused, and the cost is told as unknown."""
    async with Agent(FunctionModel("table/facts-1", look_up)) as agent:
        for question in ("What is the capital of France?", "And the largest lake of Africa?", "And of Mars?"):
            print((await agent.run(question)).content)


asyncio.run(main())
