"""Any server that speaks Chat Completions, by its address; here one on loopback that runs from a script.

python examples/openai_compatible_provider.py
"""

import asyncio

from sagent import tools
from sagent.agent import Agent
from sagent.events import ReplyFinished, TextDelta, ToolFinished
from sagent.providers import OpenAICompatible
from sagent.testing.server import Call, FakeProviderServer, Turn


async def main() -> None:
    """Stream a run, event by event."""
    script = [
        Turn(text="Let me look.", calls=(Call("Glob", {"pattern": "*.py"}),)),
        Turn(text="These are the examples."),
    ]
    async with FakeProviderServer(script) as server:
        provider = OpenAICompatible.from_key("no-key-needed", base_url=server.url + "/v1")
        agent = Agent(provider.model("my-local-model"), tools=[tools.Glob()])
        async for event in agent.stream("Which Python files are here?"):
            match event:
                case TextDelta(_, text):
                    print(text, end="")
                case ToolFinished(_, call, result):
                    print(f"\n[{call.name}: {'failed' if result.is_error else 'ok'}]")
                case ReplyFinished():
                    print()
                case _:
                    pass
        await agent.aclose()
        await provider.aclose()


if __name__ == "__main__":
    asyncio.run(main())
