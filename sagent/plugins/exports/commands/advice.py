"""`sagent advice`: a session's consultations with their outcome and cost; and rating an advice."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from sagent.cli.flags import SESSION, Parser
from sagent.cli.reported import REPORTED
from sagent.cli.settings import load_settings, session_path
from sagent.cli.tables import show
from sagent.errors import SessionCorrupt, UsageError
from sagent.lib.money import number
from sagent.lib.text import Table, count, one_line
from sagent.plugins.audit.redacted import report_secrets, without_secrets
from sagent.plugins.exports.advice import AdvisorRecord, Consultation, Review, last_answer, review
from sagent.session.contents import AdviceRated
from sagent.session.entries import Entry
from sagent.session.log import read_log
from sagent.session.names import agent_of
from sagent.session.store import Session, named_logs
from sagent.transcript.redaction import Redaction
from sagent.usage import BUCKETS

GOOD, BAD = 1, -1
REASONS = 3  # of each kind to show


def run_advice(argv: Sequence[str]) -> int:
    parser = Parser(
        "advice", "Show what a session's advisors were asked, what came of it and what it cost, subagents included."
    )
    parser.add_argument("session", nargs="?", help=SESSION)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--rate", choices=["good", "bad"], help="rate the last advice; the session must not be open elsewhere"
    )
    parser.add_argument("--name", help="with --rate: rate the last advice of this advisor")
    parser.add_cwd()
    given = parser.parse_args(argv)
    if given.name is not None and given.rate is None:
        raise UsageError("--name needs --rate: give --rate good or --rate bad too.")
    settings = load_settings({"cwd": given.cwd})
    path = session_path(settings, given.session)
    if given.rate is not None:
        return _rate(path, GOOD if given.rate == "good" else BAD, given.name or "", as_json=given.json)
    damaged: list[SessionCorrupt] = []
    found = review({agent_of(path, file): _entries(file, damaged) for file in named_logs(path)})
    redaction = Redaction()
    lines = () if given.json else [without_secrets(line, redaction) for line in _lines(path.name, found)]
    show(redaction.value(_as_json(path.name, found)) if given.json else None, lines, as_json=given.json)
    report_secrets(redaction)
    if damaged:
        damaged[0].add_note(REPORTED)  # stdout has its single object; stderr lists its gaps
        raise damaged[0]
    return 0


def _entries(file: Path, damaged: list[SessionCorrupt]) -> Iterator[Entry]:
    """Yield a log's entries up to a damaged one."""
    try:
        yield from read_log(file)
    except SessionCorrupt as error:
        damaged.append(error)


def _rate(path: Path, by: int, name: str, *, as_json: bool) -> int:
    with Session.open(path) as session:
        logs = {agent_of(path, file): list(read_log(file)) for file in named_logs(path)}
        found = review(logs)
        rated = last_answer(found.consultations, name)
        if rated is None:
            whom = f" of {name!r}; there are {', '.join(found.standings)}" if name and found.standings else ""
            raise UsageError(f"In session {path.name} there is no advice{whom} to rate.")
        log = session.log(rated.agent)
        log.append(AdviceRated(rated.advisor, by))
        log.sync()
    word = "good" if by == GOOD else "bad"
    line = f"rated {word}: the advice of {rated.advisor} at {_when(rated)} ({_line(rated.next) or rated.verdict})"
    value = {"session": path.name, "advisor": rated.advisor, "entry": rated.entry, "rated": by}
    show(value, [line], as_json=as_json)
    return 0


# -- as JSON -----------------------------------------------------------------------------------------------------------


def _as_json(session: str, reviewed: Review) -> Mapping[str, object]:
    """Return the review as one object. An unknown price is null, and so is a rate without a base."""
    return {
        "session": session,
        "turns": reviewed.turns,
        "consultations": reviewed.calls,
        "consult_rate": reviewed.consult_rate,
        "advisors": {name: _standing_json(standing) for name, standing in reviewed.standings.items()},
        "list": [asdict(consultation) for consultation in reviewed.consultations],
    }


def _standing_json(standing: AdvisorRecord) -> Mapping[str, object]:
    tally, usage = standing.tally, standing.tally.usage
    counts = ("calls", "answered", "declined", "failed", "withheld", "followed", "rejected", "contradicted", "rated")
    return {
        "models": list(standing.models),
        **{name: getattr(tally, name) for name in counts},
        "cut": standing.cut,
        "rated_good": standing.good,
        "rated_bad": standing.bad,
        "hit_rate": standing.hit_rate,
        "triggers": dict(standing.triggers),
        "verdicts": dict(standing.verdicts),
        "reasons": {
            "withheld": dict(standing.withheld),
            "unanswered": dict(standing.unanswered),
            "objections": dict(standing.objections),
        },
        "usage": {bucket: getattr(usage, bucket) for bucket in BUCKETS},
        "usd": number(tally.usd),
        "usd_per_followed": number(standing.usd_per_followed),
    }


# -- as text -----------------------------------------------------------------------------------------------------------


def _lines(session: str, reviewed: Review) -> Iterator[str | Table]:
    rate = "" if reviewed.consult_rate is None else f", {reviewed.consult_rate:.2f} per turn"
    yield f"session  {session}  ({count(reviewed.turns, 'turn')}, {count(reviewed.calls, 'consultation')}{rate})"
    if not reviewed.standings:
        yield "No advisor was asked."
    for name, standing in reviewed.standings.items():
        yield ""
        yield from _standing_lines(name, standing)
    if reviewed.consultations:
        yield ""
        yield _list(reviewed.consultations)


def _standing_lines(name: str, standing: AdvisorRecord) -> Iterator[str]:
    tally, usage = standing.tally, standing.tally.usage
    cut = f" ({standing.cut} cut short)" if standing.cut else ""
    yield f"{name}" + (f"  {', '.join(standing.models)}" if standing.models else "")
    yield (
        f"  calls     {tally.calls}: {tally.answered} answered{cut}, {tally.declined} declined, {tally.failed} failed; "
        f"{tally.withheld} withheld"
    )
    if standing.triggers:
        yield f"  triggers  {_counts(standing.triggers)}"
    if standing.verdicts:
        yield f"  verdicts  {_counts(standing.verdicts)}"
    rate = standing.hit_rate
    hits = "not known" if rate is None else f"{rate:.0%} ({tally.followed} of {standing.known})"
    yield (
        f"  outcomes  {tally.followed} followed, {tally.rejected} rejected, {tally.contradicted} contradicted, "
        f"{max(0, tally.answered - standing.known)} not known; hit rate {hits}"
    )
    if standing.good or standing.bad:
        yield f"  ratings   {standing.good} good, {standing.bad} bad"
    for what, reasons in (
        ("objected", standing.objections), ("withheld", standing.withheld), ("no answer", standing.unanswered),
    ):  # fmt: skip
        shown = list(reasons.items())[:REASONS]
        for reason, times in shown:
            yield f"  {what:9} {times} × {_line(reason)}"
        if len(reasons) > len(shown):
            yield f"  {'':9} {count(len(reasons) - len(shown), 'other reason')} (--json)"
    yield (
        f"  tokens    {usage.input} in, {usage.cache_read} read from cache, "
        f"{usage.cache_write + usage.cache_write_1h} written to cache, {usage.output} out"
    )
    each = standing.usd_per_followed
    per = f"; ${each:.6f} for each that was followed" if each is not None else ""
    yield f"  cost      {'unknown' if tally.usd is None else f'${tally.usd:.6f}'}{per}"


def _list(consultations: Sequence[Consultation]) -> Table:
    rows: list[tuple[str, ...]] = []
    for one in consultations:
        who = one.advisor if one.agent == "root" else f"{one.advisor} of {one.agent}"
        rated = {1: " +", -1: " -"}.get((one.rated > 0) - (one.rated < 0), "")
        outcome = one.outcome + (f" ({one.why})" if one.why else "") + rated
        what = one.next if one.is_answer else one.reason
        rows.append((_when(one), who, one.trigger, one.verdict or one.status, outcome or "-", what or "-"))
    return Table(tuple(rows), ("when (UTC)", "advisor", "trigger", "verdict", "outcome", "next"))


def _when(consultation: Consultation) -> str:
    return consultation.at[:19].replace("T", " ")


def _counts(counted: Mapping[str, int]) -> str:
    return ", ".join(f"{_line(name)} {times}" for name, times in counted.items())


def _line(text: str) -> str:
    return one_line(text, 72)
