"""The README as an index shows it: links that start at the repository lead there from anywhere."""

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE = re.compile(r"\]\((?!https?://|#)([^)\s]+)\)")


class LongDescription(MetadataHookInterface):
    """Gives the package its long description, at build time."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict) -> None:
        """Set `readme`, with every relative link and picture under the source's address."""
        source = metadata["urls"]["Source"]
        text = Path(self.root, "README.md").read_text("utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": RELATIVE.sub(rf"]({source}/\1)", text)}
