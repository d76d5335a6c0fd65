"""Ways on after a failed turn, each by one key."""

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from sagent.errors import RETRYABLE
from sagent.events import Failure
from sagent.lib.money import show
from sagent.repl.terminal.picker import Option

if TYPE_CHECKING:
    from sagent.repl.opening import Opened

_NEEDED = re.compile(r"raise it to \$(\d+(?:\.\d+)?)")
RETRY, RAISE = "retry", "raise"
_RETRY, _MODEL = Option(RETRY, "retry", key="r"), Option("/model", "another model", key="m")


def ways_on(failure: Failure, opened: "Opened") -> tuple[str, Sequence[Option[str]]]:
    """Return what to ask after a failure, and the ways on: RETRY, RAISE, or a slash command; none if there are none."""
    provider = opened.agent.status().model.partition("/")[0]
    match failure.kind:
        case "auth" | "permission":
            login = f"/login {provider}"
            return "Which way on?", (Option(login, login, key="l"), _MODEL, _RETRY)
        case "context_overflow":
            ways = Option("/compact", "/compact", key="c"), Option("/rewind", "/rewind", key="w")
            return "The window is full.", (*ways, _MODEL)
        case "budget" if (more := raised(failure, opened)) is not None:
            return f"Raise to {show(more)}?", (Option(RAISE, "yes", key="y"), Option("", "no", key="n"))
        case "payment" | "not_found":
            return "Which way on?", (_MODEL, _RETRY)
        case kind if kind in RETRYABLE:
            return "Which way on?", (_RETRY, _MODEL)
        case _:
            return "", ()


def raised(failure: Failure, opened: "Opened") -> Decimal | None:
    """Return the budget that the failure asks for, or twice the present one; None if this process does not set it."""
    cap, needed = opened.agent.ledger.cap, _NEEDED.search(failure.message)
    if cap is None or cap <= 0 or opened.elsewhere is not None:
        return None
    return max(2 * cap, Decimal(needed[1]) if needed else cap)
