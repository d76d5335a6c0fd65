"""The checkout with the folders of all plugins deleted: `make check` and the tests go by what is there."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deleted import ROOT, deleted, lacked, lacking, left_out
from tests.depth import slow

LEFT = shutil.ignore_patterns(".*", "__pycache__", "site", "dist", "build", "*.egg-info")
BIN = Path(sys.executable).parent
CHECKS = {
    "ruff": [BIN / "ruff", "check", "."],
    "lint-imports": [BIN / "lint-imports", "--no-logo"],
    "reading": [sys.executable, "scripts/reading.py"],
    "site": [BIN / "mkdocs", "build", "--quiet"],
    "snippets": [sys.executable, "-m", "tests.snippets"],
    "settings": [sys.executable, "scripts/make_settings.py", "--check"],
    "collected": [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider", "tests"],
    "tests": [sys.executable, "-m", "pytest", "tests/test_architecture.py", "tests/test_public_names.py"],
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the checkout without any plugin."""
    place = tmp_path_factory.mktemp("copy") / "sagent"
    shutil.copytree(ROOT, place, ignore=LEFT)
    for file in place.glob("sagent/plugins/*/__init__.py"):
        shutil.rmtree(file.parent)
    return place


@slow
@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_all_plugins_may_be_deleted(copy: Path, check: list[str]) -> None:
    environment = {**os.environ, "PYTHONPATH": str(copy), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(check, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize(
    ("text", "collected", "whole"),
    [
        ("from sagent.plugins.none import x\n", "none", "none"),
        ("def use():\n    from sagent.plugins.none.part import x\n", "", "none"),
        ("from sagent.plugin import Plugin\nfrom tests.depth import slow\n", "", ""),
    ],
)
def test_file_lacks_plugins_it_imports(tmp_path: Path, text: str, collected: str, whole: str) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(text)
    assert (lacked(file), lacking(text)) == (collected, whole)


def test_nothing_is_left_out_where_all_are_there() -> None:
    """Folders that running tests leaves, as `tests/plugins/__pycache__`, need no plugin."""
    (ROOT / "tests/plugins/__pycache__").mkdir(exist_ok=True)
    plugins = {path.name for path in (ROOT / "tests/plugins").glob("[a-z]*/")}
    if not any(map(deleted, plugins)):
        assert list(left_out()) == []
