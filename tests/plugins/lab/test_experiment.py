"""The copies that runs work in."""

import asyncio
import os
from pathlib import Path

import pytest

from sagent.plugins.lab.workcopy import copy, remove
from tests.waiting import until


async def test_copy_whole_without_links_back(tmp_path: Path) -> None:
    source, target = (tmp_path / "source").resolve(), tmp_path / "target"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "run.sh").write_text("#!/bin/sh\n")
    (source / "deep" / "run.sh").chmod(0o755)
    (source / "file").write_text("original")
    (source / "near").symlink_to("file")
    (source / "far").symlink_to(source / "file")
    (source / "deep" / "up").symlink_to(source)
    (source / "out").symlink_to("/dev/null")
    (source / "nowhere").symlink_to("gone")
    await copy(source, target)
    assert os.access(target / "deep" / "run.sh", os.X_OK)
    for link in ("near", "far"):
        (target / link).write_text("changed")
        (source / "file").write_text("original")
        assert (target / link).resolve() == (target / "file").resolve()
    assert (target / "deep" / "up").resolve() == target.resolve()
    assert (target / "out").readlink() == Path("/dev/null")
    assert (target / "nowhere").readlink() == Path("gone")
    assert (source / "file").read_text() == "original"


async def test_missing_directory_gives_empty_copy(tmp_path: Path) -> None:
    await copy(None, tmp_path / "target")
    assert list((tmp_path / "target").iterdir()) == []


@pytest.mark.needs("not-root")
async def test_failed_copy_reported(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").write_text("x")
    (tmp_path / "source" / "file").chmod(0)
    with pytest.raises(OSError, match="Permission denied"):
        await copy(tmp_path / "source", tmp_path / "target")


async def test_cancelled_copy_stops(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(3_000):
        (source / str(number)).write_text("x")
    task = asyncio.create_task(copy(source, tmp_path / "target"))
    await until((tmp_path / "target").exists, task=task, pause=0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    left = len(list((tmp_path / "target").iterdir()))
    await asyncio.sleep(0.05)
    assert len(list((tmp_path / "target").iterdir())) == left < 3_000


def test_workplace_always_removed(tmp_path: Path) -> None:
    place, outside = tmp_path / "place", tmp_path / "outside"
    (place / "shut" / "deep").mkdir(parents=True)
    (place / "shut" / "deep" / "file").write_text("x")
    outside.mkdir(mode=0o500)
    (place / "link").symlink_to(outside)
    (place / "shut" / "deep").chmod(0)
    (place / "shut").chmod(0)
    remove(place)
    assert not place.exists()
    assert outside.stat().st_mode & 0o777 == 0o500
    remove(place)
