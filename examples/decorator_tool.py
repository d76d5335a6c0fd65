"""A tool from a typed function: the schema comes from the signature, the descriptions from the docstring.

python examples/decorator_tool.py
"""

import asyncio
from typing import Literal

from sagent.agent import Agent
from sagent.providers import Anthropic
from sagent.testing.server import Call, FakeProviderServer, Turn
from sagent.tools import tool


@tool
async def convert(value: float, to: Literal["celsius", "fahrenheit"]) -> str:
    """Convert a temperature.

    value: degrees in the other unit
    to: the unit wanted
    """
    return f"{(value - 32) * 5 / 9:.1f} °C" if to == "celsius" else f"{value * 9 / 5 + 32:.1f} °F"


async def main() -> None:
    """The whole way over HTTP, to a provider that runs on loopback from a script."""
    script = [
        Turn(text="I'll convert it.", calls=(Call("convert", {"value": 212, "to": "celsius"}),)),
        Turn(text="212 °F are 100.0 °C."),
    ]
    async with FakeProviderServer(script) as server:
        provider = Anthropic.from_key("no-key-needed", base_url=server.url)
        agent = Agent(provider.model("claude-sonnet-4-6"), tools=[convert])
        result = await agent.run("What is 212 °F in °C?")
        print(result.content, f"({result.usage.output} tokens, {result.cost.total} USD)")
        await agent.aclose()
        await provider.aclose()


if __name__ == "__main__":
    asyncio.run(main())
