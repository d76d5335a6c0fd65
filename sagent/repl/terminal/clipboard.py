"""The clipboard: text to it by way of the terminal, images from it by the platform's programs."""

import asyncio
import base64
import binascii
import contextlib
import re
import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING

from sagent.errors import ToolError, UsageError
from sagent.lib.process import run, system_path

if TYPE_CHECKING:
    from sagent.messages import Image

MAX_COPIED_BYTES = 100_000  # terminals refuse longer ones
PROGRAM_TIMEOUT_SECONDS = 3.0
TERMINAL_TIMEOUT_SECONDS = 30.0  # a terminal may ask the person for permission
MAX_IMAGE_BYTES = 30_000_000
_TYPES = "image/png image/jpeg image/gif image/webp"
_REFUSALS = {"EPERM": "the terminal may not give it away", "EBUSY": "it is in use", "ENOSYS": "the terminal cannot"}
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
    for command in _READERS:
        if not (program := await asyncio.to_thread(shutil.which, command[0], path=system_path())):
            continue
        if image := await _image_of(_bytes_of(await _output((program, *command[1:])))):
            return image
    return None


async def _image_of(data: bytes) -> "Image | None":
    from sagent.lib.image import image_type
    from sagent.messages import Image
    from sagent.tools.media import show_image

    if not image_type(data):
        return None
    shown = await asyncio.to_thread(show_image, data, "The clipboard's image")
    return next(part for part in shown.content if isinstance(part, Image)) if shown else None


class TerminalClipboard:
    """The clipboard of a terminal that may be far away: it sends an image in parts, after it was asked for one.

    That is OSC 5522, https://sw.kovidgoyal.net/kitty/clipboard/. Other terminals do not answer. `ask` writes a question
    to the terminal, and returns False if it cannot be asked.
    """

    def __init__(self, ask: Callable[[str], bool]) -> None:
        self._ask = ask
        self._waits: asyncio.Future[bytes] | None = None
        self._parts: dict[str, bytearray] = {}

    async def image(self) -> "Image | None":
        """Return the image; None if there is none or the terminal does not answer. Raises ToolError for one that no
        provider accepts, and for a refusal."""
        if self._waits is None:
            self._parts, self._waits = {}, asyncio.get_running_loop().create_future()
            if not self._ask(f"\x1b]5522;type=read;{base64.b64encode(_TYPES.encode()).decode()}\x1b\\"):
                self._waits.set_result(b"")
        waits = self._waits
        try:
            async with asyncio.timeout(TERMINAL_TIMEOUT_SECONDS):
                return await _image_of(await asyncio.shield(waits))
        except TimeoutError:
            return None
        finally:
            if self._waits is waits:
                self._waits = None

    def take(self, part: str) -> None:
        """Take a part of an answer; one that was not asked for is dropped."""
        if (waits := self._waits) is None or waits.done():
            return
        head, _, payload = part.partition(";")
        about: dict[str, str] = dict(re.findall(r"(\w+)=([^:]*)", head))
        status = about.get("status", "")
        try:
            if about.get("type") != "read" or status == "OK":
                pass
            elif status == "DATA":
                kind = self._parts.setdefault(about.get("mime", ""), bytearray())
                kind += base64.b64decode(payload, validate=True)
                if sum(map(len, self._parts.values())) > MAX_IMAGE_BYTES:
                    raise ToolError(f"The clipboard's image has more than {MAX_IMAGE_BYTES:,} bytes.")
            elif status == "DONE":
                waits.set_result(next((bytes(data) for data in self._parts.values() if data), b""))
            else:
                raise ToolError(f"The terminal's clipboard cannot be read: {_REFUSALS.get(status, status)}.")
        except (ToolError, binascii.Error) as error:
            waits.set_exception(
                error if isinstance(error, ToolError) else ToolError("The clipboard's image is broken.")
            )


async def _output(command: tuple[str, ...]) -> bytes:
    """Return a program's output, b"" if it fails or takes too long."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PROGRAM_TIMEOUT_SECONDS):
            return done.output if (done := await run(command)) else b""
    return b""


def _bytes_of(written: bytes) -> bytes:
    """Return the image in a program's output: raw, in base64, or as AppleScript's `«data PNGf89504E47...»`."""
    if match := re.fullmatch(rb"\S*data PNGf([0-9A-Fa-f]+)\S*\s*", written):
        return bytes.fromhex(match[1].decode())
    if re.fullmatch(rb"iVBOR[A-Za-z0-9+/=\s]+", written):
        return base64.b64decode(written)
    return written
