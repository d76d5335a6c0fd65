"""The cost of a call without a complete bill: the known part, and the maximum."""

from dataclasses import replace

from sagent.cost.ledger import Reservation
from sagent.model import Reply
from sagent.usage import Charge, Usage

SLACK_TOKENS = 1_024
"""Tokens of output that a provider may have produced beyond the visible ones when a call is interrupted."""
SLACK_PER_SECOND = 256
"""The same for each second since the call was reserved, because reasoning is billed but not always shown."""
STOPPING = frozenset({"anthropic", "openai", "openai-chat", "deepseek", "fireworks", "together", "xai"})
"""Providers that end a call, and its bill, when its connection closes (openrouter.ai, stream cancellation). Others may
finish the reply, as far as its output limit, and bill all of it."""


def lost(reservation: Reservation, stated: tuple[Charge, ...], received: int) -> tuple[Charge, ...]:
    """Return the bill of a call whose connection was lost after `received` bytes of its reply.

    Parts that the provider did not state are estimated and marked as such: the ledger then counts everything still
    reserved, because the true bill may be anything below it.
    """
    can_be = reservation.ask.can_be
    stated = tuple(one if can_be(one) else replace(one, usage=Usage(), usd=None) for one in stated)
    reported = sum((charge.usage for charge in stated), Usage())
    likely = 0 if reported.total_input else reservation.ask.likely
    guess = Usage(input=likely, output=max(0, received // 4 - reported.output))
    own = next((charge for charge in stated if not charge.role and charge.usd is None), None)
    if own is None:
        charges = stated if stated and guess == Usage() else (*stated, Charge(reservation.ask.model, guess))
    else:  # one call is one charge
        charges = tuple(replace(one, usage=one.usage + guess) if one is own else one for one in stated)
    return tuple(replace(charge, estimated=True) for charge in charges)


def estimated(reply: Reply, reservation: Reservation, received: int) -> Reply:
    """Return a reply whose bill is missing or implausible with an estimate instead."""
    ask, charges = reservation.ask, lost(reservation, reply.charges, received)
    own = sum((charge.usage for charge in charges if not charge.role), Usage())
    wrong = not all(map(ask.can_be, reply.charges))
    reply = replace(reply, usage=own, charges=charges)
    if not wrong:
        return reply
    note = (
        f"{ask.provider}/{ask.model} reports an impossible usage or price, which is ignored. Each such "
        "call counts with its maximum cost."
    )
    return replace(reply, notes=(*reply.notes, note))


def interrupted(reservation: Reservation, stated: tuple[Charge, ...], received: int) -> tuple[Charge, ...]:
    """Estimate the charges of a call that we ended. If the provider stops then, the billed output is at most its bytes
    plus a margin for unseen parts."""
    most = received + SLACK_TOKENS + round(SLACK_PER_SECOND * reservation.seconds)
    reservation.take_note(stated, most if reservation.ask.provider in STOPPING else None)
    return lost(reservation, stated, received)
