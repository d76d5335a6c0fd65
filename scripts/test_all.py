"""Run the suite on every other installed Python from 3.11 up, each in a virtual environment of its own.

The newest runs every case of every test at its whole depth, the oldest a quick run, as `make test` does. A version
between them runs quickly what its own library could break where an older and a newer one hold: the program and its
arguments, processes, event loops, sockets, files. Where no other Python is installed, this one runs it whole.
"""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

LEAST = (3, 11)
BETWEEN = ("cli", "lib", "session", "plugins/serve/test_serve.py", "tools/test_bash*.py")
Version = tuple[int, ...]


def main() -> int:
    """Test on each; the exit code is the first failure's."""
    found = interpreters()
    if not found:
        sys.stdout.write("No other Python from 3.11 up is installed: every test runs at its whole depth on this one.\n")
        return suite(sys.executable, "whole")
    with ThreadPoolExecutor() as pool:
        installed = pool.map(install, found.keys(), found.values())
    if code := max(map(abs, installed)):
        return code
    own = sys.version_info[:3]
    ends = {min(own, *found), max(own, *found)}
    deepest = max(ends & found.keys())
    for version in sorted(found):
        sys.stdout.write(f"== Python {'.'.join(map(str, version))}\n")
        sys.stdout.flush()
        tests = () if version in ends else (str(path) for name in BETWEEN for path in Path("tests").glob(name))
        if code := suite(f"{place(version)}/bin/python", "whole" if version == deepest else "quick", *tests):
            return code
    return 0


def place(version: Version) -> Path:
    """The virtual environment of a version."""
    return Path(f".venv-{version[0]}.{version[1]}")


def install(version: Version, python: str) -> int:
    """All that tests need, into a version's virtual environment; the exit code."""
    pip = [f"{place(version)}/bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    made = subprocess.call([python, "-m", "venv", str(place(version))])
    return made or subprocess.call([*pip, "-c", "constraints.txt", "-e", ".[dev]"])


def suite(python: str, depth: str, *words: str) -> int:
    """Run the suite with these arguments of pytest; return the exit code."""
    return subprocess.call([python, "scripts/suite.py", *words], env={**os.environ, "DEPTH": depth})


def interpreters() -> dict[Version, str]:
    """The newest patch of each minor version found on PATH or in pyenv, this interpreter's own minor left out."""
    candidates = [shutil.which(f"python3.{minor}") for minor in range(LEAST[1], 20)]
    root = os.environ.get("PYENV_ROOT") or str(Path.home() / ".pyenv")
    candidates += map(str, Path(root).glob("versions/3.*/bin/python3"))
    by_minor: dict[int, tuple[Version, str]] = {}
    for python in filter(None, candidates):
        version = version_of(python)
        if version and version >= LEAST and version[:2] != sys.version_info[:2]:
            by_minor[version[1]] = max(by_minor.get(version[1], ((0,), "")), (version, python))
    return dict(by_minor.values())


def version_of(python: str) -> Version | None:
    """The version of an interpreter, or None for a pyenv shim that leads nowhere, a pre-release or one without venv."""
    ask = "import sys, venv, ensurepip; i = sys.version_info; print(*i[:3], i.releaselevel)"
    done = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
    words = done.stdout.split()
    if done.returncode or words[3:] != ["final"]:
        return None
    return tuple(map(int, words[:3]))


if __name__ == "__main__":
    sys.exit(main())
