"""What tests of this plugin share."""

from pathlib import Path

import pytest
from proven_work import Agent, Work, commit, start

BASE = "def mean(total, n):\n    return 0\n"
DONE = "def mean(total, n):\n    if not n:\n        return 0\n    return total / n\n"


@pytest.fixture
def work(tmp_path: Path) -> Work:
    made = Work(tmp_path)
    start(made.root, {"a.py": BASE, "b.py": "one = 1\n"})
    return made


@pytest.fixture
def agent(work: Work) -> Agent:
    """An agent that has changed a file, run its tests, and committed."""
    made = work.agent()
    made.write("a.py", DONE)
    made.run("pytest -q", "3 passed in 0.1s\nall good\n")
    commit(work.root, "Divide")
    return made
