"""The cost of a session on a bus, from its log there: no claim is trusted when money is returned."""

import asyncio
from decimal import Decimal
from itertools import chain

from sagent.errors import SessionCorrupt
from sagent.lib.money import EXACT
from sagent.plugins.mesh.mirror import LogStream
from sagent.plugins.mesh.rebuild import rebuild
from sagent.sandbox.scratch import temporary
from sagent.session.folds import spend
from sagent.session.log import read_log
from sagent.session.store import named_logs
from sagent.usage import Cost


async def cost_of(stream: LogStream) -> Cost | None:
    """Return the cost of all of a session's agents so far; None if the log does not say it. Raises Unavailable."""
    if (last := await stream.last()) is None:
        return Cost()
    with temporary() as place:
        directory = place / "session"
        try:
            if not (await rebuild(stream, directory, last.sequence)).lines:
                return Cost()
            entries = chain.from_iterable(map(read_log, named_logs(directory)))
            cost = (await asyncio.to_thread(spend, entries)).cost()
        except SessionCorrupt:
            return None
    return None if cost.unpriced else cost


def counted_usd(cost: Cost) -> Decimal:
    """USD that count towards a budget."""
    return EXACT.add(cost.total, cost.unbilled)
