"""The file of a proof: an uncompressed archive of the statement, its signatures, and the evidence.

Every byte follows from these files, so a changed one shows. Nothing is unpacked to the disk, and nothing is
decompressed: a proof needs no more memory than it has bytes.
"""

from collections.abc import Mapping
from pathlib import Path

from sagent.errors import SagentError, UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import canonical_bytes, sha256_hex
from sagent.plugins.audit.bundle import NAME as MANIFEST
from sagent.plugins.audit.bundle import PROOF as STATEMENT
from sagent.plugins.audit.bundle import is_bundle, open_bundle, read_manifest, write_bundle
from sagent.plugins.audit.signature import check_signature
from sagent.plugins.proofs.evidence import is_evidence
from sagent.plugins.proofs.statement import Statement, read_statement
from sagent.sandbox.scratch import temporary

SIGNATURE = f"{STATEMENT}.sig"
APPROVAL = "approvals/"
MAX_PROOF_BYTES = 64 << 20
MAX_STATEMENT_BYTES = 8 << 20
"""Bytes of the statement, and of the list of files: JSON takes many times its size in memory."""
MAX_FILES = 20_000
MAX_APPROVALS = 20


class NotProof(SagentError):
    """A file that is no intact proof; the message says why."""


@dataclass(frozen=True, slots=True)
class Proof:
    """A proof in memory: the signed bytes, the signatures, and the evidence by name."""

    statement: Statement
    signed: bytes
    signature: bytes
    approvals: tuple[bytes, ...]
    evidence: Mapping[str, bytes]

    def write(self, out: Path) -> None:
        """Write the file. Raises OSError."""
        approvals = {f"{APPROVAL}{number:02}.sig": data for number, data in enumerate(self.approvals)}
        signature = {SIGNATURE: self.signature} if self.signature else {}
        write_bundle(out, {}, {STATEMENT: self.signed, **signature, **approvals, **self.evidence})


def read_proof(path: Path) -> Proof:
    """Read a proof and compare every byte with what its statement names. Raises NotProof, and OSError for a file that
    cannot be read."""
    if not path.is_file():
        raise UsageError(f"{path} is not a file: give the file that `sagent prove` wrote.")
    if (size := path.stat().st_size) > MAX_PROOF_BYTES:
        raise NotProof(f"{path} has {size:,} bytes: a proof has at most {MAX_PROOF_BYTES:,}")
    if not is_bundle(path):
        raise NotProof(f"{path} is not a proof that `sagent prove` wrote")
    files = _read_files(path)
    if len(files.get(STATEMENT, b"")) > MAX_STATEMENT_BYTES:
        raise NotProof(f"{path}: {STATEMENT} has more than {MAX_STATEMENT_BYTES:,} bytes")
    try:
        statement = read_statement(files.get(STATEMENT, b""))
    except (ValueError, RecursionError) as error:
        raise NotProof(f"{path}: {STATEMENT}: {error}") from error
    approvals = tuple(data for name, data in files.items() if name.startswith(APPROVAL))
    evidence = {name: data for name, data in files.items() if is_evidence(name)}
    others = files.keys() - evidence.keys() - {MANIFEST, STATEMENT, SIGNATURE}
    if len(approvals) != len(others) or len(approvals) > MAX_APPROVALS:
        raise NotProof(f"{path} has files that are no part of a proof")
    _compare(path, statement, evidence)
    return Proof(statement, files[STATEMENT], files.get(SIGNATURE, b""), approvals, evidence)


def is_proof(data: bytes) -> bool:
    """Return True for the bytes of an intact proof, by whomever."""
    with temporary() as place:
        (place / "proof.tar").write_bytes(data)
        try:
            read_proof(place / "proof.tar")
        except NotProof:
            return False
        return True


def _read_files(path: Path) -> Mapping[str, bytes]:
    try:
        places, problems = open_bundle(path, MAX_FILES)
    except UsageError as error:
        raise NotProof(str(error)) from error
    if problems:
        raise NotProof(problems[0])
    if MANIFEST in places and places[MANIFEST].size > MAX_STATEMENT_BYTES:
        raise NotProof(f"{path}: {MANIFEST} has more than {MAX_STATEMENT_BYTES:,} bytes")
    files = {name: place.read() for name, place in places.items()}
    try:
        listed = read_manifest(files.get(MANIFEST, b"")).files
    except (ValueError, RecursionError) as error:
        raise NotProof(f"{path}: {MANIFEST}: {error}") from error
    actual = {(name, len(data), sha256_hex(data)) for name, data in files.items() if name != MANIFEST}
    if actual != {(each.name, each.size, each.sha256) for each in listed}:
        raise NotProof(f"{path}: its files are not those that it lists")
    return files


def _compare(path: Path, statement: Statement, evidence: Mapping[str, bytes]) -> None:
    """Compare the evidence with the statement. Raises NotProof."""
    actual = {(name, len(data), sha256_hex(data)) for name, data in evidence.items()}
    if actual != {(each.name, each.size, each.sha256) for each in statement.evidence}:
        raise NotProof(f"{path}: its logs or contents are not those that were signed")


def approval_of(signed: bytes) -> bytes:
    """Return what a person signs who approves a proof: another text than the proof, so that no signature is both."""
    return canonical_bytes({"approves": sha256_hex(signed), "format": "sagent-proof-approval", "version": 1}) + b"\n"


def signer_of(data: bytes, signature: bytes, allowed: bytes) -> str:
    """Return who signed some bytes, by the lines of a file of allowed signers: the name and the key. Raises SagentError
    for a signature by somebody else, or of other bytes."""
    with temporary() as place:
        (place / "signature.sig").write_bytes(signature)
        (place / "allowed_signers").write_bytes(allowed)
        try:
            return check_signature(data, place / "signature.sig", place / "allowed_signers")
        except SagentError as error:
            raise type(error)(str(error).replace(f"{place}/", "")) from error
