"""The code of README, docs and examples, as files of a user: `python -m tests.snippets` has strict checkers read it.

Each block lies in a file at the line of its page, so that what a checker says of the file it says of the page.
"""

import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.deleted import lacking

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = [
    path
    for path in sorted((ROOT / "examples").rglob("*.py"))
    if path.parent.name != "stack" and not lacking(path.read_text("utf-8"))  # its packages are not installed
]
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)  # a tab's are indented
PYRIGHT = '{"typeCheckingMode": "strict", "pythonVersion": "3.11", "reportMissingModuleSource": false}'
MYPY = ("--strict", "--no-error-summary", "--hide-error-context", "--python-version=3.11")


@dataclass(frozen=True)
class Snippet:
    """A fenced block: its language, its text, and the line of the page it begins at."""

    language: str
    text: str
    line: int

    @property
    def as_file(self) -> str:
        """Its text, at the lines that it has in the page."""
        return "\n" * self.line + self.text


def snippets(page: Path) -> Iterator[Snippet]:
    """The fenced blocks of a page."""
    text = page.read_text("utf-8")
    for match in FENCE.finditer(text):
        yield Snippet(match[2], textwrap.dedent(match[3]), text.count("\n", 0, match.start()) + 1)


def documented() -> dict[str, str]:
    """All Python that users are shown, by the name of its page or file."""
    shown = {
        f"{page.relative_to(ROOT)}#{snippet.line}": snippet.as_file
        for page in PAGES
        for snippet in snippets(page)
        if snippet.language == "python" and not lacking(snippet.text)
    }
    return shown | {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in EXAMPLES}


def check(programs: Mapping[str, str]) -> str:
    """What strict type checkers say of programs as their users have them, a line each with the program's name and line;
    "" where they say nothing."""
    names = {f"program_{number}.py": name for number, name in enumerate(programs)}
    with tempfile.TemporaryDirectory() as place:
        for file, name in names.items():
            Path(place, file).write_text(programs[name], "utf-8")
        Path(place, "pyrightconfig.json").write_text(PYRIGHT)
        said = run(["pyright", "--pythonpath", sys.executable, "-p", place], place)
        said += run(["mypy", *MYPY, "--cache-dir", str(ROOT / ".mypy_cache"), "."], place)
    lines = [line for line in said.splitlines() if not line.startswith("/")]  # pyright heads each file with its path
    return re.sub(r"(?:/\S*/)?(program_\d+\.py)", lambda match: names[match[1]].partition("#")[0], "\n".join(lines))


def run(command: list[str], folder: str) -> str:
    """What a checker finds, "" for nothing."""
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )
    return done.stdout + done.stderr if done.returncode else ""


def main() -> int:
    """Check all; 1 where something was found."""
    programs = documented()
    found = check(programs)
    sys.stdout.write(f"{found}\n" if found else f"{len(programs)} programs of README, docs and examples are typed\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
