"""How many lines a reader must know: the vocabulary, the contracts and the engine. The rest is looked up when needed.

Fails above MOST, and where the README promises fewer than there are.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST = 3_700
VOCABULARY = ("messages.py", "events.py", "usage.py", "errors.py", "codec.py")
CONTRACTS = ("model.py", "tool.py", "peer.py", "policy/__init__.py")
ENGINE = ("engine/*.py",)
PROMISE = re.compile(r"([\d,]+) lines a reader must know")


def count(patterns: tuple[str, ...]) -> int:
    """The lines of the files under sagent/ that the patterns name, blank ones included."""
    files = [path for pattern in patterns for path in sorted((ROOT / "sagent").glob(pattern))]
    return sum(len(path.read_text("utf-8").splitlines()) for path in files)


def main() -> int:
    """Print the figures; 1 where one is too high."""
    figures = {"vocabulary": count(VOCABULARY), "contracts": count(CONTRACTS), "engine": count(ENGINE)}
    total = sum(figures.values())
    parts = ", ".join(f"{name} {lines:,}" for name, lines in figures.items())
    sys.stdout.write(f"lines a reader must know: {total:,} ({parts}); at most {MOST:,}\n")
    promise = PROMISE.search((ROOT / "README.md").read_text("utf-8"))
    if promise is None:
        sys.stderr.write("README.md does not say how many lines a reader must know.\n")
    elif total > MOST:
        sys.stderr.write(f"{total:,} lines are more than {MOST:,}: make the engine or its vocabulary smaller.\n")
    elif (promised := int(promise[1].replace(",", ""))) < total:
        sys.stderr.write(f"README.md says {promised:,} lines and there are {total:,}: correct it.\n")
    else:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
