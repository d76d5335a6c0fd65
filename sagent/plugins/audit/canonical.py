"""Check for canonical JSON: sorted keys, no spaces, UTF-8, one way to write each value."""

import json

from pydantic_core import from_json, to_json

from sagent.lib.json import canonical_bytes


def parse(text: bytes) -> object:
    """Parse canonical JSON. Raises ValueError for any other form.

    pydantic's parser and writer take half the time of the standard library's. They only differ in how some numbers are
    written, which is checked; if they reject a text, the standard library decides.
    """
    try:
        value: object = from_json(text, allow_inf_nan=False)
        if to_json(value) == text and _in_order(value):
            return value
    except ValueError:
        pass
    try:
        value = json.loads(text)
        if canonical_bytes(value) == text:
            return value
    except RecursionError:
        raise ValueError("the body is nested too deeply to be checked") from None
    except ValueError:
        pass
    raise ValueError("the id is not that of the canonical form")


_DEEP = frozenset({dict, list, float})


def _in_order(value: object) -> bool:
    """Return True if all keys are sorted and all numbers written as Python writes them. Iterative, because every line
    of a log is checked and recursion takes a fifth longer."""
    waiting: list[object] = [value]
    for each in waiting:
        if type(each) is dict:
            members: dict[str, object] = each  # pyright: ignore[reportUnknownVariableType] -- the keys of JSON are strings
            names = list(members)
            if len(names) > 1 and names != sorted(names):
                return False
            for item in members.values():
                if type(item) in _DEEP:
                    waiting.append(item)  # noqa: PERF401 -- nor a generator, for the same reason
        elif type(each) is list:
            items: list[object] = each  # pyright: ignore[reportUnknownVariableType] -- as JSON has them
            for item in items:
                if type(item) in _DEEP:
                    waiting.append(item)  # noqa: PERF401 -- as above
        elif type(each) is float and to_json(each) != repr(each).encode():
            return False
    return True
