"""A copy of a working directory in which tools may do anything, so that the person's own stays untouched."""

import asyncio
import os
import shutil
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path

from sagent.context.instructions import repository_root
from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.git import git_call
from sagent.lib.process import run
from sagent.sandbox.scratch import temporary

MAX_COPY_BYTES = 500 << 20
MAX_COPY_FILES = 50_000


@dataclass(frozen=True, slots=True)
class Scratch:
    """The copy, and a description of its source."""

    directory: Path
    how: str


@asynccontextmanager
async def scratch_of(origin: Path, commit: str = "", keep: Path | None = None) -> AsyncGenerator[Scratch]:
    """Yield a temporary copy of a directory: a clone at `commit`, if it exists, else the present tree. `keep` names a
    new directory to keep it in instead.

    Raises UsageError for a missing directory, or one too large to copy, and OSError.
    """
    if not origin.is_dir():
        raise UsageError(
            f"{origin}, where the session was recorded, does not exist: there is nothing to copy for --live-tools."
        )
    if keep is not None and keep.exists():
        raise UsageError(f"--keep {keep} exists already: choose a new directory.")
    with nullcontext(keep) if keep is not None else temporary() as home:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield await _fill(home.absolute() / origin.name, origin, commit)


async def _fill(target: Path, origin: Path, commit: str) -> Scratch:
    root = repository_root(origin)
    if commit and root is not None and await _clone(root, target, commit):
        inside = target / origin.resolve().relative_to(root.resolve())
        inside.mkdir(parents=True, exist_ok=True)
        return Scratch(inside, f"a clone at the recorded commit {commit[:12]}")
    await asyncio.to_thread(remove, target)
    await asyncio.to_thread(_check_size, origin)
    await copy(origin, target)
    unrecorded = "no commit was recorded, or there were changes that it does not have"
    why = f"commit {commit[:12]} does not exist here" if commit else unrecorded
    return Scratch(target, f"a copy of {origin} as it is now ({why})")


async def _clone(root: Path, target: Path, commit: str) -> bool:
    """Make an independent clone, from which nothing can be pushed back. Return False without the commit, or git."""
    if not all(letter in "0123456789abcdef" for letter in commit):
        return False
    steps = (
        (root, "cat-file", "-e", f"{commit}^{{commit}}"),
        (root, "clone", "--quiet", "--no-checkout", "--no-hardlinks", str(root.resolve()), str(target.absolute())),
        (target, "remote", "remove", "origin"),
        (target, "checkout", "--quiet", "--detach", commit),
    )
    for directory, *arguments in steps:
        call = git_call(directory, *arguments)
        done = await run(call.argv, env=call.environment) if call else None
        if done is None or done.code:
            return False
    return True


def _check_size(origin: Path) -> None:
    size = files = 0
    for directory, _, names in os.walk(origin):
        for name in names:
            files += 1
            path = Path(directory, name)
            size += 0 if path.is_symlink() else path.stat().st_size
        if size > MAX_COPY_BYTES or files > MAX_COPY_FILES:
            raise UsageError(
                f"{origin} is too large to be copied for --live-tools: more than {MAX_COPY_BYTES >> 20} MB or "
                f"{MAX_COPY_FILES} files. Commit its state before a run: then a clone is made instead."
            )


def remove(place: Path) -> None:
    """Remove a directory with its contents, even with changed permissions."""
    if not place.is_dir() or place.is_symlink():
        return
    for directory, names, _ in os.walk(place):
        for name in names:
            path = Path(directory, name)
            if not path.is_symlink():
                with suppress(OSError):
                    path.chmod(0o700)
    shutil.rmtree(place, ignore_errors=True)


class _OverError(Exception):
    """The copy is no longer wanted."""


async def copy(source: Path | None, target: Path) -> None:
    """Copy a directory, or make an empty one, at a new path. Links into the original lead into the copy, so that work
    in the copy cannot change the original. Raises OSError."""
    if source is None:
        target.mkdir()
        return
    over = threading.Event()
    work = asyncio.create_task(asyncio.to_thread(_copy, source, target, over))
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        over.set()
        await asyncio.wait([work])
        work.exception()
        raise


def _copy(source: Path, target: Path, over: threading.Event) -> None:
    def step(source: str, target: str) -> str:
        if over.is_set():
            raise _OverError
        return shutil.copy2(source, target)

    shutil.copytree(source, target, symlinks=True, copy_function=step)
    origin = os.path.realpath(source)
    for directory, names, files in os.walk(target):
        for name in (*names, *files):
            link = Path(directory, name)
            if not link.is_symlink():
                continue
            leads = os.path.realpath(link.readlink()) if link.readlink().is_absolute() else ""
            if leads == origin or leads.startswith(origin + os.sep):
                inside = target / os.path.relpath(leads, origin)
                link.unlink()
                link.symlink_to(os.path.relpath(inside, directory))
