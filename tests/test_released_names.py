"""What a user types differs from the last release in what the changelog says, and in nothing else.

`python -m tests.test_released_names` writes the list anew when a version is released.
"""

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from sagent.config.plugins import find_plugins
from sagent.plugin import KINDS, ToolEntry
from tests.deleted import ROOT, left_out

LIST = Path(__file__).with_name("released_names.txt")
TYPED = (
    *("commands", "settings", "tables", "flags", "slash_commands", "export_formats", "tools", "providers"),
    *("triggers", "hook_events", "status_parts"),
)
"""The members of Plugin whose names users type."""


def names() -> set[str]:
    """Return all names of today, each with its member."""
    with TemporaryDirectory() as place:
        plugins = find_plugins(Path(place), Path(place), foreign=False)
    return {
        f"{member} {name}"
        for member in TYPED
        for name, row in plugins.named(KINDS[member][1]).items()
        if not isinstance(row, ToolEntry) or row.tool  # others are offered by a part, or are other programs' names
    }


def test_changelog_names_each_difference() -> None:
    changed = names() ^ set(LIST.read_text("utf-8").splitlines())
    section = (ROOT / "CHANGELOG.md").read_text("utf-8").split("\n## ")[1]
    said = set(re.findall(r"[^\W_]\w*", section.replace("-", "_")))
    unsaid = sorted(each for each in changed if each.split()[1].replace("-", "_") not in said)
    if unsaid and [*left_out()]:
        pytest.skip("plugins were deleted")
    assert unsaid == []


if __name__ == "__main__":
    LIST.write_text("".join(f"{each}\n" for each in sorted(names())), "utf-8")
