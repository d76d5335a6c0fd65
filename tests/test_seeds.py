"""Workers of a run of all tests that are forks."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.depth import later, slow, spread
from tests.forks import CHECKOUT

CONFTEST = """
from tests.seeds import sow

def pytest_xdist_setupnodes(config, specs):
    sow(config, len(specs))
"""
TESTS = """
import os, signal
import pytest

IMPORTER, PLACE = os.getpid(), os.environ["PLACE"]

def test_a():
    assert IMPORTER == os.getppid(), "the controller has imported it"
    text = "x"
    with pytest.raises(AssertionError, match="'x' == 'y'"):
        assert text == "y"

def test_b():
    if not os.path.exists(PLACE):
        open(PLACE, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)

def test_c():
    assert False
"""


@later
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a fork of a process with libraries loaded may not run")
def test_workers_are_forks(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = tests\n")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_forked.py").write_text(TESTS)
    (tmp_path / "tests" / "test_unreadable.py").write_text("import no_such_module\n")
    flags = ["-p", "no:cacheprovider", "--continue-on-collection-errors", "-rA"]
    flags.append(f"--basetemp={tmp_path / 'base'}")  # else it tidies up what others left in the usual place
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "1", *flags],
        cwd=tmp_path, env={"PYTHONPATH": str(CHECKOUT), "PLACE": str(tmp_path / "place")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = done.stdout
    assert "PASSED tests/test_forked.py::test_a" in said, said + done.stderr
    assert "FAILED tests/test_forked.py::test_b" in said  # its worker was killed
    assert "FAILED tests/test_forked.py::test_c" in said  # a program that was started in its place
    assert "ERROR tests/test_unreadable.py" in said


def test_quick_run_spreads_cases() -> None:
    assert spread([1, 2, 3, 4, 5], lambda _: ()) == [1, 5]
    assert spread([1, 2, 3, 4, 5], lambda case: [slow.mark] if case in (1, 5) else []) == [2, 4]
    assert spread([1, 2, 3], lambda _: (), 1) == [1]
    assert spread([1], lambda _: [slow.mark]) == [1]
    assert spread([], lambda _: ()) == []
