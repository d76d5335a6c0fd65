"""The common part of the wire families: JSON and events as bytes, marks to recognise, and what several of them
refuse."""

import binascii
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sagent.lib.json import Json, as_str, json_dump, json_load, valid_text

CREATED = 1_700_000_000  # every timestamp: answers are the same in every run

_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def parsed(arguments: str) -> Json:
    """Return the arguments as a value, or as the raw string if they are not JSON."""
    try:
        return json_load(arguments or "{}")
    except ValueError:
        return arguments


def encode(value: object) -> bytes:
    """JSON bytes. A lone surrogate becomes its \\uXXXX escape, as in real streams."""
    return json_dump(value).encode("utf-8", "backslashreplace")


def data_event(value: object) -> bytes:
    return b"data: %b\n\n" % encode(value)


def named_event(value: Mapping[str, object]) -> bytes:
    """Return an event that bears its type's name."""
    return b"event: %b\n%b" % (as_str(value["type"]).encode(), data_event(value))


def checksum(text: str) -> str:
    """Return eight characters by which the server recognises text that it has signed or encrypted."""
    return f"{binascii.crc32(valid_text(text).encode()):08x}"


def pieces(text: str, size: int) -> list[str]:
    """Return the text in pieces of this many characters; 0 leaves it whole."""
    size = size if size > 0 else len(text)
    return [text[at : at + size] for at in range(0, len(text), size)] if text else []


def refused(*rules: tuple[object, str]) -> Iterator[str]:
    """Return the messages of those rules that were broken."""
    return (message for broken, message in rules if broken)


def check_tools(location: str, tools: Sequence[Mapping[str, object]]) -> Iterator[str]:
    """Yield the errors in the names of the offered tools that both APIs refuse. `where` has a {} for the tool's
    number."""
    seen: set[str] = set()
    for number, tool in enumerate(tools):
        name = as_str(tool.get("name"))
        pattern = f"{location.format(number)}: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        yield from refused(
            (not is_name(name) or len(name) > 128, pattern), (name in seen, "tools: Tool names must be unique.")
        )
        seen.add(name)


def is_name(text: str) -> bool:
    """Return True if the text has the form of a tool's name, or of a call's id."""
    return bool(text) and _NAME_CHARACTERS.issuperset(text)


def too_long(location: str, text: str, limit: int) -> str:
    """Return OpenAI's message about a text that is too long."""
    return (
        f"Invalid '{location}': string too long. Expected a string with maximum length {limit}, but got a string with"
        f" length {len(text)} instead."
    )


def unsupported(value: object, names: Iterable[str], location: str = "", last: str = ", ") -> str:
    """Return OpenAI's message about an unsupported value."""
    return f"Invalid value: {value!r}{location}. Supported values are: {last.join(map(repr, names))}."
