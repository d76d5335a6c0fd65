"""The loop's promises: what enters the history, when it ends, and that every history is valid."""

# Parts of recordings, JSON and SDK objects are read as what they must be; a wrong one fails the test.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportReturnType=false

import asyncio
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import pytest

from sagent.agent import Agent, Resources, RunLimits
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import BudgetExceeded, ModelError, ToolError, UsageError
from sagent.events import (
    Denied,
    Event,
    Finished,
    Notice,
    ReplyFinished,
    Retrying,
    SessionOpened,
    TextDelta,
    ToolFinished,
    ToolStarted,
)
from sagent.lib.json import EMPTY, JsonObject, json_freeze, json_freeze_object
from sagent.messages import Message, Text, ToolCall, assistant, user
from sagent.peer import Stop, Switch
from sagent.policy import Allow, Ask, Deny, Verdict
from sagent.session.contents import Content
from sagent.session.entries import Entry
from sagent.session.folds import history
from sagent.session.log import MemoryLog
from sagent.testing import ScriptedModel, check_pairing
from sagent.tool import Effect, RunContext, ToolOutput, Workspace


class Probe:
    """A tool that does what a test says, and remembers when it ran."""

    description = "A test's tool."
    parameters = json_freeze_object(
        {"type": "object", "properties": {"path": {"type": "string"}, "n": {"type": "integer"}}}
    )

    def __init__(self, name: str, act: Callable[[], object] = lambda: "ok", kind: str = "read") -> None:
        self.name = name
        self._act = act
        self._kind = kind
        self.calls: list[JsonObject] = []

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        path = arguments.get("path")
        return Effect(self._kind, (workspace.resolve(path),) if isinstance(path, str) else ())

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput | str:
        self.calls.append(arguments)
        outcome = self._act()
        if asyncio.iscoroutine(outcome):
            outcome = await outcome
        return outcome


def call(name: str, call_id: str = "c1", **arguments: object) -> ToolCall:
    return ToolCall(call_id, name, json_freeze_object(arguments))


def calls(*parts: ToolCall, text: str = "") -> Message:
    return assistant(text, *parts, stop="tool_use")


async def collect(agent: Agent, prompt: str = "go") -> list[Event]:
    return [event async for event in agent.stream(prompt)]


async def test_plain_answer() -> None:
    agent = Agent(ScriptedModel("Hello."))
    result = await agent.run("Hi")
    assert (result.content, result.stop_reason, result.turns, result.error) == ("Hello.", "end", 1, None)
    assert [m.content for m in agent.messages] == ["Hi", "Hello."]
    await agent.aclose()


@pytest.mark.parametrize("prompt", ["Hi", {"prompt": "Hi"}, json_freeze({"prompt": "Hi"}), user("Hi")])
async def test_prompts_of_every_kind(prompt: object) -> None:
    agent = Agent(ScriptedModel("Hello."))
    assert (await agent.run(prompt)).content == "Hello."
    assert agent.messages[0] == user("Hi")


async def test_mapping_without_prompt_is_refused() -> None:
    with pytest.raises(UsageError, match="prompt"):
        await Agent(ScriptedModel()).run({"text": "Hi"})


def test_run_sync() -> None:
    assert Agent(ScriptedModel("Hello.")).run_sync("Hi").content == "Hello."


def test_run_sync_error_has_no_loop_context() -> None:
    with pytest.raises(UsageError, match="prompt") as raised:
        Agent(ScriptedModel()).run_sync({"text": "Hi"})
    assert raised.value.__context__ is None


async def test_results_in_order_of_calls() -> None:
    slow = Probe("Slow", lambda: asyncio.sleep(0.05, "slow"))
    fast = Probe("Fast", lambda: "fast")
    model = ScriptedModel(calls(call("Slow", "a"), call("Fast", "b")), "Done.")
    agent = Agent(model, tools=[slow, fast])
    await agent.run("go")
    assert [(r.call_id, r.text) for r in agent.messages[2].results] == [("a", "slow"), ("b", "fast")]


async def test_calls_of_one_turn_run_together() -> None:
    both = asyncio.Barrier(2)

    async def meet() -> str:
        async with asyncio.timeout(60):
            await both.wait()
        return "met"

    model = ScriptedModel(calls(call("Meet", "a"), call("Meet", "b")), "Done.")
    agent = Agent(model, tools=[Probe("Meet", meet)])
    await agent.run("go")
    assert [r.text for r in agent.messages[2].results] == ["met", "met"]


@pytest.mark.parametrize(
    ("first", "second", "path", "ordered"),
    [("write", "write", "same", True), ("write", "read", "same", True), ("write", "execute", "other", True),
     ("write", "write", "other", False), ("read", "read", "same", False), ("execute", "execute", "same", False)],
)  # fmt: skip
async def test_conflicting_calls_keep_their_order(
    first: str, second: str, path: str, ordered: bool, tmp_path: Path
) -> None:
    running: list[str] = []
    met = asyncio.Event()

    async def work() -> str:
        running.append("x")
        if len(running) > 1:
            met.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(met.wait(), 0.1 if ordered else 30)
        running.pop()
        return "ok"

    one, two = Probe("One", work, first), Probe("Two", work, second)
    model = ScriptedModel(calls(call("One", "a", path="same"), call("Two", "b", path=path)), "Done.")
    agent = Agent(model, tools=[one, two], resources=Resources(workspace=Workspace(tmp_path)))
    await agent.run("go")
    assert met.is_set() is not ordered


@pytest.mark.parametrize("failure", [ToolError("no such thing"), ValueError("broken"), RecursionError("deep")])
async def test_failing_tool_is_an_error_result(failure: Exception) -> None:
    def fail() -> str:
        raise failure

    agent = Agent(ScriptedModel(calls(call("Fail")), "I see."), tools=[Probe("Fail", fail)])
    result = await agent.run("go")
    answer = agent.messages[2].results[0]
    assert result.content == "I see." and answer.is_error and str(failure) in answer.text


async def test_wrong_calls_are_answered_with_why() -> None:
    bad = ToolCall("m", "Probe", EMPTY, malformed='{"path": "x')
    script = calls(call("Prob", "a"), call("Probe", "b", n="many"), bad)
    agent = Agent(ScriptedModel(script, "Sorry."), tools=[Probe("Probe")])
    await agent.run("go")
    unknown, wrong, malformed = (r.text for r in agent.messages[2].results)
    assert "Did you mean Probe?" in unknown
    assert "n" in wrong and "many" in wrong
    assert "not a JSON object" in malformed and '{"path": "x' in malformed
    assert all(r.is_error for r in agent.messages[2].results)


@pytest.mark.parametrize("ids", [("", ""), ("x", "x"), ("x", "", "x"), ("a b/c", "a b/c")])
async def test_empty_and_repeated_ids_are_distinct(ids: tuple[str, ...]) -> None:
    script = calls(*(call("Probe", i, n=n) for n, i in enumerate(ids)))
    agent = Agent(ScriptedModel(script, script, "Done."), tools=[Probe("Probe")])
    await agent.run("go")
    check_pairing(agent.messages)
    assert len(agent.messages[2].results) == len(ids)


async def test_max_turns_and_rounds() -> None:
    again = calls(call("Probe"))
    agent = Agent(ScriptedModel(*[again] * 5), tools=[Probe("Probe")], limits=RunLimits(max_turns=3))
    result = await agent.run("go")
    assert (result.stop_reason, result.turns, result.is_error) == ("max_turns", 3, True)
    check_pairing(agent.messages)

    probe = Probe("Probe")
    agent = Agent(ScriptedModel(*[again] * 5), tools=[probe], limits=RunLimits(max_tool_call_rounds=2))
    result = await agent.run("go")
    assert (result.stop_reason, len(probe.calls), result.turns) == ("max_tool_call_rounds", 2, 3)
    check_pairing(agent.messages)


@pytest.mark.parametrize(("limit", "turns"), [("max_turns", 3), ("max_tool_call_rounds", 4)])
async def test_lowered_limit_is_reached(limit: str, turns: int) -> None:
    """Else an agent that lowers its limit would have none."""
    again = calls(call("Probe"))
    agent = Agent(ScriptedModel(*[again] * 9), tools=[Probe("Probe")], limits=RunLimits(max_turns=8))

    def lower(event: Event) -> None:
        if isinstance(event, ReplyFinished) and len(agent.messages) > 4:
            agent.apply(Switch(limits={limit: 1}))

    agent.listen(lower)
    result = await agent.run("go")
    assert (result.stop_reason, result.turns) == (limit, turns)
    check_pairing(agent.messages)


async def test_bad_stop_reason_is_an_error() -> None:
    for stop in ("max_tokens", "refusal", "content_filter", "context_overflow"):
        result = await Agent(ScriptedModel(assistant("Half an", stop=stop))).run("go")
        assert result.is_error and result.error is not None
        assert (result.error.kind, result.content) == (stop, "Half an")


async def test_paused_turn_goes_on() -> None:
    model = ScriptedModel(assistant("Searching", stop="pause"), "Found.")
    result = await Agent(model).run("go")
    assert (result.content, result.turns) == ("Found.", 2)


async def test_messages_are_read_at_their_moment() -> None:
    holder: list[Agent] = []

    def send() -> str:
        holder[0].send("also this", "now")
        holder[0].send("and that later", "idle")
        return "ok"

    model = ScriptedModel(calls(call("Send")), "First done.", "All done.")
    agent = Agent(model, tools=[Probe("Send", send)])
    holder.append(agent)
    result = await agent.run("go")
    assert result.content == "All done."
    assert [m.content for m in agent.messages if m.role == "user"] == ["go", "", "also this", "and that later"]


class Judge:
    """A policy that gives a fixed verdict, and stops after the turn if told."""

    def __init__(self, verdict: Verdict, stop: bool = False) -> None:
        self.verdict = verdict
        self.stop = stop

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        return self.verdict

    async def after_turn(self, turn: object) -> list[Stop]:
        return [Stop("enough")] if self.stop else []


async def test_denied_and_asked() -> None:
    probe = Probe("Probe")
    for verdict in (Deny("not here"), Ask("not here", "Use --flag.")):
        agent = Agent(ScriptedModel(calls(call("Probe")), "Fine."), tools=[probe], policy=Judge(verdict))
        events = await collect(agent)
        denied = [e.denial for e in events if isinstance(e, Denied)]
        assert [d.tool for d in denied] == ["Probe"] and "not here" in denied[0].reason
        last = events[-1]
        assert isinstance(last, Finished) and last.result.denials == tuple(denied)
        assert agent.messages[2].results[0].is_error
    assert "Use --flag." in agent.messages[2].results[0].text
    assert not probe.calls

    async def yes(call: ToolCall, ask: Ask) -> None:
        return None

    agent = Agent(
        ScriptedModel(calls(call("Probe")), "Fine."),
        tools=[probe],
        policy=Judge(Ask("?")),
        resources=Resources(ask=yes),
    )
    await agent.run("go")
    assert len(probe.calls) == 1


async def test_policy_can_stop_the_run() -> None:
    agent = Agent(ScriptedModel(calls(call("Probe"))), tools=[Probe("Probe")], policy=Judge(Allow(), stop=True))
    assert (await agent.run("go")).stop_reason == "enough"


def failure(kind: str = "server", retry_after: float | None = 0.0) -> ModelError:
    return ModelError(kind, "down", provider="p", status=500, retry_after=retry_after)


async def test_retryable_error_is_tried_again() -> None:
    model = ScriptedModel(failure(), failure("cut"), "Hello.")
    events = await collect(Agent(model))
    assert [e.attempt for e in events if isinstance(e, Retrying)] == [1, 2]
    assert isinstance(events[-1], Finished) and events[-1].result.content == "Hello."
    assert model.requests[0].messages == model.requests[2].messages


@pytest.mark.parametrize("error", [failure("auth"), failure("invalid_request"), failure("rate_limit", 10_000)])
async def test_final_error_is_not_tried_again(error: ModelError) -> None:
    model = ScriptedModel(error)
    with pytest.raises(ModelError) as caught:
        await Agent(model).run("go")
    assert caught.value is error and len(model.requests) == 1


async def test_retries_end() -> None:
    model = ScriptedModel(*[failure()] * 9)
    with pytest.raises(ModelError):
        await Agent(model, limits=RunLimits(max_retries=3)).run("go")
    assert len(model.requests) == 4


async def test_conversation_continues_after_error() -> None:
    agent = Agent(ScriptedModel(failure("auth"), "Hello."))
    with pytest.raises(ModelError):
        await agent.run("one")
    assert (await agent.run("two")).content == "Hello."
    check_pairing(agent.messages)


async def test_errors_are_events_in_a_stream() -> None:
    events = await collect(Agent(ScriptedModel(failure("auth"))))
    last = events[-1]
    assert isinstance(events[0], SessionOpened)
    assert isinstance(last, Finished) and last.result.error is not None and last.result.error.kind == "auth"


async def test_interrupt_in_tool_keeps_history_valid() -> None:
    started = asyncio.Event()

    async def hang() -> str:
        started.set()
        await asyncio.sleep(60)
        return "never"

    agent = Agent(
        ScriptedModel(calls(call("Hang", "a"), call("Quick", "b")), "Going on."),
        tools=[Probe("Hang", hang), Probe("Quick")],
    )
    task = asyncio.create_task(agent.run("go"))
    await started.wait()
    await asyncio.sleep(0)
    agent.interrupt()
    result = await task
    assert result.error is not None and (result.stop_reason, result.error.kind) == ("interrupted", "interrupted")
    check_pairing(agent.messages)
    assert "interrupted" in agent.messages[2].results[0].text and agent.messages[2].results[1].text == "ok"
    assert (await agent.run("go on")).content == "Going on."


async def test_interrupt_in_reply_keeps_its_text() -> None:
    agent = Agent(ScriptedModel(("Once upon", 60.0), "The end."))

    def on_event(event: Event) -> None:
        if isinstance(event, TextDelta):
            asyncio.get_running_loop().call_soon(agent.interrupt)

    forget = agent.listen(on_event)
    result = await agent.run("tell")
    forget()
    assert (result.content, result.stop_reason) == ("Once upon", "interrupted")
    assert agent.messages[1].stop == "interrupted"
    assert (await agent.run("go on")).content == "The end."


async def test_cancelling_caller_cancels_run() -> None:
    agent = Agent(ScriptedModel(60.0, "Hello."))
    task = asyncio.create_task(agent.run("go"))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await agent.run("go")).content == "Hello."


async def test_leaving_a_stream_interrupts_run() -> None:
    agent = Agent(ScriptedModel(calls(call("Hang")), "Hello."), tools=[Probe("Hang", lambda: asyncio.sleep(60))])
    stream = agent.stream("go")
    async for event in stream:
        if isinstance(event, ToolStarted):
            break
    await stream.aclose()
    check_pairing(agent.messages)
    assert agent.status().state == "idle"


async def test_one_run_at_a_time() -> None:
    agent = Agent(ScriptedModel(60.0))
    task = asyncio.create_task(agent.run("go"))
    await asyncio.sleep(0.01)
    with pytest.raises(UsageError, match="running"):
        await agent.run("too")
    task.cancel()
    await asyncio.wait([task])


async def test_log_folds_back_into_history() -> None:
    log = MemoryLog()
    slow, fast = Probe("Slow", lambda: asyncio.sleep(0.02, "slow")), Probe("Fast")
    model = ScriptedModel(calls(call("Slow", "a", n=1, path="z"), call("Fast", "b")), "Done.", "Again.")
    agent = Agent(model, tools=[slow, fast], resources=Resources(log=log))
    await agent.run("go")
    await agent.run("and again")
    restored = history(log.entries(), log.blobs.get)
    assert restored == tuple(agent.messages)
    assert list(restored[1].calls[0].arguments) == ["n", "path"], "arguments keep their order, so that bytes stay equal"
    kinds = [entry.kind for entry in log.entries()]
    assert kinds.count("spent") == kinds.count("request") == 3 and kinds.count("prompt") == 1


class FullDisk(MemoryLog):
    """A log that fails after so many entries."""

    def append(self, content: Content) -> Entry:
        self.appended = getattr(self, "appended", 0) + 1
        if self.appended > 3:
            raise OSError(28, "No space left on device")
        return super().append(content)


async def test_full_disk_does_not_end_run() -> None:
    log = FullDisk()
    agent = Agent(ScriptedModel(calls(call("Probe")), "Done."), tools=[Probe("Probe")], resources=Resources(log=log))
    events = await collect(agent)
    notices = [e.text for e in events if isinstance(e, Notice)]
    assert len(notices) == 1 and "No space left" in notices[0]
    assert isinstance(events[-1], Finished) and events[-1].result.content == "Done."


async def test_unloggable_call_is_refused_under_cap() -> None:
    model = ScriptedModel(calls(call("Probe")), "Done.")
    ledger = Ledger(Decimal("1.00"), PriceBook({"scripted/scripted": {"input": 1, "output": 10}}))
    agent = Agent(model, tools=[Probe("Probe")], resources=Resources(log=FullDisk(), ledger=ledger))
    with pytest.raises(BudgetExceeded, match="the log cannot be written"):
        await agent.run("go")
    assert len(model.requests) <= 1
    assert ledger.held == 0
    check_pairing(agent.messages)


async def test_budget_is_kept() -> None:
    prices = PriceBook({"scripted/scripted": {"input": 1, "output": 1_000}})
    ledger = Ledger(Decimal("1.00"), prices)
    model = ScriptedModel(*[calls(call("Probe"), text="x" * 400)] * 100)
    probe = Probe("Probe", lambda: f"step {len(model.requests)}")
    agent = Agent(model, tools=[probe], resources=Resources(ledger=ledger))
    with pytest.raises(BudgetExceeded):
        await agent.run("go")
    assert 0 < ledger.cost().total <= Decimal("1.00")
    assert (await agent.wait()).stop_reason == "budget"
    check_pairing(agent.messages)


async def test_unpriced_model_is_refused_under_cap() -> None:
    agent = Agent(ScriptedModel("Hello."), resources=Resources(ledger=Ledger(Decimal(1), PriceBook())))
    with pytest.raises(BudgetExceeded, match="price"):
        await agent.run("go")


async def test_long_outputs_are_bounded_and_kept() -> None:
    log = MemoryLog()
    text = "".join(f"line {n}\n" for n in range(20_000))
    agent = Agent(
        ScriptedModel(calls(call("Long")), "Done."), tools=[Probe("Long", lambda: text)], resources=Resources(log=log)
    )
    await agent.run("go")
    shown = agent.messages[2].results[0].text
    assert len(shown) < 70_000 and shown.startswith("line 0\n") and shown.endswith("line 19999\n")
    path = Path(shown.split("the full text is in ")[1].split(" ...]")[0])
    assert path.read_text() == text
    await agent.aclose()
    log.close()


async def test_events_tell_the_whole_story() -> None:
    agent = Agent(ScriptedModel(calls(call("Probe"), text="Looking."), "Done."), tools=[Probe("Probe")])
    events = await collect(agent)
    names = [type(event).__name__ for event in events]
    assert names == [
        "SessionOpened", "Received", "TextDelta", "ReplyFinished", "ToolStarted", "ToolFinished", "TextDelta",
        "ReplyFinished", "Finished",
    ]  # fmt: skip
    assert all(event.agent == "root" for event in events)
    assert isinstance(events[3], ReplyFinished) and isinstance(events[5], ToolFinished)
    assert events[5].result.content == (Text("ok"),)


async def test_wait_is_for_the_run() -> None:
    agent = Agent(ScriptedModel((0.01, "Hello.")))

    async def caller() -> None:
        await agent.run("hi")
        await asyncio.sleep(60)

    task = asyncio.create_task(caller())
    await asyncio.sleep(0)
    async with asyncio.timeout(30):
        assert (await agent.wait()).content == "Hello."
    task.cancel()
    await asyncio.wait([task])


async def test_agent_runs_again_after_left_stream() -> None:
    agent = Agent(ScriptedModel(("Once", 60.0), "Hello."))
    async for event in agent.stream("tell"):
        if isinstance(event, TextDelta):
            break
    assert (await agent.run("hi")).content == "Hello."
    check_pairing(agent.messages)


async def test_failing_listener_disturbs_no_run() -> None:
    reports: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context["message"]))

    def broken(event: Event) -> None:
        raise ValueError("listener")

    agent = Agent(ScriptedModel("Hello.", "Again."))
    agent.listen(broken)
    assert (await agent.run("hi")).content == "Hello."
    assert (await agent.run("hi")).content == "Again."
    assert "a listener failed on TextDelta" in reports


class Odd(Probe):
    """A tool that fails where tools are not expected to."""

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        raise KeyError("effect")


def leave() -> str:
    raise SystemExit(3)


def give_up() -> str:
    raise asyncio.CancelledError


class Broken(Judge):
    """A policy that cannot make up its mind."""

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        raise RuntimeError("policy")


@pytest.mark.parametrize(
    ("tool", "words"),
    [(Odd("T"), "KeyError"), (Probe("T", leave), "SystemExit"), (Probe("T", give_up), "CancelledError")],
)
async def test_tool_exception_is_an_error_result(tool: Probe, words: str) -> None:
    agent = Agent(ScriptedModel(calls(call("T")), "I see."), tools=[tool])
    assert (await agent.run("go")).content == "I see."
    assert words in agent.messages[2].results[0].text


async def test_unjudged_call_is_not_made() -> None:
    probe = Probe("T")
    agent = Agent(ScriptedModel(calls(call("T")), "I see."), tools=[probe], policy=Broken(Allow()))
    assert (await agent.run("go")).content == "I see."
    assert agent.messages[2].results[0].is_error
    assert not probe.calls


@pytest.mark.parametrize("prompt", [None, 5, ["x"], b"x", {"prompt": 5}, {"prompt": "x", "more": 1}])
async def test_empty_prompts_are_refused(prompt: object) -> None:
    with pytest.raises(UsageError, match="prompt"):
        await Agent(ScriptedModel()).run(prompt)


def test_invalid_tool_names_are_refused() -> None:
    with pytest.raises(UsageError, match="bad tool!"):
        Agent(ScriptedModel(), tools=[Probe("bad tool!")])


async def test_run_sync_in_loop_says_what_to_do() -> None:
    with pytest.raises(UsageError, match="await run"):
        Agent(ScriptedModel()).run_sync("hi")
