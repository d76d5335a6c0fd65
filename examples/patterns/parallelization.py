"""Parallelization: sections that an editor joins, and a vote for which two of three answers are enough.

python examples/patterns/parallelization.py
"""

import asyncio
import math
from collections import Counter
from collections.abc import Sequence

from sagent.agent import Agent, Resources, RunLimits
from sagent.errors import ModelError
from sagent.events import Result
from sagent.plugins.teams import parallel
from sagent.testing import Line, ScriptedModel


def agent(name: str, *script: Line) -> Agent:
    """A scripted agent; its path names it among the members."""
    return Agent(ScriptedModel(*script), limits=RunLimits(max_retries=0), resources=Resources(path=name))


def majority(results: Sequence[Result]) -> str:
    """What most of them said."""
    return Counter(result.content for result in results).most_common(1)[0][0]


async def main() -> None:
    """Sections first, then votes."""
    editor = agent("editor", lambda request: f"One report of {request.messages[-1].content.count('## ')} parts.")
    report = parallel(agent("costs", "It costs 3."), agent("risks", "It may rain."), aggregate=editor)
    print((await report.run("Shall we go?")).content)
    await report.aclose()

    down = ModelError("overloaded", "try later", provider="scripted")
    voters = [agent("a", "yes"), agent("b", down), agent("c", "yes"), agent("d", (math.inf, "too late"))]
    vote = parallel(*voters, aggregate=majority, quorum=2)
    result = await vote.run("Is 7 a prime?")
    print(result.content)
    for name, said in result.members.items():
        print(f"{name}: {said.error.message if said.error else said.content}")
    await vote.aclose()


if __name__ == "__main__":
    asyncio.run(main())
