"""The clipboard: text to it by way of the terminal, images from it by the platform's programs."""

import asyncio
import base64
import contextlib
import re
import shutil
from typing import TYPE_CHECKING

from sagent.errors import UsageError
from sagent.lib.process import run, system_path

if TYPE_CHECKING:
    from sagent.messages import Image

MAX_COPIED_BYTES = 100_000  # terminals refuse longer ones
PROGRAM_TIMEOUT_SECONDS = 3.0
_WINDOWS = (
    "Add-Type -AssemblyName System.Windows.Forms; $image = [Windows.Forms.Clipboard]::GetImage(); if ($image) {"
    "$out = New-Object IO.MemoryStream; $image.Save($out, [Drawing.Imaging.ImageFormat]::Png);"
    "[Convert]::ToBase64String($out.ToArray())}"
)
_READERS = (
    ("wl-paste", "--type", "image/png"),
    ("xclip", "-selection", "clipboard", "-t", "image/png", "-o"),
    ("pngpaste", "-"),
    ("osascript", "-e", "get the clipboard as «class PNGf»"),
    ("powershell.exe", "-NoProfile", "-NonInteractive", "-Command", _WINDOWS),  # in WSL too
)
PROGRAMS = "wl-paste, xclip, pngpaste, osascript or powershell.exe"


def osc52(text: str) -> str:
    """Return the sequence that copies a text to the clipboard of a terminal, even a remote one. Raises UsageError if it
    is too long."""
    if len(data := text.encode("utf-8", "replace")) > MAX_COPIED_BYTES:
        most = f"a terminal takes {MAX_COPIED_BYTES:,}"
        raise UsageError(f"The answer has {len(data):,} bytes, and {most}. Use `/export md` to write it to a file.")
    return f"\x1b]52;c;{base64.b64encode(data).decode()}\x07"


async def image_from_clipboard() -> "Image | None":
    """Return the image in the clipboard, or None if there is none or no program to read it.

    Raises ToolError for one that no provider accepts.
    """
    from sagent.lib.image import image_type
    from sagent.messages import Image
    from sagent.tools.media import show_image

    for command in _READERS:
        if not (program := await asyncio.to_thread(shutil.which, command[0], path=system_path())):
            continue
        data = _bytes_of(await _output((program, *command[1:])))
        if image_type(data):
            shown = await asyncio.to_thread(show_image, data, "The clipboard's image")
            return next(part for part in shown.content if isinstance(part, Image)) if shown else None
    return None


async def _output(command: tuple[str, ...]) -> bytes:
    """Return a program's output, b"" if it fails or takes too long."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PROGRAM_TIMEOUT_SECONDS):
            return done.output if (done := await run(command)) else b""
    return b""


def _bytes_of(written: bytes) -> bytes:
    """Return the image in a program's output: raw, in base64, or as AppleScript's `«data PNGf89504E47...»`."""
    if found := re.fullmatch(rb"\S*data PNGf([0-9A-Fa-f]+)\S*\s*", written):
        return bytes.fromhex(found[1].decode())
    if re.fullmatch(rb"iVBOR[A-Za-z0-9+/=\s]+", written):
        return base64.b64decode(written)
    return written
