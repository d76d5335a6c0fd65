"""Files of a session as they travel by git."""

import subprocess
from pathlib import Path

import pytest

from sagent.errors import UsageError
from sagent.plugins.mesh.workspace import Files, fetch_changes, offer
from tests.depth import later


class Shelf:
    """An object store, in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    async def has(self, name: str) -> bool:
        return name in self.kept

    async def put(self, name: str, data: bytes) -> None:
        self.kept[name] = data

    async def get(self, name: str) -> bytes | None:
        return self.kept.get(name)


def git(directory: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    return subprocess.run(["git", *who, *words], cwd=directory, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    place = tmp_path / "repository"
    place.mkdir()
    git(place, "init", "-q", "-b", "trunk")
    (place / "a").write_text("one\n")
    (place / ".gitignore").write_text("ignored\n")
    git(place, "add", ".")
    git(place, "commit", "-qm", "first")
    (place / "ä b").write_text("not in a commit\n")
    (place / "ignored").write_text("secret\n")
    (place / "a").write_text("two\n")
    return place


async def test_files_beside_submodule_travel(tmp_path: Path, repository: Path) -> None:
    git(repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(repository), "sub")
    git(repository, "commit", "-qm", "second")
    (repository / "sub" / "a").write_text("changed\n")
    (repository / "new").write_text("x")
    shelf = Shelf()
    base = await offer(shelf, repository)  # pyright: ignore[reportArgumentType]
    there = await Files(shelf, "git", tmp_path / "there").restore(base)  # pyright: ignore[reportArgumentType]
    assert (there / "new").read_text() == "x"
    assert (there / "a").read_text() == "two\n"


async def test_uncommitted_travels_ignored_stays(tmp_path: Path, repository: Path) -> None:
    shelf = Shelf()
    base = await offer(shelf, repository)  # pyright: ignore[reportArgumentType]
    before = git(repository, "status", "--porcelain", "--branch")
    files = Files(shelf, "git", tmp_path / "there")  # pyright: ignore[reportArgumentType]
    there = await files.restore(base)
    assert git(there, "status", "--porcelain", "--branch") == before
    assert git(there, "log", "--format=%s") == "first\n"
    assert not (there / "ignored").exists()
    assert await files.keep() == base  # nothing has changed

    (there / "a").unlink()
    (there / "new").write_text("x")
    (there / "new").chmod(0o755)
    git(there, "commit", "-qam", "second")
    (there / "new").write_text("y")
    now = await files.keep()
    again = await Files(shelf, "git", tmp_path / "elsewhere").restore(now)  # pyright: ignore[reportArgumentType]
    assert git(again, "log", "--format=%s", "trunk") == "second\nfirst\n"
    assert (again / "new").read_text() == "y"
    assert (again / "new").stat().st_mode & 0o100
    assert not (again / "a").exists()
    reference = await fetch_changes(shelf, now, repository, "s")  # pyright: ignore[reportArgumentType]
    assert git(repository, "show", f"{reference}:new") == "y"
    assert git(repository, "status", "--porcelain", "--branch") == before


@later
async def test_long_chain_restarts_without_resend(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sagent.plugins.mesh.workspace._LINKS", 4)
    shelf = Shelf()
    files = Files(shelf, "git", tmp_path / "there")  # pyright: ignore[reportArgumentType]
    there = await files.restore(await offer(shelf, repository))  # pyright: ignore[reportArgumentType]
    for number in range(10):
        (there / "a").write_text(f"{number}\n")
        name = await files.keep()
    again = await Files(shelf, "git", tmp_path / "again").restore(name)  # pyright: ignore[reportArgumentType]
    assert (again / "a").read_text() == "9\n"
    kept = set(shelf.kept)
    await offer(shelf, repository)  # pyright: ignore[reportArgumentType]
    assert set(shelf.kept) == kept


async def test_untransferable_files_explained(tmp_path: Path, repository: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "-q")
    with pytest.raises(UsageError, match="no commit yet"):
        await offer(Shelf(), empty)  # pyright: ignore[reportArgumentType]
    (repository / "below").mkdir()
    with pytest.raises(UsageError, match="is inside the repository"):
        await offer(Shelf(), repository / "below")  # pyright: ignore[reportArgumentType]
    with pytest.raises(UsageError, match="no longer on the bus"):
        await Files(Shelf(), "git", tmp_path / "there").restore("git.gone")  # pyright: ignore[reportArgumentType]
