"""What a program may write in a shorter form: each works, or one sentence says what to write."""

import asyncio
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

import sagent
from sagent.agent import Agent, Resources
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import BudgetExceeded, UsageError
from sagent.lib.json import JsonObject
from sagent.messages import Text
from sagent.testing import ScriptedModel
from sagent.testing.server import FakeProviderServer, Turn
from sagent.tools import Read, tool
from tests.messages import call


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


class Kit:
    """A program's object with a tool of its own."""

    def __init__(self, base: int) -> None:
        self.base = base

    @tool(effect="none")
    async def above(self, by: int) -> int:
        """So much above the base."""
        return self.base + by


@tool
async def twice(number: int) -> int:
    """Twice a number."""
    return 2 * number


async def test_functions_methods_and_classes_are_tools() -> None:
    calls = (call("1", "add", a=2, b=3), call("2", "above", by=7), call("3", "twice", number=4))
    async with Agent(ScriptedModel(calls, "done"), tools=[add, Kit(40).above, twice, Read]) as agent:
        await agent.run("go")
        assert [result.text for message in agent.messages for result in message.results] == ["5", "47", "8"]
        assert list(agent.state.tools) == ["add", "above", "twice", "Read"]


async def test_a_decorated_function_is_called_as_before() -> None:
    assert await twice(21) == 42
    assert await twice(number=3) == 6
    assert await Kit(1).above(2) == 3
    made = await twice(JsonObject({"number": 5}), None)  # pyright: ignore[reportArgumentType] -- it asks for no context
    assert made.content == (Text("10"),)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"model": ScriptedModel}, "ScriptedModel is no model: give .provider/model."),
        ({"model": "gibberish"}, "'gibberish' does not say whose model it is: give .provider/model."),
        ({"model": "nobody/x"}, "nobody"),
        ({"model": "anthropic/"}, "does not say whose model it is"),
        ({"tools": [3]}, "int is no tool: give one of sagent.tools, or a function"),
        ({"tools": [lambda x: x]}, "no tool can be made of it: .*docstring"),
        ({"tools": [Kit.above]}, "above is a method: give it from an object, as in kit.above"),
        ({"tools": [Kit]}, "Kit is a class: give a tool made of it"),
        ({"max_budget_usd": "much"}, "max_budget_usd='much': give USD as a number"),
        ({"max_budget_usd": -1}, "give USD as a number"),
        ({"max_budget_usd": True}, "give USD as a number"),
        ({"max_budget_usd": float("nan")}, "give USD as a number"),
        ({"max_budget_usd": 1, "resources": Resources(ledger=Ledger(None, PriceBook()))}, "two caps"),
    ],
)
def test_what_is_not_understood_is_said_in_a_sentence(given: dict, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(UsageError, match=said):
        Agent(**{"model": ScriptedModel(), **given})


async def test_a_model_by_name_is_asked_and_its_provider_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeProviderServer([Turn(text="Hi."), Turn(text="Ho.")]) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        async with Agent("anthropic/claude-sonnet-4-6") as agent:
            assert (await agent.run("x")).content == "Hi."
        result = await asyncio.to_thread(Agent("claude-sonnet-4-6").run_sync, "y")
        assert result.content == "Ho."


@pytest.mark.parametrize("cap", [Decimal("0.000001"), 0.000001, "0.000001", 0])
async def test_a_cap_in_any_form_holds(cap: Decimal | float | str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeProviderServer([]) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        async with Agent("anthropic/claude-sonnet-4-6", max_budget_usd=cap) as agent:
            with pytest.raises(BudgetExceeded):
                await agent.run("x")
        assert not server.requests


def test_names_are_imported_when_they_are_asked_for() -> None:
    stub = Path(sagent.__file__).with_suffix(".pyi").read_text()
    names = re.findall(r"import (\w+) as", stub)
    assert {"Agent", "Result", "run_task"} <= {*names}
    assert [getattr(sagent, name).__name__ for name in names] == names
    with pytest.raises(AttributeError, match="no attribute 'Agnet'"):
        _ = sagent.Agnet  # pyright: ignore[reportAttributeAccessIssue]
    count = "import sys; before = len(sys.modules); import sagent; print(len(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", count], capture_output=True, text=True, check=True)
    assert int(done.stdout) <= 2


IDIOMS = '''
from contextlib import aclosing
from dataclasses import dataclass
from typing import assert_type

from sagent import Agent, Result
from sagent.tools import Read, tool


@tool
async def weather(city: str) -> str:
    """The weather."""
    return city


def area(width: float, height: float) -> float:
    """The area."""
    return width * height


@dataclass
class Recipe:
    name: str


class Desk:
    @tool(effect="read")
    def look(self, shelf: int) -> str:
        """Look."""
        return str(shelf)


async def main() -> None:
    async with Agent(
        "anthropic/claude-sonnet-4-6", tools=[weather, area, Desk().look, Read()], max_budget_usd=0.5
    ) as agent:
        result = await agent.run("hello")
        assert_type(result, Result)
        assert_type((await agent.run("one", output=Recipe)).data, Recipe | None)
        assert_type((await agent.run("one", output={"type": "object"})).data, object | None)
        await agent.run({"prompt": "hello"})
        async with aclosing(agent.stream("go")) as events:
            async for event in events:
                print(event)
    assert_type(await weather("Rome"), str)
    assert_type(Desk().look(3), str)
'''


@pytest.mark.parametrize("checker", ["pyright", "mypy"])
def test_the_idioms_check_strictly_for_who_uses_them(checker: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(IDIOMS)
    if checker == "mypy":
        pytest.importorskip("mypy")
        command = [sys.executable, "-m", "mypy", "--strict", str(file)]
    else:
        (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict", "include": ["program.py"]}')
        command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "-p", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
