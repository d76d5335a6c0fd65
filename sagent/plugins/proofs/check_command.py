"""`sagent check-proof`: checks a change against its proof, as CI does."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sagent.cli.flags import Parser
from sagent.cli.settings import load_settings
from sagent.cli.tables import show
from sagent.errors import UsageError
from sagent.lib.names import path_of, quote_path
from sagent.lib.regular import read_given
from sagent.lib.text import Table, one_line
from sagent.plugins.audit.verify import Part
from sagent.plugins.proofs.archive import NotProof, Proof, read_proof
from sagent.plugins.proofs.checking import MAX_PROBLEM_CHARS, SIGNERS, Required, Verdict, check_proof
from sagent.plugins.proofs.prove_command import own_path, usd
from sagent.plugins.proofs.repository import (
    Change,
    commit_of,
    commits_between,
    parse_range,
    parted,
    read_change,
    read_file,
    root_of,
)

DESCRIPTION = """Check that a change is the one that a proof is about, and that the proof holds: each changed line comes
from a log or a named person, quoted output is the recorded one, models and costs are those of the logs. It needs the
repository and the proof; no session, no network, no key."""
EPILOG = f"""The allowed signers are those of {SIGNERS} in the commit that --base or RANGE begins with, never of the
change itself, or those of --signers.

exit codes:
  0 proven   1 not proven   2 usage: it could not be checked"""


def run_check(argv: Sequence[str]) -> int:
    """Check; return 1 if there are problems. Raises UsageError."""
    given = _parser().parse_args(argv)
    path = path_of(given.proof)
    root = root_of(load_settings({"cwd": given.cwd}).cwd)
    try:
        proof = read_proof(path)
    except NotProof as error:
        verdict = Verdict(
            "different", "", (), {}, {}, (Part("file", "none", (one_line(str(error), MAX_PROBLEM_CHARS),)),), ()
        )
        show(_as_json(verdict, None, None), _tell(verdict), as_json=given.json)
        return 1
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from error
    trusted, change = _change(root, proof, given)
    required = _required(root, given, trusted, change)
    verdict = check_proof(root, proof, change, required)
    show(_as_json(verdict, proof, change), _tell(verdict), as_json=given.json)
    return 1 if verdict.problems else 0


def _parser() -> Parser:
    parser = Parser("check-proof", DESCRIPTION, epilog=EPILOG)
    parser.add_argument("proof", metavar="FILE", help="the proof that `sagent prove` wrote")
    parser.add_argument("range", nargs="?", metavar="RANGE", help="the commits of the change: main..HEAD")
    parser.add_argument("--base", metavar="COMMIT", help="the commit that the change is for: as RANGE COMMIT..HEAD")
    parser.add_argument("--signers", metavar="FILE", help="the allowed signers, in place of the base's own")
    parser.add_argument("--for", metavar="NAME", dest="audience", help="require a proof for this repository")
    parser.add_argument("--model", metavar="NAME", action="append", help="allow only this model; may be repeated")
    parser.add_argument("--max-budget-usd", metavar="USD", type=usd, help="allow only this cost")
    parser.add_argument("--approvals", metavar="N", type=_whole, default=0, help="require approvals by N other signers")
    parser.add_argument(
        "--max-person-lines", metavar="N", type=_whole, help="allow only so many lines that are in no log"
    )
    parser.add_argument(
        "--fresh", action="store_true", help="require output that was recorded with the files as they are"
    )
    parser.add_argument(
        "--allowed", action="store_true", help="require that a person has allowed each call that wrote a line"
    )
    parser.add_argument(
        "--own-signatures", action="store_true", help="require that each person who wrote lines signed or approved"
    )
    parser.add_argument("--whole", action="store_true", help="require logs without sealed entries")
    parser.add_argument("--head", metavar="ID", action="append", help="require this entry, as a run has printed it")
    parser.add_argument(
        "--text", metavar="FILE", action="append", help="check the output quoted in this text too; - is standard input"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_cwd()
    return parser


def _whole(text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise argparse.ArgumentTypeError("give a whole number")
    return int(text)


def _change(root: Path, proof: Proof, given: argparse.Namespace) -> tuple[str, Change]:
    """Return the commit whose signers are trusted, "" without one, and the change. Raises UsageError."""
    if given.range and given.base:
        raise UsageError("Give either RANGE or --base.")
    named = given.range or given.base
    if named:
        base, head = parse_range(root, named)
        trusted = commit_of(root, named.partition("..")[0] or "HEAD") if base else ""
        if not (trusted or given.signers):
            raise UsageError("Nothing is before the first commit that could name signers: name them, --signers FILE.")
        return trusted, read_change(root, base, head)
    if not given.signers:
        raise UsageError("Name the commit that the change is for, --base origin/main, or the signers, --signers FILE.")
    head = commit_of(root, "HEAD")
    base = proof.statement.base and parted(root, commit_of(root, proof.statement.base), head)
    return "", read_change(root, base, head)


def _required(root: Path, given: argparse.Namespace, trusted: str, change: Change) -> Required:
    texts = {f"commit {change.head[:12]}, message {number}": text for number, text in _messages(root, change)}
    for name in given.text or ():
        try:
            data = sys.stdin.buffer.read() if name == "-" else read_given(path_of(name))
        except OSError as error:
            raise UsageError(f"{name} cannot be read: {error.strerror or error}.") from error
        texts[name] = data.decode("utf-8", "replace")
    return Required(
        _signers(root, given.signers, trusted, change),
        tuple(given.model or ()),
        given.max_budget_usd,
        given.approvals,
        tuple(given.head or ()),
        given.audience or "",
        given.max_person_lines,
        given.fresh,
        given.whole,
        given.allowed,
        given.own_signatures,
        texts,
        own_path(root, path_of(given.proof)),
    )


def _messages(root: Path, change: Change) -> Iterator[tuple[int, str]]:
    return enumerate(commits_between(root, change.base, change.head), 1)


def _signers(root: Path, named: str | None, trusted: str, change: Change) -> bytes:
    """Return the allowed signers. Raises UsageError if there are none, or the change itself could have named them."""
    if named is None:
        file = read_file(root, trusted, SIGNERS)
        if file is None or not file.mode.startswith("100"):
            raise UsageError(
                f"{trusted[:12]} has no {SIGNERS}: commit one there, each line like `me@example.org ssh-ed25519 "
                "AAAA...`, or give --signers FILE."
            )
        return file.data
    path = path_of(named)
    if (own := own_path(root, path.resolve())) and own in change.files:
        raise UsageError(f"{quote_path(named)} is part of the change itself, so it cannot say whose signature counts.")
    try:
        return read_given(path)
    except OSError as error:
        raise UsageError(f"{named} cannot be read: {error.strerror or error}.") from error


def _tell(verdict: Verdict) -> Iterator[str | Table]:
    yield Table(tuple((f"{'✗' if part.problems else '✓'} {part.name}", part.checked) for part in verdict.parts))
    if verdict.people:
        own = {name: "own" if verdict.has_signed(name) else "of others" for name in verdict.people}
        rows = tuple((str(number), name, own[name]) for name, number in sorted(verdict.people.items()))
        yield Table(rows, ("lines", "by a person", "signature"), (0,))
    yield from (f"✗ {part.name}: {problem}" for part in verdict.parts for problem in part.problems)
    yield from (f"- {note}" for note in verdict.notes)
    yield "NOT PROVEN" if verdict.problems else "PROVEN"


def _as_json(verdict: Verdict, proof: Proof | None, change: Change | None) -> Mapping[str, object]:
    statement = proof.statement if proof else None
    return {
        "ok": not verdict.problems,
        "relation": verdict.relation,
        "base": change.base if change else "",
        "head": change.head if change else "",
        "proven": {"base": statement.base, "head": statement.head} if statement else None,
        "signer": verdict.signer,
        "approvers": verdict.approvers,
        "lines": {
            "logs": dict(verdict.agents),
            "people": dict(verdict.people),
            "own_signatures": [name for name in verdict.people if verdict.has_signed(name)],
        },
        "models": statement.bill.models if statement else (),
        "usd": str(statement.bill.usd) if statement else None,
        "parts": [{"name": part.name, "checked": part.checked, "problems": part.problems} for part in verdict.parts],
        "problems": verdict.problems,
        "notes": verdict.notes,
    }
