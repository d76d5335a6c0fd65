"""Room on the disk where a bus keeps its store, and how much of it the bus may take."""

import os
import shutil
from pathlib import Path
from typing import Self

from sagent.lib.dataclass import dataclass

_RESERVE = 1 << 30  # bytes that a bus leaves free, or a tenth of the disk if that is less


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes that the store has, that are free on its disk, and that the disk has."""

    used: int
    free: int
    size: int

    @classmethod
    def of(cls, store: Path) -> Self:
        """Measure a store's disk. Raises OSError if there is no such directory."""
        disk, used = shutil.disk_usage(store), 0
        for folder, _, files in os.walk(store):
            for name in files:
                try:
                    used += os.lstat(os.path.join(folder, name)).st_blocks * 512  # noqa: PTH118 -- a path costs more
                except FileNotFoundError:
                    continue
        return cls(used, disk.free, disk.total)

    @property
    def reserve(self) -> int:
        return min(_RESERVE, self.size // 10)

    @property
    def limit(self) -> int:
        """Bytes that the store may have at most. Half of the reserve is beyond it: a server that meets a full disk in
        the middle of a write answers no more for that stream, until it is started again."""
        return max(1, self.used + self.free - self.reserve // 2)

    @property
    def is_full(self) -> bool:
        return self.free < self.reserve

    @property
    def is_enough(self) -> bool:
        """True if a bus that stood still goes on: at more than where it stops, or it would start and stop for ever."""
        return self.free >= self.reserve * 5 // 4
