"""Long pastes and images, which place holders stand for in the input."""

import re

from sagent.messages import Image, Part

_HOLDER = re.compile(r"\[(?:Pasted text|Image) #(\d+)[^\]]*\]")


class InputBuffer:
    """Keeps pastes and images by the number of their place holder."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._images: dict[str, Image] = {}
        self._number = 0

    def keep_text(self, text: str) -> str:
        self._number += 1
        self._texts[str(self._number)] = text
        lines = text.count("\n") + 1
        return f"[Pasted text #{self._number}, {lines} lines]" if lines > 1 else f"[Pasted text #{self._number}]"

    def keep_image(self, image: Image) -> str:
        self._number += 1
        self._images[str(self._number)] = image
        return f"[Image #{self._number}]"

    def whole(self, text: str) -> str:
        """The text with the pastes in their places."""
        return _HOLDER.sub(lambda match: self._texts.get(match[1], match[0]), text)

    def images(self, text: str) -> tuple[Part, ...]:
        """The images that the text still names."""
        return tuple(self._images[match[1]] for match in _HOLDER.finditer(text) if match[1] in self._images)
