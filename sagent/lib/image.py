"""How large an image is, by what its file begins with."""

import struct


def measure_image(data: bytes, media_type: str) -> tuple[int, int] | None:
    """Width and height in pixels, None where the file is cut or broken."""
    try:
        match media_type:
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
    while data[position] == 0xFF:
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
