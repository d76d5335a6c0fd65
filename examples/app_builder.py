"""An app from one sentence: written, started, and tried with a real request before it counts as built.

python examples/app_builder.py
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from sagent import Agent, Resources, Result, tools
from sagent.messages import ToolCall
from sagent.plugins.teams import loop_until
from sagent.testing import ScriptedModel
from sagent.tool import Workspace

APP = "def app(path):\n    return {'/': 'Hello', '/health': 'ok'}[path]\n"
CHECK = "from app import app; assert app('/health') == 'ok'; assert app('/nowhere') == 'not found'"


def write(text: str) -> ToolCall:
    """What the model does: it writes the file."""
    return ToolCall(str(len(text)), "Write", {"file_path": "app.py", "content": text})


async def main() -> None:
    """The first draft fails on a path that is not there; the error goes back; the second holds."""
    with tempfile.TemporaryDirectory() as place:

        async def holds(result: Result) -> bool | str:
            command = [sys.executable, "-B", "-c", CHECK]
            process = await asyncio.create_subprocess_exec(*command, cwd=place, stderr=asyncio.subprocess.PIPE)
            error = (await process.communicate())[1].decode().strip().rpartition("\n")[2]
            print(f"{result.content}  {'✓' if not error else '✗ ' + error}")
            return not error or f"The check failed: {error}"

        better = APP.replace("[path]", ".get(path, 'not found')")
        model = ScriptedModel(write(APP), "First draft.", write(better), "Unknown paths have an answer now.")
        resources = Resources(workspace=Workspace(Path(place)))
        builder = loop_until(Agent(model, tools=[tools.Read(), tools.Write()], resources=resources), holds, rounds=5)
        result = await builder.run("Build app.py: '/' says Hello, '/health' says ok, all else 'not found'.")
        print(f"built in {result.turns} turns" if result.error is None else result.error.message)
        await builder.aclose()


asyncio.run(main())
