"""A model's speech as a file that players accept."""

import io
import wave

from sagent.lib.audio import audio_type
from sagent.messages import Document

_RATE = 24_000  # Hz of OpenAI's pcm16, the only streamed format: mono, 16 bits


def spoken(data: bytes) -> Document:
    """Return the sound of an answer: a recording as it came, and bare samples as a WAV file."""
    kind = audio_type(data)
    if kind:
        return Document(kind, data, "answer.mp3" if kind == "audio/mpeg" else "answer.wav")
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(_RATE)
        out.writeframes(data)
    return Document("audio/wav", file.getvalue(), "answer.wav")
