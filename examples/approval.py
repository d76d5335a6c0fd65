"""A person has the last word: the policy asks, and whoever answers may be a chat, a web page or a terminal.

python examples/approval.py
"""

import asyncio
from collections.abc import Sequence

from sagent import Agent, Resources
from sagent.messages import ToolCall
from sagent.peer import Action
from sagent.policy import Allow, Ask, Turn, Verdict
from sagent.testing import ScriptedModel
from sagent.tool import Effect, Workspace


class AskAboutMoney:
    """Transfers of more than 100 are a person's to decide."""

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        """Asked before every call, with its arguments."""
        amount = call.arguments.get("amount")
        return Ask(f"{amount} is much") if isinstance(amount, int) and amount > 100 else Allow()

    async def after_turn(self, turn: Turn) -> Sequence[Action]:
        """Nothing follows from a turn."""
        return ()


def transfer(amount: int, to: str) -> str:
    """Send money."""
    return f"{amount} sent to {to}"


async def ask(call: ToolCall, question: Ask) -> str | None:
    """None is yes, a text is no and why. Here: `return None if input(...) == "y" else "no"`."""
    print(f"? {call.name} {dict(call.arguments)}: {question.reason}")
    return None if call.arguments["to"] == "rent" else "we do not know them"


async def main() -> None:
    """Three transfers: one is small, one is approved, one is not, and the model is told why."""
    orders = [(50, "coffee"), (900, "rent"), (900, "a prince")]
    calls = [ToolCall(to, "transfer", {"amount": amount, "to": to}) for amount, to in orders]
    model = ScriptedModel(tuple(calls), lambda request: "\n".join(each.text for each in request.messages[-1].results))
    async with Agent(model, tools=[transfer], policy=AskAboutMoney(), resources=Resources(ask=ask)) as agent:
        print((await agent.run("Pay them.")).content)


asyncio.run(main())
