"""Signatures of records by SSH keys, made and checked by `ssh-keygen -Y` (OpenSSH 8.1 or later).

The file itself is signed, in the namespace "sagent", so that anybody can check it without this package: `ssh-keygen -Y
verify -n sagent -f ALLOWED_SIGNERS -I WHO -s FILE.sig < FILE`. The formats of signatures and of the file of allowed
signers are those of ssh-keygen(1).
"""

import os
import subprocess
from binascii import a2b_base64, b2a_base64
from pathlib import Path

from sagent.errors import SagentError, UsageError
from sagent.lib.process import system_path
from sagent.lib.regular import read_given
from sagent.session.statement import STATEMENT

NAMESPACE = "sagent"
SIGNATURE = f"{STATEMENT}.sig"
_BEGIN, _END = b"-----BEGIN SSH SIGNATURE-----", b"-----END SSH SIGNATURE-----"


def sign(data: bytes | Path, key: Path) -> bytes:
    """Sign bytes or a file with an SSH key: a private key's file, or a public one's if an agent holds the private key.
    ssh-keygen asks for a passphrase on the terminal.

    Raises UsageError for an unusable key.
    """
    done = _run(["-Y", "sign", "-n", NAMESPACE, "-f", str(key)], data)
    if done.returncode or not done.stdout.startswith(_BEGIN):
        raise UsageError(
            f"{key} cannot sign: {_said(done)}. Give an SSH private key, or a public one whose private "
            "key is in your SSH agent."
        )
    return done.stdout


def check_signature(data: bytes | Path, signature: Path, allowed: Path) -> str:
    """Return the signer's name in the file of allowed signers, and the key.

    Raises SagentError if the signature is by somebody else or for other bytes, and UsageError without ssh-keygen.
    """
    if not _is_as_written(read_given(signature)):
        raise SagentError(f"{signature}: not a signature made by ssh-keygen")
    asked = ["-Y", "find-principals", "-s", str(signature), "-f", str(allowed)]
    found = _run(asked, b"")
    names = [name for name in found.stdout.decode("utf-8", "replace").split("\n") if name]
    if found.returncode or not names:
        raise SagentError(f"{signature}: not signed by a key in {allowed} ({_said(found)})")
    asked = ["-Y", "verify", "-n", NAMESPACE, "-f", str(allowed), "-I", names[0], "-s", str(signature)]
    done = _run(asked, data)
    if done.returncode:
        raise SagentError(f"{signature}: not a signature of these bytes ({_said(done)})")
    key = done.stdout.decode("utf-8", "replace").strip().rpartition(" with ")[2]
    return f"{names[0]}, {key}" if key else names[0]


def _is_as_written(data: bytes) -> bool:
    """Return True if a signature's file has no extra bytes: ssh-keygen ignores trailing data and unused bits."""
    begin, *lines, end, rest = data.split(b"\n") if data.count(b"\n") > 2 else (b"", b"", b"", b"")
    try:
        content = b2a_base64(a2b_base64(b"".join(lines), strict_mode=True), newline=False)
    except ValueError:
        return False
    wrapped = [content[start : start + 70] for start in range(0, len(content), 70)]
    return (begin, lines, end, rest) == (_BEGIN, wrapped, _END, b"")


def _run(arguments: list[str], data: bytes | Path) -> subprocess.CompletedProcess[bytes]:
    """Run ssh-keygen with these bytes, or this file, as its input."""
    command, environment = ["ssh-keygen", *arguments], {**os.environ, "PATH": system_path()}
    try:
        if isinstance(data, bytes):
            return subprocess.run(command, env=environment, input=data, capture_output=True, check=False)
        with data.open("rb") as file:
            return subprocess.run(command, env=environment, stdin=file, capture_output=True, check=False)
    except FileNotFoundError as error:
        if error.filename != "ssh-keygen":
            raise
        raise UsageError("ssh-keygen was not found: install OpenSSH to sign, or to check a signature.") from error


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    """Return its last line about an error, or a more informative one."""
    lines = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
    found = [*lines[-1:], *(line for line in lines if line.endswith("too open."))]
    return found[-1].strip().rstrip(".") if found else f"ssh-keygen exit {done.returncode}"
