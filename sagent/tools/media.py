"""What of a file's data a model can be shown: images, recordings, known by their bytes, and PDF files.

Images are held to what every provider accepts, for one bad image spoils a conversation.
"""

import struct

from sagent.errors import ToolError
from sagent.messages import Document, Image, Text
from sagent.tool import ToolOutput

MOST_DOCUMENT = 30_000_000  # bytes
_MOST_AUDIO = 14_000_000  # bytes: Gemini takes requests of 20 MB (ai.google.dev, audio understanding)
# Anthropic's limit is 5 MB of base64, https://docs.anthropic.com/en/docs/build-with-claude/vision
_MOST_BYTES = 3_900_000
_MOST_SIDE = 8000  # pixels, same page
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def media_in(data: bytes, name: str) -> Image | Document | None:
    """The image, the PDF or the recording in some data, None for anything else. Raises ValueError for one that no
    provider takes."""
    if data.startswith(b"%PDF-"):
        if len(data) > MOST_DOCUMENT:
            raise ValueError(f"it has more than {MOST_DOCUMENT // 1_000_000} MB")
        return Document("application/pdf", data, name)
    try:
        shown = show_image(data, name)
    except ToolError as error:
        raise ValueError(str(error)) from error
    if shown is not None:
        return next(part for part in shown.content if isinstance(part, Image))
    return _recording(data, name)


def _recording(data: bytes, name: str) -> Document | None:
    from sagent.lib.audio import audio_type

    kind = audio_type(data)
    if kind and len(data) > _MOST_AUDIO:
        raise ValueError(f"it has more than {_MOST_AUDIO // 1_000_000} MB, the most of a recording: cut or compress it")
    return Document(kind, data, name) if kind else None


def show_image(data: bytes, name: str) -> ToolOutput | None:
    """The image, or None when the bytes are none. Raises ToolError for one that no provider would take."""
    kind = media_type(data)
    if not kind:
        return None
    size = _measure(data, kind)
    if size is None:
        raise ToolError(f"{name} is a broken or incomplete {kind} image.")
    if max(size) > _MOST_SIDE or len(data) > _MOST_BYTES:
        raise ToolError(
            f"{name} is {size[0]}x{size[1]} pixels and {len(data)} bytes; an image may have {_MOST_SIDE} pixels "
            f"a side and {_MOST_BYTES} bytes. Make a smaller copy with a command and read that."
        )
    said = f"{name}: {kind}, {size[0]}x{size[1]}"
    return ToolOutput((Text(said), Image(kind, data)), summary=said)


def media_type(data: bytes) -> str:
    """The image's media type by its first bytes, "" for anything that models cannot see."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _SIGNATURES if data.startswith(magic)), "")


def _measure(data: bytes, kind: str) -> tuple[int, int] | None:
    """Width and height in pixels, None where the file is cut or broken."""
    try:
        match kind:
            case "image/png":
                return struct.unpack(">II", data[16:24]) if b"IEND" in data[-64:] else None
            case "image/gif":
                return struct.unpack("<HH", data[6:10])
            case "image/webp":
                return _measure_webp(data)
            case _:
                return _measure_jpeg(data)
    except (struct.error, IndexError):
        return None


def _measure_jpeg(data: bytes) -> tuple[int, int] | None:
    """Follow the segments to the frame header. ITU-T T.81, B.1.1."""
    if b"\xff\xd9" not in data[-4096:]:
        return None
    position = 2
    while position < _MOST_BYTES and data[position] == 0xFF:
        marker = data[position + 1]
        if marker == 0xFF:
            position += 1
        elif 0xC0 <= marker <= 0xCF and marker not in {0xC4, 0xC8, 0xCC}:
            height, width = struct.unpack(">HH", data[position + 5 : position + 9])
            return width, height
        else:
            position += 2 + struct.unpack(">H", data[position + 2 : position + 4])[0]
    return None


def _measure_webp(data: bytes) -> tuple[int, int] | None:
    """https://developers.google.com/speed/webp/docs/riff_container"""
    if len(data) < struct.unpack("<I", data[4:8])[0] + 8:
        return None
    match data[12:16]:
        case b"VP8 ":
            width, height = struct.unpack("<HH", data[26:30])
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            bits = struct.unpack("<I", data[21:25])[0]
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
        case _:
            return None
