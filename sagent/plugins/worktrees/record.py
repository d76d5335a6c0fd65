"""The records of the worktrees that sagent has made: one file for each, beside its directory."""

import json
import os
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path

from sagent.context.instructions import repository_root
from sagent.errors import UsageError
from sagent.lib import flock
from sagent.lib.atomic import atomic_write
from sagent.lib.dataclass import dataclass
from sagent.lib.git import is_git_directory, work_tree_directories
from sagent.lib.json import as_object, as_str, json_dump, sha256_hex
from sagent.lib.regular import read_regular

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MAX_RECORD_BYTES = 100_000
PREFIX = "sagent/"
"""Beginning of the names of branches."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A work tree of a person, and the directory for worktrees of its repository."""

    root: Path
    home: Path

    def record_file(self, name: str) -> Path:
        """The file of a worktree's record."""
        return self.home / f"{name}.json"


@dataclass(frozen=True, slots=True)
class Record:
    """A worktree. `head` is the commit at which its branch began, and `base` one with its files as they were when work
    began, `head` itself if those were the same. `purpose` says what works in it.

    One that `ended` is not in the `making`, and whatever worked in it has ended in order.
    """

    name: str
    root: Path
    path: Path
    head: str = ""
    base: str = ""
    purpose: str = "run"
    state: str = "making"

    @property
    def branch(self) -> str:
        """The name of its branch."""
        return f"{PREFIX}{self.name}"

    @property
    def ref(self) -> str:
        """The reference by which git keeps `base`."""
        return f"refs/sagent/worktrees/{self.name}"

    @property
    def file(self) -> Path:
        return self.path.with_name(f"{self.name}.json")

    @property
    def lock(self) -> Path:
        return self.path.with_name(f"{self.name}.lock")

    def write(self, state: str = "") -> "Record":
        """Save it, and return it in this state. Raises UsageError."""
        made = replace(self, state=state or self.state)
        try:
            _make_home(self.path.parent)
            with atomic_write(self.file) as file:
                file.write(json_dump({name: str(value) for name, value in asdict(made).items()}).encode())
        except OSError as error:
            raise UsageError(f"The worktree {self.name} cannot be noted in {self.file}: {error.strerror}.") from error
        return made


def home_of(cwd: Path, state_dir: Path) -> Path:
    """Return the directory for worktrees of the repository of a directory, which must be in one."""
    root = repository_root(cwd) or cwd
    shared = os.path.realpath(work_tree_directories(root)[1])
    name = os.path.basename(os.path.dirname(shared) if shared.endswith("/.git") else shared)  # noqa: PTH119, PTH120 -- a text path
    folder = f"{re.sub(r'[^A-Za-z0-9_-]+', '-', name) or 'repository'}-{sha256_hex(os.fsencode(shared))[:10]}"
    return state_dir.with_name(f"{state_dir.name}-worktrees") / folder


def _make_home(home: Path) -> None:
    """Make a directory for worktrees, which nobody else may enter."""
    home.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    home.mkdir(mode=0o700, exist_ok=True)


def repository_at(cwd: Path, state_dir: Path) -> Repository:
    """Return the repository of a directory. Raises UsageError if worktrees of it cannot be made."""
    root = repository_root(cwd)
    if root is None:
        if is_git_directory(cwd):
            raise UsageError(f"{cwd} is a bare repository, which has no files to work on: start in a clone of it.")
        raise UsageError(f"{cwd} is in no git repository, and a worktree needs one: run `git init` and commit first.")
    shared = os.path.realpath(work_tree_directories(root)[1])
    if not is_git_directory(shared):
        raise UsageError(f"{root} has a .git that leads to no repository: repair or remove {root / '.git'}.")
    return Repository(root, home_of(cwd, state_dir))


def records(repository: Repository) -> Iterator[Record]:
    """Yield the worktrees of a repository, by name."""
    with suppress(OSError):
        for file in sorted(repository.home.glob("*.json")):
            with suppress(OSError, ValueError):
                yield read_record(file)


def read_record(file: Path) -> Record:
    """Read a record. Raises OSError, and ValueError for a file that is none."""
    body = as_object(json.loads(read_regular(file, max_bytes=MAX_RECORD_BYTES)))
    text = {name: as_str(body.get(name)) for name in Record.__slots__}
    path = Path(text["path"])
    if not NAME.fullmatch(text["name"]) or path != file.with_suffix("") or not text["root"]:
        raise ValueError("not the record of a worktree")
    return Record(**{**text, "root": Path(text["root"]), "path": path})  # pyright: ignore[reportArgumentType]


def find_record(repository: Repository, name: str) -> Record:
    """Return a worktree by its name. Raises UsageError that names the others."""
    try:
        return read_record(repository.record_file(name))
    except (OSError, ValueError):
        known = ", ".join(record.name for record in records(repository)) or "none"
        raise UsageError(f"There is no worktree {name!r} of {repository.root}. There are: {known}.") from None


@contextmanager
def holding(record: Record) -> Generator[None]:
    """Hold a worktree while something works in it. Raises UsageError if another process does."""
    _make_home(record.path.parent)
    descriptor = os.open(record.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            flock.lock(descriptor)
        except BlockingIOError:
            raise UsageError(f"The worktree {record.name} is in use by another process: {record.path}.") from None
        if not record.lock.exists() or not os.path.samestat(os.fstat(descriptor), record.lock.stat()):
            raise UsageError(f"The worktree {record.name} was removed by another process: try again.")
        yield
    finally:
        os.close(descriptor)


def is_held(record: Record) -> bool:
    """Return True while something works in a worktree."""
    try:
        with holding(record):
            return False
    except UsageError:
        return True
