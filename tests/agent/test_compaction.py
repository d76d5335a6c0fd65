"""A context that is made smaller before it is full, and a task that is never lost with it."""

import asyncio
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagent import tools
from sagent.agent import Agent, Resources, RunLimits
from sagent.context.compaction import HEADINGS, sum_up
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import ModelError, UsageError
from sagent.events import Notice
from sagent.lib.json import JsonObject
from sagent.messages import Message, Text, ToolResult, assistant, user
from sagent.model import ModelLimits, Request
from sagent.peer import Compact, Switch
from sagent.session.folds import history
from sagent.session.log import MemoryLog
from sagent.testing import ScriptedModel
from sagent.tool import Harmless, RunContext, Tool, ToolOutput, Workspace, arguments_schema
from sagent.tools.ask import Question
from sagent.tools.plan import ExitPlan, PlanDecision
from tests.depth import deep
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
        self.left, self.summary, self.asked, self.words = rounds, summary, 0, 60

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
        return assistant("looking " * self.words, *call_read(self.left).calls, stop="tool_use")


def call_read(number: int) -> Message:
    return Message("assistant", (call(str(number), "Read", file_path="a.txt", limit=1_000 + number),))


def agent_of(
    model: ScriptedModel, cwd: Path, *, log: MemoryLog | None = None, **more: object
) -> tuple[Agent, list[str]]:
    (cwd / "a.txt").write_text("a line of text\n" * 40)
    extra: list[Tool] = more.pop("extra", [])  # pyright: ignore[reportAssignmentType]
    limits: RunLimits | None = more.pop("limits", None)  # pyright: ignore[reportAssignmentType]
    resources = Resources(
        workspace=Workspace(cwd),
        ledger=Ledger(None, PriceBook(PRICES)),
        log=log,
        **more,  # pyright: ignore[reportArgumentType]
    )
    agent = Agent(model, tools=[tools.Read(), *extra], limits=limits, resources=resources)
    told: list[str] = []
    agent.listen(lambda event: told.append(event.text) if isinstance(event, Notice) else None)
    return agent, told


def tokens(request: Request) -> int:
    return sum(len(str(message.parts)) for message in request.messages) // 3


async def test_long_run_fits_window_and_keeps_task(tmp_path: Path) -> None:
    model = Endless(60)
    agent, told = agent_of(model, tmp_path)
    result = await agent.run("the one thing I want")
    assert result.content == "the end"
    assert model.asked >= 1
    assert all(request.messages[0].content == "the one thing I want" for request in model.requests)
    assert max(map(tokens, model.requests)) < 8_000
    assert any("messages were summarized, for" in text for text in told)
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
async def test_bad_summary_keeps_the_task(
    tmp_path: Path, summary: Told, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sagent.engine.request.MIN_WAIT_SECONDS", 0.001)
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
            raise ModelError("invalid_request", "max_tokens: 600 at most", provider="scripted", max_output=600)
        return told


async def test_summary_retried_with_possible_output(tmp_path: Path) -> None:
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


async def test_compacted_log_reads_the_same(tmp_path: Path) -> None:
    log = MemoryLog()
    agent, _ = agent_of(Endless(60), tmp_path, log=log)
    await agent.run("go")
    assert history(log.entries(), log.blobs.get) == tuple(agent.messages)
    await agent.aclose()


@pytest.mark.costly
@pytest.mark.parametrize("asked_for", [True, False])
async def test_summary_uses_cached_prefix(tmp_path: Path, *, asked_for: bool) -> None:
    """And it has seen every outcome: no stub took the place of one before."""
    model = Endless(4 if asked_for else 60, window=100_000 if asked_for else 8_000)
    agent, _ = agent_of(model, tmp_path)
    await agent.run("go")
    if asked_for:
        await agent.compact("names")
    place = next(at for at, each in enumerate(model.requests) if each.messages[-1].content.startswith(ASKED))
    before, asked = model.requests[place - 1 : place + 1]
    assert (asked.system, asked.tools) == (before.system, before.tools)
    assert all(one is other for one, other in zip(before.messages, asked.messages, strict=False))
    assert len(asked.messages) - len(before.messages) in (2, 3)  # the reply, its results, and what is asked for
    assert ("what matters: names" in asked.messages[-1].content) is asked_for
    await agent.aclose()


async def test_summary_reserved_by_provider_count(tmp_path: Path) -> None:
    """Under a cap a call of some 4,000 tokens needs no room for 15,000."""
    model = ScriptedModel("ok", "said " * 2_800, "yes", "yes", SUMMARY)
    ledger = Ledger(Decimal("0.022"), PriceBook(PRICES))
    agent = Agent(model, resources=Resources(workspace=Workspace(tmp_path), ledger=ledger))
    for number in range(4):
        await agent.run(f"request {number}")
    room = ledger.room("root")
    assert room is not None
    assert 14_000 > int(room * 1_000_000) > 0
    await agent.compact()
    assert "something that matters here" in "".join(message.content for message in agent.messages)
    await agent.aclose()


@pytest.mark.costly
@pytest.mark.parametrize("limits", [ModelLimits(8_000, None), ModelLimits(16_384, 16_384)])
async def test_small_window_summary_fits_the_rest(tmp_path: Path, limits: ModelLimits) -> None:
    """As servers on this machine have it: a window, and no output limit but that."""
    model = Endless(60)
    model.limits = limits
    agent, told = agent_of(model, tmp_path)
    await agent.run("the one thing I want")
    assert model.asked >= 1
    assert not any("No summary" in text for text in told)
    asked = [request for request in model.requests if request.messages[-1].content.startswith(ASKED)]
    for request in asked:
        assert (request.max_output or 0) + model.max_input_tokens(request) // 4 < (limits.window or 0)
    await agent.aclose()


async def test_larger_model_summarizes_for_smaller(tmp_path: Path) -> None:
    """As with `--continue --model smaller`, where no switch is remembered."""
    large, small = Endless(40, window=400_000), Endless(0, window=4_000)
    small.id = "small"
    agent, _ = agent_of(large, tmp_path)
    await agent.run("the one thing I want")
    past = agent.messages
    await agent.aclose()
    later, told = agent_of(small, tmp_path, resolve={"scripted/scripted": large}.__getitem__)
    later.restore(past)
    assert (await later.run("and now?")).content == "the end"
    assert (large.asked, small.asked) == (1, 0)
    assert len(told) == 1
    await later.aclose()


async def test_cut_summary_is_asked_again_once(tmp_path: Path) -> None:
    cut = ModelError("cut", "the stream ended", provider="scripted")
    model = ScriptedModel(call_read(1), "looked", ("## Goal", cut), SUMMARY)
    agent, told = agent_of(model, tmp_path)
    await agent.run("the one thing I want")
    await agent.compact()
    assert "something that matters here" in agent.messages[1].content
    assert "by code" not in told[-1]
    await agent.aclose()


async def test_oversized_summary_keeps_both_ends(tmp_path: Path) -> None:
    """As a server writes that knows no output limit."""
    model = Endless(40, SUMMARY + "\n- and more of it" * 5_000 + "\nthe last line")
    agent, _ = agent_of(model, tmp_path)
    assert (await agent.run("the one thing I want")).content == "the end"
    assert max(map(tokens, model.requests)) < 8_000
    said = next(each.content for each in agent.messages if each.sender == "sagent")
    assert "something that matters here" in said
    assert said.endswith("the last line")
    await agent.aclose()


async def test_always_cut_summary_is_paid_twice(tmp_path: Path) -> None:
    """Though nothing has come of it: what it was sent may be billed."""
    model = Endless(1, lambda _: ModelError("cut", "the stream ended", provider="scripted"))
    agent, told = agent_of(model, tmp_path)
    await agent.run("the one thing I want")
    await agent.compact()
    assert model.asked == 2
    assert "by code" in told[-1]
    await agent.aclose()


async def test_edited_files_are_shown_current(tmp_path: Path) -> None:
    edit = call("2", "Edit", file_path="a.txt", old_string="first", new_string="second")
    model = ScriptedModel(call_read(1), Message("assistant", (edit,)), "ok", SUMMARY, "ok", "ok", SUMMARY)
    (tmp_path / "a.txt").write_text("first\n")
    agent = Agent(model, tools=tools.coding_tools(), resources=Resources(workspace=Workspace(tmp_path)))
    await agent.run("go")
    await agent.compact()
    assert agent.messages[2].content == "a.txt, as it is now:\nsecond\n"
    (tmp_path / "a.txt").write_text("third\n")
    await agent.run("and now? " * 99)
    await agent.run("and then?")
    await agent.compact()
    assert "a.txt, as it is now:\nthird\n" in [message.content for message in agent.messages]
    assert "a.txt, as it is now:\nsecond\n" not in [message.content for message in agent.messages]
    await agent.aclose()


class Advice(Harmless):
    name, description = "advisor", ""
    parameters = arguments_schema()

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        return ToolOutput.of("Use a queue, and never two locks.")


@pytest.mark.parametrize("summary", [SUMMARY, "I will not."])
async def test_verbatim_parts_survive_compactions(tmp_path: Path, summary: str) -> None:
    asked = "first, write the queue"
    told = [summary] if summary == SUMMARY else [summary, summary]
    advised = Message("assistant", (call("1", "advisor"),))
    more = [[call_read(10 * time), "looked", *told] for time in range(2, 6)]
    model = ScriptedModel(
        advised, "The queue is begun in queue.py.", *told, *(line for lines in more for line in lines)
    )
    log = MemoryLog()
    agent, _ = agent_of(model, tmp_path, log=log, extra=[Advice()])
    await agent.run(asked)
    await agent.compact()
    for time in range(2, 6):
        await agent.run(f"request {time}")
        await agent.compact()
        said = [message.content for message in agent.messages]
        assert said.count("Use a queue, and never two locks.") == 1
        assert said[0] == asked
        assert [text for text in said if text.startswith("request")] == [
            f"request {each}" for each in range(2, time + 1)
        ]
        if summary != SUMMARY:
            assert "The queue is begun in queue.py." in "".join(said)
    assert history(log.entries(), log.blobs.get) == tuple(agent.messages)
    await agent.aclose()


PLAN = "1. Move the queue to queue.py.\n2. Never two locks."


@pytest.mark.parametrize("summary", [SUMMARY, "I will not."])
@pytest.mark.parametrize("by_call", [True, False])
async def test_plan_and_verdict_survive_compactions(tmp_path: Path, summary: str, *, by_call: bool) -> None:
    async def accept(question: Question) -> str:
        return PlanDecision("edit").answer()

    proposed = Message("assistant", (call("1", "ExitPlan", plan=PLAN),))
    told = [summary] if summary == SUMMARY else [summary, summary]
    begins = [proposed, "I begin."] if by_call else [f"I have looked.\n\n## Plan\n{PLAN}"]
    rounds = [[call_read(10 * time), "looked", *told] for time in range(2, 6)]
    model = ScriptedModel(*begins, *(line for lines in rounds for line in lines))
    log = MemoryLog()
    agent, _ = agent_of(model, tmp_path, log=log, extra=[ExitPlan(accept)])
    await agent.run("plan the queue")
    for time in range(2, 6):
        await agent.run(f"request {time}")
        await agent.compact()
        said = "\n".join(message.content for message in agent.messages)
        assert PLAN in said
        assert sum(message.sender == "plan" for message in agent.messages) == 1
        assert ("The person accepts the plan." in said) is by_call
    assert history(log.entries(), log.blobs.get) == tuple(agent.messages)
    await agent.aclose()


@pytest.mark.parametrize("sender", ["plan mode", "sandbox"])
async def test_last_permission_notice_stays(tmp_path: Path, sender: str) -> None:
    model = ScriptedModel(call_read(1), "looked", "looked", "looked " * 99, SUMMARY)
    agent, _ = agent_of(model, tmp_path)
    for text in ("It is on.", "It is off."):
        agent.send(user(text, sender=sender), "next")
        await agent.run("look")
    await agent.run("and now?")
    await agent.compact()
    assert [message.content for message in agent.messages if message.sender == sender] == ["It is off."]
    await agent.aclose()


async def test_added_server_tools_stay_described(tmp_path: Path) -> None:
    model = ScriptedModel(call_read(1), "looked", "looked", "looked " * 99, SUMMARY)
    agent, _ = agent_of(model, tmp_path)
    for name in ("one", "two"):
        agent.send(user(f"New, called by call_tool, {name}", sender="mcp"), "next")
        await agent.run(name)
    await agent.run("and now?")
    await agent.compact()
    assert [message.content[-3:] for message in agent.messages if message.sender == "mcp"] == ["one", "two"]
    await agent.aclose()


def test_code_summary_tells_job_states() -> None:
    def began(number: int) -> Message:
        job = f"Bash was started in the background as job:{number}. Its result arrives as a message; go on."
        return Message("user", (ToolResult(str(number), (Text(job),)),))

    calls = assistant("", *(call(str(number), "Bash", command=f"make {number}") for number in range(1, 5)))
    news = [
        user(
            f"job:{number}, the call of Bash (make {number}), {how} after 1.0 s. Its result:\n", sender=f"job:{number}"
        )
        for number, how in ((1, "has ended"), (2, "has failed"), (3, "was cancelled"))
    ]
    said = sum_up((calls, *map(began, range(1, 5)), *news))
    for line in ("make 1: done", "make 2: failed", "make 3: cancelled", "make 4: goes on as job:4"):
        assert f"- {line}\n" in said


async def test_cut_mark_names_readable_file(tmp_path: Path) -> None:
    def read_what_was_cut(request: Request) -> Message:
        found = re.search(r"All of it is in (\S+):", "".join(message.content for message in request.messages))
        assert found is not None
        return Message("assistant", (call("9", "Read", file_path=found[1]),))

    long = f"the port is 4711, {'x' * 5_000} and the host is db7"
    model = ScriptedModel(call_read(1), long, "so it is", SUMMARY, read_what_was_cut, "the end")
    agent, _ = agent_of(model, tmp_path)
    await agent.run("go")
    await agent.run("is it so?")
    await agent.compact()
    await agent.run("and now?")
    (result,) = agent.messages[-2].results
    assert not result.is_error
    for cut in ("the port is 4711", "and the host is db7", "a line of text", "file_path: a.txt"):
        assert cut in result.text
    await agent.aclose()


attached = st.lists(st.tuples(st.integers(1, 20_000), st.sampled_from(["words", "attached", "both"])), max_size=25)


@settings(max_examples=deep(10, 200))
@given(attached)
async def test_session_can_always_continue(given_: list[tuple[int, str]]) -> None:
    """Whatever is attached, as long as each fits the window by itself; though the provider tells no window, too."""

    def answer(request: Request) -> str:
        if request.messages[-1].content.startswith(ASKED):
            return SUMMARY
        if tokens(request) > 8_000:
            raise ModelError("context_overflow", "too long", provider="scripted", window=8_000)
        return "seen"

    model = ScriptedModel(*[answer] * 500, limits=ModelLimits(8_000, 500))
    agent = Agent(model, resources=Resources(ledger=Ledger(None, PriceBook(PRICES))))
    for number, (size, kind) in enumerate(given_):
        text, parts = f"look at {number}", ()
        if kind != "attached":
            text += "w" * size
        if kind != "words":
            parts = (Text(f"\n\n<stdin>\n{'y' * (size // 2)}\n</stdin>"),)
        assert (await agent.run(user(text[: 20_000 - size // 2], *parts))).content == "seen"
        said = "".join(message.content for message in agent.messages)
        assert f"look at {number}" in said
    await agent.aclose()


async def test_piped_runs_cost_no_summary(tmp_path: Path) -> None:
    model = Endless(0, window=30_000)
    agent, told = agent_of(model, tmp_path)
    for number in range(40):
        diff = f"diff {number}\n" + "+ a line that was added\n" * 300
        await agent.run(user(f"review {number}", Text(f"\n\n<stdin>\n{diff}</stdin>")))
    assert model.asked == 0
    assert told
    assert [f"review {number}" in "".join(m.content for m in agent.messages) for number in range(40)] == [True] * 40
    await agent.aclose()


async def test_resumed_session_is_as_full(tmp_path: Path) -> None:
    """By what the provider counted, and not by a guess that compacts it too early."""
    log = MemoryLog()
    agent, _ = agent_of(Endless(0), tmp_path, log=log)
    await agent.run("word " * 3_600)
    full = agent.status().context_tokens
    assert 0.6 * 7_000 < full < 0.8 * 7_000
    await agent.aclose()
    model = Endless(0)
    later, told = agent_of(model, tmp_path, log=log)
    later.restore(history(log.entries(), log.blobs.get))
    assert later.status().context_tokens == pytest.approx(full, rel=0.02)
    await later.run("and now?")
    assert (model.asked, told) == (0, [])
    await later.aclose()


async def test_low_yield_compaction_is_not_bought(tmp_path: Path) -> None:
    model = Endless(0, window=8_000)
    agent, told = agent_of(model, tmp_path)
    for number in range(3):
        await agent.run(f"request {number}")
    await agent.run("word " * 3_600)
    assert agent.status().context_tokens > 0.6 * 7_000
    assert (model.asked, told) == (0, [])
    await agent.aclose()


async def test_small_share_of_large_window_is_kept(tmp_path: Path) -> None:
    model = Endless(60, window=1_000_000)
    model.words = 300
    agent, told = agent_of(model, tmp_path, limits=RunLimits(compact_at=0.02))
    await agent.run("the one thing I want")
    assert model.asked >= 1
    assert max(map(tokens, model.requests)) < 0.03 * 1_000_000
    assert all("messages were summarized, for" in text for text in told)
    await agent.aclose()


async def test_smaller_model_takes_over_after_summary(tmp_path: Path) -> None:
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


async def test_compaction_in_a_run_waits_for_pause(tmp_path: Path) -> None:
    model = Endless(5, window=100_000)
    agent, told = agent_of(model, tmp_path)
    agent.listen(lambda _: agent.apply(Compact("all")) if model.left == 1 and not told else None)
    run = asyncio.create_task(agent.run("go"))
    await asyncio.sleep(0)
    with pytest.raises(UsageError, match="is running"):
        await agent.compact()
    assert (await run).content == "the end"
    assert any("summarized" in text for text in told)
    await agent.aclose()


async def test_unknown_summary_price_is_not_zero(tmp_path: Path) -> None:
    model = Endless(60)
    model.id = "unpriced"
    agent, told = agent_of(model, tmp_path)
    await agent.run("the one thing I want")
    assert any("for an unknown price" in text for text in told), told
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
