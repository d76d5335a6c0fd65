"""The cap is the session's: over any number of processes, lost lines, kills and interruptions."""

import json
import signal
from collections.abc import Callable
from decimal import Decimal

import pytest
from program import Shell

from sagent.cost.prices import PriceBook
from sagent.testing.server import Cut, FakeProviderServer, Received, Stall, Step, Turn
from tests.depth import later
from tests.waiting import wait_until

CAP = Decimal("0.30")


def billed(server: FakeProviderServer) -> Decimal:
    """What the provider will ask for, for every request that it has had."""
    prices = (PriceBook().price("anthropic", "claude-sonnet-4-6", usage) for usage in server.billed)
    return sum((usd or Decimal(0) for usd in prices), Decimal(0))


def killed(_: Received) -> Step:
    return Stall(Turn(text="Thinking."), after_events=0, seconds=60.0)


def lost(_: Received) -> Step:
    return Cut(Turn(text="Never seen."), after_events=-1, how="reset")


@later
@pytest.mark.costly
@pytest.mark.parametrize(("script", "number"), [(killed, signal.SIGKILL), (lost, None)])
def test_possibly_billed_counts_in_later_runs(
    shell: Shell, script: Callable[[Received], Step], number: signal.Signals | None
) -> None:
    server = shell.serve(script, bill="worst")
    for _ in range(20):
        before = len(server.requests)
        cap = ("--max-budget-usd", str(CAP))
        child = shell.start("--session", "work.sagent", *cap, "--output-format", "json", "go on")
        if number is not None:
            wait_until(lambda: child.poll() is not None or len(server.requests) > before)  # noqa: B023 -- called at once
            child.send_signal(number)
        out, _err = child.communicate(timeout=60)
        if child.returncode == 3:
            break
    else:
        pytest.fail("the cap was never reached")
    assert len(server.requests) >= 2
    assert billed(server) <= CAP
    assert json.loads(out)["error"]["kind"] == "budget"
