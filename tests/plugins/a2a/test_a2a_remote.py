"""Agents elsewhere as tools: another sagent, and agents of the SDK's own making."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Part,
    Task,
    TaskState,
    TaskStatus,
)
from a2a_served import TOKEN, a2a_served
from starlette.applications import Starlette

from sagent.app import open_agent
from sagent.cli.settings import load_settings
from sagent.events import Event, Notice, Result, ToolProgress
from sagent.testing.script import Call, Turn
from sagent.testing.server import FakeProviderServer
from tests.depth import later
from tests.listening import app_at
from tests.walls import without_shortfall


class Asked:
    """A run with an agent elsewhere: what the model was shown of its answers, and the events."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.results: list[str] = []

    async def run(self, monkeypatch: pytest.MonkeyPatch, steps: list, *agents: str, **flags: object) -> Result:
        async with FakeProviderServer(lambda request: (self._note(request.json), steps.pop(0))[1]) as provider:
            monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)
            given = {"model": "anthropic/claude-sonnet-4-6", "permission_mode": "full", "a2a": list(agents), **flags}
            async with open_agent(load_settings(given), self.events.append) as agent:
                return await agent.run("Ask it.")

    def _note(self, request: Any) -> None:
        self.results = [
            part["content"] if isinstance(part["content"], str) else "".join(each["text"] for each in part["content"])
            for message in request["messages"]
            for part in message["content"]
            if isinstance(part, dict) and part["type"] == "tool_result"
        ]

    def notices(self) -> list[str]:
        return [each.text for each in self.events if isinstance(each, Notice) and without_shortfall(each.text)]


def asks(prompt: str, name: str = "peer", **more: str) -> Turn:
    return Turn("", calls=(Call(f"a2a__{name}", {"prompt": prompt, **more}),))


@later
async def test_remote_answers_with_unknown_cost(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2A_PEER_TOKEN", TOKEN)
    asked = Asked()
    async with a2a_served(place) as [peer]:
        steps = [asks("What is 6 \ud800 times 7?"), Turn("It is 42: é."), Turn("The peer says 42.")]
        rules = {"permission_mode": "ask", "allow": ["a2a__peer"]}
        result = await asked.run(monkeypatch, steps, f"peer={peer.url}", **rules)
    assert result.content == "The peer says 42."
    assert asked.results[0].startswith("It is 42: é.") and "conversation 2" in asked.results[0]
    assert "cost unknown" in asked.results[0]
    assert result.cost.unpriced == ("a2a/peer",) and not result.denials and not asked.notices()


async def test_unreachable_agent_left_out(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    asked = Asked()
    result = await asked.run(monkeypatch, [Turn("Alone.")], f"gone=http://127.0.0.1:{port}")
    assert result.content == "Alone."
    assert any("gone" in text and "cannot be used" in text for text in asked.notices())


class Sample(AgentExecutor):
    """An agent as the SDK's samples have it."""

    def __init__(self, work: Callable[[RequestContext, TaskUpdater], object]) -> None:
        self._work = work
        self.canceled = asyncio.Event()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id and context.context_id
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        if context.current_task is None:
            status = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
            await event_queue.enqueue_event(Task(id=context.task_id, context_id=context.context_id, status=status))
        await self._work(context, updater)  # pyright: ignore[reportGeneralTypeIssues]

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id and context.context_id
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()
        self.canceled.set()


@asynccontextmanager
async def sample(executor: AgentExecutor, *, leads_to: str = "", version: str = "1.0") -> AsyncGenerator[str]:
    bound = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    card = AgentCard(
        name="Sample", description="Answers.", version="1", default_input_modes=["text"], default_output_modes=["text"],
        supported_interfaces=[
            AgentInterface(url=f"{leads_to or url}/rpc", protocol_binding="JSONRPC", protocol_version=version)
        ],
        capabilities=AgentCapabilities(streaming=True),
        skills=[AgentSkill(id="s", name="Sums", description="adds numbers", tags=["sums"])],
    )  # fmt: skip
    handler = DefaultRequestHandler(agent_executor=executor, task_store=InMemoryTaskStore(), agent_card=card)
    routes = [*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=True)]
    async with app_at(bound, Starlette(routes=routes)):
        yield url


@later
@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_asking_remote_continues_conversation(place: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    async def work(context: RequestContext, updater: TaskUpdater) -> None:
        if context.get_user_input() == "Add.":
            await updater.start_work(updater.new_agent_message([Part(text="looking")]))
            await updater.requires_input(updater.new_agent_message([Part(text="Which numbers?")]))
            return
        await updater.add_artifact([Part(text=f"Sum of {context.get_user_input()}.")])
        await updater.complete()

    asked = Asked()
    found: list[str] = []

    def second() -> Turn:
        found.append(asked.results[0])
        conversation = asked.results[0].rpartition("conversation ")[2].partition(",")[0]
        return asks("1 and 2", conversation=conversation)

    class Steps(list):
        def pop(self, index: Any = -1) -> Any:
            step = super().pop(index)
            return step() if callable(step) else step

    async with sample(Sample(work), version=version) as url:
        result = await asked.run(monkeypatch, Steps([asks("Add."), second, Turn("Done.")]), f"peer={url}")
    assert result.content == "Done."
    assert "Which numbers?" in found[0]
    assert asked.results[1].startswith("Sum of 1 and 2.")
    assert any(isinstance(event, ToolProgress) and event.text == "looking" for event in asked.events)


async def test_failed_task_and_foreign_card_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(context: RequestContext, updater: TaskUpdater) -> None:
        await updater.failed(updater.new_agent_message([Part(text="no luck")]))

    asked = Asked()
    async with sample(Sample(work)) as url, sample(Sample(work), leads_to="http://169.254.169.254") as evil:
        agents = (f"peer={url}", f"evil={evil}")
        result = await asked.run(monkeypatch, [asks("Add."), Turn("It failed.")], *agents)
    assert result.content == "It failed."
    assert "ended as failed" in asked.results[0] and "no luck" in asked.results[0]
    assert any("evil" in text and "another address" in text for text in asked.notices())


async def test_stopped_call_stops_remote_agent(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    working = asyncio.Event()

    async def work(context: RequestContext, updater: TaskUpdater) -> None:
        await updater.start_work()
        working.set()
        await asyncio.Event().wait()

    monkeypatch.setenv("SECRET_API_KEY", "sk-a-secret-of-the-person")
    executor, asked = Sample(work), Asked()
    async with sample(executor) as url:
        steps = [asks("My key is sk-a-secret-of-the-person"), asks("Add."), Turn("Stopped.")]
        running = asyncio.create_task(asked.run(monkeypatch, steps, f"peer={url}"))
        async with asyncio.timeout(60):
            await working.wait()
            assert "SECRET_API_KEY" in asked.results[0]
            running.cancel()
            await executor.canceled.wait()
        await asyncio.wait([running])
