"""Images scaled down, or converted to a form that every model accepts, by Pillow in a separate process."""

import sys
from io import BytesIO

from sagent.lib import isolated

MAX_PIXELS = 120_000_000  # of an image that is opened
_TIMEOUT_SECONDS = 20
_JPEG_QUALITY = 85
_MIN_SIDE = 64  # pixels
_PNG, _JPEG = b"P", b"J"


def shrink_image(data: bytes, side: int, max_bytes: int) -> tuple[str, bytes] | None:
    """Return media type and bytes of an image's first frame, of at most `side` pixels a side and `max_bytes`: JPEG if
    it was one or would be too large otherwise, else PNG. None if Pillow is missing or cannot read it."""
    answered = isolated.answer_of(__name__, b"%d %d\n%b" % (side, max_bytes, data), _TIMEOUT_SECONDS)
    form, found = answered[:1], answered[1:]
    if form not in (_PNG, _JPEG) or len(found) > max_bytes:
        return None
    return ("image/png" if form == _PNG else "image/jpeg"), found


def answer() -> None:
    """Write the smaller image from standard input, after a letter for its form. Runs in the other process."""
    isolated.limit()
    head, _, data = sys.stdin.buffer.read().partition(b"\n")
    side, most = map(int, head.split())
    from PIL import Image, ImageOps  # if it is missing, this process fails, and the image is unchanged

    Image.MAX_IMAGE_PIXELS = MAX_PIXELS // 2  # Pillow refuses twice as many
    with Image.open(BytesIO(data)) as opened:
        opened.load()
        form, image = opened.format, ImageOps.exif_transpose(opened)
    image = image.convert("RGBA" if image.has_transparency_data else "L" if image.mode in ("1", "L") else "RGB")
    while True:
        image.thumbnail((side, side))
        letter, made = _JPEG if form == "JPEG" else _PNG, BytesIO()
        image.save(made, "JPEG" if letter == _JPEG else "PNG", quality=_JPEG_QUALITY)
        if letter == _PNG and made.tell() > most:  # a photograph, most likely
            letter, made = _JPEG, BytesIO()
            image.convert("RGB").save(made, "JPEG", quality=_JPEG_QUALITY)
        if made.tell() <= most or side < _MIN_SIDE:
            break
        side = max(image.size) * 3 // 4
    sys.stdout.buffer.write(letter + made.getvalue())
