"""Recordings: what is one, and how long it lasts."""

import io
import struct
import wave

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.lib.audio import audio_type, count_seconds


def wav(seconds: float, rate: int = 16_000, channels: int = 1) -> bytes:
    """Silence, as Python's own library writes it."""
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes(bytes(2 * channels * int(rate * seconds)))
    return file.getvalue()


def mp3(frames: int, *, head: bytes = b"\xff\xfb\x90\xc4", size: int = 417) -> bytes:
    """Frames of 128 kbit/s at 44.1 kHz, 26 ms each, unless others are given."""
    return (head + bytes(size - len(head))) * frames


@pytest.mark.parametrize(
    ("data", "kind", "seconds"),
    [
        (wav(3.7), "audio/wav", 4),
        (wav(2, 44_100, 2), "audio/wav", 2),
        (mp3(100), "audio/mpeg", 3),
        (b"ID3\x04\0\0\0\0\x02\x01" + bytes(257) + mp3(39), "audio/mpeg", 2),  # 257 bytes of tags
        (mp3(100, head=b"\xff\xf3\x14\xc4", size=24), "audio/mpeg", 3),  # 8 kbit/s at 24 kHz
        (mp3(50) + b"TAG" + bytes(125), "audio/mpeg", 2),
    ],
    ids=["mono", "stereo", "mp3", "with tags", "the lowest rate", "tags at the end"],
)
def test_recording_type_and_length(data: bytes, kind: str, seconds: int) -> None:
    assert (audio_type(data), count_seconds(data)) == (kind, seconds)


@pytest.mark.parametrize(
    "data",
    [b"", b"RIFF", b"RIFF\0\0\0\0WAVE", b"RIFF\0\0\0\0WEBP", b"ID3", b"\xff\xd8\xff\xe0", mp3(1), "Ünïcödé".encode()],
)
def test_other_data_is_no_audio(data: bytes) -> None:
    assert audio_type(data) == ""


def test_header_length_is_bounded_by_file() -> None:
    data = bytearray(wav(1))
    data[40:44] = struct.pack("<I", 0xFFFFFFFF)  # as what is written to a pipe has it
    assert count_seconds(bytes(data)) == 1


@given(
    st.binary(max_size=300), st.sampled_from([b"", b"RIFF0000WAVE", b"RIFF0000WAVEfmt \x10\0\0\0", b"ID3", b"\xff\xfb"])
)
def test_no_bytes_are_too_strange(data: bytes, begins: bytes) -> None:
    assert audio_type(begins + data) in ("", "audio/wav", "audio/mpeg")
    assert count_seconds(begins + data) >= 0
