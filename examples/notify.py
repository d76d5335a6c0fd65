"""Work that takes long, and a notification when it has ended, however it ended.

python examples/notify.py
"""

import asyncio
import shutil

from sagent import Agent
from sagent.events import Event, Finished
from sagent.testing import ScriptedModel


async def notify(title: str, text: str) -> None:
    """On the desktop where there is one, else in the terminal, with its bell; a webhook would go here too."""
    program = shutil.which("notify-send") or shutil.which("terminal-notifier")
    if program:
        process = await asyncio.create_subprocess_exec(program, title, text)
        await process.wait()
    print(f"\a{title}: {text}")


async def main() -> None:
    """A listener hears every event of the agent and of all below it; `Finished` says how it went and what it cost."""
    ended: list[Finished] = []

    def listen(event: Event) -> None:
        if isinstance(event, Finished) and event.agent == "root":
            ended.append(event)

    async with Agent(ScriptedModel("All 212 tests pass now.")) as agent:
        agent.listen(listen)
        await agent.run("Make the tests pass.")
    for result in (event.result for event in ended):
        how = "failed" if result.error else "done"
        await notify(
            f"sagent: {how} in {result.duration:.1f} s", result.error.message if result.error else result.content
        )


asyncio.run(main())
