"""Run tests, side by side, and what failed once more by itself: `suite.py [PYTEST ARGUMENTS]`.

A test that fails only beside others is a fault too, most often a race that a busy machine shows, and is in the output.
But it does not hold up a change that has nothing to do with it.
"""

import os
import subprocess
import sys

FAILED = 1  # pytest's exit code where tests ran and some failed


def main() -> int:
    """The exit code of pytest."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # each of four processes would compile every test, each time
    pytest = [sys.executable, "-m", "pytest"]
    code = subprocess.call([*pytest, "-n", "auto", *sys.argv[1:]])
    if code != FAILED:
        return code
    sys.stdout.write("What failed, once more and one after the other:\n")
    sys.stdout.flush()
    return subprocess.call([*pytest, "-v", "--last-failed", "--last-failed-no-failures", "none"])


if __name__ == "__main__":
    sys.exit(main())
