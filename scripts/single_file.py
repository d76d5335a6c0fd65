"""Build dist/sagent.pyz: sagent and all it needs in one file, for machines with Python and without an index.

It holds compiled packages, so it runs on the system, processor and Python version on which it was built. Extras are
given by name: `python scripts/single_file.py mcp web`. Needs shiv: pip install shiv
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main(extras: list[str]) -> int:
    """Build it; return the exit code."""
    target = ROOT / "dist" / "sagent.pyz"
    target.parent.mkdir(exist_ok=True)
    wanted = f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)
    build = [sys.executable, "-m", "shiv", "--console-script", "sagent", "--compressed", "--reproducible"]
    build += ["--python", "/usr/bin/env python3", "--output-file", str(target)]
    code = subprocess.call([*build, "--constraint", str(ROOT / "constraints.txt"), wanted])
    if code == 0:
        sys.stdout.write(f"{target}: {target.stat().st_size / 1e6:.0f} MB\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
