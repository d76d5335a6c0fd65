"""The check of how docstrings open and limits are named, which `make check` runs."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts/words.py"


def check(root: Path, source: str) -> tuple[int, str]:
    """Run a copy of the script beside a package of one module; return its exit code and what it complains of."""
    for folder in ("scripts", "sagent"):
        (root / folder).mkdir()
    (root / "scripts/words.py").write_bytes(SCRIPT.read_bytes())
    (root / "sagent/module.py").write_text(source, encoding="utf-8")
    done = subprocess.run([sys.executable, str(root / "scripts/words.py")], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "source",
    [
        '"""Parsing of dates."""\nMAX_DATES = 3\nWAIT_SECONDS = 1.0\nWAITING = "x"\n_WAIT_KIND = "wait"\n',
        'class Date:\n    """A day."""\n    @property\n    def year(self):\n        """The year."""\n',
        'class Date:\n    """A day."""\n    def next(self):\n        """Return the day after it."""\n',
        "MOSTLY = 1\nleast = 2\nprint(MOST)\n",
        "PAUSE_SECONDS = 0.5  # seconds between tries\nPARTS = 3  # of a second\n",
    ],
)
def test_plain_source_passes(tmp_path: Path, source: str) -> None:
    assert check(tmp_path, source) == (0, "")


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ('"""What a date is."""\n', "sagent/module.py:1"),
        ('def late():\n    """Whether it is late."""\n', "sagent/module.py:2"),
        ('def day():\n    """The day."""\n', "sagent/module.py:2"),
        ('"""Dates. What they are."""\n', "sagent/module.py:1"),
        ('class Date:\n    async def f(self):\n        """The same, later."""\n', "sagent/module.py:3"),
        ("MOST_DATES = 3\n", "sagent/module.py:1"),
        ("A, _LONGEST_NAME = 1, 2\n", "sagent/module.py:1"),
        ("class Clock:\n    PATIENCE: float = 1.0\n", "sagent/module.py:2"),
        ("x = 1\nGRACE = 2\n", "sagent/module.py:2"),
        ("def late(day, *, found):\n    return day in found\n", "sagent/module.py:1"),
        ("x = 1\n_PAUSE = 8 * 3_600.0  # seconds between tries\n", "sagent/module.py:2"),
    ],
)
def test_old_dialect_fails_with_place(tmp_path: Path, source: str, place: str) -> None:
    code, complaint = check(tmp_path, source)
    assert code == 1
    assert complaint.startswith(f"{place}: ")


def test_one_docstring_in_100_may_open_so(tmp_path: Path) -> None:
    source = "".join(f'def f{n}():\n    """Return {n}."""\n' for n in range(99))
    assert check(tmp_path, f'{source}def last():\n    """How it ends."""\n') == (0, "")
