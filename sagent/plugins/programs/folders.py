"""Folders of demos: keep or remove them, and compare the files of two folders."""

import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from sagent.lib import flock
from sagent.lib.signals import handled_signals

PREFIX = "sagent-demo-"
MAX_COLUMNS, MAX_ROWS = 160, 400  # where there is no terminal; of a change
_RUNNING = ".running"  # is in a folder until its demo has ended, and locked while that lives


@contextmanager
def demo_folder() -> Generator[Path]:
    """Yield a new folder with temporary files. The person can look at it later, unless a signal ends the demo.

    Folders of killed demos are removed first. Raises OSError.
    """
    _remove_abandoned(Path(tempfile.gettempdir()))
    exit_on_signals()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        with (folder / f"{_RUNNING}.new").open("wb") as file:
            _lock(file.fileno())
            running = Path(file.name).rename(folder / _RUNNING)  # locked before others see it
            yield folder
            running.unlink(missing_ok=True)
    except (KeyboardInterrupt, SystemExit):
        shutil.rmtree(folder, ignore_errors=True)
        raise


def exit_on_signals() -> None:
    """Have signals raise SystemExit, or KeyboardInterrupt, so that this process leaves nothing behind."""
    for number in handled_signals():
        if number != signal.SIGINT:  # Python raises by itself
            signal.signal(number, lambda number, _: sys.exit(128 + number))


def _remove_abandoned(directory: Path) -> None:
    for folder in directory.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            file = os.open(folder / _RUNNING, os.O_RDONLY | os.O_NOFOLLOW)
            with os.fdopen(file) as running:
                if folder.stat(follow_symlinks=False).st_uid == os.geteuid() and _lock(running.fileno()):
                    shutil.rmtree(folder, ignore_errors=True)


def _lock(file: int) -> bool:
    """Lock a file; return False if another process has it locked. Raises OSError."""
    try:
        flock.lock(file)
    except BlockingIOError:
        return False
    return True


def show_changes(before: Path, after: Path, out: TextIO) -> Iterator[str]:
    """Yield rows that show how the files that lie in both folders differ, as the REPL draws changes; in colours if
    `out` is a terminal."""
    from sagent.lib.diff import unified
    from sagent.repl.view.diff import changes, render_diff
    from sagent.repl.view.lines import plain
    from sagent.repl.view.sgr import styled

    width = max(shutil.get_terminal_size().columns - 1, 40) if out.isatty() else MAX_COLUMNS
    coloured = out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    for old in sorted(before.iterdir()):
        new = after / old.name
        if not (old.is_file() and new.is_file()):
            continue
        if diff := unified(*(each.read_text("utf-8").splitlines() for each in (old, new))):
            found = changes(diff)
            head = (("class:argument", old.name), ("class:dim", f" · +{found.added} -{found.removed}"))
            rows = [head, *render_diff(f"--- a/{old.name}\n+++ b/{old.name}\n{diff}\n", width, max_lines=MAX_ROWS)]
            yield from (styled(row, "auto") if coloured else plain([row]).rstrip() for row in rows)
