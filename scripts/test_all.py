"""Run the suite on every other installed Python from 3.12 up, each in a virtual environment of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

LEAST = (3, 12)


def main() -> int:
    """Test on each; the exit code is the first failure's."""
    found = interpreters()
    if not found:
        sys.stdout.write("No other Python from 3.12 up is installed; nothing more to test.\n")
    for version, python in sorted(found.items()):
        sys.stdout.write(f"== Python {'.'.join(map(str, version))}\n")
        sys.stdout.flush()
        venv = Path(f".venv-{version[0]}.{version[1]}")
        steps = (
            [python, "-m", "venv", str(venv)],
            [f"{venv}/bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", "constraints.txt",
             "-e", ".[dev]"],
            [f"{venv}/bin/python", "scripts/suite.py"],
        )  # fmt: skip
        for step in steps:
            if code := subprocess.run(step, check=False).returncode:
                return code
    return 0


def interpreters() -> dict[tuple[int, ...], str]:
    """The newest patch of each minor version found on PATH or in pyenv, this interpreter's own minor left out."""
    candidates = [shutil.which(f"python3.{minor}") for minor in range(LEAST[1], 20)]
    root = os.environ.get("PYENV_ROOT") or str(Path.home() / ".pyenv")
    candidates += map(str, Path(root).glob("versions/3.*/bin/python3"))
    by_minor: dict[int, tuple[tuple[int, ...], str]] = {}
    for python in filter(None, candidates):
        version = version_of(python)
        if version and version >= LEAST and version[:2] != sys.version_info[:2]:
            by_minor[version[1]] = max(by_minor.get(version[1], ((0,), "")), (version, python))
    return dict(by_minor.values())


def version_of(python: str) -> tuple[int, ...] | None:
    """The version of an interpreter, or None for a pyenv shim that leads nowhere, a pre-release or one without venv."""
    ask = "import sys, venv, ensurepip; i = sys.version_info; print(*i[:3], i.releaselevel)"
    done = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
    words = done.stdout.split()
    if done.returncode or words[3:] != ["final"]:
        return None
    return tuple(map(int, words[:3]))


if __name__ == "__main__":
    sys.exit(main())
