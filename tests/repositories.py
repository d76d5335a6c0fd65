"""Repositories made once, and copied for each test that changes them: to make them takes tens of runs of git."""

import shutil
from pathlib import Path


def copy_repositories(made: Path, place: Path) -> None:
    """Copy a directory with repositories into an empty one. Their links to each other, which git writes as whole paths,
    lead into the copy."""
    samples = shutil.ignore_patterns("*.sample")
    shutil.copytree(made, place, symlinks=True, ignore=samples, dirs_exist_ok=True)
    old, new = bytes(made), bytes(place)
    for path in place.rglob("*"):
        if path.is_file() and not path.is_symlink() and old in (data := path.read_bytes()):
            path.write_bytes(data.replace(old, new))
