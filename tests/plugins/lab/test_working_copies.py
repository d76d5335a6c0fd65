"""A copy of a repository for a run: nothing in it is run by making it, and it goes with who made it."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from sagent.plugins.lab.workcopy import scratch_of
from tests.lib.test_git import PLANTED, plant, repository
from tests.sandbox.test_killed_leavings import check_leavings, place

__all__ = ["place", "repository"]  # fixtures
COPY = """
import asyncio
from pathlib import Path
from sagent.plugins.lab.workcopy import scratch_of
async def main():
    async with scratch_of(Path("project")): ready()
asyncio.run(main())
"""


def test_killed_copy_removed(tmp_path: Path, place: Path) -> None:
    check_leavings(tmp_path, place, COPY)


def clone(repository: Path) -> None:
    head = subprocess.check_output(["git", "-C", str(repository), "rev-parse", "HEAD"], text=True).strip()
    (repository / "made").unlink(missing_ok=True)

    async def copied() -> None:
        async with scratch_of(repository, head) as scratch:
            assert (scratch.directory / "a.txt").exists()

    asyncio.run(copied())


@pytest.mark.parametrize("what", PLANTED)
def test_configured_programs_not_run(repository: Path, what: str) -> None:
    made = plant(repository, what)
    clone(repository)
    assert not made.exists()
