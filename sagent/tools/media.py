"""What of a file's data a model can be shown: an image, or a PDF."""

from sagent.errors import ToolError
from sagent.messages import Document, Image
from sagent.tools.image import show_image

MOST_DOCUMENT = 30_000_000  # bytes


def media_in(data: bytes, name: str) -> Image | Document | None:
    """The image or the PDF in some data, None for anything else. Raises ValueError for one that no provider takes."""
    if data.startswith(b"%PDF-"):
        if len(data) > MOST_DOCUMENT:
            raise ValueError(f"it has more than {MOST_DOCUMENT // 1_000_000} MB")
        return Document("application/pdf", data, name)
    try:
        shown = show_image(data, name)
    except ToolError as error:
        raise ValueError(str(error)) from error
    return None if shown is None else next(part for part in shown.content if isinstance(part, Image))
