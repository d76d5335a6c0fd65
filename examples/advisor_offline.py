"""A cheap model that is about to take the wrong turn, and a stronger one that it asks: who said what, at what price.

python examples/advisor_offline.py
"""

import asyncio
import tempfile
from decimal import Decimal
from pathlib import Path

from sagent import tools
from sagent.advisor import Advisor, Rules, Setup, advise
from sagent.agent import Agent, Resources
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.events import Advised, Event
from sagent.messages import Message, ToolCall
from sagent.model import Model, Request
from sagent.testing import ScriptedModel
from sagent.tool import Workspace

PRICES = {"scripted/cheap": {"input": "0.1", "output": "0.5"}, "scripted/strong": {"input": "5", "output": "25"}}


def call(call_id: str, tool: str, **arguments: object) -> Message:
    """A reply that makes one call."""
    return Message("assistant", (ToolCall(call_id, tool, arguments),))


def judge(request: Request) -> str:
    """What the advisor makes of the conversation, which it reads as quoted text."""
    assert "call 1: Read" in request.messages[-1].content
    return (
        "VERDICT: adjust\n"
        "GAP: the last line of a file without a newline is dropped\n"
        "NEXT: count lines with splitlines(), not by counting newlines\n"
        "CHECK: python -c \"print(len('a\\nb'.splitlines()))\""
    )


def show(event: Event) -> None:
    """Why an advisor was asked, and what it thinks."""
    if isinstance(event, Advised):
        print(f"{event.advice.advisor}, {event.advice.trigger}: {event.advice.verdict}")


async def main() -> None:
    """The first change is held until the advisor has been heard: a rule in code, not in a prompt."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "count.py")
        file.write_text("def lines(text):\n    return 0\n")
        good = "return len(text.splitlines())"
        executor = ScriptedModel(
            call("1", "Read", file_path="count.py"),
            call("2", "Edit", file_path="count.py", old_string="return 0", new_string="return text.count('\\n')"),
            call("3", "Edit", file_path="count.py", old_string="return 0", new_string=good),
            "Lines are counted with splitlines(), so that the last one counts too.",
            model_id="cheap",
        )
        strong = ScriptedModel(judge, model_id="strong")

        def resolve(_name: str) -> Model:
            return strong

        agent = Agent(
            executor,
            tools=tools.coding_tools(),
            resources=Resources(
                workspace=Workspace(Path(place)),
                ledger=Ledger(Decimal("0.20"), PriceBook(PRICES)),
                resolve=resolve,
                advisory=advise(
                    [Advisor("critic", "scripted/strong", max_usd=Decimal("0.10"))],
                    Setup(rules=Rules(triggers=("first_write", "failures", "done"), max_advisor_calls=1)),
                ),
            ),
        )
        agent.listen(show)
        result = await agent.run("Have count.lines count the lines of a text.")
        print(result.content)
        assert good in file.read_text()
        critic = result.advisors["critic"]
        print(
            f"{critic.calls} consultation, {critic.followed} followed, {critic.usd:.6f} of {result.cost.total:.6f} USD"
        )
        await agent.aclose()


asyncio.run(main())
