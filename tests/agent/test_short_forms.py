"""What a program may write in a shorter form: each works, or one sentence says what to write."""

# What programs get wrong is given here on purpose.
# pyright: reportArgumentType=false, reportReturnType=false

import asyncio
import copy
import pickle
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import wraps
from pathlib import Path
from threading import Barrier, Semaphore, Thread
from threading import Event as ThreadEvent

import pytest
from pydantic import BaseModel

import sagent
from sagent import RunLimits, run_sync
from sagent.advisor import advise
from sagent.agent import Agent, Resources, Tree, TreeLimits
from sagent.agent.asking import outcome
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import BudgetExceeded, ModelError, UsageError
from sagent.events import Received
from sagent.lib.json import JsonObject
from sagent.messages import Text, ToolCall, assistant
from sagent.peer import Action, SpawnRequest, Switch
from sagent.policy import Allow, AllowAll, Ask, Deny, Policy, Verdict
from sagent.policy.permissions import PermissionPolicy
from sagent.providers import Anthropic, provider_named
from sagent.testing import ScriptedModel
from sagent.testing.server import FakeProviderServer, Turn
from sagent.tool import Effect, RunContext, Workspace
from sagent.tools import Bash, Read, tool
from tests.depth import slow
from tests.messages import call
from tests.snippets import check

STUCK = """
from threading import Event
from sagent import Agent
from sagent.messages import ToolCall
from sagent.testing import ScriptedModel

def wait() -> None:
    "Wait for ever."
    print("at work", flush=True)
    Event().wait()

Agent(ScriptedModel((ToolCall("1", "wait"),)), tools=[wait]).run_sync("x")
"""


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


class Kit:
    """A program's object with a tool of its own."""

    def __init__(self, base: int) -> None:
        self.base = base

    def plain(self, by: int) -> int:
        """So much."""
        return by

    @tool(effect="none")
    async def above(self, by: int) -> int:
        """So much above the base."""
        return self.base + by


class Dish(BaseModel):
    """What a program has, and no tool."""

    name: str


class Unfinished:
    """Half a policy."""

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        return Allow()


class Plain(Policy):
    """A policy whose judgement is not async."""

    def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        return Allow()


class Hasty(AllowAll):
    """One whose last word is not."""

    def after_turn(self, turn: object) -> list[Action]:
        return []


def noted(judge: Callable[..., object]) -> Callable[..., object]:
    @wraps(judge)
    def called(*args: object) -> object:
        return judge(*args)

    return called


class Decorated(AllowAll):
    """One whose judgement is async below what it is wrapped in."""

    before_tool = noted(AllowAll.before_tool)  # pyright: ignore[reportAssignmentType]


async def whereabouts(run: RunContext | None = None) -> str:
    """Who asks."""
    return run.agent if run is not None else "nobody"


@tool
async def twice(number: int) -> int:
    """Twice a number."""
    return 2 * number


async def test_functions_methods_classes_are_tools() -> None:
    calls = (call("1", "add", a=2, b=3), call("2", "above", by=7), call("3", "twice", number=4))
    async with Agent(ScriptedModel(calls, "done"), tools=[add, Kit(40).above, twice, Read]) as agent:
        await agent.run("go")
        assert [result.text for message in agent.messages for result in message.results] == ["5", "47", "8"]
        assert list(agent.state.tools) == ["add", "above", "twice", "Read"]


async def test_context_may_be_optional() -> None:
    async with Agent(ScriptedModel((call("1", "whereabouts"),), "done"), tools=[whereabouts]) as agent:
        await agent.run("go")
        assert agent.messages[2].results[0].text == "root"


async def test_decorated_function_is_callable() -> None:
    assert await twice(21) == 42
    assert await twice(number=3) == 6
    assert await Kit(1).above(2) == 3
    made = await twice(JsonObject({"number": 5}), None)
    assert made.content == (Text("10"),)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"model": ScriptedModel}, "ScriptedModel is not a model: give .provider/model."),
        ({"model": "gibberish"}, "'gibberish' does not name a provider: give .provider/model."),
        ({"model": "nobody/x"}, "nobody"),
        ({"model": "anthropic/"}, "does not name a provider"),
        ({"tools": [3]}, "int is not a tool: give one of sagent.tools, or a function"),
        ({"tools": [lambda x: x]}, "it cannot be made into a tool: .*docstring"),
        ({"tools": [Kit.above]}, "above is an unbound method: take it from an object, as in kit.above"),
        ({"tools": [Kit.plain]}, "plain is an unbound method: take it from an object, as in kit.plain"),
        ({"tools": [Kit]}, "Kit is a class: give an instance"),
        ({"tools": [Agent(ScriptedModel())]}, "an agent is not a tool: give agent.as_tool"),
        ({"tools": "Read"}, "tools is str: give a list of tools"),
        ({"session": 3}, "session=3: give the path of its directory"),
        ({"session": "~nobody-at-all/x"}, "session='~nobody-at-all/x': give the path of its directory"),
        ({"session": "a\0b"}, "session='a.*b': give the path of its directory"),
        ({"session": ""}, "session='': give the path of its directory"),
        ({"session": "x", "resources": Resources(path="reviewer")}, "path='reviewer'.: leave it out"),
        ({"prepare_tools": 3}, "prepare_tools is int: give a function"),
        ({"deps_type": 3}, "deps_type is 3: give the type of what run"),
        ({"policy": Unfinished()}, "Unfinished has no after_turn: derive it from sagent.policy.Policy"),
        ({"policy": Plain()}, "Plain.before_tool is not async: write `async def before_tool.self, call, effect, work"),
        ({"policy": Hasty()}, "Hasty.after_turn is not async: write `async def after_turn.self, turn"),
        ({"resources": Resources(ledger=3)}, "Resources.ledger=3.: give a Ledger"),
        ({"resources": Resources(log=3)}, "Resources.log=3.: give a log"),
        ({"resources": Resources(workspace=".")}, "Resources.workspace='.'.: give a Workspace"),
        ({"resources": Resources(ask=3)}, "Resources.ask=3.: give a function"),
        ({"resources": Resources(fallbacks=3)}, "Resources.fallbacks=3.: give a list of models"),
        ({"resources": Resources(role=3)}, "Resources.role=3.: give a name"),
        ({"resources": Resources(path=None)}, "Resources.path=None.: give a name"),
        ({"resources": Resources(fallbacks=None)}, "Resources.fallbacks=None.: give a list of models"),
        ({"resources": Resources(path=3)}, "Resources.path=3.: give a name"),
        ({"resources": Resources(path="../x")}, "Resources.path='../x'.: give a name"),
        ({"resources": Resources(tree=3)}, "Resources.tree=3.: give a Tree"),
        ({"resources": Resources(tree=Tree(3))}, "the tree's limits is int: give TreeLimits"),
        ({"resources": Resources(tree=Tree(TreeLimits(max_live=-2)))}, "TreeLimits.max_live=-2.: give a whole number"),
        ({"resources": Resources(tree=Tree(TreeLimits(max_depth=None)))}, "TreeLimits.max_depth=None.: give a whole"),
        ({"max_budget_usd": "much"}, "max_budget_usd='much': give USD as a number"),
        ({"max_budget_usd": -1}, "give USD as a number"),
        ({"max_budget_usd": True}, "give USD as a number"),
        ({"max_budget_usd": float("nan")}, "give USD as a number"),
        ({"max_budget_usd": 1, "resources": Resources(ledger=Ledger(None, PriceBook()))}, "two budgets"),
    ],
)
def test_wrong_tool_is_said_in_a_sentence(given: dict, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(UsageError, match=said):
        Agent(**{"model": ScriptedModel(), **given})


async def later(event: object) -> None:
    """A listener whom nobody would await."""


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda agent: agent.listen(None), "a listener is NoneType: give a plain function"),
        (lambda agent: agent.listen(later), "a listener is an async function: give a plain function"),
        (lambda agent: agent.send(3), "not int"),
        (lambda agent: agent.run_sync(assistant("Hi.")), "a prompt must be a message of the user"),
        (
            lambda _: Agent(ScriptedModel(), prepare_tools=lambda run, specs: ["Read"]).run_sync("x"),
            "returned 'Read': return",
        ),
        (lambda _: Anthropic(api_key="k"), r"Anthropic is created with Anthropic.from_key\("),  # type: ignore[call-arg]
        (lambda _: Anthropic("k"), r"Anthropic is created with Anthropic.from_key\("),  # type: ignore[call-arg]
        (lambda agent: agent.apply(3), "3 is not an action: give one of sagent.peer"),
        (lambda agent: asyncio.run(agent.spawn(3)), "order is int: give a string or SpawnRequest"),
        (lambda agent: asyncio.run(agent.spawn(SpawnRequest("x", budget_usd=0.5))), "budget_usd=0.5: .* Decimal"),
        (lambda _: Agent(ScriptedModel(), policy=lambda run: Plain()).run_sync("x"), "Plain.before_tool is not async"),
        (lambda _: Ledger(0.5, PriceBook()), "a ledger's budget is USD as a Decimal, as in .*, not 0.5"),
        (lambda _: Ledger(Decimal("nan"), PriceBook()), r"a ledger's budget is USD as a Decimal, .*, not Decimal"),
        (lambda _: Bash(withheld="HOME"), "withheld='HOME': give a list of names"),
        (lambda _: Bash(keep_keys="HOME"), "keep_keys='HOME': give a list of names"),
        (lambda _: provider_named(None), "name is NoneType: give a string"),
        (lambda _: Anthropic.from_key("k" * 8, transport=3), "transport is direct or sdk, not 3"),
        (lambda _: Agent.open(3), "session=3: give the path of its directory"),
    ],
)
def test_wrong_use_is_said_in_a_sentence(use: Callable[[Agent], object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        use(Agent(ScriptedModel()))


async def test_models_are_given_by_short_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    async with FakeProviderServer([Turn(text="VERDICT: proceed"), Turn(text="From the fallback.")]) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        executor = ScriptedModel("Asked.", ModelError("overloaded", "busy", provider="x", model="y"))
        agent = Agent(executor, advisor="opus", fallbacks=["haiku"], limits=RunLimits(max_retries=0))
        await agent.run("Begin.")
        (advice,) = await agent.consult("Is that right?")
        assert advice.verdict == "proceed" and advice.model.startswith("anthropic/claude-opus-")
        assert (await agent.run("Go on.")).content == "From the fallback."
        assert "anthropic/claude-haiku-" in repr(agent) and "idle" in repr(agent)
        with pytest.raises(UsageError, match="this agent has only anthropic/"):
            agent.apply(Switch(model="openai/gpt-5.5"))
        await agent.aclose()


async def test_advisor_may_be_a_model() -> None:
    async with Agent(ScriptedModel("x"), advisor=ScriptedModel("VERDICT: stop", model_id="strong")) as agent:
        await agent.run("Begin.")
        assert [advice.verdict for advice in await agent.consult("Go on?")] == ["stop"]


def test_ending_a_listener_ends_no_other() -> None:
    heard: list[object] = []
    agent = Agent(ScriptedModel("one"))
    ends = [agent.listen(heard.append) for _ in range(2)]
    ends[0]()
    ends[0]()
    agent.run_sync("x")
    assert len(heard) == len({id(event) for event in heard}) > 0


async def test_tools_none_means_no_run_tools() -> None:
    async with Agent(ScriptedModel("one", "two")) as agent:
        assert (await agent.run("x", tools=None)).content == "one"
        assert [event async for event in agent.stream("x", tools=None)]


@pytest.mark.parametrize("answer", [True, False, 1, Deny("no")])
async def test_ask_with_odd_answer_denies(answer: object) -> None:
    async def ask(call: ToolCall, question: Ask) -> object:
        return answer

    resources, judge = Resources(ask=ask), PermissionPolicy("ask")
    model = ScriptedModel((call("1", "add", a=1),), "done")
    async with Agent(model, tools=[add], policy=judge, resources=resources) as agent:
        (denial,) = (await agent.run("x")).denials
        assert denial.reason.endswith(
            f"ask= returned {answer!r}: return None to allow, or a str with the reason to deny."
        )


async def test_sync_ask_function_denies() -> None:
    model = ScriptedModel((call("1", "add", a=1),), "done")
    resources = Resources(ask=lambda call, question: None)
    async with Agent(model, tools=[add], policy=PermissionPolicy("ask"), resources=resources) as agent:
        (denial,) = (await agent.run("x")).denials
        assert "not async" in denial.reason and "`async def`" in denial.reason


class Silent(Policy):
    """A policy that forgot to say anything."""

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        """Nothing."""

    async def after_turn(self, turn: object) -> list[Action]:
        """Nothing either."""


@pytest.mark.parametrize("policy", [Silent(), lambda run: Silent()])
async def test_policy_without_verdict_is_named(policy: object) -> None:
    said = "add was not run: Silent.before_tool returned None, and it must return Allow, Deny, Ask or Postpone"
    scripts = ScriptedModel((call("1", "add", a=1),), "done", (call("2", "add", a=1),), "done")
    async with Agent(scripts, tools=[add], policy=policy) as agent:
        await agent.run("x")
        child = await agent.spawn("y")
        await child.wait()
        for each in (agent, child):
            assert each.messages[2].results[0].text.startswith(said)


@pytest.mark.parametrize("policy", [Decorated(), lambda run: Decorated()])
async def test_policy_may_be_wrapped(policy: object) -> None:
    async with Agent(ScriptedModel((call("1", "add", a=1),), "done"), tools=[add], policy=policy) as agent:
        await agent.run("x")
        assert agent.messages[2].results[0].text == "2"


async def test_model_by_name_closes_its_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeProviderServer([Turn(text="Hi."), Turn(text="Ho.")]) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        async with Agent("anthropic/claude-sonnet-4-6") as agent:
            assert (await agent.run("x")).content == "Hi."
        result = await asyncio.to_thread(Agent("claude-sonnet-4-6").run_sync, "y")
        assert result.content == "Ho."


@pytest.mark.parametrize("cap", [Decimal("0.000001"), 0.000001, "0.000001", 0])
async def test_cap_in_any_form_holds(cap: Decimal | float | str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeProviderServer([]) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        async with Agent("anthropic/claude-sonnet-4-6", max_budget_usd=cap) as agent:
            with pytest.raises(BudgetExceeded):
                await agent.run("x")
        assert not server.requests


def test_names_are_imported_lazily() -> None:
    stub = Path(sagent.__file__).with_suffix(".pyi").read_text()
    names = re.findall(r"import (\w+) as", stub)
    assert {"Agent", "Result", "run_task"} <= {*names}
    assert [getattr(sagent, name).__name__ for name in names] == names
    with pytest.raises(AttributeError, match="no attribute 'Agnet'"):
        _ = sagent.Agnet  # pyright: ignore[reportAttributeAccessIssue]
    count = "import sys; before = len(sys.modules); import sagent; print(len(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", count], capture_output=True, text=True, check=True)
    assert int(done.stdout) <= 2


def test_package_has_tool_decorator(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from sagent.tool import RunContext, ToolOutput\n"
        "from sagent import Agent, Result, run_sync, tool\n"
        "from sagent.testing import ScriptedModel\n\n"
        "@tool\n"
        "def area(width: float, height: float) -> float:\n"
        "    'The area of a rectangle.'\n"
        "    return width * height\n\n"
        "result: Result = run_sync(Agent(ScriptedModel('20'), tools=[area]).run('How large?'))\n"
        "print(area(4, 5), result.content)\n"
    )
    assert subprocess.check_output([sys.executable, "-W", "error", program], text=True) == "20 20\n"


def test_coroutine_or_runnable_is_run() -> None:
    assert run_sync(Agent(ScriptedModel("yes")).run("x")).content == "yes"
    assert run_sync(Agent(ScriptedModel("b")), "x").content == "b"

    async def inside() -> None:
        run_sync(Agent(ScriptedModel("yes")).run("x"))

    with pytest.raises(UsageError, match="event loop"):
        asyncio.run(inside())


IDIOMS = '''
import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Literal, Never, TypedDict, assert_never, assert_type

from pydantic import BaseModel, TypeAdapter

from sagent import Agent, Resources, Result, RunContext, RunLimits, ToolOutput, load_config, run_task
from sagent.agent import Tree, TreeLimits
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import BudgetExceeded, ModelError, UsageError
from sagent.events import (
    Advised,
    AdviceDelta,
    Denied,
    Event,
    Finished,
    Notice,
    Received,
    ReplyFinished,
    Retrying,
    SessionOpened,
    Switched,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from sagent.lib.json import Json, JsonObject, json_freeze
from sagent.messages import Message, Text, ToolCall, user
from sagent.model import Delta, Model, ModelInfo, ModelLimits, Provider, Reply, Request
from sagent.peer import Action, Inject, SpawnRequest, Stop, Switch
from sagent.policy import Allow, Ask, Deny, Policy, Turn, Verdict
from sagent.policy.permissions import PermissionPolicy
from sagent.policy.rules import Rules
from sagent.providers import Anthropic, OpenAICompatible
from sagent.session.log import MemoryLog
from sagent.testing import ScriptedModel
from sagent.testing.server import Call
from sagent.testing.server import Turn as Says
from sagent.tool import Effect, Tool, Workspace
from sagent.tools import Read, agent_tools, coding_tools, tool

assert_type(json_freeze({"a": 1}), JsonObject)
assert_type(json_freeze([1]), Json)


@tool
async def weather(city: str) -> str:
    """The weather."""
    return city


@tool(name="sum", description="A sum.", effect="none")
def add(a: int, b: int = 1, *, run: RunContext | None = None) -> int:
    return a + b


def area(width: float, height: float) -> float:
    """The area."""
    return width * height


async def survey(run: RunContext) -> ToolOutput:
    """Who is at work."""
    run.progress(run.agent)
    return ToolOutput.of("nobody", summary="looked")


class Weekday(Enum):
    MONDAY = "monday"


@dataclass
class Recipe:
    name: str


class Dish(BaseModel):
    name: str


class Meal(TypedDict):
    name: str


class Desk:
    @tool(effect="read")
    def look(self, shelf: int) -> str:
        """Look."""
        return str(shelf)

    async def tidy(self, shelf: int) -> None:
        """Tidy."""


class Search:
    """A tool by what it has, and a plain class."""

    name = "Search"
    description = "Searches."
    parameters = json_freeze({"type": "object", "properties": {"query": {"type": "string"}}})

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        return Effect("read", (workspace.cwd,))

    async def __call__(self, arguments: JsonObject, run: RunContext, /) -> ToolOutput:
        return ToolOutput.of(str(arguments["query"]))


class Brief:
    """The shortest: a text is an output, and parameters may have any name."""

    name = "Brief"
    description = "Says it."
    parameters = JsonObject({"type": "object"})

    async def __call__(self, args: JsonObject, context: RunContext) -> str:
        return "it"


class Careful:
    """A policy."""

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        match effect.kind:
            case "none" | "read":
                return Allow()
            case "write":
                return Ask("it changes files")
            case "execute":
                return Deny(f"{call.name} may do anything")

    async def after_turn(self, turn: Turn) -> list[Action]:
        return [Inject(user("Go on.")), Switch(effort="low"), Stop()]


class Echo:
    """A model."""

    provider = "own"
    limits = ModelLimits(window=10_000)

    def __init__(self, id: str) -> None:
        self.id = id

    def max_input_tokens(self, request: Request) -> int:
        return sum(len(message.content) for message in request.messages)

    async def stream(self, request: Request) -> AsyncGenerator[Delta | Reply, None]:
        async for each in ScriptedModel("hello").stream(request):
            yield each


class Own:
    """A provider."""

    name = "own"

    def model(self, model_id: str) -> Echo:
        return Echo(model_id)

    async def models(self) -> list[ModelInfo]:
        return [ModelInfo("echo")]

    async def aclose(self) -> None:
        pass


class Listener:
    """A listener with a state."""

    def __init__(self) -> None:
        self.heard: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.heard.append(event)


def show(event: Event) -> str:
    match event:
        case TextDelta(agent, text) | ThinkingDelta(agent, text) | AdviceDelta(agent, text=text):
            return f"{agent}: {text}"
        case ToolStarted(_, call) | ToolFinished(_, call):
            return call.name
        case ReplyFinished(message=message, usage=usage, usd=usd):
            assert_type(usd, Decimal | None)
            return f"{message.content} {usage.total_input} {usage.output}"
        case Finished(_, result):
            return result.content
        case SessionOpened() | Received() | Retrying() | ToolProgress() | Advised() | Denied() | Switched() | Notice():
            return ""
        case _:
            assert_never(event)


async def ask(call: ToolCall, question: Ask) -> str | None:
    return None if call.name == "Write" else question.reason


each: list[Tool] = [Search(), Brief(), weather, add, Read()]
policy: Policy = Careful()
provider: Provider = Own()
model: Model = Echo("echo")
adapter = TypeAdapter(Result[Recipe])


async def main() -> None:
    async with Agent(
        "anthropic/claude-sonnet-4-6",
        system="Be brief.",
        tools=[weather, add, area, survey, Desk().look, Desk().tidy, Search(), Brief(), Read(), Read],
        max_budget_usd=0.5,
        policy=Careful(),
        limits=RunLimits(max_turns=3),
        effort="low",
        options={"temperature": 0.2},
        resources=Resources(log=MemoryLog(), ask=ask, workspace=Workspace(Path.cwd())),
    ) as agent:
        result = await agent.run("hello")
        assert_type(result, Result)
        assert_type(result.content, str)
        assert_type(result.cost.total, Decimal)
        assert_type(result.run_usd, Decimal)
        if result.error is not None:
            assert_type(result.error.kind, str)
        assert_type((await agent.run("one", output=Recipe)).data, Recipe | None)
        assert_type((await agent.run("one", output=Dish)).data, Dish | None)
        assert_type((await agent.run("one", output=Meal)).data, Meal | None)
        assert_type((await agent.run("one", output=Weekday)).data, Weekday | None)
        assert_type((await agent.run("one", output=list[Recipe])).data, list[Recipe] | None)
        assert_type((await agent.run("one", output={"type": "object"})).data, object | None)
        assert_type((await agent.run("one", output=Literal["yes", "no"])).data, object | None)
        assert_type(agent.run_sync("one", output=Recipe), Result[Recipe])
        await agent.run({"prompt": "hello"})
        await agent.run(json_freeze({"prompt": "hello"}))
        await agent.run(user("hello"))
        await agent.run(Message("user", (Text("hello"),)))
        listener = Listener()
        forget = agent.listen(listener)
        agent.listen(lambda event: print(show(event)))
        forget()
        assert_type(agent.stream("go"), AsyncGenerator[Event, None])
        async with aclosing(agent.stream("go", output=Recipe)) as events:
            async for event in events:
                show(event)
        agent.send("and more")
        agent.apply(Switch(model="openai/gpt-5.5"))
        agent.interrupt()
        child = await agent.spawn(SpawnRequest("Look.", budget_usd=Decimal("0.1")))
        assert_type(child, Agent[Never])
        assert_type((await child.wait()).content, str)
        assert_type(agent.as_tool("ask", "Asks it."), Tool)
        results = await asyncio.gather(agent.run("a"), agent.run("b"))
        assert_type(results[0].usage.output, int)
    assert_type(await weather("Rome"), str)
    assert_type(add(1, b=2), int)
    assert_type(Desk().look(3), str)
    assert_type(adapter.validate_python({}).data, Recipe | None)
    ledger = Ledger(Decimal("0.10"), PriceBook())
    tree = Tree(TreeLimits(max_live=2))
    one = Agent(Echo("echo"), resources=Resources(ledger=ledger, tree=tree))
    Says(calls=[Call("area", {"width": 2})])
    try:
        await one.run("x")
    except ModelError as error:
        assert_type(error.status, int | None)
    except (BudgetExceeded, UsageError) as error:
        print(error)
    task = run_task("What?", config=load_config(max_turns=2), on_event=listener)
    assert_type(task.final_answer, str)
    assert_type(task.result, Result)
    assert_type(task.usage_summary["total"].usd, Decimal | None)
    Agent(Anthropic.from_env().model("claude-sonnet-4-6"), tools=coding_tools())
    Agent(OpenAICompatible.from_key("k", base_url="http://127.0.0.1:1/v1").model("x"), tools=agent_tools())
    Agent(provider.model("x"), policy=PermissionPolicy("edit", Rules.parse(["Bash(make)"], [])))
'''


@slow
def test_idioms_pass_strict_type_checks() -> None:
    assert check({"idioms": IDIOMS}) == ""


async def test_outcome_is_of_this_run() -> None:
    agent = Agent(ScriptedModel("one", ModelError("invalid_request", "not so", provider="scripted", model="scripted")))
    assert (await outcome(agent.run("a"), agent.wait)).content == "one"
    with pytest.raises(UsageError, match="two tools"):  # it does not begin
        await outcome(agent.run("b", tools=[twice, twice]), agent.wait)
    failed = await outcome(agent.run("c"), agent.wait)
    assert failed.error is not None and failed.error.kind == "invalid_request"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"tools": add}, "tools is function: give a list"),
        ({"tools": "Read"}, "tools is str: give a list"),
        ({"limits": {"max_turns": 3}}, "limits is dict: give RunLimits(...)"),
        ({"resources": "x"}, "resources is str: give Resources(...)"),
        ({"options": ["a"]}, "options is list: give a mapping"),
        ({"effort": "hard"}, "effort='hard': give one of none, "),
        ({"resources": Resources(fallbacks=[5])}, 'int is not a model: give "provider/model"'),
        ({"resources": Resources(compactor=ScriptedModel)}, 'ScriptedModel is not a model: give "provider/model"'),
        ({"fallbacks": ["nobody"]}, "'nobody' does not name a provider"),
        ({"advisor": "nobody"}, "'nobody' does not name a provider"),
        ({"advisor": ["openai/gpt-5.5", "anthropic/claude-opus-4-6"]}, "two advisors have the same name: advisor"),
        ({"advisor": "opus", "resources": Resources(advisory=advise(["haiku"]))}, "two places for advisors"),
        ({"system": 3}, "system is int: give a string, or a function"),
        ({"system": None}, "system is NoneType: give a string, or a function"),
        ({"policy": "yolo"}, "policy is str: give a policy, such as PermissionPolicy("),
        ({"policy": ""}, "policy is str: give a policy"),
        ({"limits": RunLimits(max_turns=-3)}, "RunLimits(max_turns=-3): give a whole number from 0, or None"),
        ({"limits": RunLimits(max_turns=True)}, "RunLimits(max_turns=True): give a whole number from 0, or None"),
        ({"limits": RunLimits(max_retries=None)}, "RunLimits(max_retries=None): give a whole number from 0"),
        ({"limits": RunLimits(max_response_tokens="9")}, "RunLimits(max_response_tokens='9'): give a whole"),
        ({"limits": RunLimits(longest_wait=float("nan"))}, "RunLimits(longest_wait=nan): give seconds from 0"),
        ({"limits": RunLimits(foreground_seconds=-1)}, "RunLimits(foreground_seconds=-1): give seconds from 0, or"),
        ({"limits": RunLimits(compact_at=80)}, "RunLimits(compact_at=80): give a share from 0 to 1"),
        ({"limits": RunLimits(wait_for_jobs="no")}, "RunLimits(wait_for_jobs='no'): give True or False"),
    ],
)
def test_wrong_constructor_says_what_to_write(given: dict, words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        Agent(ScriptedModel("x"), **given)


def test_policy_without_members_still_judges() -> None:
    class Empty(AllowAll):
        def __len__(self) -> int:
            return 0

    assert Agent(ScriptedModel("x"), policy=(policy := Empty())).preparation.policy is policy


def test_foreign_model_name_says_how_to_write() -> None:
    with pytest.raises(UsageError, match='as in "anthropic/claude-sonnet-4-6"'):
        Agent("anthropic:claude-sonnet-4-6")
    with pytest.raises(UsageError, match=r'give "provider/model"$'):
        Agent("unheard:8b")


def test_unrunnable_value_says_what_can() -> None:
    with pytest.raises(UsageError, match=r"takes an agent or a coroutine, as agent\.run"):
        run_sync(None)


def test_one_run_at_a_time_across_threads() -> None:
    begun, asked = Barrier(4), list[str]()

    @tool(effect="none")
    async def linger() -> str:
        """Be there while the others ask."""
        for _ in range(3):
            assert await asyncio.to_thread(refused.acquire, timeout=20)
        return "lingered"

    refused = Semaphore(0)
    agent = Agent(ScriptedModel((call("1", "linger"),), "done"), tools=[linger])

    def ask() -> None:
        begun.wait()
        try:
            asked.append(agent.run_sync("x").content)
        except UsageError as error:
            asked.append(str(error))
            refused.release()

    threads = [Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(asked) == ["agent root is running in another thread: make one agent per thread"] * 3 + ["done"]


def test_interrupt_from_another_thread() -> None:
    begun = ThreadEvent()

    @tool(effect="none")
    async def wait() -> None:
        """Wait."""
        begun.set()
        await asyncio.sleep(60)

    agent = Agent(ScriptedModel((call("1", "wait"),), "too late"), tools=[wait])
    with ThreadPoolExecutor() as pool:
        result = pool.submit(agent.run_sync, "x")
        assert begun.wait(20)
        agent.interrupt()
        assert result.result(20).stop_reason == "interrupted"


async def test_threaded_message_wakes_resting_agent() -> None:
    """Asyncio wakes nobody for what another thread does to a future, and in debug mode raises."""
    asyncio.get_running_loop().set_debug(True)
    async with Agent(ScriptedModel("begun", "read", "noted")) as agent:
        child = await agent.spawn(SpawnRequest("x", persistent=True))
        await child.wait()
        thread = Thread(target=child.send, args=("y",))
        thread.start()
        thread.join()
        assert (await child.wait()).content == "read"  # though the loop had no round in between


def test_keyboard_interrupt_skips_functions() -> None:
    """The thread of a function that never returns ends with the program."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", STUCK], stdout=pipe, stderr=pipe, text=True) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "at work\n"
            program.send_signal(signal.SIGINT)
            _, err = program.communicate(timeout=60)
        finally:
            program.kill()
    assert program.returncode == -signal.SIGINT
    assert err.endswith("KeyboardInterrupt\n")


def test_threaded_message_is_read_at_once() -> None:
    begun, read = ThreadEvent(), ThreadEvent()

    @tool(effect="none")
    async def wait() -> str:
        """Wait for whoever reads."""
        begun.set()
        return "read" if await asyncio.to_thread(read.wait, 20) else "not read"

    agent = Agent(ScriptedModel((call("1", "wait"),), "I have read it", "and it is done"), tools=[wait])
    agent.listen(lambda event: read.set() if isinstance(event, Received) and event.message.content == "y" else None)
    with ThreadPoolExecutor() as pool:
        result = pool.submit(agent.run_sync, "x")
        assert begun.wait(60)
        agent.send("y")
        assert result.result(30).content == "and it is done"
    assert "goes on in the background" in agent.messages[2].results[0].text


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, pickle.dumps])
def test_agents_are_not_copied_results_are(make: Callable[[object], object]) -> None:
    agent = Agent(ScriptedModel("one"))
    make(agent.run_sync("x"))
    with pytest.raises(TypeError, match=r"agent root cannot be copied or pickled.*restore"):
        make(agent)


@pytest.mark.parametrize("same", ["another", "itself", "by name"])
async def test_advisor_that_is_another_model_of_the_same_name_is_refused(same: str) -> None:
    model = ScriptedModel("Done.")
    advisor = {"another": ScriptedModel("Go on."), "itself": model, "by name": "scripted/scripted"}[same]
    if same == "another":  # both would be asked by the one name, and the agent would advise itself
        with pytest.raises(UsageError, match="two models named 'scripted/scripted'"):
            Agent(model, advisor=advisor)
    else:
        async with Agent(model, advisor=advisor) as agent:
            assert (await agent.run("x")).content == "Done."
