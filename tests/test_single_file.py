"""The build as one file: what shiv is told."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

SHIV = """
import argparse, pathlib
parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("-c", "--console-script")
parser.add_argument("-o", "--output-file")
parser.add_argument("-p", "--python")
parser.add_argument("--compressed", action="store_true")
parser.add_argument("--reproducible", action="store_true")
given, of_pip = parser.parse_known_args()
pathlib.Path(given.output_file).write_text(given.console_script)
print(*of_pip)
"""


def test_single_file_starts_the_program(tmp_path: Path) -> None:
    """What shiv is given, by a stand-in with its flags: of these -c is the entry point, and not pip's constraints."""
    (tmp_path / "shiv").mkdir()
    (tmp_path / "shiv" / "__main__.py").write_text(SHIV)
    (tmp_path / "scripts").mkdir()
    script = tmp_path / "scripts" / "single_file.py"
    script.write_text((ROOT / "scripts" / "single_file.py").read_text())
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(script), "mcp"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "dist" / "sagent.pyz").read_text() == "sagent"
    assert "constraints.txt" in done.stdout and f"{tmp_path}[mcp]" in done.stdout
