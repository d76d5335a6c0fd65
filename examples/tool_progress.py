"""A tool that takes its time, and says how far it is: to whoever watches, and to the model once it is a job.

python examples/tool_progress.py
"""

import asyncio

from sagent import Agent, RunContext, tool
from sagent.events import ToolFinished, ToolProgress
from sagent.messages import ToolCall
from sagent.testing import ScriptedModel


@tool(effect="none")
async def render(frames: int, run: RunContext) -> str:
    """Render an animation.

    frames: how many
    """
    for frame in range(frames):
        await asyncio.sleep(0)  # the work; a cancelled call is cancelled here
        run.progress(f"{frame + 1}/{frames} ")
    return f"{frames} frames are in out/"


async def main() -> None:
    """Progress is an event; the result is what the model reads."""
    model = ScriptedModel(ToolCall("1", "render", {"frames": 5}), "It is rendered.")
    async with Agent(model, tools=[render]) as agent:
        async for event in agent.stream("Render five frames."):
            match event:
                case ToolProgress(_, _, text):
                    print(text, end="", flush=True)
                case ToolFinished(_, _, result):
                    print(f"\n{result.text}")
                case _:
                    pass


asyncio.run(main())
