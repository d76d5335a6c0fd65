"""Packages from PyPI that only some tests need, and no developer's environment.

They are installed once into the user's cache directory: under CI=true, where they are not there yet.
"""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.npm import GIVEN

CACHE = Path(GIVEN.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sagent-pypi"


def modules(*pinned: str) -> Path:
    """Return a folder for PYTHONPATH with those packages, each "name==version"; the test is skipped where they are not
    there and may not be installed."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    home = CACHE / version / "+".join(sorted(pinned))
    done = home / "installed"
    if not done.exists() and os.environ.get("CI") != "true":
        pytest.skip(f"needs {', '.join(pinned)} in {home}, where CI=true installs it")
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            argv = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]
            whole = [*argv, str(home / "modules"), *pinned]
            pip = subprocess.run(
                whole, stdin=subprocess.DEVNULL, env=GIVEN, capture_output=True, text=True, check=False
            )
            if pip.returncode:  # for one, a package without a wheel for this Python
                pytest.skip(
                    f"{', '.join(pinned)} cannot be installed for Python {version}: {pip.stderr.strip()[-300:]}"
                )
            done.touch()
    return home / "modules"
