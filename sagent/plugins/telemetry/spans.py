"""Spans and metrics of an agent and all below it, from its events and its ledger.

A prompt is a trace: `invoke_agent`, and below it model calls, tools, consultations, compactions and the agents that a
tool spawned, each with its parent. Events name a request only once it is answered, so a model call's span starts at the
agent's last input.

The events of a tool call come from the task that runs it, and its span becomes OpenTelemetry's current span there. So
the tool's own spans, the agents it spawns and the MCP SDK's requests get it as their parent, whatever else runs
meanwhile.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextvars import Token
from dataclasses import field
from typing import Literal, Never, TypeAlias, assert_never

from opentelemetry import metrics, trace
from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Link, Span, SpanKind, TracerProvider, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.trace.status import Status, StatusCode

from sagent.agent import Agent
from sagent.agent.tree import Node
from sagent.events import (
    Advice,
    AdviceDelta,
    Advised,
    Denied,
    Event,
    Finished,
    Notice,
    Received,
    ReplyFinished,
    Result,
    Retrying,
    SessionOpened,
    Switched,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from sagent.lib.dataclass import dataclass
from sagent.messages import Message, ToolCall
from sagent.plugins.telemetry import names
from sagent.plugins.telemetry.metrics import Instruments, model_of
from sagent.session.contents import COMPACTOR, EXECUTOR, Compacted
from sagent.usage import Charge, Sum, Usage
from sagent.version import __version__

Capture: TypeAlias = Literal["none", "content"]
"""What spans record of a conversation: nothing, or texts, arguments and results with likely secrets removed."""
_Values: TypeAlias = dict[str, str | int | float | bool | list[str]]


@dataclass(slots=True)
class _Open:
    """A span that has not ended; `context` is for spans below it."""

    span: Span
    started: int  # nanoseconds since 1970, as all times here

    @property
    def context(self) -> Context:
        return set_span_in_context(self.span, Context())


@dataclass(slots=True)
class _ToolCall(_Open):
    task: "asyncio.Task[object] | None"  # the task it began in
    token: Token[Context]
    is_job: bool = False

    def leave(self) -> None:
        """Detach the span from the current task. If another task began it, that task ends with the span and nothing is
        needed."""
        if self.task is asyncio.current_task():
            detach(self.token)


@dataclass(slots=True)
class _Consultation(_Open):
    by_agent: bool = False  # the advisor ran as an agent and has its own model call spans


@dataclass(slots=True)
class _Run(_Open):
    """A run of an agent."""

    since: int  # time of its last input
    first: int = 0  # time of the first piece of the reply
    calls: dict[str, _ToolCall] = field(default_factory=dict[str, _ToolCall])  # including ended ones
    unread: list[Message] = field(default_factory=list[Message])  # input for the next model call's span
    billed: Sum = field(default_factory=Sum)  # charges of model calls that have not ended
    compaction: _Open | None = None
    model_calls: int = 0
    tool_calls: int = 0  # some servers give calls of different turns the same id

    def take_billed(self) -> Sum:
        billed, self.billed = self.billed, Sum()
        return billed


class Telemetry:
    """Makes spans and metrics of agents: `watch` an agent. Uses the given tracer and meter providers or, by default,
    the global ones; it neither sets up nor shuts down a provider.

    `capture` says whether spans have content. A prompt's span is below the current span, else in the context `parent`,
    else a trace of its own.
    """

    def __init__(
        self,
        tracers: TracerProvider | None = None,
        meters: MeterProvider | None = None,
        *,
        capture: Capture = "none",
        parent: Context | None = None,
    ) -> None:
        tracers = tracers or trace.get_tracer_provider()
        scope = {"sagent.conventions": names.CONVENTIONS}
        self._tracer = tracers.get_tracer("sagent", __version__, attributes=scope)
        self._instruments = Instruments(meters or metrics.get_meter_provider())
        self._content, self._parent = capture == "content", parent or Context()
        self._agent: Agent[Never] | None = None
        self._runs: dict[str, _Run] = {}
        self._last: dict[str, Span] = {}  # by agent, the span of its last ended run
        self._jobs: dict[tuple[str, str], _ToolCall] = {}  # calls that continue after their run
        self._consulting: dict[tuple[str, str], _Consultation] = {}  # by agent and advisor
        self._compacted: dict[str, str] = {}  # by agent, the log entry of its last compaction
        self._prompts: dict[str, str] = {}  # by agent, the system prompt that was recorded last

    def watch(self, agent: Agent[Never]) -> Callable[[], None]:
        """Follow an agent and those below it until the returned function is called. One tree at a time."""
        self._agent = agent
        ends = agent.listen(self.on_event), agent.ledger.listen(self._count)

        def end() -> None:
            now = time.time_ns()
            for each in ends:
                each()
            for opened in (*self._consulting.values(), *self._jobs.values(), *self._runs.values()):
                _close(opened, now)
            self._consulting, self._jobs, self._runs = {}, {}, {}

        return end

    def carrier(self, agent: str, call_id: str = "") -> Mapping[str, str]:
        """Return the headers `traceparent` and `tracestate` for an agent's current call or run; empty if it is idle."""
        found: dict[str, str] = {}
        run = self._runs.get(agent)
        call = self._jobs.get((agent, call_id)) or (run and run.calls.get(call_id))
        if (within := call or run) is not None:
            TraceContextTextMapPropagator().inject(found, within.context)
        return found

    def environment(self, agent: str, call_id: str) -> Mapping[str, str]:
        """Return the carrier as environment variables for a command: TRACEPARENT, TRACESTATE."""
        return {name.upper(): value for name, value in self.carrier(agent, call_id).items()}

    def on_event(self, event: Event) -> None:  # noqa: C901 -- one arm for each class of the union
        now = time.time_ns()
        match event:
            case TextDelta(agent) | ThinkingDelta(agent):
                run = self._runs.get(agent)
                if run is not None and not run.first:
                    run.first = now
            case Received(agent, message):
                node = self._node(agent)
                if node is None or node.running:  # a command may add messages between two runs
                    self._current_run(agent, now, message).since = now
            case ReplyFinished(agent, message):
                self._replied(self._current_run(agent, now), agent, event, now)
            case Retrying(agent, _, kind, _, seconds):
                run = self._current_run(agent, now)
                self._failed(run, agent, kind, now)
                run.since = now + int(seconds * 1e9)
            case ToolStarted(agent, call):
                self._tool_started(self._current_run(agent, now), agent, call, now)
            case ToolFinished(agent):
                self._tool_finished(agent, event, now)
            case AdviceDelta(agent, advisor, trigger, ""):
                self._consult(agent, advisor, trigger, now)
            case Advised(agent, advice):
                self._advised(agent, advice, now)
            case Notice(agent):
                self._find_compaction(agent, now)
            case Finished(agent, result):
                self._finished(self._current_run(agent, now), agent, result, now)
            case SessionOpened() | AdviceDelta() | ToolProgress() | Denied() | Switched():
                pass
            case _:
                assert_never(event)

    def _node(self, agent: str) -> Node | None:
        return None if self._agent is None else self._agent.tree.get(agent)

    # -- runs ----------------------------------------------------------------------------------------------------------

    def _current_run(self, agent: str, now: int, message: Message | None = None) -> _Run:
        """Return the current run of an agent; begin one if there is none."""
        run = self._runs.get(agent)
        if run is None:
            known: _Values = {names.OPERATION: names.INVOKE_AGENT, names.AGENT: agent}
            if self._agent is not None:
                known[names.CONVERSATION] = self._agent.log.session_id
                if (node := self._node(agent)) is not None:
                    known[names.REQUEST_MODEL] = node.model.id
            before = self._last.get(agent)
            span = self._tracer.start_span(
                f"{names.INVOKE_AGENT} {agent}",
                self._parent_of(agent, "" if message is None else message.sender),
                attributes=known,
                links=[] if before is None else [Link(before.get_span_context())],
                start_time=now,
            )
            run = self._runs[agent] = _Run(span, now, now)
        if message is not None and self._content:
            run.unread.append(message)
        return run

    def _parent_of(self, agent: str, sender: str) -> Context:
        """Return the parent context of an agent's run: a consultation, the call in whose task the agent was spawned, or
        for a later run the sender's last open call."""
        above, _, own = agent.rpartition("/")
        for (asker, advisor), consultation in self._consulting.items():
            if above == asker and own.startswith(f"advisor-{advisor}"):
                consultation.by_agent = True
                return consultation.context
        asker = self._runs.get(sender) if agent in self._last else None
        if asker is not None:
            last = next((call for call in reversed(asker.calls.values()) if call.span.is_recording()), asker)
            return last.context
        return get_current() if trace.get_current_span().get_span_context().is_valid else self._parent

    def _finished(self, run: _Run, agent: str, result: Result, now: int) -> None:
        failure = result.error.kind if result.error is not None else ""
        self._find_compaction(agent, now)
        if failure and (run.billed.charges or run.first or result.stop_reason == "error"):
            self._failed(run, agent, failure, now)
        for call_id, call in run.calls.items():
            if call.is_job and call.span.is_recording():
                self._jobs[agent, call_id] = call
            else:
                _close(call, now)
        run.span.set_attributes({names.STOP: result.stop_reason, names.TURNS: result.turns})
        _close(run, now, failure)
        known = {names.ERROR: failure} if failure else {}
        observe = self._instruments.observe
        observe(names.AGENT_SECONDS, (now - run.started) / 1e9, known)
        observe(names.AGENT_CALLS, run.model_calls, known)
        observe(names.AGENT_TOOL_CALLS, run.tool_calls, known)
        self._last[agent] = self._runs.pop(agent).span

    # -- model calls ---------------------------------------------------------------------------------------------------

    def _replied(self, run: _Run, agent: str, event: ReplyFinished, now: int) -> None:
        message, provider, model = event.message, *_split_model(event.message.model)
        node = self._node(agent)
        role, reasons = EXECUTOR if node is None else node.state.role, [names.finish_reason(message.stop)]
        known: _Values = {names.ROLE: role, names.FINISH_REASONS: reasons}
        if self._content:
            from sagent.plugins.telemetry.content import messages_text, reply_text, system_text

            system = "" if node is None else node.state.context.system
            if system != self._prompts.get(agent, ""):
                self._prompts[agent] = system
                known[names.SYSTEM] = system_text(system)
            known[names.INPUT], known[names.OUTPUT] = messages_text(run.unread), reply_text(message)
            run.unread.clear()
        run.take_billed()
        run.model_calls += 1
        self._model_call(run, provider, model, known, _billing(event.usage, event.usd), run.since, now)
        if run.first:
            seconds = (run.first - run.since) / 1e9
            self._instruments.observe(names.FIRST_CHUNK_SECONDS, seconds, model_of(provider, model))
        run.since, run.first = now, 0

    def _failed(self, run: _Run, agent: str, kind: str, now: int) -> None:
        """Record a failed model call, with its charges."""
        if (node := self._node(agent)) is not None:
            billed = run.take_billed()
            known: _Values = {names.ROLE: node.state.role, names.ERROR: kind}
            charged = _billing(billed.usage, billed.price) if billed.charges else {}
            self._model_call(run, node.model.provider, node.model.id, known, charged, min(run.since, now), now)
            run.model_calls += 1
        run.since, run.first = now, 0

    def _model_call(
        self, above: _Open, provider: str, model: str, known: _Values, billed: _Values, start: int, now: int
    ) -> None:
        about = model_of(provider, model)
        title, values = f"{about[names.OPERATION]} {model}", {**about, names.RESPONSE_MODEL: model, **known, **billed}
        call = self._open(title, above, values, start, SpanKind.CLIENT)
        error = str(known.get(names.ERROR, ""))
        _close(call, now, error)
        about = {**about, **({names.ERROR: error} if error else {})}
        self._instruments.observe(names.INFERENCE_SECONDS, (now - start) / 1e9, about)

    def _count(self, charge: Charge) -> None:
        """Count a charge. A summary's charge ends its model call span here; other charges wait for their event."""
        self._instruments.count(charge)
        run, now = self._runs.get(charge.agent), time.time_ns()
        if run is None:
            return
        if charge.role == COMPACTOR:
            if run.compaction is None:
                run.compaction = self._open(names.COMPACT, run, {}, run.since)
            known: _Values = {names.ROLE: COMPACTOR}
            billed = _billing(charge.usage, charge.usd)
            self._model_call(run.compaction, charge.provider, charge.model, known, billed, run.since, now)
        elif (node := self._node(charge.agent)) is not None and charge.role == node.state.role:
            run.billed.add(charge)

    def _find_compaction(self, agent: str, now: int) -> None:
        """End the compaction span once the log has the compaction, and drop the span of one that failed."""
        node, run = self._node(agent), self._runs.get(agent)
        if node is None or run is None:
            return
        entry = next(node.log.contents().latest("compacted"), None)
        known: _Values = {}
        if entry is not None and entry.id != self._compacted.get(agent) and isinstance(entry.content, Compacted):
            self._compacted[agent] = entry.id
            made = entry.content
            known = {names.BEFORE: made.before, names.AFTER: made.after, names.REASON: made.reason}
            run.compaction = run.compaction or self._open(names.COMPACT, run, {}, run.since)
        if run.compaction is not None and known:
            run.compaction.span.set_attributes(known)
            _close(run.compaction, now)
            run.compaction, run.since = None, now

    # -- tools and advisors --------------------------------------------------------------------------------------------

    def _tool_started(self, run: _Run, agent: str, call: ToolCall, now: int) -> None:
        known: _Values = {
            names.OPERATION: names.EXECUTE_TOOL,
            names.TOOL_NAME: call.name,
            names.TOOL_TYPE: "function",
            names.CALL_ID: call.id,
            names.AGENT: agent,
        }
        server, _, own = call.name.removeprefix("mcp__").partition("__")
        if own and call.name.startswith("mcp__"):
            known |= {names.MCP_METHOD: "tools/call", names.SERVER: server}
        if self._content:
            from sagent.plugins.telemetry.content import value_text

            known[names.ARGUMENTS] = value_text(call.arguments)
        opened = self._open(f"{names.EXECUTE_TOOL} {call.name}", run, known, now)
        run.tool_calls += 1
        run.calls[call.id] = _ToolCall(opened.span, now, asyncio.current_task(), attach(opened.context))

    def _tool_finished(self, agent: str, event: ToolFinished, now: int) -> None:
        run, job = self._runs.get(agent), self._jobs.pop((agent, event.call.id), None)
        call = job or (run and run.calls.get(event.call.id))
        if run is not None:
            run.since = now
        if call is None:
            return
        call.leave()
        if event.job:
            call.is_job = True
            call.span.set_attribute(names.JOB, event.job)
            return
        if self._content:
            from sagent.plugins.telemetry.content import value_text

            call.span.set_attribute(names.RESULT, value_text(event.result.text))
            if run is not None and job is None:
                run.unread.append(Message("user", (event.result,)))
        error = "denied" if event.result.denied else "tool_error" if event.result.is_error else ""
        _close(call, now, error)
        about = {names.TOOL_NAME: event.call.name, **({names.ERROR: error} if error else {})}
        self._instruments.observe(names.TOOL_SECONDS, (now - call.started) / 1e9, about)

    def _consult(self, agent: str, advisor: str, trigger: str, now: int) -> _Consultation:
        known: _Values = {names.ADVISOR: advisor, names.TRIGGER: trigger, names.AGENT: agent}
        opened = self._open(f"{names.CONSULT} {advisor}", self._runs.get(agent), known, now)
        begun = self._consulting[agent, advisor] = _Consultation(opened.span, now)
        return begun

    def _advised(self, agent: str, advice: Advice, now: int) -> None:
        begun = self._consulting.get((agent, advice.advisor))
        if begun is None:
            began = now - int(advice.seconds * 1e9)
            begun = self._consult(agent, advice.advisor, advice.trigger, began)
        del self._consulting[agent, advice.advisor]
        begun.span.set_attributes({names.STATUS: advice.status, names.VERDICT: advice.verdict})
        error = advice.status if advice.status in ("failed", "declined") else ""
        if advice.usage != Usage() and not begun.by_agent:
            provider, model = _split_model(advice.model)
            known: _Values = {names.ROLE: f"advisor:{advice.advisor}", **({names.ERROR: error} if error else {})}
            self._model_call(begun, provider, model, known, _billing(advice.usage, advice.usd), begun.started, now)
        _close(begun, now, error)

    def _open(
        self, title: str, above: _Open | None, known: _Values, start: int, kind: SpanKind = SpanKind.INTERNAL
    ) -> _Open:
        context = above.context if above is not None else self._parent
        return _Open(self._tracer.start_span(title, context, kind, known, start_time=start), start)


def _close(opened: _Open, now: int, error: str = "") -> None:
    if not opened.span.is_recording():
        return
    if error:
        opened.span.set_attribute(names.ERROR, error)
        opened.span.set_status(Status(StatusCode.ERROR))
    opened.span.end(max(now, opened.started))


def _split_model(model: str) -> tuple[str, str]:
    """Split "provider/id"."""
    provider, _, own = model.partition("/")
    return provider, own or model


def _billing(usage: Usage, usd: object) -> _Values:
    """Return tokens and price as attributes. An unknown price is marked, not recorded as 0."""
    tokens: _Values = {
        names.INPUT_TOKENS: usage.total_input,
        names.OUTPUT_TOKENS: usage.output,
        names.CACHE_READ_TOKENS: usage.cache_read,
        names.CACHE_WRITE_TOKENS: usage.cache_write + usage.cache_write_1h,
        names.REASONING_TOKENS: usage.reasoning,
    }
    if usd is None:
        return {**tokens, names.UNPRICED: True}
    price = float(str(usd))
    return {**tokens, names.USD: price, names.COST: price, names.USAGE_COST: price}
