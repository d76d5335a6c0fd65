"""`sagent verify`: checks that a session, or a bundle of one, is unchanged."""

import argparse
import os
import signal
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sagent.cli.flags import Parser
from sagent.cli.render import report
from sagent.cli.settings import load_settings, session_path
from sagent.cli.tables import show
from sagent.errors import UsageError
from sagent.lib.names import path_of
from sagent.lib.text import Table, count
from sagent.plugins.audit.bundle import is_bundle, unpacked
from sagent.plugins.audit.fetched import StoreAt, add_stores, elsewhere, locating
from sagent.plugins.audit.verify import Each, Proof, verify

DESCRIPTION = """Check that a session has not been changed since it was written: the hash of every entry, every parent,
every subagent's log, every blob, and every file in a bundle's manifest. Each part that was checked is listed."""
EPILOG = """exit codes:
  0 unchanged   1 problems were found   2 usage"""
MIN_PARALLEL_BYTES = 16 << 20  # bytes that are worth starting several processes


def run_verify(argv: Sequence[str]) -> int:
    """Verify; return 1 if there are findings. Raises UsageError."""
    given = _parser().parse_args(argv)
    with locating(lambda: _path(given.session, given.cwd), given.session, elsewhere(vars(given))) as (path, copied):
        if copied and given.sign:
            raise UsageError(
                f"--sign saves the signature in a session's directory: export the session with --{copied.store.name}, "
                "and sign the bundle."
            )
        return _check(given, path, copied)


def _check(args: argparse.Namespace, path: Path, place: StoreAt | None) -> int:
    """Verify the session at a path, which may be a copy from another place."""
    where = None if place else path
    signers = path_of(args.signers) if args.check_signature else None
    with _sharing(path) as each:
        try:
            proof = verify(path, args.head or "", signers=signers, parallel_map=each)
        except OSError as error:
            raise UsageError(f"{error.filename or path}: cannot be read: {error.strerror or error}.") from error
    signed = ""
    if args.sign and not proof.problems:
        from sagent.plugins.audit.verify import sign_record

        signed = str(sign_record(path, proof, path_of(args.sign)))
    shown = _show(where, proof, signed, f"on the {place.store.name}" if place else str(path))
    show(_as_json(where, proof, signed), shown, as_json=args.json)
    if args.sign and proof.problems:
        report("nothing was signed, because the session does not verify.")
    return 1 if proof.problems else 0


def _parser() -> Parser:
    parser = Parser("verify", DESCRIPTION, epilog=EPILOG)
    parser.add_argument(
        "session", nargs="?", metavar="SESSION | DIR | BUNDLE",
        help="a session's path or id, or the beginning of an id, or an exported bundle, packed or not (default: the "
             "last session)",
    )  # fmt: skip
    add_stores(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--head", metavar="ID", help="require this head, as a run has printed it, in the root's log")
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--sign", metavar="KEY", help="if it verifies, sign it with an SSH key (ssh-keygen -Y)")
    one.add_argument("--check-signature", action="store_true", help="require the signature of an allowed signer")
    parser.add_argument(
        "--signers", metavar="FILE", default="~/.ssh/allowed_signers", help="the file of allowed signers (%(default)s)"
    )
    parser.add_cwd()
    return parser


def _path(name: str | None, cwd: str | None) -> Path:
    """Resolve a name to a path, preferring paths to ids. The verifier reports the remains of a session there."""
    path = path_of(name or "")
    if name and (path.is_dir() or (path.is_file() and (path.name == "root.jsonl" or is_bundle(path)))):
        return path.absolute()
    if name and path.is_file():
        raise UsageError(f"{name} is not a session's directory or an exported bundle.")
    return session_path(load_settings({"cwd": cwd}), name)


@contextmanager
def _sharing(path: Path) -> Generator[Each]:
    """Yield a `map`: over processes if there is much to check."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    size = path.stat().st_size if path.is_file() else 0
    size = size or sum(file.stat().st_size for file in path.rglob("*.jsonl"))
    if count == 1 or size < MIN_PARALLEL_BYTES:
        yield map
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    ignored = signal.SIGINT, signal.SIG_IGN  # Ctrl-C is for the waiting parent process
    pool = ProcessPoolExecutor(count, get_context("fork"), signal.signal, ignored)  # no other threads run here
    try:
        yield pool.map
    finally:
        pool.shutdown(cancel_futures=True)


def _show(path: Path | None, proof: Proof, signed: str, location: str) -> Iterator[str | Table]:
    """Show the findings of the session at a path, or of one kept elsewhere."""
    yield f"session {proof.session}  {location}"
    yield Table(tuple((f"{'✗' if part.problems else '✓'} {part.name}", part.checked) for part in proof.parts))
    yield from (f"✗ {part.name}: {problem}" for part in proof.parts for problem in part.problems)
    yield from (f"- {note}" for note in proof.notes)
    yield "- The file `lock` is not part of the record, so it was not checked."
    if signed:
        yield f"signed: {signed}"
    if proof.problems:
        yield f"NOT OK: {count(len(proof.problems), 'problem')}"
        logs = any(len(part.problems) > bool(part.torn) for part in proof.parts if part.name.startswith("log of "))
        if logs and path and not (path.is_file() or unpacked(path)):  # a bundle cannot be repaired
            yield f"`sagent sessions repair {path}` keeps the intact part of a damaged log."
    else:
        but = [f"{proof.redacted} redacted"] if proof.redacted else []
        but += [count(proof.gaps, "gap")] if proof.gaps else []
        yield f"OK: everything checked above is unchanged{', except ' * bool(but)}{' and '.join(but)}"


def _as_json(path: Path | None, proof: Proof, signed: str) -> dict[str, object]:
    return {
        "ok": not proof.problems,
        "session": proof.session,
        "path": str(path or ""),
        "head": proof.heads.get("root", ""),
        "heads": dict(proof.heads),
        "entries": proof.entries,
        "blobs": proof.blobs,
        "redacted": proof.redacted,
        "gaps": proof.gaps,
        "signer": proof.signer,
        "signed": signed,
        "parts": [{"name": part.name, "checked": part.checked, "problems": part.problems} for part in proof.parts],
        "problems": proof.problems,
        "notes": proof.notes,
    }
