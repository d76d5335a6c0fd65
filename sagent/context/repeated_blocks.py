"""Finds blocks that a reply writes over and over: models that lost their way repeat one command or call for ever."""

import re
from collections.abc import Container

MAX_SAME = 3
"""Consecutive times that a block may come with the same content before the reply is cut."""
_MAX_CYCLE = 4  # blocks that take turns
_MIN_CHARS = 8  # of a block with its fences
_BEGIN = re.compile(r"[ \t]*(?:(`{3,}|~{3,})([^`\n]*)$|<(tool_call|function_call|tools|invoke|function)\b)")


class RepeatedBlocks:
    """Watches a growing text for blocks in fences, and calls in tags, that come again with the same words before them.
    Of a block whose fence has one of the `alone` words, the words before it do not count."""

    def __init__(self, alone: Container[str] = ()) -> None:
        self.kept = 0
        """The number of characters up to the end of what is repeated; 0 if nothing is."""
        self.block = ""
        self._alone = alone
        self._line, self._size = "", 0  # the line that has not ended, and characters before it
        self._end = re.compile("")
        self._open: list[str] = []  # lines of the block that has not ended
        self._words: list[str] = []  # lines since the last block
        self._found: list[tuple[str, str, int]] = []  # the last blocks, the words before them, and their ends

    def repeat(self, text: str) -> bool:
        """Add a piece of text; return True if it ends a block that came too often."""
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._size += len(line) + 1
            if self._takes_end(line.rstrip()):
                return True
        return False

    def _takes_end(self, line: str) -> bool:
        """Take a line; return True if it ends a block that came too often."""
        begins = None if self._open else _BEGIN.match(line)
        if begins is not None:
            fence, info, tag = begins[1] or "", (begins[2] or "").strip().lower(), begins[3]
            self._end = re.compile(rf"[ \t]*{fence}{fence[:1]}*" if fence else rf".*</{tag}>")
            self._words = [] if info in self._alone else self._words
        elif not self._open:
            self._words.append(line.strip())
            return False
        self._open.append(line)
        if not self._end.fullmatch(line) or (begins is not None and not begins[3]):
            return False
        words = " ".join(filter(None, self._words))
        self._found = [*self._found[1 - MAX_SAME * _MAX_CYCLE :], ("\n".join(self._open), words, self._size)]
        self._open, self._words = [], []
        return any(map(self._comes_again, range(1, _MAX_CYCLE + 1)))

    def _comes_again(self, size: int) -> bool:
        """Return True if the last blocks are this many, over and over. The words before the first may be others."""
        start = len(self._found) - MAX_SAME * size
        units = [self._found[at : at + size] for at in range(start, len(self._found), size)] if start >= 0 else []
        first, *others = [[(block, words) for block, words, _ in unit] for unit in units] or [[]]
        if not others or any(unit != others[0] for unit in others) or first[1:] != others[0][1:]:
            return False
        if first[0][0] != others[0][0][0] or max(len(block) for block, _ in first) < _MIN_CHARS:
            return False
        self.kept, self.block = units[0][-1][2], first[0][0]
        return True
