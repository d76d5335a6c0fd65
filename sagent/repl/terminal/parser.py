"""Parses terminal input into keys: it may also contain the terminal's answers, and pastes that look like keys."""

import re
from collections.abc import Callable
from typing import cast

from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

from sagent.repl.terminal.key_codes import read_key

MAX_TYPED = 200  # characters that come at once from keys
MAX_TYPED_ENTER = 16  # the same if an Enter is among them
QUESTION = "\x1b]11;?\x1b\\"  # the background's colour, https://invisible-island.net/xterm/ctlseqs/ctlseqs.html
WHO = "\x1b[>c"  # asks for the terminal's type, which it answers after drawing everything before (DA2, same page)
_NUMBER = re.compile(r"\x1b\[>(\d{1,5})[;\d]*c")
_COLOUR = re.compile(r"\x1b\]11;rgba?:([\da-fA-F]{2,4})/([\da-fA-F]{2,4})/([\da-fA-F]{2,4})(?:/[\da-fA-F]+)?[\x1b\x07]")
_CURSOR = re.compile(r"\x1b\[(\d{1,5});(\d{1,5})R")  # CPR, the answer to DSR 6
_CLIPBOARD = re.compile(r"\x1b\]5522;([^\x07\x1b]*)")  # a part of the clipboard, see clipboard.py
_FOCUS = {"\x1b[I": True, "\x1b[O": False}  # same page, FocusIn/FocusOut
_PASTE_END = "\x1b[201~"
_SEQUENCE = re.compile(  # a marked paste, or a sequence after Esc, whose end may come with the next read
    r"(?P<paste>\x1b\[200~.*?(?:\x1b\[201~|\Z))|\x1b\[M[^\x1b]{3}|\x1b\[(?!M[^\x1b]{0,2}\Z)[0-?]*[ -/]*[@-~]"
    r"|\x1b[P\]^_X][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|(?P<begun>\x1b(?:\[(?:M[^\x1b]{0,2}|[0-?]*\$?)|\](?:5522;[^\x07\x1b\s]{0,20000}\x1b?|\d{1,4}(?:;[^\x07\x1b\s]{0,60}\x1b?)?)?"
    r"|P(?:(?:[>!]|[01][$+])[^\x07\x1b]{0,60}\x1b?|[01])?)?\Z)",
    re.DOTALL,
)
_NO_KEY = re.compile(r"\x1b(?:\]\d+;|P[>!]|P[01][$+])")  # beginnings of answers, which no key has
_WORDS = re.compile(r"[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]+")


class InputParser(Vt100Parser):
    """Recognizes more sequences: the terminal gained or lost focus, reports its background; keys of extended protocols.

    A terminal that does not mark pastes sends them as keys, with Enter for line ends. Input that arrives at once is
    taken for a paste if it is longer than anyone types, or has text after an Enter; so is the text after it until
    `flush`. An Enter alone, first, or after the only line is a key. Nothing counts as a paste before all is `loaded`,
    because earlier keys wait in the terminal and arrive at once.

    `on_focus` reports whether the terminal is in front, `on_background` whether its background is light, `on_cursor`
    the cursor's row and column, and `on_number` the terminal's type number.
    """

    def __init__(
        self,
        callback: Callable[[KeyPress], None],
        on_focus: Callable[[bool], object],
        on_background: Callable[[bool], object],
        loaded: Callable[[], bool],
        on_cursor: Callable[[int, int], object],
        on_number: Callable[[int], object],
    ) -> None:
        def take(press: KeyPress) -> None:
            if press.key == Keys.Ignore and press.data in _FOCUS:
                on_focus(_FOCUS[press.data])
            else:
                text = press.key if len(press.key) == 1 else press.data
                callback(KeyPress(press.key, text))

        super().__init__(take)
        self.on_clipboard: Callable[[str], object] = lambda part: None  # takes parts of what the clipboard holds
        self._on_background, self._loaded = on_background, loaded
        self._on_cursor, self._on_number = on_cursor, on_number
        self._held = ""  # the beginning of a key or an answer
        self._late = False  # the rest of a sequence is late
        self._pasted = ""  # without marks, so far

    def feed(self, data: str) -> None:
        """Parse input, without the terminal's answers."""
        if self._late and len(data) == 1 and data.isprintable() and not self._held.endswith("\x1b"):
            self._held = ""  # a key: the rest of the answer is lost
        data, self._held, self._late = self._held + data, "", False
        inside = ""
        if self._in_bracketed_paste:
            inside, end, data = data.partition(_PASTE_END)
            inside += end
        data = inside + _SEQUENCE.sub(self._known, data)
        if not data:
            return
        if not self._in_bracketed_paste and not self._pasted:  # a leading Enter belongs to earlier text
            rest = data.lstrip("\r")
            super().feed(data[: len(data) - len(rest)])
            data = rest
        if not self._in_bracketed_paste and self._is_pasted(data):
            self._pasted += data
        else:
            self._end_paste()
            super().feed(data)

    def _known(self, match: re.Match[str]) -> str:
        """Return a paste or key; "" for anything else, such as a mouse event, or an answer meant for an earlier
        program: its Esc and letters were not typed."""
        if match["paste"]:
            return match[0]
        if match["begun"]:
            self._held = match[0]
            return ""
        if colour := _COLOUR.match(match[0]):
            red, green, blue = (int(part[:2], 16) for part in colour.groups())
            self._on_background(299 * red + 587 * green + 114 * blue > 128 * 1000)
        if part := _CLIPBOARD.match(match[0]):
            self.on_clipboard(part[1])
        if number := _NUMBER.fullmatch(match[0]):
            self._on_number(int(number[1]))
        if cursor := _CURSOR.fullmatch(match[0]):
            self._on_cursor(int(cursor[1]), int(cursor[2]))
            return ""
        return "" if self._get_match(match[0]) in (None, Keys.Vt100MouseEvent) else match[0]

    def _is_pasted(self, data: str) -> bool:
        if data == "\r" or not self._loaded() or not _WORDS.fullmatch(data):
            return False
        line = data.rstrip("\r\n")
        several = "\r" in line or "\n" in line
        return bool(self._pasted) or (len(data) > MAX_TYPED_ENTER if several else len(line) == len(data) > MAX_TYPED)

    def flush(self) -> None:
        """Flush held keys after a pause."""
        self._end_paste()
        self._late = bool(_NO_KEY.match(self._held))
        if not self._late:
            data, self._held = self._held, ""
            super().feed(data)
        super().flush()

    def _end_paste(self) -> None:
        if self._pasted:
            text, self._pasted = self._pasted, ""
            self.feed_key_callback(KeyPress(Keys.BracketedPaste, text))

    def _get_match(self, prefix: str) -> "Keys | tuple[Keys, ...] | None":
        if prefix in _FOCUS:
            return Keys.Ignore
        key = read_key(prefix)
        return super()._get_match(prefix) if key is None else cast("Keys | tuple[Keys, ...]", key)  # or characters
