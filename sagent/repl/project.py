"""The branch and the notes of a project, read without running a program."""

from pathlib import Path

from sagent.context.instructions import NAMES, repository_root

HEADING = "## Notes"


def branch_of(directory: Path) -> str:
    """The branch that is checked out, the beginning of a commit's id where none is, "" outside of a repository."""
    root = repository_root(directory)
    if root is None:
        return ""
    try:
        git = root / ".git"
        if git.is_file():  # a worktree
            git = root / git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
        head = (git / "HEAD").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref:") else head[:8]


def instructions_file(directory: Path) -> Path:
    """The project's AGENTS.md, or CLAUDE.md where it has only that."""
    root = repository_root(directory) or directory
    return next((root / name for name in NAMES if (root / name).is_file()), root / NAMES[0])


def add_note(directory: Path, text: str) -> Path:
    """Write a note into the project's instructions, under their last heading "Notes". Raises OSError."""
    path = instructions_file(directory)
    try:
        before = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        before = ""
    note = "- " + " ".join(text.split()) + "\n"
    place = before.rfind(f"{HEADING}\n")
    if place < 0:
        gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
        after = f"{before}{gap}{HEADING}\n\n{note}"
    else:
        next_heading = before.find("\n#", place + len(HEADING))
        end = len(before) if next_heading < 0 else next_heading + 1
        section = before[:end].rstrip("\n") + "\n"
        gap = "\n" if section.endswith(f"{HEADING}\n") else ""
        rest = before[end:]
        after = f"{section}{gap}{note}" + (f"\n{rest}" if rest else "")
    path.write_text(after, encoding="utf-8")
    return path
