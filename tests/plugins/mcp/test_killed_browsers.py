"""What a killed program leaves of a browser among temporary files is gone with the next session."""

import tempfile
from pathlib import Path

import pytest

from tests.sandbox.leavings import check_leavings

BROWSER = """
import os, tempfile
from pathlib import Path
from sagent.plugins.mcp.browser import start_browser
for name in ("playwright-mcp", "chromium"):
    Path(name).write_text("#!/bin/sh\\nprintf ready; exec cat\\n"); Path(name).chmod(0o755)
start_browser([], {"PATH": f"{os.getcwd()}:{os.environ['PATH']}"})
"""


def test_killed_browser_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path.resolve() / "t"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    check_leavings(tmp_path, place, BROWSER)
