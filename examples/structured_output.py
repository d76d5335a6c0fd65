"""An answer as data: a pydantic model goes in, an instance of it comes out; an answer that does not fit is repaired.

python examples/structured_output.py
"""

import asyncio

from pydantic import BaseModel, Field

from sagent.agent import Agent
from sagent.providers import Anthropic, OpenAICompatible
from sagent.testing.server import FakeProviderServer, Turn


class Recipe(BaseModel):
    """A dish."""

    name: str
    minutes: int = Field(gt=0, description="from start to table")
    ingredients: list[str] = Field(min_length=1)


async def main() -> None:
    """Two providers that run on loopback from a script: one holds answers to a schema, the other one is told it."""
    whole = '{"name": "Rösti", "minutes": 40, "ingredients": ["potatoes", "butter"]}'
    async with FakeProviderServer([Turn(whole)]) as server:
        claude = Anthropic.from_key("no-key-needed", base_url=server.url)
        agent = Agent(claude.model("claude-sonnet-4-6"))
        result = await agent.run("A Swiss dish?", output=Recipe)
        assert isinstance(result.data, Recipe)
        print(f"{result.data.name}, {result.data.minutes} minutes: {', '.join(result.data.ingredients)}")
        await agent.aclose()
        await claude.aclose()
    async with FakeProviderServer([Turn("Rösti! It takes 0 minutes."), Turn(f"```json\n{whole}\n```")]) as server:
        local = OpenAICompatible.from_key("no-key-needed", base_url=server.url + "/v1")
        agent = Agent(local.model("my-local-model"))
        result = await agent.run("A Swiss dish?", output=Recipe)
        print(f"{type(result.data).__name__} after {result.turns} answers, error: {result.error}")
        await agent.aclose()
        await local.aclose()


if __name__ == "__main__":
    asyncio.run(main())
