"""Arguments of calls, read from the text that a model wrote."""

from sagent.lib.json import EMPTY, JsonObject, join_pairs, json_freeze, valid_text


def parse_arguments(raw: str) -> tuple[JsonObject, str | None]:
    """Return a call's arguments; for what is no JSON object, none and the text itself (`null` is none)."""
    arguments, malformed, _ = mend_arguments(raw)
    return arguments, malformed


def mend_arguments(raw: str) -> tuple[JsonObject, str | None, tuple[str, ...]]:
    """Return the same, and how the text had to be read (`sagent.lib.nearjson`)."""
    from sagent.lib.nearjson import TEXT, read_near  # for few runs

    raw = join_pairs(raw)
    try:
        read = read_near(raw)
        value, mends = json_freeze(read.value), read.mends
        if isinstance(value, str):  # the object as a text, as some models write it
            inner = read_near(value)
            value, mends = json_freeze(inner.value), (*mends, TEXT, *inner.mends)
    except (ValueError, RecursionError):
        return EMPTY, valid_text(raw), ()
    if isinstance(value, JsonObject):
        return value, None, mends
    return EMPTY, None if value is None else valid_text(raw), ()
