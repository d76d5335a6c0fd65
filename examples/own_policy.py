"""Judgement in one place: what may run, decided by what a call does and not by its name; and when it is enough.

python examples/own_policy.py
"""

import asyncio
from collections.abc import Sequence

from sagent import Agent, tools
from sagent.messages import ToolCall
from sagent.peer import Action, Stop
from sagent.policy import Allow, Deny, Turn, Verdict
from sagent.testing import ScriptedModel
from sagent.tool import Effect, Workspace


class Careful:
    """Reading is free, of writing only below docs/; after three failed calls it is enough."""

    def __init__(self) -> None:
        self.failed = 0

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        """`effect` says what the call would do: kind, paths, command."""
        docs = workspace.cwd / "docs"
        if effect.kind in ("none", "read") or all(path.is_relative_to(docs) for path in effect.paths):
            return Allow()
        return Deny("only files below docs/ may be written")

    async def after_turn(self, turn: Turn) -> Sequence[Action]:
        """Actions that are taken before the next call: stop, switch the model, say something."""
        self.failed += sum(result.is_error for result in (turn.results.results if turn.results else ()))
        return (Stop(),) if self.failed >= 3 else ()


async def main() -> None:
    """The model tries three places, and is stopped."""
    names = ("setup.py", "src/a.py", "/etc/passwd", "docs/a.md")
    calls = [ToolCall(name, "Write", {"file_path": name, "content": "x"}) for name in names]
    async with Agent(ScriptedModel(*calls), tools=[tools.Write()], policy=Careful()) as agent:
        result = await agent.run("Write something, somewhere.")
    print(f"stopped by {result.stop_reason} after {result.turns} turns")
    for denial in result.denials:
        print(f"{denial.tool} {denial.reason}")


asyncio.run(main())
