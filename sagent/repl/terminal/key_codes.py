"""Keys as terminals send them that distinguish all: kitty's protocol and CSI u, and xterm's modifyOtherKeys.

https://sw.kovidgoyal.net/kitty/keyboard-protocol, https://invisible-island.net/xterm/modified-keys.html. They are read
as the keys that other terminals send, except Enter with Shift or Ctrl, which those send as Enter.
"""

import re

from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.keys import Keys

ASK, STOP = "\x1b[=0u\x1b[>1u\x1b[>4;1m", "\x1b[>4m\x1b[<u"
"""Sequences that turn the distinction of otherwise equal keys on, clearing a killed program's settings first, and
off."""
_NUMBER = r"(\d{1,7})"
_KEY = re.compile(rf"\x1b\[(?:27;{_NUMBER};{_NUMBER}~|{_NUMBER}(?:;{_NUMBER})?u)\Z")
_LOCKED = re.compile(rf"\x1b\[(\d?\d?);{_NUMBER}([A-DFHP-S~])\Z")
_SHIFT, _ALT, _CTRL, _LOCKS = 1, 2, 4, 64 | 128  # Caps Lock and Num Lock
_ENTER, _TAB, _ESC, _RUB = 13, 9, 27, 127
_KEYPAD = (
    *((57399 + digit, str(digit)) for digit in range(10)),
    *zip(range(57409, 57414), "./*-+", strict=True),
    (57414, "\r"),
    *zip(range(57417, 57427), ("[D", "[C", "[A", "[B", "[5~", "[6~", "[H", "[F", "[2~", "[3~"), strict=True),
)
_CONTROL = {**dict.fromkeys("/-7", "\x1f"), " ": "\x00", "2": "\x00"}


def read_key(sequence: str) -> Keys | tuple[Keys | str, ...] | None:
    """Return the key or keys of a whole sequence; None if it is another sequence."""
    if match := _KEY.match(sequence):
        state = int(match[1] or match[4] or "1") - 1
        return _key(int(match[2] or match[3]), state & ~_LOCKS)
    if (locked := _LOCKED.match(sequence)) and (state := int(locked[2]) - 1) & _LOCKS:
        number, end = locked[1], locked[3]
        held = f"{number};{(state & ~_LOCKS) + 1}" if state & ~_LOCKS else number if end == "~" else ""
        return ANSI_SEQUENCES.get(f"\x1b[{held}{end}", Keys.Ignore)
    return None


def _key(code: int, state: int) -> Keys | tuple[Keys | str, ...]:
    keypad = dict(_KEYPAD).get(code, "")
    if code == _ENTER and state & (_SHIFT | _CTRL):
        return Keys.ControlJ  # a new line
    if keypad.startswith("["):
        return ANSI_SEQUENCES.get(f"\x1b{keypad}", Keys.Ignore)
    unknown = 0xD800 <= code < 0xF900 or code > 0x10FFFF
    if state & ~(_SHIFT | _ALT | _CTRL) or (unknown and not keypad):
        return Keys.Ignore  # with Super, or an unused special key
    if code == _TAB and state & _SHIFT:
        return Keys.BackTab
    text = keypad or chr(code)
    if state & _SHIFT and text.isalpha():
        text = text.upper()
    alt = state & _ALT or (code == _RUB and state & _CTRL)  # Ctrl-Backspace also deletes a word
    if state & _CTRL and code != _RUB:
        text = _CONTROL.get(text) or (chr(ord(text) & 0x1F) if "@" <= text <= "~" else text)
    key = ANSI_SEQUENCES.get(text, text)
    keys = key if isinstance(key, tuple) else (key,)
    return (Keys.Escape, *keys) if alt else keys
