"""An executor with advisors, all scripted, and what they told."""

# Parts of recordings, JSON and SDK objects are read as what they must be; a wrong one fails the test.
# pyright: reportArgumentType=false

import asyncio
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

from sagent.advisor.advisor import Advisor
from sagent.advisor.advisory import Setup
from sagent.advisor.conversation import Asking
from sagent.advisor.extension import advise
from sagent.advisor.rules import Rules
from sagent.agent import Agent, Resources, RunLimits
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import UsageError
from sagent.events import Advice, AdviceDelta, Advised, Notice, Result
from sagent.lib.json import JsonObject, json_freeze_object
from sagent.messages import Message, ToolCall
from sagent.model import Model, Request
from sagent.session.log import Log, MemoryLog
from sagent.testing import ScriptedModel
from sagent.testing.scripted import Line
from sagent.tool import Effect, RunContext, Tool, ToolOutput, Workspace
from tests.messages import call

OK = "VERDICT: proceed\nNEXT: go on"
QUIET = Rules(triggers=())
PRICES = {
    "cheap/worker": {"input": 1, "output": 2},
    "strong/oracle": {"input": 5, "output": 25},
    "other/sage": {"input": 3, "output": 15},
}


def ask(call_id: str = "a1", **arguments: object) -> ToolCall:
    """A call of the advisor."""
    return call(call_id, "advisor", **arguments)


class Act:
    """A tool that does nothing, and says what it is told to: `says`, and whether that is an error."""

    def __init__(self, name: str = "Act", kind: str = "none") -> None:
        self.name, self.kind, self.description = name, kind, "Acts."
        self.parameters = json_freeze_object({"type": "object", "properties": {}})
        self.done: list[JsonObject] = []

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        del workspace
        return Effect(self.kind, (), str(arguments.get("command", "")))

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        del run
        self.done.append(arguments)
        said = ToolOutput.of(str(arguments.get("says", "done")))
        return ToolOutput(said.content, is_error=bool(arguments.get("error")))


def act(call_id: str, **arguments: object) -> ToolCall:
    return call(call_id, "Act", **arguments)


def worker(*script: Line, **given: object) -> ScriptedModel:
    return ScriptedModel(*script, provider="cheap", model_id=str(given.pop("model_id", "worker")), **given)


def oracle(*script: Line, **given: object) -> ScriptedModel:
    return ScriptedModel(*script, provider="strong", model_id="oracle", **given)


def sage(*script: Line, **given: object) -> ScriptedModel:
    return ScriptedModel(*script, provider="other", model_id="sage", **given)


class Rig:
    """An agent, its advisors, and what was told of them."""

    def __init__(
        self,
        executor: Model,
        *others: Model,
        advisors: Sequence[Advisor | str] = ("strong/oracle",),
        rules: Rules = QUIET,
        setup: Mapping[str, object] = {},
        tools: Sequence[Tool] = (),
        cap: Decimal | None = None,
        limits: RunLimits | None = None,
        ask: Callable[[ToolCall, object], object] | None = None,
        log: Log | None = None,
        prices: Mapping[str, Mapping[str, object]] = PRICES,
        system: str = "You write code.",
        **resources: object,
    ) -> None:
        self.models = {f"{model.provider}/{model.id}": model for model in (executor, *others)}
        self.log = log or MemoryLog()
        self.ledger = Ledger(cap, PriceBook(prices))
        self.advice: list[Advice] = []
        self.deltas: list[str] = []
        self.notices: list[str] = []
        self.acts = Act()
        self.agent = Agent(
            executor,
            system=system,
            tools=[self.acts, *tools],
            limits=limits or RunLimits(max_retries=0),
            resources=Resources(
                log=self.log,
                ledger=self.ledger,
                resolve=self.resolve,
                ask=ask,
                advisory=advise(advisors, Setup(rules=rules, **setup)),
                **resources,
            ),
        )
        self.agent.listen(self.hear)

    def resolve(self, name: str) -> Model:
        if name not in self.models:
            raise UsageError(f"no model {name}")
        return self.models[name]

    def hear(self, event: object) -> None:
        match event:
            case Advised(_, advice):
                self.advice.append(advice)
            case AdviceDelta(_, _, _, text):
                self.deltas.append(text)
            case Notice(_, _, text):
                self.notices.append(text)
            case _:
                pass

    async def run(self, prompt: str = "Fix the parser.") -> Result:
        async with asyncio.timeout(60):
            return await self.agent.run(prompt)

    def told(self, call_id: str = "a1") -> str:
        """What a call was answered."""
        return next(r.text for m in self.agent.messages for r in m.results if r.call_id == call_id)

    @property
    def statuses(self) -> list[str]:
        return [advice.status for advice in self.advice]


def seen(request: Request) -> str:
    """All that a request says to an advisor."""
    return "\n".join(message.content for message in request.messages)


def asking(*history: Message, system: str = "", closing: str = "ADVISE", room: int | None = None) -> Asking:
    """A consultation about a history."""
    task = next((message.content for message in history if message.role == "user"), "")
    return Asking(Request("s:root", history, system), task, closing, lambda text: f"blob {len(text)}", room)
