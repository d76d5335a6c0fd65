"""`sagent sessions list`, `show` and `prune`, as processes."""

import os
from decimal import Decimal

from sagent.session.contents import ChargeEntry
from sagent.session.store import Session, sessions
from sagent.usage import Charge, Usage
from tests.depth import later
from tests.session_place import Place


def test_listing_shows_sizes(place: Place):
    with Session.open(place.session("first")) as made:
        made.log().blobs.put(b"x" * 250_000)
    place.session("second")
    out, _ = place.run("sessions", "list")
    assert "  250." in out
    assert "2 sessions, 25" in out
    assert "USD" not in out
    assert "$0 " in place.run("sessions", "list", "--costs")[0]


def test_unbilled_cap_cost_reported(place: Place):
    session = place.session()
    cut = Charge(
        "claude-sonnet-4-6", Usage(input=10), "", Decimal("0.1"), True, "executor", "anthropic", "root", Decimal("0.75")
    )
    with Session.open(session) as made:
        made.log().append(ChargeEntry(cut))
    for flags in ((), ("--costs",)):
        out, _ = place.run("sessions", "show", *flags, str(session))
        assert "cost     $0.10\n" in out and "$0.65 more count towards a budget" in out


@later
def test_prune_needs_rule_and_reports(place: Place):
    old = [place.session(f"old {number}", 100 + number) for number in range(3)]
    new = place.session("new")
    assert "--older-than 90d, --keep 50" in place.run("sessions", "prune", code=2)[1]
    assert "not an age" in place.run("sessions", "prune", "--older-than", "soon", code=2)[1]
    assert "0 or more" in place.run("sessions", "prune", "--keep", "-1", code=2)[1]
    out, _ = place.run("sessions", "prune", "--older-than", "90d", "--keep", "2", "--dry-run")
    assert "2 of 4 sessions would be deleted" in out
    assert len(list(sessions(place.state))) == 4
    out, _ = place.run("sessions", "prune", "--older-than", "90d", "--keep", "2")
    assert "2 of 4 sessions deleted" in out
    assert set(sessions(place.state)) == {new, old[0]}
    with Session.open(old[0]):
        os.utime(old[0] / "root.jsonl", (0, 0))
        out, _ = place.run("sessions", "prune", "--keep", "1", code=1)
        assert "is in use by process" in out
    place.run("sessions", "prune", "--keep", "0")
    assert list(sessions(place.state)) == []
