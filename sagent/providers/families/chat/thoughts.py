"""Thinking inside the text: servers without a parser for it leave the model's marks."""

from collections.abc import Iterator, Sequence

from sagent.lib.json import as_object
from sagent.messages import Thinking

IN_TEXT = "text"
"""Source of such thinking in our private data. It is sent back in the text."""
_OPEN, _CLOSE = "<think>", "</think>"


class LeadingThoughts:
    """Splits the text of a reply, in pieces of any size, into the thinking it begins with and the rest.

    Later marks are ordinary text, which may be about them.
    """

    def __init__(self) -> None:
        self._held = ""
        self._inside = self._after = False
        self._thinks = False  # some thinking was seen
        self.over = False  # what follows is text

    def split(self, piece: str) -> Iterator[tuple[bool, str]]:
        """Yield the pieces that are certain by now, each with True for thinking."""
        self._held += piece
        if not (self._inside or self._after):
            said = self._held.lstrip()
            if said.startswith(_OPEN):
                self._held, self._inside = said.removeprefix(_OPEN), True
            elif not _OPEN.startswith(said):
                self.over = True
                yield from self.end()
        if self._inside:
            thought, mark, rest = self._held.partition(_CLOSE)
            if mark:
                self._held, self._inside, self._after = rest, False, True
            else:
                kept = next(size for size in range(len(_CLOSE), -1, -1) if thought.endswith(_CLOSE[:size]))
                thought, self._held = thought[: len(thought) - kept], thought[len(thought) - kept :]
            if thought := thought if self._thinks else thought.lstrip():
                self._thinks = True
                yield True, thought
        if self._after:
            self._held = self._held.lstrip()
            self.over = bool(self._held)
            yield from self.end()

    def end(self) -> Iterator[tuple[bool, str]]:
        """Yield the text held back at the end of the stream."""
        held, self._held = self._held, ""
        if held:
            yield self._inside, held


def marked(thoughts: Sequence[Thinking]) -> str:
    """Return thinking from the text as it precedes the text again."""
    said = [each.text for each in thoughts if each.private and as_object(each.private.data).get("field") == IN_TEXT]
    return f"{_OPEN}\n{''.join(said).strip()}\n{_CLOSE}\n\n" if said else ""
