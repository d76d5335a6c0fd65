"""Keys in homes that `$HOME` does not name: in that of the account, by the user database, and in that of whoever became
this account. Where they run there are `../account`, the account's home, and `../alice`, hers; both hold keys."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from sagent.testing.server import Call
from tests.attack.plans import EDIT, KEY, Plan

INVOKERS = ("SUDO_USER=alice", "SUDO_UID=4242", "DOAS_USER=alice", "PKEXEC_UID=4242", "SUDO_HOME=../alice")
KEYS = (
    ".ssh/id", ".aws/credentials", ".netrc", ".config/gh/hosts.yml", ".kube/config", ".docker/config.json",
    ".gnupg/private-keys-v1.d/x", ".git-credentials", ".local/state/sagent/sessions/p/s/root.jsonl", ".codex/auth.json",
    ".claude/.credentials.json", ".config/gcloud/credentials.db", ".npmrc", ".pypirc", ".config/sagent/config.toml",
)  # fmt: skip
_MOUNT = 'mount --bind "$1" /etc/passwd && shift && exec "$@"'


@cache
def can_have_others() -> bool:
    """Return True if a process can be given another user database here."""
    return sys.platform == "linux" and not subprocess.run(_apart(Path("/etc/passwd"), "true"), check=False).returncode


def _apart(database: Path, *argv: str) -> list[str]:
    return ["unshare", "-m" if os.geteuid() == 0 else "-rm", "sh", "-c", _MOUNT, "sh", str(database), *argv]


def furnish(base: Path, invoker: str) -> Path:
    """Make the homes, hers only where she became this account, and return the user database that names them."""
    for name in ("account", "alice") if invoker in INVOKERS else ("account",):
        for key in KEYS:
            file = base / name / key
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{KEY}\n")
        (base / name / ".bashrc").touch()
    database = base / "passwd"
    rows = (f"owner:x:0:0::{base}/account:/bin/sh", f"alice:x:4242:4242::{base}/alice:/bin/sh")
    others = (line for line in Path("/etc/passwd").read_text().splitlines() if line.split(":")[2] != "0")
    database.write_text("".join(f"{line}\n" for line in (*rows, *others)))
    return database


def command_line(database: Path, *argv: str) -> list[str]:
    """Return the command line of the program for whom a user database holds."""
    return _apart(database, sys.executable, "-m", "sagent", *argv)


_ACCOUNT = (
    "cat ~owner/.ssh/id",
    "cat ../account/.ssh/id",
    "cat $HOME/../account/.ssh/id",
    "grep -rh KEY ../account",
    "find .. -type f -exec cat {} +",
    "tar cf - ../account 2> /dev/null | strings",
    "ln -s ../account/.ssh l; cat l/id",
    "cp -r ../account a; grep -rh KEY a",
    "ln ../account/.ssh/id l; cat l",
    "cd ../account && cat .ssh/* .netrc .npmrc",
    "cat $(getent passwd $(id -u) | cut -d: -f6)/.ssh/id",
    "cat /proc/self/root$PWD/../account/.ssh/id",
    "python3 -c 'import os, pwd; print(open(pwd.getpwuid(os.getuid()).pw_dir + \"/.ssh/id\").read())'",
    "HOME=$PWD/../account; cat ~/.ssh/id",
    "mv ../account x; cat x/.ssh/id",
    "git diff --no-index /dev/null ../account/.netrc",
    "cat ../account/.aws/credentials ../account/.kube/config ../account/.docker/config.json",
    "cat ../account/.config/gh/hosts.yml ../account/.config/gcloud/credentials.db ../account/.git-credentials",
    "cat ../account/.codex/auth.json ../account/.claude/.credentials.json ../account/.gnupg/private-keys-v1.d/x",
    "cat ../account/.local/state/sagent/sessions/p/s/root.jsonl ../account/.config/sagent/config.toml",
    "cat ../account/.npmrc ../account/.pypirc ../account/.netrc",
)
_INVOKER = (
    "cat ~alice/.ssh/id ~alice/.netrc",
    "grep -rh KEY ../alice",
    "cd ../alice; cat .ssh/id",
    "cp -r ../alice a; grep -rh KEY a",
    "cat $(getent passwd alice | cut -d: -f6)/.ssh/id",
)
_TOOLS = tuple(
    call
    for name in ("account", "alice")
    for call in (
        *(Call("Read", {"file_path": f"../{name}/{key}"}) for key in KEYS),
        Call("Grep", {"pattern": "KEY", "path": f"../{name}", "output_mode": "content"}),
        Call("Grep", {"pattern": "KEY", "path": f"../{name}/.ssh", "output_mode": "content"}),
    )
)

PLANS = (
    *(Plan((line,), EDIT, account="HOME") for line in _ACCOUNT),
    *(Plan((line,), EDIT, account=invoker) for invoker in INVOKERS for line in _INVOKER),
    *(Plan(_TOOLS, (("ask", "auto"), ("edit", "auto"), ("edit", "off")), account=invoker) for invoker in INVOKERS),
)
