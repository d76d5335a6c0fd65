"""Pages of the site, without the reference of plugins whose folders were deleted."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
REFERENCE = re.compile(r"^::: sagent\.plugins\.(\w+)\S*$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: object) -> str:
    """Have the page say that a plugin was deleted where its reference would be."""
    return REFERENCE.sub(lambda of: of[0] if (ROOT / "sagent/plugins" / of[1]).is_dir() else _missing(of[1]), markdown)


def _missing(plugin: str) -> str:
    return f"The plugin `{plugin}` was deleted."
