"""Protected names that no mount can hold, since nothing lies there yet: what a command makes of one is taken back."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path


class Guard:
    """Looks before a command at the protected paths that are missing or are links, and after it takes back what is new.

    What is taken back is moved to `aside`, a directory on whatever disk, and nothing of it is lost.
    """

    def __init__(self, protected: Iterable[str], aside: Path) -> None:
        self._aside = aside
        self._before = {path: _link(path) for path in protected if _is_loose(path)}

    def take_back(self) -> list[str]:
        """The paths that were made or changed, none of which is there any more."""
        return [path for path, link in self._before.items() if _link(path) != link and self._moved(path, link)]

    def _moved(self, path: str, link: str | None) -> bool:
        if os.path.lexists(path):
            self._aside.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.move(path, self._aside / f"{os.urandom(4).hex()}-{Path(path).name}")
        if link:
            Path(path).symlink_to(link)
        return True


def _is_loose(path: str) -> bool:
    """Whether no mount holds a path, although it might come to be: what it lies in is there."""
    place = Path(path)
    return place.is_symlink() or (not os.path.lexists(path) and place.parent.is_dir())


def _link(path: str) -> str | None:
    """None where there is nothing, where a link leads, else ""."""
    place = Path(path)
    if place.is_symlink():
        return str(place.readlink())
    return "" if os.path.lexists(path) else None
