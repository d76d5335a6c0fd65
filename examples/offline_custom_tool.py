"""An agent with a tool of its own, run against a scripted model: no key, no network.

python examples/offline_custom_tool.py
"""

import asyncio

from sagent.agent import Agent
from sagent.messages import Message, ToolCall
from sagent.testing import ScriptedModel
from sagent.tools import tool


@tool
async def word_count(text: str) -> str:
    """Count the words of a text.

    text: the text to count
    """
    return str(len(text.split()))


async def main() -> None:
    """Ask; the model calls the tool, reads the result and answers."""
    call = ToolCall("call_1", "word_count", {"text": "to be or not to be"})
    model = ScriptedModel(
        Message("assistant", (call,)),
        lambda request: f"It has {request.messages[-1].results[0].text} words.",
    )
    agent = Agent(model, system="You count words.", tools=[word_count])
    result = await agent.run("How many words has 'to be or not to be'?")
    print(result.content)
    await agent.aclose()


if __name__ == "__main__":
    asyncio.run(main())
