"""A program that is killed while it reads a folder or a repository leaves nothing that stays."""

from pathlib import Path

from tests.sandbox.test_killed_leavings import check_leavings, place

__all__ = ["place"]

FETCHED = """
from sagent.plugins.imports.folders import fetched
with fetched("project", ""): ready()
"""


def test_folder_copy_removed(tmp_path: Path, place: Path) -> None:
    check_leavings(tmp_path, place, FETCHED)
