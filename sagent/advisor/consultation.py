"""A consultation: building the request, receiving the answer, and recognizing advice."""

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal

from sagent.advisor.advisor import Advisor
from sagent.advisor.conversation import TOOL
from sagent.advisor.reading import read_advice
from sagent.agent.tree import Node
from sagent.engine.request import make_side_call
from sagent.errors import BudgetExceeded, ModelError, SagentError
from sagent.events import Advice, AdviceDelta
from sagent.lib.dataclass import dataclass
from sagent.model import Model, Request, TextPart
from sagent.peer import Peer, SpawnRequest

MAX_TOKENS = 2_048  # nearly no advice is cut at this length, and it is no worse than without a limit
THOUGHT = {"medium": 6_144, "high": 14_336, "xhigh": 22_528, "max": 30_720}  # further tokens for thinking
EXTRA_ANSWER_TOKENS = 8_192  # if the first answer was all thinking
MAX_CHILD_TURNS = 12  # of an advisor that looks for itself
_REFUSALS = ("refusal", "content_filter")
_MIN_ANSWER_CHARS = 12  # shorter answers without a verdict are no advice
_ECHO = re.compile(
    r"\s*(?:Its instructions, in short:|(?:(?:The conversation so far|Since then):\s*)?\[\d+\] (?:executor|person|call"
    r"|result|error)\b)"
)
_FAILURES = {
    "rate_limit": "its provider's rate limit is reached",
    "overloaded": "its provider is overloaded",
    "context_overflow": "the conversation is too long for it",
    "auth": "its provider does not accept the key",
    "payment": "its provider requires payment",
    "not_found": "its provider does not know the model",
}
_ASKED = {"asked": "The executor asks you.", "person": "The person asks you."}


@dataclass(frozen=True, slots=True)
class Consultation:
    """A question to an advisor. `blank` is the advice without an answer; `budget` is the USD for work with tools; `may`
    checks whether another call is within the limits, and reserves its cost."""

    advisor: Advisor
    model: Model
    request: Request
    blank: Advice
    budget: Decimal | None
    may: Callable[[Request], bool]


async def send(agent: Node, consultation: Consultation) -> Advice:
    """Make the call, or have an advisor that may look for itself do so as an agent. Raises SagentError."""
    state, advisor, blank, request = agent.state, consultation.advisor, consultation.blank, consultation.request
    role = f"{TOOL}:{advisor.name}"
    if advisor.tools:
        return await _send_child(agent, consultation, role)

    def on_delta(delta: object) -> None:
        if isinstance(delta, TextPart):
            state.journal.emit(AdviceDelta(state.path, advisor.name, blank.trigger, delta.text))

    reply, usd = await make_side_call(state, consultation.model, request, role, on_delta)
    usage = reply.usage
    more = replace(request, max_output=(request.max_output or MAX_TOKENS) + EXTRA_ANSWER_TOKENS)
    if reply.message.stop == "max_tokens" and not reply.message.content.strip() and consultation.may(more):
        reply, second = await make_side_call(state, consultation.model, more, role, on_delta)
        usage = usage + reply.usage
        usd = None if usd is None or second is None else usd + second
    message = reply.message
    return judge(replace(blank, usage=usage, usd=usd), message.content, message.stop or "")


async def _send_child(agent: Node, consultation: Consultation, role: str) -> Advice:
    advisor, request = consultation.advisor, consultation.request
    text = "\n\n".join(
        message.content if message.role == "user" else f"You answered:\n{message.content}"
        for message in request.messages
    )
    child = SpawnRequest(
        text,
        name=f"{TOOL}-{advisor.name}",
        system=request.system,
        model=advisor.model,
        effort=advisor.effort,
        options=request.options,
        tools=advisor.tools,
        max_turns=MAX_CHILD_TURNS,
        max_depth=0,
        budget_usd=consultation.budget,
        role=role,
    )
    try:
        peer = await _spawn(agent, child)
    except OSError as error:
        return replace(consultation.blank, reason=f"its log cannot be written: {error}")
    try:
        result = await peer.wait()
    except asyncio.CancelledError:
        peer.interrupt()
        await peer.wait()
        raise
    _, priced = agent.ledger.billed(role)
    billed = replace(consultation.blank, usage=result.usage, usd=None if priced is None else result.run_usd)
    said_nothing = result.error is not None and result.error.kind == "empty"
    if (
        result.error is not None
        and not said_nothing
        and not (result.content and result.stop_reason in ("max_turns", "max_tokens"))
    ):
        if result.stop_reason in _REFUSALS:
            return judge(billed, result.content, result.stop_reason)
        return replace(billed, reason=f"{_FAILURES.get(result.error.kind, result.error.kind)}: {result.error.message}")
    return judge(billed, result.content, result.stop_reason)


async def _spawn(agent: Node, child: SpawnRequest) -> Peer:
    """Spawn the advisor's agent. Its budget is the advisor's own limit, or the rest of the budget if that is less."""
    try:
        return await agent.spawn(child)
    except BudgetExceeded:
        if child.budget_usd is None:
            raise
        return await agent.spawn(replace(child, budget_usd=None))


def judge(blank: Advice, answer: str, stop: str) -> Advice:
    """Turn an answer into advice: whole, cut, or failed with the reason."""
    stripped = answer.strip()
    if stop in _REFUSALS:
        return replace(blank, status="declined", text=stripped, reason=f"it refused ({stop})")
    if not stripped and stop == "max_tokens":
        return replace(blank, status="failed", reason="its answer was cut before it said anything")
    if _ECHO.match(stripped):
        return replace(blank, status="failed", reason="it repeated the conversation instead of judging it")
    advice = read(replace(blank, text=stripped, status="cut" if stop == "max_tokens" else "answered"))
    if not advice.verdict and len(stripped) < _MIN_ANSWER_CHARS:
        reason = f"its answer was {stripped!r}" if stripped else "its answer was empty"
        return replace(blank, status="declined", text=stripped, reason=reason)
    return advice


def read(advice: Advice) -> Advice:
    """Return an advice with its text parsed."""
    return replace(advice, **read_advice(advice.text)._asdict())


async def ended(tasks: "Sequence[asyncio.Task[Advice]]") -> None:
    """Wait for all of them; when cancelled, cancel them and still wait, so that none is left running."""
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise


def reason_of(error: Exception) -> str:
    """Return the reason why a consultation failed, on one line."""
    if isinstance(error, ModelError):
        return f"{_FAILURES.get(error.kind, error.kind)}: {error}"
    return str(error) if isinstance(error, SagentError) else f"{type(error).__name__}: {error}"


def why(blank: Advice) -> tuple[str, str]:
    """Return the reason for a consultation and its question, in the request's words."""
    reason = _ASKED.get(blank.trigger)
    if reason is None:
        return f"The executor did not ask; you are asked because {blank.question or blank.trigger}.", ""
    return reason, f"\nThe question: {blank.question}" if blank.question else ""
