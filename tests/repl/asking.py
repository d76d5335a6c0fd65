"""The REPL over an agent that asks questions; its model is scripted. Run by the tests, in a terminal."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.agent import Agent, Resources
from sagent.lib.json import json_freeze_object
from sagent.messages import ToolCall
from sagent.repl.front import run_repl
from sagent.repl.opening import Asker, Listener, Opened
from sagent.testing import ScriptedModel
from sagent.tools.ask import Answerer, AskUser

if TYPE_CHECKING:
    from sagent.config import Settings


def load() -> "Settings":
    """Those of a directory without any."""
    from sagent import config

    return config.load({"cwd": str(Path.cwd())}, {"HOME": str(Path.cwd())}, Path.cwd())


@asynccontextmanager
async def opening(
    settings: "Settings", listener: Listener, ask: Asker, answer: Answerer, told: object
) -> "AsyncGenerator[Opened]":
    """Asks what the second argument says, in JSON, and repeats what it was told."""
    from sagent.app import policy_of

    del told

    questions = [json_freeze_object(one) for one in json.loads(sys.argv[2])]
    calls = tuple(ToolCall(f"c{number}", "AskUser", one) for number, one in enumerate(questions))
    model = ScriptedModel(
        calls, lambda request: "Told: " + " | ".join(result.text for result in request.messages[-1].results)
    )
    policy = policy_of(settings)
    agent = Agent(model, tools=(AskUser(answer),), policy=policy, resources=Resources(ask=ask))
    agent.listen(listener)
    try:
        yield Opened(agent, policy)
    finally:
        await agent.aclose()


if __name__ == "__main__":
    run = run_repl
    if sys.argv[1] == "lines":
        from sagent.plugins.plain.repl import run_lines as run
    sys.exit(asyncio.run(run(load, opening)))
