"""Lines a reader must know: the vocabulary, the contracts and the engine; with the agent, the money and the session's
log, all that a turn passes; and the core, which is all but plugins and `sagent.testing`.

Fails above MAX_READ, MAX_PASSED and MAX_CORE, and where the README promises fewer than there are.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAX_READ, MAX_PASSED, MAX_CORE = 3_700, 11_150, 65_000
VOCABULARY = ("messages.py", "events.py", "usage.py", "errors.py", "codec.py")
CONTRACTS = ("model.py", "tool.py", "peer.py", "policy/__init__.py")
ENGINE = ("engine/*.py",)
PASSED = (
    *("agent/*.py", "cost/*.py", "session/log.py", "session/entries.py", "session/contents.py", "session/view.py"),
    *("session/place.py", "session/blobs.py"),
)
PROMISE = re.compile(r"([\d,]+) lines a reader must know.*?([\d,]+) lines that a turn passes", re.DOTALL)


def count(patterns: tuple[str, ...]) -> int:
    """The lines of the files under sagent/ that the patterns name, blank ones included."""
    files = [path for pattern in patterns for path in sorted((ROOT / "sagent").glob(pattern))]
    return sum(len(path.read_text("utf-8").splitlines()) for path in files)


def count_core() -> int:
    """The lines of Python of sagent/ without plugins/ and testing/, blank ones included."""
    parts = ((path, path.relative_to(ROOT / "sagent").parts[0]) for path in (ROOT / "sagent").rglob("*.py"))
    return sum(len(path.read_text("utf-8").splitlines()) for path, part in parts if part not in ("plugins", "testing"))


def main() -> int:
    """Print the figures; 1 where one is too high."""
    core = count_core()
    figures = {"vocabulary": count(VOCABULARY), "contracts": count(CONTRACTS), "engine": count(ENGINE)}
    total = sum(figures.values())
    passed = total + count(PASSED)
    parts = ", ".join(f"{name} {lines:,}" for name, lines in figures.items())
    sys.stdout.write(f"lines a reader must know: {total:,} ({parts}); at most {MAX_READ:,}\n")
    sys.stdout.write(f"lines that a turn passes: {passed:,}; at most {MAX_PASSED:,}\n")
    sys.stdout.write(f"lines of the core: {core:,}; at most {MAX_CORE:,}\n")
    promise = PROMISE.search((ROOT / "README.md").read_text("utf-8"))
    if promise is None:
        sys.stderr.write("README.md does not say how many lines a reader must know, and how many a turn passes.\n")
        return 1
    wrong = 0
    if core > MAX_CORE:
        wrong = 1
        sys.stderr.write(f"The core has {core:,} lines, more than {MAX_CORE:,}: simplify it or move a part out.\n")
    for lines, most, said in ((total, MAX_READ, promise[1]), (passed, MAX_PASSED, promise[2])):
        if lines > most:
            wrong = 1
            sys.stderr.write(f"{lines:,} lines are more than {most:,}: make the engine or what is around it smaller.\n")
        elif int(said.replace(",", "")) < lines:
            wrong = 1
            sys.stderr.write(f"README.md says {said} lines and there are {lines:,}: correct it.\n")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
