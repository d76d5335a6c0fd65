"""An executor and an advisor of two families, each on a server of its own process: our CPU for a consultation.

argv: the family of the executor, that of the advisor. The executor's history has 200 turns, each a call with a result
of about a kilobyte. Prints the milliseconds of the first consultation, which quotes all of it, the median of those that
follow, each after one more turn, and the mean of all, as JSON.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, median

from sagent.advisor.advisory import Setup
from sagent.advisor.extension import advise
from sagent.advisor.rules import Rules
from sagent.agent import Agent, Resources
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.lib.json import json_freeze_object
from sagent.messages import Message, Text, ToolCall, ToolResult, assistant, user
from sagent.model import Model
from sagent.providers import Anthropic, OpenAI

TURNS, CONSULTATIONS = 200, 20
RESULT = "def parse(text): return text.split()  # as the file has it, with a token or two\n" * 12
ADVICE = "VERDICT: adjust\nGAP: quotes are lost\nNEXT: keep them\nCHECK: make test"


@contextmanager
def served(text: str) -> Iterator[str]:
    """A provider in a process of its own that always says this; its address."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as script:
        script.write(json.dumps([{"text": text, "pieces": 0}]))
        script.flush()
        argv = [sys.executable, "-m", "sagent.testing.server", "--script", script.name, "--repeat-last", "--until-eof"]
        pipe = subprocess.PIPE
        with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, cwd=Path(__file__).parents[2]) as server:
            assert server.stdout is not None
            yield server.stdout.readline().strip()
            server.communicate()


def history() -> list[Message]:
    """A conversation of so many turns."""
    messages = [user("Fix the parser.")]
    for n in range(TURNS):
        call = ToolCall(f"call_{n:06d}", "Read", json_freeze_object({"file_path": f"src/module_{n}.py"}))
        messages += [
            assistant(f"I look at module {n} next, for it may be the one.", call, stop="tool_use"),
            Message("user", (ToolResult(call.id, (Text(f"{n}: {RESULT}"),)),)),
        ]
    return [*messages, assistant("I have read all of it.")]


def model_of(family: str, url: str) -> Model:
    """A model of a family at an address."""
    if family == "anthropic":
        return Anthropic.from_key("k", base_url=url).model("claude-sonnet-4-6")
    return OpenAI.from_key("k", base_url=f"{url}/v1").model("gpt-5.2")


async def consult(executor: Model, advisor: Model) -> dict[str, float]:
    """Ask again and again, with one more turn each time."""
    prices = PriceBook()
    setup = Setup(rules=Rules(triggers=(), max_advisor_calls=None), resolve=lambda _: advisor)
    name = f"{advisor.provider}/{advisor.id}"
    resources = Resources(ledger=Ledger(None, prices), advisory=advise([name], setup))
    agent = Agent(executor, system="You write code.", resources=resources)
    agent.restore(history())
    assert agent.advisory is not None
    asked: list[float] = []
    for _ in range(CONSULTATIONS + 1):
        await agent.run("Go on.")
        before = time.process_time()
        (advice,) = await agent.advisory.consult()
        asked.append(1000 * (time.process_time() - before))
        if advice.verdict != "adjust":
            raise RuntimeError(f"no advice: {advice}")
    await agent.aclose()
    return {"first": asked[0], "later": median(asked[1:]), "mean": mean(asked)}


def main() -> None:
    """Measure one pair of families."""
    executor, advisor = sys.argv[1:3]
    with served("On.") as front, served(ADVICE) as back:
        print(json.dumps(asyncio.run(consult(model_of(executor, front), model_of(advisor, back)))))


if __name__ == "__main__":
    main()
