"""An autonomous agent: tools, a place to work in, a check that only the real thing passes, and limits.

python examples/patterns/autonomous_agent.py
"""

import asyncio
import sys
import tempfile
from decimal import Decimal
from pathlib import Path

from sagent import tools
from sagent.agent import Agent, Resources, RunLimits
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.events import Result
from sagent.messages import Message, ToolCall
from sagent.plugins.teams import loop_until
from sagent.testing import ScriptedModel
from sagent.tool import Workspace

CHECK = "from slug import slug; assert slug('A b  C') == 'a-b-c', slug('A b  C')"


def write(call_id: str, body: str) -> Message:
    """A turn in which the model writes the file."""
    code = f"def slug(text):\n    return {body}\n"
    return Message("assistant", (ToolCall(call_id, "Write", {"file_path": "slug.py", "content": code}),))


async def main() -> None:
    """The first attempt fails its check, the objection goes back, the second passes."""
    with tempfile.TemporaryDirectory() as place:

        async def checked(result: Result) -> bool | str:
            """Whether the code does what it should; else what Python says."""
            command = [sys.executable, "-B", "-c", CHECK]
            process = await asyncio.create_subprocess_exec(*command, cwd=place, stderr=asyncio.subprocess.PIPE)
            _, errors = await process.communicate()
            print(f"{result.content} {'It does.' if process.returncode == 0 else 'It does not.'}")
            return process.returncode == 0 or errors.decode().strip().splitlines()[-1]

        model = ScriptedModel(
            write("1", "text.lower().replace(' ', '-')"),
            "It should work.",
            write("2", "'-'.join(text.lower().split())"),
            lambda request: f"After {request.messages[4].content.splitlines()[0].partition(': ')[2]!r} it should work.",
        )
        prices = PriceBook({"scripted/scripted": {"input": "3", "output": "15"}})
        agent = Agent(
            model,
            system="You write Python.",
            tools=[tools.Read(), tools.Write()],
            limits=RunLimits(max_turns=20),
            resources=Resources(workspace=Workspace(Path(place)), ledger=Ledger(Decimal("0.50"), prices)),
        )
        work = loop_until(agent, checked, rounds=3)
        result = await work.run("Write slug.py: slug('A b  C') is 'a-b-c'.")
        print(f"{result.turns} turns, {result.cost.total} USD, {'failed' if result.error else 'done'}")
        await work.aclose()


if __name__ == "__main__":
    asyncio.run(main())
