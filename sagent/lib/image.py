"""The type and size of an image by its bytes, and whether its file is complete."""

import re
import struct
import zlib

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_CHANNELS = {2: 3, 4: 2, 6: 4}  # of a PNG's colour types; one of the others
_MARKER = re.compile(rb"\xff+([^\x00\xff])")  # of a JPEG's segment
_AFTER_SCAN = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")  # neither a byte of the data nor a restart
_MAX_PIXEL_BYTES = 400_000_000  # bytes of pixels that are unpacked to check them


def image_type(data: bytes) -> str:
    """Return the media type of an image by its first bytes, "" for types that models cannot read."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _SIGNATURES if data.startswith(magic)), "")


def is_animated(data: bytes) -> bool:
    """Return True if an image has several frames, by a quick check: not every provider accepts them."""
    kind = image_type(data)
    if kind == "image/gif":
        return data.count(b"\x21\xf9\x04") > 1
    return (kind == "image/png" and b"acTL" in data[:1_000]) or (kind == "image/webp" and b"ANIM" in data[:100])


def measure_image(data: bytes, media_type: str) -> tuple[int, int] | None:
    """Return width and height in pixels, None if the file is truncated or damaged."""
    try:
        match media_type:
            case "image/png":
                return struct.unpack(">II", data[16:24]) if _is_whole_png(data) else None
            case "image/gif":
                return struct.unpack("<HH", data[6:10]) if _is_whole_gif(data) else None
            case "image/webp":
                return _measure_webp(data)
            case _:
                return _measure_jpeg(data)
    except (struct.error, zlib.error, IndexError):
        return None


def _is_whole_png(data: bytes) -> bool:
    """Return True if the needed chunks have the right sums and the pixels can be unpacked. W3C, PNG, 5.3 and 10."""
    at, unpacked, pixels = 8, 0, zlib.decompressobj()
    while at + 12 <= len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        kind, content = data[at + 4 : at + 8], memoryview(data)[at + 8 : at + 8 + size]
        if kind in (b"IHDR", b"PLTE", b"IDAT", b"IEND"):
            (said,) = struct.unpack(">I", data[at + 8 + size : at + 12 + size])
            if said != zlib.crc32(content, zlib.crc32(kind)):
                return False
        if kind == b"IEND":
            width, height, depth, color = struct.unpack(">IIBB", data[16:26])
            row = 1 if data[28] else 1 + (width * depth * _CHANNELS.get(color, 1) + 7) // 8  # interlaced: more rows
            return unpacked >= min(height * row, _MAX_PIXEL_BYTES) and (pixels.eof or unpacked >= _MAX_PIXEL_BYTES)
        while kind == b"IDAT" and content and unpacked < _MAX_PIXEL_BYTES:
            unpacked += len(pixels.decompress(content, 1 << 20))  # all at once would be as large in memory
            content = pixels.unconsumed_tail
        at += 12 + size
    return False


def _is_whole_gif(data: bytes) -> bool:
    """Follow the blocks to the trailer. GIF89a, appendix B."""
    at = 13 + _colors(data[10])
    while data[at] != 0x3B:
        if data[at] == 0x21:
            at += 2
        elif data[at] == 0x2C:
            at += 11 + _colors(data[at + 9])
        elif data[at]:
            return False
        while data[at]:
            at += data[at] + 1
        at += 1
    return len(data) - at <= 64


def _colors(flags: int) -> int:
    return 6 << (flags & 7) if flags & 0x80 else 0


def _measure_jpeg(data: bytes) -> tuple[int, int] | None:
    """Follow the segments to the end of the image. ITU-T T.81, B.1.1."""
    position, size = 2, None
    while (match := _MARKER.match(data, position)) is not None:
        marker, position = match[1][0], match.end()
        if marker == 0xD9:
            return size if len(data) - position < 4096 else None  # a phone's photo may be followed by a video
        if marker < 0xC0 or marker == 0xD8:
            return None
        if marker <= 0xCF and marker not in {0xC4, 0xC8, 0xCC}:
            height, width = struct.unpack(">HH", data[position + 3 : position + 7])
            size = width, height
        position += struct.unpack(">H", data[position : position + 2])[0]
        if marker == 0xDA:
            after = _AFTER_SCAN.search(data, position)
            position = after.start() if after is not None else len(data)
    return None


def _measure_webp(data: bytes) -> tuple[int, int] | None:
    """https://developers.google.com/speed/webp/docs/riff_container"""
    at, end = 12, struct.unpack("<I", data[4:8])[0] + 8
    while at + 8 <= end <= len(data):
        if not data[at : at + 4].isascii():
            return None
        (size,) = struct.unpack("<I", data[at + 4 : at + 8])
        at += 8 + size + (size & 1)
    if not end <= at <= end + 1:
        return None
    match data[12:16]:
        case b"VP8 " if data[23:26] == b"\x9d\x01\x2a":
            width, height = struct.unpack("<HH", data[26:30])
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L" if data[20] == 0x2F:
            bits = struct.unpack("<I", data[21:25])[0]
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
        case _:
            return None
