"""Calls that go on in the background: what the model reads, and when."""

import asyncio
from collections.abc import Callable

import pytest

from sagent.agent import Agent, RunLimits
from sagent.engine.state import Jobs
from sagent.errors import UsageError
from sagent.events import ToolFinished, ToolStarted
from sagent.lib.json import JsonObject, json_freeze_object
from sagent.messages import ToolCall
from sagent.model import Request
from sagent.peer import Background
from sagent.testing import ScriptedModel
from sagent.tool import Effect, RunContext, Workspace
from sagent.tools.background import BackgroundTask
from tests.messages import call


class Gate:
    """A tool whose calls end when they are let through."""

    name, description = "Gate", "Waits."
    parameters = json_freeze_object({"type": "object", "properties": {"name": {"type": "string"}}})

    def __init__(self) -> None:
        self.began: dict[str, asyncio.Event] = {}
        self.open: dict[str, asyncio.Event] = {}
        self.cancelled: list[str] = []

    def of(self, name: str) -> tuple[asyncio.Event, asyncio.Event]:
        return self.began.setdefault(name, asyncio.Event()), self.open.setdefault(name, asyncio.Event())

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        return Effect("none")

    async def __call__(self, arguments: JsonObject, run: RunContext) -> str:
        name = str(arguments["name"])
        began, is_open = self.of(name)
        began.set()
        run.progress(f"{name} waits")
        try:
            await is_open.wait()
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise
        return f"{name} is through"


def results(request: Request) -> list[str]:
    return [result.text for result in request.messages[-1].results]


async def test_background_result_is_a_message() -> None:
    gate = Gate()

    def second(request: Request) -> str:
        assert "as job:1" in results(request)[0]
        gate.of("a")[1].set()
        return "waiting"

    model = ScriptedModel((call("c1", "Gate", name="a", background=True),), second, lambda r: r.messages[-1].content)
    agent = Agent(model, tools=[gate, BackgroundTask()])
    result = await agent.run("go")
    assert "job:1, the call of Gate" in result.content
    assert "a is through" in result.content
    assert agent.messages[-2].sender == "job:1"
    assert [job.state for job in agent.jobs()] == ["done"]


async def test_message_turns_calls_into_jobs() -> None:
    gate = Gate()

    def second(request: Request) -> str:
        assert "goes on in the background as job:1" in results(Request("c", request.messages[:-1]))[0]
        assert request.messages[-1].content == "stop that"
        gate.of("a")[1].set()
        return "as you say"

    model = ScriptedModel((call("c1", "Gate", name="a"),), second, "noted")
    agent = Agent(model, tools=[gate])
    task = asyncio.create_task(agent.run("go"))
    await gate.of("a")[0].wait()
    agent.send("stop that")
    result = await task
    assert result.content == "noted"
    assert [m.sender for m in agent.messages if m.role == "user" and not m.results] == ["", "", "job:1"]


async def test_quick_calls_end_before_message() -> None:
    async def quick(arguments: JsonObject, run: RunContext) -> str:
        agent.send("hello")
        return "quick"

    tool = type("Quick", (), {"name": "Quick", "description": "", "parameters": JsonObject({"type": "object"})})()
    tool.__class__.__call__ = lambda self, arguments, run: quick(arguments, run)  # pyright: ignore[reportAttributeAccessIssue]
    model = ScriptedModel((call("c1", "Quick"),), lambda r: r.messages[-2].results[0].text)
    agent = Agent(model, tools=[tool])  # pyright: ignore[reportArgumentType]
    assert (await agent.run("go")).content == "quick"


@pytest.mark.parametrize("which", ["", "c2"])
async def test_person_sends_calls_to_background(which: str) -> None:
    gate = Gate()

    def second(request: Request) -> str:
        answers = results(request)
        assert "job:" in answers[1]
        assert ("job:" in answers[0]) == (which == "")
        gate.of("b")[1].set()
        gate.of("a")[1].set()
        return "on"

    model = ScriptedModel((call("c1", "Gate", name="a"), call("c2", "Gate", name="b")), second, "x", "x")
    agent = Agent(model, tools=[gate])
    task = asyncio.create_task(agent.run("go"))
    await gate.of("a")[0].wait()
    await gate.of("b")[0].wait()
    agent.apply(Background(which))
    if which:
        await asyncio.sleep(0.1)
        gate.of("a")[1].set()
    assert (await task).error is None
    assert {job.state for job in agent.jobs()} == {"done"}


async def test_long_call_becomes_a_job() -> None:
    gate = Gate()

    def second(request: Request) -> str:
        assert all(part in results(request)[0] for part in ("0.05 s", "in the background as job:1"))
        gate.of("a")[1].set()
        return "on"

    agent = Agent(
        ScriptedModel((call("c1", "Gate", name="a"),), second, "end"),
        tools=[gate],
        limits=RunLimits(foreground_seconds=0.05),
    )
    assert (await agent.run("go")).content == "end"


async def test_delay_holds_the_call_back() -> None:
    gate = Gate()
    gate.of("a")[1].set()
    seen: list[str] = []

    async def second(request: Request) -> str:
        await asyncio.sleep(0.05)
        seen.append("asked again")
        return "on"

    agent = Agent(ScriptedModel((call("c1", "Gate", name="a", delay=0.3),), second, "end"), tools=[gate])
    agent.listen(
        lambda event: seen.append(type(event).__name__) if isinstance(event, ToolStarted | ToolFinished) else None
    )
    assert (await agent.run("go")).content == "end"
    assert seen == ["ToolFinished", "asked again", "ToolStarted", "ToolFinished"]


async def test_interrupt_keeps_jobs_close_ends_them() -> None:
    gate = Gate()

    async def linger(request: Request) -> str:
        await asyncio.sleep(30)
        return "never"

    agent = Agent(ScriptedModel((call("c1", "Gate", name="a", background=True),), linger), tools=[gate])
    task = asyncio.create_task(agent.run("go"))
    await gate.of("a")[0].wait()
    await asyncio.sleep(0.02)
    agent.interrupt()
    assert (await task).stop_reason == "interrupted"
    assert [job.state for job in agent.jobs()] == ["running"]
    await agent.aclose()
    assert gate.cancelled == ["a"]
    assert [job.state for job in agent.jobs()] == ["cancelled"]


async def test_model_lists_reads_and_cancels_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagent.agent.conversation._OFFER_SECONDS", 0.05)  # no command is started here
    gate = Gate()
    said: list[str] = []

    def note(line: tuple[ToolCall, ...] | str) -> Callable[[Request], tuple[ToolCall, ...] | str]:
        def step(request: Request) -> tuple[ToolCall, ...] | str:
            said.extend(results(request))
            return line

        return step

    def task(call_id: str, **arguments: object) -> tuple[ToolCall, ...]:
        return (call(call_id, "BackgroundTask", **arguments),)

    model = ScriptedModel(
        (call("c1", "Gate", name="a", background=True), call("c2", "Gate", name="b", background=True)),
        note(task("c3", operation="list")),
        note(task("c4", operation="output", id="job:1")),
        note(task("c5", operation="wait", id="1", seconds=0.01)),
        note(task("c6", operation="cancel", id="job:1")),
        note(task("c7", operation="detach", id="job:2")),
        note(task("c8", operation="output", id="job:9")),
        note(task("c9", operation="cancel", id="job:2")),
        note("done"),
    )
    agent = Agent(model, tools=[gate, BackgroundTask()])
    result = await agent.run("go")
    assert result.content == "done"
    assert said[2].count("running") == 2
    assert said[3] == "a waits"
    assert "running" in said[4]
    assert "cancelled" in said[5]
    assert "cannot outlive" in said[6]
    assert all(part in said[7] for part in ("'job:9'", "job:1, job:2"))
    assert gate.cancelled == ["a", "b"]


async def test_run_without_wait_ends_before_jobs() -> None:
    gate = Gate()
    agent = Agent(
        ScriptedModel((call("c1", "Gate", name="a", background=True),), "bye", lambda r: r.messages[-1].content),
        tools=[gate],
        limits=RunLimits(wait_for_jobs=False),
    )
    assert (await agent.run("go")).content == "bye"
    gate.of("a")[1].set()
    await agent.wait_for_job("job:1")
    result = await agent.run("and?")
    texts = [m.content for m in agent.messages if m.role == "user" and not m.results]
    assert result.error is None
    assert any("a is through" in text for text in texts)
    await agent.aclose()


async def test_tools_own_background_argument_stays() -> None:
    seen: list[JsonObject] = []

    class Own:
        name, description = "Own", ""
        parameters = json_freeze_object({"type": "object", "properties": {"background": {"type": "string"}}})

        async def __call__(self, arguments: JsonObject, run: RunContext) -> str:
            seen.append(arguments)
            return "ok"

    agent = Agent(ScriptedModel((call("c1", "Own", background="blue"),), "end"), tools=[Own()])
    await agent.run("go")
    assert seen == [JsonObject({"background": "blue"})]


async def test_missing_jobs_are_said_missing() -> None:
    agent = Agent(ScriptedModel("x"))
    with pytest.raises(UsageError, match=r"no 'job:1'\. The jobs are: none"):
        agent.job_output("job:1")


async def test_job_keeps_its_calls_start() -> None:
    jobs, task = Jobs(), asyncio.create_task(asyncio.sleep(0))
    running = jobs.ongoing(task)
    running.started -= 100
    assert jobs.begin(call("a", "Bash"), task).started == running.started
    await task
