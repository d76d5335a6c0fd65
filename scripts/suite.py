"""Run tests, side by side, and what failed once more by itself: `suite.py [PYTEST ARGUMENTS]`.

A test that fails only beside others is a fault too, most often a race that a busy machine shows, and is in the output.
But it does not hold up a change that has nothing to do with it.
"""

import os
import subprocess
import sys
from pathlib import Path

FAILED = 1  # pytest's exit code where tests ran and some failed
PYTEST = (sys.executable, "-m", "pytest")


def compile_tests() -> None:
    """Compile every test once: workers begin at the same time with the same one, and each would compile all of them."""
    files, cores = sorted(map(str, Path("tests").rglob("test_*.py"))), os.cpu_count() or 1
    argv = [*PYTEST, "--collect-only", "-qq", "-p", "no:cacheprovider"]
    parts = [subprocess.Popen([*argv, *files[part::cores]], stdout=subprocess.DEVNULL) for part in range(cores)]
    for part in parts:
        part.wait()


def main() -> int:
    """The exit code of pytest."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # each worker would compile every test, each time
    if not any(Path("tests").rglob(f"test_*.{sys.implementation.cache_tag}-pytest-*.pyc")):
        compile_tests()
    # A worker has neighbouring tests, which share servers, and takes those of others when it has no more of its own.
    code = subprocess.call([*PYTEST, "-n", "auto", "--dist", "worksteal", *sys.argv[1:]])
    if code != FAILED:
        return code
    sys.stdout.write("What failed, once more and one after the other:\n")
    sys.stdout.flush()
    return subprocess.call([*PYTEST, "-v", "--last-failed", "--last-failed-no-failures", "none"])


if __name__ == "__main__":
    sys.exit(main())
