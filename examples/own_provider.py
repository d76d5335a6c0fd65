"""A model of your own: five members, and it works wherever a model does. This one answers from a table.

python examples/own_provider.py
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator

from sagent import Agent
from sagent.messages import assistant
from sagent.model import Delta, ModelLimits, Reply, Request, RequestDigest, TextPart
from sagent.usage import Charge, Usage

TABLE = {"capital of france": "Paris.", "largest lake of africa": "Lake Victoria."}


class TableModel:
    """`stream` is the whole of it: pieces as they come, then one Reply that says what it cost."""

    provider, id = "table", "facts-1"
    limits = ModelLimits(window=8_000, max_output=100)

    def max_input_tokens(self, request: Request) -> int:
        """An upper bound, without asking anybody: a token has at least one byte."""
        return len(request.system) + sum(len(message.content.encode()) for message in request.messages)

    async def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        """Raise nothing but ModelError. What is sent is hashed, so that a replay can tell."""
        asked = request.messages[-1].content
        answer = next((value for key, value in TABLE.items() if key in asked.lower()), "I do not know.")
        for word in answer.split(" "):
            yield TextPart(word if answer.startswith(word) else f" {word}")
        usage = Usage(input=self.max_input_tokens(request), output=len(answer))
        digest = RequestDigest(hashlib.sha256(asked.encode()).hexdigest(), len(asked), self.id)
        message = assistant(answer, model=f"{self.provider}/{self.id}", stop="end")
        yield Reply(message, usage, (Charge(self.id, usage),), digest)


async def main() -> None:
    """It has prices of its own, or none: then a budget is refused, and the cost is told as unknown."""
    async with Agent(TableModel()) as agent:
        for question in ("What is the capital of France?", "And the largest lake of Africa?", "And of Mars?"):
            print((await agent.run(question)).content)


asyncio.run(main())
