"""`sagent prove`: writes and signs the proof of a change, or approves one."""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from pathlib import Path

from sagent.cli.flags import Parser
from sagent.cli.render import report
from sagent.cli.settings import load_settings, session_path
from sagent.cli.tables import show
from sagent.errors import UsageError
from sagent.lib.names import path_of, quote_path
from sagent.lib.text import Table, count
from sagent.plugins.audit.redacted import report_secrets
from sagent.plugins.audit.signature import sign
from sagent.plugins.proofs.archive import Proof, approval_of, read_proof
from sagent.plugins.proofs.making import Wanted, make_proof
from sagent.plugins.proofs.quotes import quotation
from sagent.plugins.proofs.repository import parse_range, root_of, short
from sagent.plugins.proofs.statement import FromLog, FromPerson, Moved, Origin, Statement
from sagent.transcript.redaction import Redaction

DESCRIPTION = """Write a signed proof of the changes in a range of commits: for each changed line the call of an agent
that wrote it, by the logs of sessions, or the person who did; the output of commands, the models and what they cost.
`sagent check-proof` checks it where there are no sessions."""
EPILOG = """exit codes:
  0 written   1 it could not be written   2 usage"""


def run_prove(argv: Sequence[str]) -> int:
    """Write a proof, or add an approval to one. Raises UsageError."""
    given = _parser().parse_args(argv)
    if given.approve:
        if given.range:
            raise UsageError("--approve FILE takes no range: the proof has its own.")
        return _approve(path_of(given.approve), path_of(given.sign))
    if not given.range:
        raise UsageError("Name the commits: sagent prove main..HEAD --sign ~/.ssh/id_ed25519.")
    return _prove(given)


def _parser() -> Parser:
    parser = Parser("prove", DESCRIPTION, epilog=EPILOG)
    parser.add_argument("range", nargs="?", metavar="RANGE", help="the commits: main..HEAD, or main for the same")
    parser.add_argument(
        "--sign", metavar="KEY", required=True,
        help="sign it with this SSH key: a private key's file, or a public one's whose private key an SSH agent holds",
    )  # fmt: skip
    parser.add_argument("--out", metavar="FILE", default="proof.tar", help="where to write it (%(default)s)")
    parser.add_argument("--session", metavar="SESSION", action="append", help="use only this session; may be repeated")
    parser.add_argument("--by", metavar="NAME", help="who wrote the lines that are in no log (default: git's authors)")
    parser.add_argument(
        "--quote", metavar="TEXT", action="append", help="quote the output of the last command that contains TEXT"
    )
    parser.add_argument("--max-budget-usd", metavar="USD", type=usd, help="claim that no more than this was spent")
    parser.add_argument("--for", metavar="NAME", dest="audience", help="the repository that it is for, as owner/name")
    parser.add_argument("--whole", action="store_true", help="carry all entries of the logs, not only those needed")
    parser.add_argument("--keep-secrets", action="store_true", help="do not take out what looks like a secret")
    parser.add_argument("--approve", metavar="FILE", help="add your signature to another person's proof")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_cwd()
    return parser


def usd(text: str) -> Decimal:
    """Parse an amount of USD. Raises ArgumentTypeError."""
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal(-1)
    if not (amount.is_finite() and 0 <= amount < 10**9):
        raise argparse.ArgumentTypeError("give USD as a number, at least 0")
    return amount


def _prove(given: argparse.Namespace) -> int:
    settings = load_settings({"cwd": given.cwd})
    root = root_of(settings.cwd)
    base, head = parse_range(root, given.range)
    out = path_of(given.out) if Path(given.out).is_absolute() else settings.cwd / path_of(given.out)
    wanted = Wanted(
        tuple(session_path(settings, name) for name in given.session or ()),
        given.by or "",
        tuple(given.quote or ()),
        given.max_budget_usd,
        given.audience or "",
        given.whole,
        own_path(root, out),
    )
    redaction = Redaction(given.keep_secrets)
    proof = make_proof(root, base, head, settings.state_dir, wanted, redaction)
    proof = replace(proof, signature=sign(proof.signed, path_of(given.sign)))
    try:
        proof.write(out)
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror or error}.") from error
    report_secrets(redaction)
    show(_as_json(proof, out), _tell(proof, given.out), as_json=given.json)
    return 0


def own_path(root: Path, file: Path) -> str:
    """Return the path of a proof in its repository; "" if it is elsewhere. A proof says nothing about itself."""
    real = file.parent.resolve() / file.name
    return str(real.relative_to(root.resolve())) if real.is_relative_to(root.resolve()) else ""


def _approve(path: Path, key: Path) -> int:
    proof = read_proof(path)
    signature = sign(approval_of(proof.signed), key)
    if signature in proof.approvals:
        report("it is approved by this key already.")
    else:
        replace(proof, approvals=(*proof.approvals, signature)).write(path)
    show(_as_json(proof, path), _tell(proof, str(path)), as_json=False)
    return 0


def lines_by_origin(statement: Statement) -> Counter[Origin]:
    """Return the number of changed lines of each origin; a file without lines counts as one."""
    found: Counter[Origin] = Counter()
    for file in statement.files:
        for run in (*file.removed, *file.added):
            found[statement.origins[run.origin]] += run.lines
        if file.whole is not None:
            found[statement.origins[file.whole]] += 1
    return found


def _tell(proof: Proof, out: str) -> Iterator[str | Table]:
    statement = proof.statement
    yield f"{quote_path(out)}: {count(len(statement.files), 'file')}, {short(statement.base)}..{statement.head[:12]}"
    lines = lines_by_origin(statement)
    agents, people, moved = Counter[str](), Counter[str](), 0
    for origin, number in lines.items():
        match origin:
            case FromLog(session):
                agents[session] += number
            case FromPerson(name):
                people[name] += number
            case Moved():
                moved += number
    rows = [("log of a session", name, str(number)) for name, number in sorted(agents.items())]
    rows += [("person", name, str(number)) for name, number in sorted(people.items())]
    rows += [("moved within the change", "", str(moved))] if moved else []
    yield Table(tuple(rows), ("lines from", "", "lines"), (2,))
    bill = statement.bill
    yield f"models: {', '.join(bill.models) or 'none'}; {'at least ' * bool(bill.unpriced)}${bill.usd}"
    for quote in statement.quotes:
        yield ""
        yield from quotation(quote).split("\n")


def _as_json(proof: Proof, out: Path) -> dict[str, object]:
    statement = proof.statement
    lines = lines_by_origin(statement)
    return {
        "proof": str(out),
        "base": statement.base,
        "head": statement.head,
        "files": [file.path for file in statement.files],
        "lines": {
            "logs": sum(number for origin, number in lines.items() if isinstance(origin, FromLog)),
            "people": {origin.name: number for origin, number in lines.items() if isinstance(origin, FromPerson)},
            "moved": sum(number for origin, number in lines.items() if isinstance(origin, Moved)),
        },
        "models": statement.bill.models,
        "usd": str(statement.bill.usd),
        "quotes": [
            {"command": quote.command, "fresh": quote.fresh, "text": quotation(quote)} for quote in statement.quotes
        ],
    }  # fmt: skip
