"""The machine code that is shipped is what its assembler says."""

import subprocess
import sys
from pathlib import Path

import pytest

from sagent.lib.gate import CODE

ROOT = Path(__file__).parents[2]


@pytest.mark.needs("assemblers")
def test_code_matches_its_assembler() -> None:
    done = subprocess.run([sys.executable, "scripts/make_gate.py", "--check"], cwd=ROOT, check=False)
    assert done.returncode == 0, "run scripts/make_gate.py"


def test_each_machine_has_its_assembler() -> None:
    assert {f"gate_{machine}.s" for machine in CODE} == {file.name for file in (ROOT / "sagent/lib").glob("gate_*.s")}
