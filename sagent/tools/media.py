"""Media for a model in a file's data: images, recordings, recognized by their bytes, and PDF files.

Images are limited to what every provider accepts, because one bad image spoils a conversation.
"""

import asyncio

from sagent.errors import ToolError
from sagent.lib.image import image_type, is_animated, measure_image
from sagent.lib.pictures import shrink_image
from sagent.messages import Document, Image, Text
from sagent.tool import ToolOutput

MAX_DOCUMENT_BYTES = 30_000_000
_MAX_AUDIO_BYTES = 14_000_000  # bytes: Gemini takes requests of 20 MB (ai.google.dev, audio understanding)
# Anthropic's limit is 5 MB of base64, https://docs.anthropic.com/en/docs/build-with-claude/vision
_MAX_BYTES = 3_900_000
_MAX_SIDE_PIXELS = 8000  # pixels, same page
MAX_SHOWN_SIDE_PIXELS = 2000  # pixels: Anthropic's limit with more than 20 images in a request, same page


def media_in(data: bytes, name: str) -> Image | Document | None:
    """Return the image, PDF or recording in some data, None for anything else. Raises ValueError for one that no
    provider accepts."""
    if data.startswith(b"%PDF-"):
        if len(data) > MAX_DOCUMENT_BYTES:
            raise ValueError(f"it has more than {MAX_DOCUMENT_BYTES // 1_000_000} MB")
        return Document("application/pdf", data, name)
    try:
        shown = show_image(data, name)
    except ToolError as error:
        raise ValueError(str(error)) from error
    if shown is not None:
        return next(part for part in shown.content if isinstance(part, Image))
    return _recording(data, name)


async def read_media(data: bytes, name: str) -> Image | Document | None:
    """Do the same as `media_in`, for an image in a thread, because checking and scaling it takes time."""
    return await asyncio.to_thread(media_in, data, name) if image_type(data) else media_in(data, name)


def _recording(data: bytes, name: str) -> Document | None:
    from sagent.lib.audio import audio_type

    kind = audio_type(data)
    if kind and len(data) > _MAX_AUDIO_BYTES:
        raise ValueError(
            f"it has more than {_MAX_AUDIO_BYTES // 1_000_000} MB, the most of a recording: cut or compress it"
        )
    return Document(kind, data, name) if kind else None


def show_image(data: bytes, name: str) -> ToolOutput | None:
    """Return the image, smaller if it is large, or None if the bytes are none. Raises ToolError for one that no
    provider accepts."""
    kind = image_type(data)
    if not kind:
        return None
    size = measure_image(data, kind)
    if size is None or not all(size):  # or it is followed by other data, as the video of a phone's photo
        mended = shrink_image(data, MAX_SHOWN_SIDE_PIXELS, _MAX_BYTES)
        if mended is None or not (size := measure_image(mended[1], mended[0])):
            raise ToolError(f"{name} is a broken or incomplete {kind} image.")
        said = f"{name}: {kind}, of which what could be read is shown as {size[0]}x{size[1]}"
        return ToolOutput((Text(said), Image(*mended)), summary=said)
    said = f"{name}: {kind}, {size[0]}x{size[1]}"
    if max(size) > MAX_SHOWN_SIDE_PIXELS or len(data) > _MAX_BYTES or is_animated(data):
        smaller = shrink_image(data, MAX_SHOWN_SIDE_PIXELS, _MAX_BYTES)
        if smaller is not None:
            kind, data = smaller
            width, height = measure_image(data, kind) or size
            said = f"{said}, shown as {width}x{height}"
        elif max(size) > _MAX_SIDE_PIXELS or len(data) > _MAX_BYTES:
            raise ToolError(
                f"{name} is {size[0]}x{size[1]} pixels and {len(data)} bytes, and could not be made smaller; an image "
                f"may have {_MAX_SIDE_PIXELS} pixels a side and {_MAX_BYTES} bytes. Make a smaller copy with a command "
                "and read that."
            )
    return ToolOutput((Text(said), Image(kind, data)), summary=said)
