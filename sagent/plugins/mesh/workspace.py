"""A session's files between machines: by git, in a directory shared by all nodes, or not at all.

With git, the repository's history travels, and after each call with changes a commit of all files that git does not
ignore, as a bundle relative to the earlier ones (git-bundle(1)). The index, stashes and other branches stay behind.
"""

import asyncio
import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from sagent.errors import UsageError
from sagent.lib.git import git_call
from sagent.lib.json import as_object, as_str, json_load
from sagent.plugins.mesh.buckets import Store
from sagent.plugins.mesh.records import FilesKind
from sagent.sandbox.scratch import temporary
from sagent.session.log import make_directory

_LINKS = 20  # bundles in a chain; the next one builds on the first alone
_LOOKED_AT = 50  # commits of a history that are looked for on the bus
_WHO = {
    **{f"GIT_{role}_NAME": "sagent" for role in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{role}_EMAIL": "sagent@localhost" for role in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{role}_DATE": "2000-01-01T00:00:00Z" for role in ("AUTHOR", "COMMITTER")},
}
"""Fixed author and date, so that the same files after the same commit always give the same commit."""


class Snapshot(NamedTuple):
    """Files as a commit: either the checked-out one (`head`), or one after it."""

    commit: str
    head: str
    branch: str
    name: str = ""
    bundle: bytes = b""


class Files:
    """The files of one session on a node: in its own directory, or in one that nodes share."""

    def __init__(self, store: Store, kind: FilesKind, directory: Path, shared: Sequence[Path] = ()) -> None:
        self._store, self._kind, self._directory, self._shared = store, kind, directory, shared
        self._chain: list[tuple[str, str]] = []  # names of the bundles that the files build on, each with its commit
        self._lock = asyncio.Lock()

    async def restore(self, name: str) -> Path:
        """Restore the files of this name, "" for none. Return the directory to work in. Raises UsageError and
        Unavailable."""
        if self._kind == "shared":
            wanted = Path(name).resolve()
            if not wanted.is_dir() or not any(wanted.is_relative_to(place.resolve()) for place in self._shared):
                raise UsageError(f"{name} is not a directory that this node shares (sagent node --shared DIR).")
            return wanted
        if self._kind == "git":
            await asyncio.to_thread(shutil.rmtree, self._directory, ignore_errors=True)
        make_directory(self._directory)
        if self._kind == "git" and name:
            bundles = await _fetch(self._store, name)
            await asyncio.to_thread(_check_out, self._directory, bundles)
            self._chain = [(bundle.name, bundle.commit) for bundle in bundles]
        return self._directory

    async def keep(self) -> str:
        """Store the files as they are now; return their name, "" if they do not travel. Raises Unavailable."""
        if self._kind != "git" or not self._chain:
            return ""
        async with self._lock:
            made = await asyncio.to_thread(_snapshot, self._directory)
            if made is not None and made.commit != self._chain[-1][1]:
                chain = self._chain if len(self._chain) < _LINKS else self._chain[:1]
                name = f"git.{self._directory.name}.{made.commit}"
                await _put(self._store, self._directory, name, made, chain)
                self._chain = [*chain, (name, made.commit)]
            return self._chain[-1][0]


async def offer(store: Store, directory: Path) -> str:
    """Store a repository: its history, if missing, and uncommitted files. Return the name of its present files. Raises
    UsageError and Unavailable."""
    known = await asyncio.to_thread(_history, directory)
    head, chain = known[0], list[tuple[str, str]]()
    for commit in known:
        if await store.has(f"git.{commit}"):
            chain = [(f"git.{commit}", commit)]
            break
    if chain[:1] != [(f"git.{head}", head)]:
        branch = await asyncio.to_thread(_branch, directory)
        await _put(store, directory, f"git.{head}", Snapshot(head, head, branch), chain)
    made = await asyncio.to_thread(_snapshot, directory)
    if made is None or await asyncio.to_thread(_same_tree, directory, made.commit, head):
        return f"git.{head}"
    if not await store.has(name := f"git.{made.commit}"):
        await _put(store, directory, name, made, [(f"git.{head}", head)])
    return name


async def fetch_changes(store: Store, name: str, directory: Path, session: str) -> str:
    """Fetch a session's files as a reference in their repository; return it, "" if this is another repository. Raises
    UsageError, Unavailable."""
    bundles = await _fetch(store, name)
    reference = f"refs/sagent/{session}"

    def take() -> bool:
        if not _git(directory, "cat-file", "-t", bundles[0].commit, worst=255):
            return False
        _unbundle(directory, bundles)
        _git(directory, "update-ref", reference, bundles[-1].commit)
        return True

    return reference if await asyncio.to_thread(take) else ""


async def _put(store: Store, directory: Path, name: str, snapshot: Snapshot, chain: list[tuple[str, str]]) -> None:
    bundle = await asyncio.to_thread(_bundle, directory, snapshot.commit, [commit for _, commit in chain])
    after = chain[-1][0] if chain else ""
    description = {"commit": snapshot.commit, "head": snapshot.head, "branch": snapshot.branch, "after": after}
    await store.put(name, json.dumps(description).encode() + b"\n" + bundle)


async def _fetch(store: Store, name: str) -> list[Snapshot]:
    """Return the bundles that a state of the files consists of, in order."""
    found: list[Snapshot] = []
    while name:
        if len(found) > _LINKS + _LOOKED_AT or (data := await store.get(name)) is None:
            raise UsageError(f"The session's files are no longer on the bus: {name}.")
        line, _, bundle = data.partition(b"\n")
        try:
            said = as_object(json_load(line))
        except ValueError as error:
            raise UsageError(f"The session's files on the bus cannot be read: {name}: {error}.") from error
        commit, head, branch = (as_str(said.get(key)) for key in ("commit", "head", "branch"))
        found.append(Snapshot(commit, head, branch, name, bundle))
        name = as_str(said.get("after"))
    return found[::-1]


def _history(directory: Path) -> list[str]:
    """Return the last commits, the latest first."""
    root = _git(directory, "rev-parse", "--show-toplevel")
    if Path(root).resolve() != directory.resolve():
        raise UsageError(f"{directory} is inside the repository {root}: start in {root}, so that all of it is sent.")
    try:
        return _git(directory, "rev-list", "--first-parent", f"-n{_LOOKED_AT}", "HEAD").split()
    except UsageError:
        raise UsageError(f"{directory} has no commit yet. Make one, or send no files: --files none.") from None


def _branch(directory: Path) -> str:
    try:
        return _git(directory, "symbolic-ref", "-q", "--short", "HEAD")
    except UsageError:
        return ""


def _same_tree(directory: Path, commit: str, other: str) -> bool:
    return _git(directory, "rev-parse", f"{commit}^{{tree}}") == _git(directory, "rev-parse", f"{other}^{{tree}}")


def _snapshot(directory: Path) -> Snapshot | None:
    """Return a commit of all files that are not ignored, on top of the checked-out one, and the branch; None if the
    repository is gone."""
    if not (directory / ".git").exists():
        return None
    with temporary() as aside:
        index = aside / "index"
        own = Path(_git(directory, "rev-parse", "--absolute-git-dir")) / "index"
        if own.exists():
            shutil.copy2(own, index)  # so that git rereads only changed files, by the index's time
        listed = _git(directory, "ls-files", "--stage", "-z").split("\0")
        links = (line.partition("\t")[2] for line in listed if line.startswith("160000 "))
        # Git would look into submodules, by another git.
        words = ("-A", "--ignore-errors", "--", ".", *(f":(exclude,literal){path}" for path in links))
        _git(directory, "add", *words, more={"GIT_INDEX_FILE": str(index)}, worst=1)
        tree = _git(directory, "write-tree", more={"GIT_INDEX_FILE": str(index)})
    head = _git(directory, "rev-parse", "-q", "--verify", "HEAD", worst=255)
    parent = ("-p", head) if head else ()
    commit = _git(directory, "commit-tree", tree, *parent, "-m", "files", more=_WHO)
    return Snapshot(commit, head, _branch(directory))


def _bundle(directory: Path, commit: str, known: list[str]) -> bytes:
    with temporary() as aside:
        file = aside / "bundle"
        name = f"refs/sagent/{aside.parent.name}"  # git bundles need a reference; others may be made at the same time
        _git(directory, "update-ref", name, commit)
        try:
            _git(directory, "bundle", "create", "-q", str(file), name, *(f"^{each}" for each in known))
        finally:
            _git(directory, "update-ref", "-d", name)
        return file.read_bytes()


def _unbundle(directory: Path, bundles: list[Snapshot]) -> None:
    with temporary() as aside:
        file = aside / "bundle"
        for bundle in bundles:
            if not _git(directory, "cat-file", "-t", bundle.commit, worst=255):
                file.write_bytes(bundle.bundle)
                _git(directory, "bundle", "unbundle", str(file))


def _check_out(directory: Path, bundles: list[Snapshot]) -> None:
    _git(directory, "init", "-q")
    _unbundle(directory, bundles)
    last = bundles[-1]
    head = last.head or last.commit
    _git(directory, "checkout", "-q", *(("-B", last.branch) if last.branch else ("--detach",)), head)
    _git(directory, "read-tree", "-u", "--reset", last.commit)
    _git(directory, "read-tree", head)
    _git(directory, "update-index", "-q", "--refresh", worst=255)


def _git(directory: Path, *arguments: str, more: Mapping[str, str] | None = None, worst: int = 0) -> str:
    """Run git and return its output. Raises UsageError if it fails: by an exit code beyond `worst`."""
    if (call := git_call(directory, *arguments)) is None:
        raise UsageError(
            f"The repository {directory} names filters or other files in its configuration, so its files cannot be "
            "sent by git. Use --files shared or none."
        )
    done = subprocess.run(
        call.argv, env={**call.environment, **(more or {})}, capture_output=True, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode > worst:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["it gives no reason"]
        raise UsageError(f"git {arguments[0]} has failed in {directory}: {said[-1]}")
    return done.stdout.decode("utf-8", "replace").strip()
