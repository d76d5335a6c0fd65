"""The clipboard: text to it by way of the terminal, images from it by the platform's programs."""

import base64
import shutil
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sagent.messages import Image

MOST_COPIED = 100_000  # bytes; terminals refuse longer ones
_READERS = (
    ("wl-paste", "--type", "image/png"),
    ("xclip", "-selection", "clipboard", "-t", "image/png", "-o"),
    ("pngpaste", "-"),
)


def osc52(text: str) -> str:
    """The sequence by which a terminal, also a distant one, is asked to put a text into the clipboard."""
    data = text.encode("utf-8", "replace")[:MOST_COPIED]
    return f"\x1b]52;c;{base64.b64encode(data).decode()}\x07"


def image_from_clipboard() -> "Image | None":
    """The image in the clipboard, or None where there is none or no program to read it with. Blocks."""
    from sagent.messages import Image
    from sagent.tools.image import media_type

    for command in _READERS:
        if not shutil.which(command[0]):
            continue
        try:
            data = subprocess.run(command, capture_output=True, timeout=3, check=False).stdout
        except (OSError, subprocess.TimeoutExpired):
            continue
        if kind := media_type(data):
            return Image(kind, data)
    return None
