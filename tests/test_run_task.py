"""`from sagent import run_task, load_config`: one task in one call."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

import sagent
from sagent.agent import Agent, Resources
from sagent.app.task import RoleUsage, TaskResult
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import ConfigError, ModelError, UsageError
from sagent.events import Event, Notice, ReplyFinished
from sagent.lib.json import EMPTY
from sagent.messages import ToolCall
from sagent.testing.script import Call, Fail
from sagent.testing.scripted import ScriptedModel
from sagent.testing.server import FakeProviderServer, Turn
from sagent.tools import tool
from sagent.usage import Usage

ROOT = Path(__file__).parents[1]
FILE = """
executor: {{model: anthropic/claude-sonnet-4-6, api_base: "{url}", api_key: k}}
policy: {{max_turns: 2}}
state_dir: {state}
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the task is done."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


@pytest.fixture
def served(place: Path) -> Iterator[FakeProviderServer]:
    """A provider that uses a tool and then answers, told of in config.yaml."""
    script = [
        Turn(text="I look.", calls=(Call("List", {}),), usage=Usage(input=100, output=10)),
        Turn(text="Nothing is here.", usage=Usage(input=120, cache_read=30, output=5)),
        Fail(401),
    ]
    with FakeProviderServer(script).in_thread() as server:
        (place.parent / "config.yaml").write_text(FILE.format(url=server.url, state=place.parent / "state"))
        yield server


def test_task_in_one_call(served: FakeProviderServer, place: Path) -> None:
    config = sagent.load_config(place.parent / "config.yaml")
    events: list[Event] = []
    result = sagent.run_task("What is here?", config=config, on_event=events.append)
    assert isinstance(result, TaskResult)
    assert result.final_answer == result.result.content == "Nothing is here."
    used = result.usage_summary["executor"]
    assert (used.calls, used.input_tokens, used.output_tokens) == (2, 250, 15)
    assert used.usd == result.result.cost.total > 0
    assert result.usage_summary == {"executor": used, "advisor": RoleUsage(), "total": used}
    assert sum(isinstance(event, ReplyFinished) for event in events) == 2
    assert served.requests[0].headers["x-api-key"] == "k"
    with pytest.raises(ModelError, match="401") as raised:
        sagent.run_task("Again.", config=config)
    assert not isinstance(raised.value.__context__, RuntimeError)  # of there being no event loop


def test_summary_is_of_this_task_alone(place: Path) -> None:
    turns = [Turn(text=text, usage=Usage(input=100, output=10)) for text in ("One.", "Two.")]
    with FakeProviderServer(turns).in_thread() as server:
        (place.parent / "config.yaml").write_text(FILE.format(url=server.url, state=place.parent / "state"))
        session = place / "session"
        found = [
            sagent.run_task(text, config=sagent.load_config(place.parent / "config.yaml", session=str(session)))
            for text in ("one?", "two?")
        ]
    assert [each.usage_summary["total"].calls for each in found] == [1, 1]
    usd = [each.usage_summary["total"].usd for each in found]
    assert found[1].result.cost.total == sum(each or Decimal(0) for each in usd)


def test_in_memory_session_is_summed_up(place: Path) -> None:
    with FakeProviderServer([Turn(text="Yes.", usage=Usage(input=7, output=3))]).in_thread() as server:
        (place.parent / "config.yaml").write_text(FILE.format(url=server.url, state=place.parent / "state"))
        result = sagent.run_task("?", config=sagent.load_config(place.parent / "config.yaml", ephemeral=True))
    assert (result.usage_summary["total"].input_tokens, result.result.session_path) == (7, "")


def test_unknown_price_is_none(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeProviderServer([Turn(text="Yes.")]).in_thread() as server:
        monkeypatch.setenv("SAGENT_MODEL", "openai-compatible/mine")
        monkeypatch.setenv("SAGENT_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("SAGENT_EPHEMERAL", "1")
        result = sagent.run_task("?")
    assert result.final_answer == "Yes."
    assert result.usage_summary["executor"].usd is None


def test_limit_gives_answer_so_far(served: FakeProviderServer, place: Path) -> None:
    config = sagent.load_config(place.parent / "config.yaml", max_turns=1)
    result = sagent.run_task("What is here?", config=config)
    assert result.result.error is not None
    assert (result.result.stop_reason, result.usage_summary["total"].calls) == ("max_turns", 1)


def test_wrong_arguments_are_raised(place: Path) -> None:
    with pytest.raises(ConfigError, match=r"--config: no such file: .*gone\.yaml"):
        sagent.load_config("gone.yaml")
    with pytest.raises(ConfigError, match="Did you mean max_turns"):
        sagent.load_config(max_turn=3)  # pyright: ignore[reportCallIssue]
    with pytest.raises(UsageError, match="The task is empty"):
        sagent.run_task(" ")
    with pytest.raises(UsageError, match="a task must be a str, not int"):
        sagent.run_task(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(UsageError, match=r"config is dict: give load_config\(\.\.\.\)"):
        sagent.run_task("hello", config={"model": "x"})  # pyright: ignore[reportArgumentType]
    with pytest.raises(UsageError, match="on_event is int: give a function"):
        sagent.run_task("hello", on_event=3)  # pyright: ignore[reportArgumentType]

    async def inside() -> None:
        sagent.run_task("hello")

    with pytest.raises(UsageError, match=r"running event loop: await Agent\.run\(\)"):
        asyncio.run(inside())


async def test_agent_of_command_line_with_own_tool(served: FakeProviderServer, place: Path) -> None:
    def area(width: float, height: float) -> float:
        """The area of a rectangle."""
        return width * height

    config = sagent.load_config(place.parent / "config.yaml", executor="anthropic/claude-haiku-4-5", max_turns=5)
    events: list[Event] = []
    async with sagent.open_agent(config, tools=[area], on_event=events.append) as agent:
        result = await agent.run("What is here?")
        assert (result.content, result.model) == ("Nothing is here.", "anthropic/claude-haiku-4-5")
        assert {"area", "Read", "Bash"} <= {tool.name for tool in agent.tools}
    assert sum(isinstance(event, ReplyFinished) for event in events) == 2
    assert served.requests[0].json["model"] == "claude-haiku-4-5"
    with pytest.raises(UsageError, match="There is no provider 'nosuch'"):
        async with sagent.open_agent(sagent.load_config(executor="nosuch/x")):
            pass


def test_program_settings_win_as_python_values(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAGENT_MODEL", "openai/gpt-5.5")
    (place / "more").mkdir()
    config = sagent.load_config(
        executor="anthropic/claude-haiku-4-5",
        advisor=["openai/gpt-5.5", "critic=anthropic/claude-opus-4-6"],
        max_budget_usd=0.5,
        tools=["Read"],
        options={"temperature": 0.2},
        cwd=place.parent,
        add_dirs=[place, "more"],
        state_dir=place / "state",
        session=place / "session",
        effort=None,
    )
    assert config.model == "anthropic/claude-haiku-4-5"
    assert [advisor.name for advisor in config.advisors] == ["advisor", "critic"]
    assert (config.max_budget_usd, config.tools, config.options) == (Decimal("0.5"), ("Read",), ("temperature=0.2",))
    assert (config.cwd, config.state_dir, config.session) == (place.parent, place / "state", place / "session")
    assert config.add_dirs == (place, place / "more")
    assert sagent.load_config().model == "openai/gpt-5.5"
    with pytest.raises(ConfigError, match="are the same setting: give only one"):
        sagent.load_config(executor="openai/gpt-5.5", model="openai/gpt-5.5")


def test_type_checkers_know_every_setting() -> None:
    """Their types are written from the declarations, which have been changed since if this fails."""
    done = subprocess.run([sys.executable, "scripts/make_settings.py", "--check"], cwd=ROOT, check=False)
    assert done.returncode == 0, "run scripts/make_settings.py"


def test_names_are_imported_lazily() -> None:
    code = (
        "import sys, sagent; before = set(sys.modules)\n"
        "from sagent import load_config, run_task\n"
        "print(sagent.__version__, 'sagent.app' in before, 'sagent.app.task' in sys.modules)\n"
        "try: sagent.nothing\n"
        "except AttributeError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        f"{sagent.__version__} False True",
        "module 'sagent' has no attribute 'nothing'",
    ]


async def test_run_in_a_tool_warns_of_callers_cap(served: FakeProviderServer, place: Path) -> None:
    config = sagent.load_config(place.parent / "config.yaml")

    @tool(effect="none")
    async def ask() -> str:
        """A task of its own."""
        return (await asyncio.to_thread(sagent.run_task, "What is here?", config=config)).final_answer

    model = ScriptedModel((ToolCall("1", "ask", EMPTY),), "done")
    prices = PriceBook({f"{model.provider}/{model.id}": {"input": 0, "output": 0}})
    agent = Agent(model, tools=[ask], resources=Resources(ledger=Ledger(Decimal(1), prices)))
    heard: list[Event] = []
    agent.listen(heard.append)
    assert (await agent.run("go")).content == "done"
    await agent.aclose()
    assert any(isinstance(event, Notice) and "not counted in the budget of $1.00" in event.text for event in heard)
