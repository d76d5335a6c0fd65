"""Characters that a provider splits, and calls that it cuts, for the tests of the doors by which others listen."""

import json
from collections.abc import Iterator

from sagent.testing.script import Call, Turn

HALVES = "a\ud83d\ude00 e\u0301 \ud83d\udc69\u200d\ud83d\udc69 b\ud83d"
"""An emoji, a combining accent, two people joined, and half of a pair without the other."""
WHOLE = "a😀 e\u0301 👩\u200d👩 b\ufffd"
SPLIT = [
    Turn(HALVES, thinking=HALVES, calls=(Call("List", json.dumps({"path": HALVES[:3]})),), pieces=1),
    Turn(HALVES, pieces=1),
]
CUT = [Turn("I see.", calls=(Call("Bash", '{"command": "touch ran', cut=True),), stop="max_tokens"), Turn("ok")]


def texts(value: object) -> Iterator[str]:
    """Every text in a JSON value."""
    match value:
        case str():
            yield value
        case dict():
            for key, each in value.items():
                yield from texts(key)
                yield from texts(each)
        case list() | tuple():
            for each in value:
                yield from texts(each)
        case _:
            pass


def check(value: object) -> None:
    for text in texts(value):
        text.encode()  # raises where it is not valid
