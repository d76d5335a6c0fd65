"""Claims that follow from the open entries of logs: recorded output, models and costs. Prover and checker work them
out the same way."""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from sagent.plugins.proofs.evidence import LogFacts, Ran, Written, originals_first
from sagent.plugins.proofs.statement import Bill, FromLog, Origin, Quote, Side
from sagent.usage import Totals


def bill_of(facts: Sequence[LogFacts], cap: Decimal | None) -> Bill:
    """Return the models and the costs of some logs. A call without a known end counts with its worst case."""
    totals, known = Totals(), set[str]()
    for log in originals_first(facts):
        for charge in log.charges(known):
            totals.add(charge)
        known |= {entry.id for entry in log.entries}  # a copied session has the entries of its original
    usd = totals.whole.usd + totals.whole.unbilled
    return Bill(tuple(sorted(totals.by_model)), usd, totals.whole.unpriced, cap)


def calls_of(facts: Sequence[LogFacts], origins: Iterable[Origin]) -> tuple[int, int]:
    """Return how many calls wrote the lines of some origins, and how many of these a person has allowed."""
    entries = {(each.session, each.agent, each.entry) for each in origins if isinstance(each, FromLog)}
    logs = [(log, (log.session, log.agent)) for log in facts]  # ids of calls are those of one log
    calls = {(*key, each.call) for log, key in logs for each in log.written if (*key, each.entry) in entries}
    allowed = {(*key, call) for log, key in logs for call in log.allowed}
    return len(calls), len(calls & allowed)


def quote_of(log: LogFacts, ran: Ran, facts: Sequence[LogFacts], files: Mapping[str, Side | None]) -> Quote:
    """Return a recorded result as a claim. It is fresh if the calls before it left every file of the change as it is
    proven, and no later call changed one."""
    last: dict[str, Written] = {}
    for each in facts:
        for written in each.written:
            if written.path in files and (written.path not in last or last[written.path].at < written.at):
                last[written.path] = written
    fresh = all(path in last and last[path].at < ran.at and _is(last[path], side) for path, side in files.items())
    return Quote(log.session, log.agent, ran.entry, ran.command, ran.text, ran.outcome, fresh)


def _is(written: Written, side: Side | None) -> bool:
    after = written.after
    return after.kind == "absent" if side is None else after.kind == "file" and after.blob == side.sha256
