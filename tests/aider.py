"""aider, installed once from its package into an environment of its own in the user's cache directory."""

import fcntl
import os
import subprocess
import venv
from pathlib import Path

PACKAGE = "aider-chat==0.86.2"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sagent-aider"


def installed() -> Path:
    """Return the directory of its programs. Raises CalledProcessError or OSError if it cannot be installed."""
    home = CACHE / PACKAGE
    home.mkdir(parents=True, exist_ok=True)
    done = home / "installed"
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            venv.create(home, with_pip=True)
            argv = [home / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PACKAGE]
            subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            done.touch()
    return home / "bin"
