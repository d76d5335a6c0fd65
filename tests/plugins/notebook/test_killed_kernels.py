"""What a killed program leaves of a kernel among temporary files is gone with the next session."""

import tempfile
from pathlib import Path

import pytest

from tests.depth import later
from tests.sandbox.leavings import check_leavings

KERNEL = """
import asyncio, sys
from sagent.plugins.notebook.driver import Driver
async def main():
    await Driver(sys.executable).run(1, "1 + 1", 60)
    ready()
asyncio.run(main())
"""


@later
def test_killed_kernel_files_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path.resolve() / "t"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    check_leavings(tmp_path, place, KERNEL)
