"""`sagent update` and `sagent uninstall`."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from sagent.cli.flags import Parser
from sagent.cli.render import binary_safe, report
from sagent.cli.tables import show, write
from sagent.context.places import directory, home_of
from sagent.errors import UsageError
from sagent.plugins.installation.installer import Installation, Words, find_installation
from sagent.session.lock import in_use
from sagent.session.store import sessions
from sagent.version import __version__

UPDATE = """Show how this sagent was installed, and update it in the same way once you confirm. Settings, sessions and
logins stay as they are."""
UNINSTALL = """Show how to remove this sagent and what stays of it, and remove it once you confirm. Without --data your
settings and sessions stay."""
_NAMED = ("SAGENT_STATE_DIR", "SAGENT_CONFIG")


def run_update(argv: Sequence[str]) -> int:
    """Update this installation. Raises UsageError."""
    parser = Parser("update", UPDATE)
    parser.add_argument("--yes", action="store_true", help="update without asking")
    parser.add_argument("--json", action="store_true", help="only show it, as JSON")
    options, installation = parser.parse_args(argv), find_installation()
    show(
        {
            **_facts(installation),
            "update": list(map(shlex.join, installation.update)),
            "note": installation.update_note,
        },
        [*_lines(installation), *map(shlex.join, installation.update)],
        as_json=options.json,
    )
    if options.json:
        return 0
    if not installation.update:
        report(installation.update_note)
        return 1
    if not options.yes and not _agreed("Run this?"):
        return 1
    if code := _run(installation.update):
        return code
    new = subprocess.run([sys.executable, "-m", "sagent", "--version"], capture_output=True, text=True, check=False)
    write(binary_safe(sys.stdout), [f"Before: sagent {__version__}. Now: {new.stdout.strip() or new.stderr.strip()}."])
    return 0


def run_uninstall(argv: Sequence[str]) -> int:
    """Remove this installation, and on request its data. Raises UsageError."""
    parser = Parser("uninstall", UNINSTALL)
    parser.add_argument("--data", action="store_true", help="also delete settings, sessions, logs and stored models")
    parser.add_argument("--yes", action="store_true", help="remove it without asking")
    parser.add_argument("--json", action="store_true", help="only show it, as JSON")
    options, installation, folders = parser.parse_args(argv), find_installation(), list(_folders())
    named = [f"{name} names {os.environ[name]}, which stays." for name in _NAMED if os.environ.get(name)]
    data = {str(folder): _size(folder) for folder in folders}
    fate = "is deleted" if options.data else "stays"
    show(
        {
            **_facts(installation),
            "remove": list(map(shlex.join, installation.remove)),
            "note": installation.remove_note,
            "data": data,
        },
        [
            *_lines(installation),
            *map(shlex.join, installation.remove),
            *(f"{folder} {fate} ({size / 1e6:,.1f} MB)." for folder, size in data.items()),
            *named,
            "A key that `sagent login` stored in the system's keyring stays there, as the entry sagent.",
        ],
        as_json=options.json,
    )
    if options.json:
        return 0
    if options.data:
        _check_unused(folders)
    elif not installation.remove:
        report(installation.remove_note)
        return 1
    if not options.yes and not _agreed("Remove it?"):
        return 1
    for folder in folders if options.data else ():
        try:
            shutil.rmtree(folder)
        except OSError as error:
            raise UsageError(f"{error.filename or folder} cannot be deleted: {error.strerror or error}.") from error
    code = _run(installation.remove)
    report(*filter(None, [installation.remove_note]))
    return code


def _facts(installation: Installation) -> dict[str, object]:
    return {
        "version": __version__,
        "installer": installation.installer,
        "place": str(installation.place),
        "from": installation.source,
    }


def _lines(installation: Installation) -> list[str]:
    source = f", from {installation.source}" if installation.source else ""
    return [f"sagent {__version__}, installed with {installation.installer} in {installation.place}{source}"]


def _agreed(question: str) -> bool:
    """Return True if the person says yes. Raises UsageError if no one can be asked."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("There is no terminal to ask on: run the lines above, or give --yes.")
    sys.stdout.write(f"{question} [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _run(commands: Sequence[Words]) -> int:
    """Run commands until one fails; return its exit code. Raises UsageError if one cannot be started."""
    for command in commands:
        try:
            if code := subprocess.call(command):
                report(f"It failed with code {code}: {shlex.join(command)}")
                return 1
        except OSError as error:
            raise UsageError(f"{command[0]} cannot be run: {error.strerror or error}. {shlex.join(command)}") from error
    return 0


def _folders() -> Iterator[Path]:
    """Yield sagent's own existing directories of settings and of sessions. Others that were named, and the targets of
    links, may hold more than sagent's files."""
    home = home_of(os.environ)
    for kind in ("config", "state"):
        folder = directory(kind, os.environ, home)
        if folder.is_dir() and not folder.is_symlink():
            yield folder


def _size(folder: Path) -> int:
    """Return the size of a directory's files in bytes."""
    files = (Path(at, name) for at, _, names in os.walk(folder) for name in names)
    return sum(file.lstat().st_size for file in files)


def _check_unused(folders: Sequence[Path]) -> None:
    """Raise UsageError if a session is in use."""
    for folder in folders:
        if used := next((path for path in sessions(folder) if in_use(path)), None):
            raise UsageError(f"The session {used.name} is in use: close it first.")
