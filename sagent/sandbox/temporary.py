"""Temporary files: in some directories commands see another one of their own, which others know by its real path."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

_MOST_LINKS = 40  # out of such a directory and back


def seen_by_commands(path: Path, temporary: Mapping[str, Path], roots: Iterable[Path]) -> Path:
    """Where commands find what an absolute path names: in a directory of their own what is not there otherwise."""
    for place, own in temporary.items():
        elsewhere = not path.is_relative_to(place) or any(map(path.is_relative_to, (own, *roots)))
        if not elsewhere and not os.path.lexists(path):
            return own / path.relative_to(place)
    return path


def follow(path: Path, temporary: Mapping[str, Path], roots: Iterable[Path]) -> Path:
    """Where an absolute path leads, by links to what only commands see too."""
    roots, real = tuple(roots), Path(os.path.realpath(path))
    for _ in range(_MOST_LINKS):
        seen = seen_by_commands(real, temporary, roots)
        if seen == real:
            break
        real = Path(os.path.realpath(seen))
    return real
