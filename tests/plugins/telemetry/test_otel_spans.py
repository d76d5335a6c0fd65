"""Spans and metrics of agents: each has its parent, and together they are what the ledger says."""

# The SDK's values are of many types; a wrong one fails the test.
# pyright: reportArgumentType=false, reportOptionalMemberAccess=false

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from sagent import tools
from sagent.advisor.advisor import Advisor
from sagent.advisor.advisory import Setup
from sagent.advisor.extension import advise
from sagent.advisor.rules import Rules
from sagent.agent import Agent, Resources
from sagent.agent.tree import Tree
from sagent.context.compaction import HEADINGS
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import ModelError
from sagent.messages import ToolCall
from sagent.model import Model, Request
from sagent.peer import Compact
from sagent.plugins.telemetry import Capture, Telemetry, names
from sagent.testing import ScriptedModel
from sagent.testing.scripted import Line
from sagent.tool import Workspace
from sagent.tools.agents import AgentSend, AgentSpawn
from sagent.tools.background import BackgroundTask
from sagent.usage import Usage
from tests.depth import deep
from tests.messages import call

PRICES = {"scripted/scripted": {"input": "1", "output": "2"}, "strong/oracle": {"input": "5", "output": "25"}}
KEY = "sk-ant-api03-" + "a1B2" * 12


def facts(span: ReadableSpan) -> dict[str, Any]:
    """Its attributes."""
    return dict(span.attributes or {})


class Seen:
    """What was exported, in memory."""

    def __init__(self, capture: Capture = "none", parent: Context | None = None) -> None:
        self.memory, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.memory))
        self.telemetry = Telemetry(self.tracers, MeterProvider([self.reader]), capture=capture, parent=parent)

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self.memory.get_finished_spans()

    def named(self, name: str) -> Sequence[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (found,) = self.named(name)
        return found

    def above(self, span: ReadableSpan) -> str:
        """The name of its parent."""
        return "" if span.parent is None else self.by_id[span.parent.span_id].name

    @property
    def by_id(self) -> Mapping[int, ReadableSpan]:
        return {span.context.span_id: span for span in self.spans}

    def total(self, attribute: str) -> float:
        return sum(facts(span).get(attribute, 0) for span in self.spans)

    def metric(self, name: str) -> float:
        """The sum of a counter, or the number of values of a histogram."""
        data = self.reader.get_metrics_data()
        metrics = [] if data is None else [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics]
        points = [point for metric in metrics if metric.name == name for point in metric.data.data_points]
        return sum(getattr(point, "value", None) or getattr(point, "count", 0) for point in points)

    def check(self, ledger: Ledger) -> None:
        """Every span has its parent in its trace, and ends after it began; the sums are the ledger's."""
        for span in self.spans:
            if span.parent is not None:
                assert self.by_id[span.parent.span_id].context.trace_id == span.context.trace_id, span.name
            assert (span.end_time or 0) >= (span.start_time or 0)
        whole = ledger.totals().whole
        assert self.total(names.INPUT_TOKENS) == self.metric(names.INPUT_COUNT) == whole.usage.total_input
        assert self.total(names.OUTPUT_TOKENS) == self.metric(names.OUTPUT_COUNT) == whole.usage.output
        for found in (self.total(names.USD), self.metric(names.USD_COUNT)):
            assert found == pytest.approx(float(whole.usd), abs=1e-12)


class Cast:
    """A model that agents share: each has a script of its own, by its path."""

    provider = id = "scripted"
    limits = ScriptedModel().limits

    def __init__(self, **scripts: Sequence[Line]) -> None:
        self.models = {path.replace("__", "/"): ScriptedModel(*lines) for path, lines in scripts.items()}

    def max_input_tokens(self, request: Request) -> int:
        return ScriptedModel().max_input_tokens(request)

    def stream(self, request: Request):
        path = request.conversation.split(":")[1]
        return self.models[path].stream(request)


def agent_of(model: Model, cwd: Path, seen: Seen, *more: object, **given: object) -> Agent:
    ledger = Ledger(None, PriceBook(PRICES))
    bash = tools.Bash()
    bash.variables = seen.telemetry.environment
    resources = Resources(ledger=ledger, tree=Tree(), workspace=Workspace(cwd), **given)
    return Agent(model, tools=[bash, tools.Read(), *more], resources=resources)


async def test_prompt_traces_calls_and_tools(tmp_path: Path) -> None:
    seen = Seen()
    model = ScriptedModel(call("a", "Bash", command="echo $TRACEPARENT; exit 3"), "done")
    agent = agent_of(model, tmp_path, seen)
    end = seen.telemetry.watch(agent)
    result = await agent.run("go")
    run, tool = seen.one("invoke_agent root"), seen.one("execute_tool Bash")
    assert run.parent is None
    assert {seen.above(span) for span in (*seen.named("chat scripted"), tool)} == {"invoke_agent root"}
    assert [span.kind for span in seen.named("chat scripted")] == [SpanKind.CLIENT] * 2
    assert facts(run)[names.CONVERSATION] == result.session_id
    assert facts(tool)[names.ERROR] == "tool_error"
    printed = agent.messages[2].results[0].text.split("\n")[0]
    assert printed.split("-")[1:3] == [f"{tool.context.trace_id:032x}", f"{tool.context.span_id:016x}"]
    assert not any("echo" in str(facts(span).values()) for span in seen.spans)
    seen.check(agent.ledger)
    assert (seen.metric(names.INFERENCE_SECONDS), seen.metric(names.TOOL_SECONDS)) == (2, 1)
    end()
    await agent.aclose()


async def test_prompts_linked_to_given_parent(tmp_path: Path) -> None:
    carried = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    seen = Seen(parent=TraceContextTextMapPropagator().extract(carried))
    agent = agent_of(ScriptedModel("one", "two"), tmp_path, seen)
    seen.telemetry.watch(agent)
    await agent.run("1")
    await agent.run("2")
    first, second = seen.named("invoke_agent root")
    assert f"{first.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert first.parent.span_id == second.parent.span_id == 0xB7AD6B7169203331
    assert [link.context.span_id for link in second.links] == [first.context.span_id]


async def test_agent_below_program_span(tmp_path: Path) -> None:
    seen = Seen()
    agent = agent_of(ScriptedModel(call("a", "Nothing"), call("b", "Read", file_path="x"), "done"), tmp_path, seen)
    seen.telemetry.watch(agent)
    with seen.tracers.get_tracer("theirs").start_as_current_span("request") as own:
        await agent.run("go")
        assert trace.get_current_span() is own
    assert seen.above(seen.one("invoke_agent root")) == "request"


async def test_child_below_its_call(tmp_path: Path) -> None:
    seen = Seen()
    spawns = (
        call("a", "AgentSpawn", prompt="look left", name="left"),
        call("b", "AgentSpawn", prompt="look right", name="right"),
    )
    model = Cast(
        root=[spawns, "done"],
        root__left=[call("c", "Bash", command="true"), "left"],
        root__right=["right"],
    )
    agent = agent_of(model, tmp_path, seen, AgentSpawn(), AgentSend(), BackgroundTask())
    seen.telemetry.watch(agent)
    await agent.run("go")
    for name, call_id in (("left", "a"), ("right", "b")):
        child = seen.one(f"invoke_agent root/{name}")
        assert facts(seen.by_id[child.parent.span_id])[names.CALL_ID] == call_id
    assert seen.above(seen.one("execute_tool Bash")) == "invoke_agent root/left"
    assert len({span.context.trace_id for span in seen.spans}) == 1
    seen.check(agent.ledger)
    await agent.aclose()


@pytest.mark.parametrize("looks", [(), ("Read",)])
async def test_advisor_has_call_and_price(tmp_path: Path, looks: Sequence[str]) -> None:
    oracle = ScriptedModel("VERDICT: proceed\nNEXT: go on", provider="strong", model_id="oracle")
    seen, advisor = Seen(), Advisor("sage", "strong/oracle", tools=tuple(looks))
    advisory = advise([advisor], Setup(Rules(triggers=())))
    model = ScriptedModel(call("a", "advisor", question="well?"), "done")
    agent = agent_of(model, tmp_path, seen, advisory=advisory, advised=True, resolve=lambda _: oracle)
    seen.telemetry.watch(agent)
    await agent.run("go")
    consulted = seen.one("consult_advisor sage")
    assert facts(consulted)[names.VERDICT] == "proceed"
    below = "invoke_agent root/advisor-sage" if looks else "consult_advisor sage"
    assert seen.above(seen.one("chat oracle")) == below
    assert facts(seen.one("chat oracle"))[names.ROLE] == "advisor:sage"
    seen.check(agent.ledger)
    await agent.aclose()


async def test_compaction_and_summary_spans(tmp_path: Path) -> None:
    seen = Seen()
    summary = "\n".join(f"## {heading}\nsomething that matters here" for heading in HEADINGS)
    talk: list[Line] = [f"{'words ' * 400}{number}" for number in range(6)]
    agent = agent_of(ScriptedModel(*talk, summary, "end"), tmp_path, seen)
    seen.telemetry.watch(agent)
    for number in range(6):
        await agent.run(f"go on {number}")
    agent.apply(Compact())
    await agent.run("and on")
    compaction = seen.one("compact_context")
    assert facts(compaction)[names.BEFORE] > facts(compaction)[names.AFTER]
    (written,) = [span for span in seen.named("chat scripted") if seen.above(span) == "compact_context"]
    assert facts(written)[names.ROLE] == "compactor"
    seen.check(agent.ledger)


async def test_work_between_prompts_starts_no_run(tmp_path: Path) -> None:
    seen = Seen()
    agent = agent_of(ScriptedModel("one", "two"), tmp_path, seen)
    seen.telemetry.watch(agent)
    await agent.run("1")
    agent.apply(Compact(clear=True))
    now = time.time_ns()
    await agent.run("2")
    assert (seen.named("invoke_agent root")[1].start_time or 0) >= now


async def test_failed_call_span_has_error(tmp_path: Path) -> None:
    seen = Seen()
    agent = agent_of(ScriptedModel(ModelError("auth", "no", provider="scripted")), tmp_path, seen)
    seen.telemetry.watch(agent)
    with pytest.raises(ModelError):
        await agent.run("go")
    assert facts(seen.one("chat scripted"))[names.ERROR] == "auth"
    assert facts(seen.one("invoke_agent root"))[names.ERROR] == "auth"


async def test_content_is_new_redacted_and_cut(tmp_path: Path) -> None:
    seen = Seen("content")
    model = ScriptedModel((f"Here: {KEY}", call("a", "Bash", command=f"printf %s {KEY} {'x' * 30_000}")), "one", "two")
    agent = agent_of(model, tmp_path, seen)
    seen.telemetry.watch(agent)
    await agent.run(f"my key is {KEY}")
    await agent.run("and now?")
    first, second, third = seen.named("chat scripted")
    assert "my key is" in facts(first)[names.INPUT]
    assert "my key is" not in facts(second)[names.INPUT]
    assert "tool_call_response" in facts(second)[names.INPUT]
    assert facts(third)[names.INPUT].count('"role"') == 1
    everything = "".join(str(facts(span)) for span in seen.spans)
    assert KEY not in everything
    assert len(everything) < 120_000
    await agent.aclose()


async def test_content_is_valid_text(tmp_path: Path) -> None:
    """An exporter drops an attribute that is none."""
    seen = Seen("content")
    agent = agent_of(ScriptedModel(call("1", "Read", file_path="\udcff"), "b \ud800"), tmp_path, seen)
    seen.telemetry.watch(agent)
    await agent.run("a \ud800")
    await agent.aclose()
    texts = [value for span in seen.spans for value in (span.name, *facts(span).values()) if isinstance(value, str)]
    assert any("\ufffd" in text for text in texts)
    assert "".join(texts).encode()


async def test_global_provider_respected(tmp_path: Path) -> None:
    agent = agent_of(ScriptedModel("done"), tmp_path, Seen())
    telemetry = Telemetry()  # nobody has set one: nothing is recorded, and nothing fails
    telemetry.watch(agent)
    await agent.run("go")
    assert telemetry.carrier("root") == {}


LINES = st.sampled_from(["said", "failed", "tool", "pair", "denied"])


@settings(max_examples=deep(10, 100), deadline=None)
@given(st.lists(st.lists(LINES, max_size=4), min_size=1, max_size=3))
async def test_one_span_per_call(tmp_path_factory, turns: list[list[str]]) -> None:
    seen, script = Seen(), list[Line]()
    number = 0
    for turn in turns:
        for line in turn:
            number += 1
            calls: Sequence[ToolCall] = [call(f"c{number}", "Read", file_path="none.txt")]
            if line == "pair":
                calls = [*calls, call(f"d{number}", "Bash", command="true")]
            if line == "failed":
                script.append(
                    (
                        "half of it",
                        Usage(input=7, output=3),
                        ModelError("overloaded", "x", provider="scripted", retry_after=0.0),
                    )
                )
            elif line in ("tool", "pair", "denied"):
                script.append(tuple(calls) if line != "denied" else call(f"e{number}", "Nothing"))
        script.append("end")
    agent = agent_of(ScriptedModel(*script), tmp_path_factory.mktemp("work"), seen)
    end = seen.telemetry.watch(agent)
    for _ in turns:
        await agent.run("go")
    await agent.aclose()
    end()
    made = Counter(each.id for message in agent.messages for each in message.calls)
    assert Counter(facts(s)[names.CALL_ID] for s in seen.spans if names.CALL_ID in facts(s)) == made
    assert len(seen.named("invoke_agent root")) == len(turns)
    seen.check(agent.ledger)
