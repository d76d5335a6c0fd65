"""Length of recordings, as an upper bound, to estimate the cost of requests with audio."""

import re
import struct
from math import ceil

TYPES = {"audio/wav": "wav", "audio/mpeg": "mp3"}
"""Accepted media types, with their names at OpenAI."""
_THIRD = re.escape(bytes(each for each in range(0x10, 0xF0) if each >> 2 & 3 < 3))  # a bit rate, a sampling rate
_SYNC = re.compile(rb"\xff[\xe2\xe3\xf2\xf3\xfa\xfb][" + _THIRD + b"]")  # of a frame of layer III
_BITRATES = {  # kbit/s by index, of MPEG-1 and of those after it (ISO/IEC 11172-3 and 13818-3)
    True: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    False: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_RATES = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}  # Hz, by version


def audio_type(data: bytes) -> str:
    """Return the media type of a recording by its bytes; "" for anything else, and for a damaged one."""
    if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        return "audio/wav" if _wave_seconds(data) is not None else ""
    first = _frame(data, 0)  # a single frame proves nothing
    begins = data[:3] == b"ID3" or (first is not None and _frame(data, first[0]) is not None)
    return "audio/mpeg" if begins and _frames_seconds(data) else ""


def count_seconds(data: bytes) -> int:
    """Return the length of a recording in seconds, rounded up; 0 if it cannot be told."""
    found = _wave_seconds(data) if data[:4] == b"RIFF" else _frames_seconds(data)
    return ceil(found or 0.0)


def _wave_seconds(data: bytes) -> float | None:
    """Return the length of a WAV file by its chunks; a length in its header counts up to the file's end."""
    position, rate = 12, 0
    while position + 8 <= len(data):
        kind, size = data[position : position + 4], int.from_bytes(data[position + 4 : position + 8], "little")
        position += 8
        if kind == b"fmt " and position + 16 <= len(data):
            _, channels, samples, _, block, _ = struct.unpack("<HHIIHH", data[position : position + 16])
            rate = samples * block if channels else 0
        elif kind == b"data":
            return min(size, len(data) - position) / rate if rate else None
        position += size + size % 2
    return None


def _frames_seconds(data: bytes) -> float:
    """Return the length of an MP3 file by its frames."""
    position, seconds = 0, 0.0
    if data[:3] == b"ID3":
        position = 10 + sum((byte & 127) << shift for byte, shift in zip(data[6:10], (21, 14, 7, 0), strict=False))
    while match := _SYNC.search(data, position):
        position = match.start()
        if frame := _frame(data, position):
            seconds += frame[1]
            position += frame[0]
        else:
            position += 1
    return seconds


def _frame(data: bytes, position: int) -> tuple[int, float] | None:
    """Return the bytes and seconds of the frame that begins here; None if none does."""
    if not _SYNC.match(data, position) or position + 4 > len(data):
        return None
    second, third = data[position + 1], data[position + 2]
    version, whole = second >> 3 & 3, second >> 3 & 3 == 3
    hertz = _RATES[version][third >> 2 & 3]
    kbits = _BITRATES[whole][third >> 4]
    return (144 if whole else 72) * kbits * 1_000 // hertz + (third >> 1 & 1), (1152 if whole else 576) / hertz
