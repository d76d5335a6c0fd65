"""Space on the disk of a bus's store, and the part that the bus may use."""

import os
import shutil
from pathlib import Path
from typing import Self

from sagent.lib.dataclass import dataclass

_RESERVE_BYTES = 1 << 30  # bytes that a bus leaves free, or a tenth of the disk if that is less


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
        return min(_RESERVE_BYTES, self.size // 10)

    @property
    def limit(self) -> int:
        """Maximum bytes of the store. Half of the reserve is beyond it, because a server that meets a full disk during
        a write stops answering for that stream until its restart."""
        return max(1, self.used + self.free - self.reserve // 2)

    @property
    def is_full(self) -> bool:
        return self.free < self.reserve

    @property
    def is_enough(self) -> bool:
        """True if a stopped bus may continue: the threshold is above the one to stop at, or it would start and stop for
        ever."""
        return self.free >= self.reserve * 5 // 4
