"""A lead that asks two reviewers, each an agent of its own, and writes one review; one budget covers all three.

python examples/multi_agent_reviewer.py
"""

import asyncio
import tempfile
from decimal import Decimal
from pathlib import Path

from sagent import tools
from sagent.agent import Agent, Resources
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.events import Finished, ToolStarted
from sagent.messages import Message, ToolCall
from sagent.model import Request
from sagent.testing import ScriptedModel
from sagent.tool import Workspace

CODE = """\
import sqlite3

def find(db, n):
    return sqlite3.connect(db).execute(f"select * from users where name = '{n}'").fetchall()
"""


def call(call_id: str, tool: str, **arguments: object) -> ToolCall:
    """A call as a model makes it."""
    return ToolCall(call_id, tool, arguments)


def answers(request: Request) -> list[str]:
    """What the calls of the last turn came to."""
    return [result.text for result in request.messages[-1].results]


def reviewer(system: str, finding: str, workspace: Workspace) -> Agent:
    """An agent that reads the file and says what it found: scripted here, any model in earnest."""
    read = Message("assistant", (call("r", "Read", file_path="find.py"),))
    model = ScriptedModel(read, lambda request: finding if "sqlite3" in answers(request)[0] else "nothing to see")
    return Agent(model, system=system, tools=[tools.Read()], resources=Resources(workspace=workspace))


async def main() -> None:
    """Both reviewers work at the same time, below the lead."""
    with tempfile.TemporaryDirectory() as place:
        Path(place, "find.py").write_text(CODE)
        workspace = Workspace(Path(place))
        security = reviewer("You look for holes.", "`n` goes into the SQL text: an injection.", workspace)
        style = reviewer("You look at style.", "`n` says nothing; call it `name`.", workspace)
        both = Message("assistant", (call("1", "security", prompt="find.py"), call("2", "style", prompt="find.py")))
        prices = PriceBook({"scripted/scripted": {"input": "3", "output": "15"}})
        lead = Agent(
            ScriptedModel(both, lambda request: "Change two things.\n- " + "\n- ".join(answers(request))),
            system="You lead a review.",
            tools=[
                security.as_tool("security", "Reviews a file for security."),
                style.as_tool("style", "Reviews a file for style."),
            ],
            resources=Resources(workspace=workspace, ledger=Ledger(Decimal("1.00"), prices)),
        )
        async for event in lead.stream("Review find.py"):
            match event:
                case ToolStarted(agent, asked):
                    print(f"[{agent} calls {asked.name}]")
                case Finished("root", result):
                    print(result.content)
                    for agent, usd in result.cost.by_agent.items():
                        print(f"{agent}: {usd} USD")
                case _:
                    pass
        await lead.aclose()


if __name__ == "__main__":
    asyncio.run(main())
