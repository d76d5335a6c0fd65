"""DeepSeek R1: its reasoning as it comes, then the answer; what each cost.

python examples/reasoning.py            (from a script; DEEPSEEK_API_KEY=... for the real one)
"""

import asyncio
import os
from contextlib import AsyncExitStack

from sagent import Agent
from sagent.events import Finished, ReplyFinished, TextDelta, ThinkingDelta
from sagent.messages import Thinking
from sagent.providers import provider_named
from sagent.testing.server import FakeProviderServer, Turn


async def main() -> None:
    """Reasoning is an event of its own, and a part of the message: never mixed into the text."""
    async with AsyncExitStack() as stack:
        if "DEEPSEEK_API_KEY" in os.environ:
            provider = provider_named("deepseek")
        else:
            script = [Turn(thinking="9.11 is 9.110 and 9.9 is 9.900, which is more.", text="\n9.9 is larger.")]
            server = await stack.enter_async_context(FakeProviderServer(script))
            provider = provider_named("deepseek", key="k", base_url=server.url + "/v1")
        stack.push_async_callback(provider.aclose)
        agent = await stack.enter_async_context(Agent(provider.model("deepseek-reasoner")))
        async for event in agent.stream("Which is larger, 9.11 or 9.9?"):
            match event:
                case ThinkingDelta(_, text):
                    print(f"\033[2m{text}\033[0m", end="")  # dimmed
                case TextDelta(_, text):
                    print(text, end="")
                case ReplyFinished(_, message):
                    print(f"\n{sum(isinstance(part, Thinking) for part in message.parts)} thought is kept in the log")
                case Finished(_, result):
                    print(f"{result.usage.reasoning} of {result.usage.output} tokens were reasoning")
                case _:
                    pass


asyncio.run(main())
