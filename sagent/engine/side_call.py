"""A model call beside the conversation: an advisor's, a compactor's. Reserved, retried and billed to its role."""

import asyncio
from dataclasses import replace
from decimal import Decimal

from sagent.engine.attempt import Attempt, wait_before_retry
from sagent.engine.state import AgentState
from sagent.errors import ModelError
from sagent.events import Notice
from sagent.model import Model, Request
from sagent.policy.advisory import Hear, SideReply
from sagent.session.contents import RequestSent

RETRIES = 2
LONGEST_WAIT = 15.0  # seconds; what takes longer is done without
LEAST_OUTPUT = 256  # tokens that must be affordable
BYTES = 3  # of a request to a token, about


async def make_side_call(state: AgentState, model: Model, request: Request, role: str, hear: Hear) -> SideReply:
    """Call a model with a request of its own. The conversation, its meter and its usage are untouched.

    Raises ModelError and BudgetExceeded. A call that is cancelled is billed for what it had come to; one that was
    billed and failed is not made again, so that it never costs more than its worst case.
    """
    limits = replace(
        state.limits,
        max_retries=min(state.limits.max_retries, RETRIES),
        longest_wait=min(state.limits.longest_wait, LONGEST_WAIT),
    )
    tries = 0
    while True:
        attempt = Attempt()
        try:
            return await _afford(state, model, request, role, hear, attempt)
        except ModelError as error:
            most = error.most_output
            if most is not None and LEAST_OUTPUT <= most < (request.max_output or most + 1) and not attempt.charges:
                request = replace(request, max_output=most)  # the data were wrong
                continue
            wait = wait_before_retry(limits, error, tries)
            if wait is None or attempt.charges:
                raise
            tries += 1
            name = f"{model.provider}/{model.id}"
            text = f"{role}, {name}: {error}; trying again in {wait:.1f} s"
            state.emit(Notice(state.path, "info", text))
            await asyncio.sleep(wait)


async def _afford(
    state: AgentState, model: Model, request: Request, role: str, hear: Hear, attempt: Attempt
) -> SideReply:
    weight = model.max_input_tokens(request)
    reservation = await state.ledger.reserve(
        state.path,
        role,
        model.provider,
        model.id,
        input_bound=weight,
        max_output=None if request.max_output is None else max(request.max_output, model.limits.least_output),
        least_output=max(LEAST_OUTPUT, model.limits.least_output),
    )
    with reservation:
        limits = [limit for limit in (request.max_output, reservation.max_output) if limit is not None]
        request = replace(request, max_output=min(limits, default=None))
        try:
            reply = await attempt.stream(model, request, hear)
        except (ModelError, asyncio.CancelledError) as error:
            attempt.charges = attempt.bill(model, weight // BYTES, error)
            if attempt.charges:
                state.bill(reservation, attempt.charges)
            raise
        witness = reply.witness
        state.record(RequestSent(witness.sha256, witness.size, witness.model, witness.parameters, role))
        spent = state.bill(reservation, reply.charges)
    prices = [record.usd for record in spent if record.usd is not None]
    return SideReply(reply, sum(prices, Decimal(0)) if len(prices) == len(spent) else None)
