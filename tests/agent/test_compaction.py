"""A context that is made smaller before it is full, and a task that is never lost with it."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from sagent import tools
from sagent.agent import Agent, Resources, RunLimits
from sagent.context.compaction import HEADINGS
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import ModelError, UsageError
from sagent.events import Notice
from sagent.messages import Message, assistant
from sagent.model import ModelLimits, Request
from sagent.peer import Compact, Switch
from sagent.session.folds import history
from sagent.session.log import MemoryLog
from sagent.testing import ScriptedModel
from sagent.tool import Workspace
from tests.messages import call

SUMMARY = "\n".join(f"## {heading}\nsomething that matters here" for heading in HEADINGS)
Told = str | Callable[[int], str | Exception]
ASKED = "(This is from sagent, not from the person.)"
PRICES = {"scripted/scripted": {"input": "1", "output": "1"}, "scripted/small": {"input": "1", "output": "1"}}


class Endless(ScriptedModel):
    """Reads a file as often as it is wanted to, answers a request for a summary, then ends."""

    def __init__(
        self, rounds: int, summary: str | Callable[[int], str | Exception] = SUMMARY, window: int = 8_000
    ) -> None:
        super().__init__(*[self.play] * 500, limits=ModelLimits(window, 1_000))
        self.left, self.summary, self.asked = rounds, summary, 0

    def play(self, request: Request) -> Message | str:
        if request.messages[-1].content.startswith(ASKED):
            self.asked += 1
            told = self.summary if isinstance(self.summary, str) else self.summary(self.asked)
            if isinstance(told, Exception):
                raise told
            return told
        self.left -= 1
        if self.left < 0:
            return "the end"
        return assistant("looking " * 60, *call_read(self.left).calls, stop="tool_use")


def call_read(number: int) -> Message:
    return Message("assistant", (call(str(number), "Read", file_path="a.txt"),))


def agent_of(
    model: ScriptedModel, cwd: Path, *, log: MemoryLog | None = None, **more: object
) -> tuple[Agent, list[str]]:
    (cwd / "a.txt").write_text("a line of text\n" * 40)
    resources = Resources(
        workspace=Workspace(cwd),
        ledger=Ledger(None, PriceBook(PRICES)),
        log=log,
        **more,  # pyright: ignore[reportArgumentType]
    )
    agent = Agent(model, tools=[tools.Read()], resources=resources)
    told: list[str] = []
    agent.listen(lambda event: told.append(event.text) if isinstance(event, Notice) else None)
    return agent, told


def tokens(request: Request) -> int:
    return sum(len(str(message.parts)) for message in request.messages) // 3


async def test_a_long_run_stays_below_the_window_and_keeps_what_was_asked(tmp_path: Path) -> None:
    model = Endless(60)
    agent, told = agent_of(model, tmp_path)
    result = await agent.run("the one thing I want")
    assert result.content == "the end"
    assert model.asked >= 1
    assert all(request.messages[0].content == "the one thing I want" for request in model.requests)
    assert max(map(tokens, model.requests)) < 8_000
    assert any("messages were summed up, for" in text for text in told)
    assert result.saving.compactions == len(told)
    assert result.saving.tokens > 0
    assert result.cost.by_role["compactor"] > 0
    await agent.aclose()


@pytest.mark.parametrize(
    ("summary", "asked"),
    [
        ("", 2),
        ("I will not.", 2),
        (lambda _: ModelError("overloaded", "no", provider="scripted"), 3),
        (lambda time: "" if time == 1 else SUMMARY, 2),
    ],
)
async def test_a_summary_that_is_none_never_costs_the_task(
    tmp_path: Path, summary: Told, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sagent.engine.request.LEAST_WAIT", 0.001)
    model = Endless(6, summary, window=100_000)
    agent, told = agent_of(model, tmp_path)
    await agent.run("the one thing I want")
    await agent.compact("the file")
    assert model.asked == asked
    first, second, *_ = agent.messages
    assert first.content == "the one thing I want"
    assert "## Files" in second.content
    good = callable(summary) and summary(2) == SUMMARY
    assert ("by code" in told[-1]) is not good
    assert (await agent.run("and now?")).content == "the end"
    await agent.aclose()


class Bounded(Endless):
    """Writes less at once than its data say."""

    def play(self, request: Request) -> Message | str:
        told = super().play(request)
        if (request.max_output or 0) > 600 and request.messages[-1].content.startswith(ASKED):
            raise ModelError("invalid_request", "max_tokens: 600 at most", provider="scripted", most_output=600)
        return told


async def test_a_summary_is_asked_for_again_with_the_output_that_the_model_can_give(tmp_path: Path) -> None:
    model = Bounded(6, window=100_000)
    agent, _ = agent_of(model, tmp_path)
    await agent.run("the one thing I want")
    await agent.compact("the file")
    asked = [request.max_output for request in model.requests if request.messages[-1].content.startswith(ASKED)]
    assert len(asked) == 2
    assert (asked[0] or 0) > 600
    assert asked[1] == 600
    assert "something that matters here" in agent.messages[1].content
    await agent.aclose()


async def test_what_was_compacted_is_read_the_same_from_the_log(tmp_path: Path) -> None:
    log = MemoryLog()
    agent, _ = agent_of(Endless(60), tmp_path, log=log)
    await agent.run("go")
    assert history(log.entries(), log.blobs.get) == tuple(agent.messages)
    await agent.aclose()


async def test_the_summary_is_asked_for_with_the_prefix_that_is_cached(tmp_path: Path) -> None:
    model = Endless(4, window=100_000)
    agent, _ = agent_of(model, tmp_path)
    await agent.run("go")
    await agent.compact("names")
    asked = model.requests[-1]
    before = model.requests[-2]
    assert (asked.system, asked.tools) == (before.system, before.tools)
    assert asked.messages[:3] == before.messages[:3]
    assert "what matters: names" in asked.messages[-1].content
    await agent.aclose()


async def test_files_that_are_being_edited_are_shown_as_they_are(tmp_path: Path) -> None:
    edit = call("2", "Edit", file_path="a.txt", old_string="first", new_string="second")
    model = ScriptedModel(call_read(1), Message("assistant", (edit,)), "ok", SUMMARY)
    (tmp_path / "a.txt").write_text("first\n")
    agent = Agent(model, tools=tools.coding_tools(), resources=Resources(workspace=Workspace(tmp_path)))
    await agent.run("go")
    await agent.compact()
    assert "a.txt, as it is now:\nsecond" in agent.messages[1].content
    await agent.aclose()


async def test_a_model_with_a_smaller_window_takes_over_after_a_summary_by_the_one_before(tmp_path: Path) -> None:
    large, small = Endless(40, window=400_000), Endless(0, window=4_000)
    small.id = "small"
    agent, told = agent_of(large, tmp_path, resolve=lambda _: small)
    await agent.run("the one thing I want")
    assert agent.status().context_tokens > 4_000
    agent.apply(Switch(model="scripted/small"))
    assert (await agent.run("and now?")).content == "the end"
    assert (large.asked, small.asked) == (1, 0)
    assert len(told) == 1
    assert max(map(tokens, small.requests)) < 4_000
    await agent.aclose()


async def test_a_compaction_that_is_asked_for_while_a_run_goes_on_waits_for_the_pause(tmp_path: Path) -> None:
    model = Endless(5, window=100_000)
    agent, told = agent_of(model, tmp_path)
    agent.listen(lambda _: agent.apply(Compact("all")) if model.left == 1 and not told else None)
    run = asyncio.create_task(agent.run("go"))
    await asyncio.sleep(0)
    with pytest.raises(UsageError, match="is running"):
        await agent.compact()
    assert (await run).content == "the end"
    assert any("summed up" in text for text in told)
    await agent.aclose()


async def test_never_is_never(tmp_path: Path) -> None:
    model = Endless(30)
    (tmp_path / "a.txt").write_text("a line of text\n" * 40)
    agent = Agent(
        model,
        tools=[tools.Read()],
        limits=RunLimits(compact_at=0),
        resources=Resources(workspace=Workspace(tmp_path)),
    )
    assert (await agent.run("go")).saving.compactions == 0
    assert model.asked == 0
    await agent.aclose()
