"""Redaction of what looks like a secret in what leaves the machine."""

import json
import re
from collections import Counter
from dataclasses import field

from sagent.lib.dataclass import dataclass
from sagent.lib.json import JsonObject, as_array, as_object, canonical_bytes, json_dump
from sagent.lib.secrets import redact_kinds
from sagent.lib.text import one_line
from sagent.session.entries import Entry, read_body, unreadable

SECRET_NAMES = re.compile(r"(?i)key|secret|token|pass|pwd|credential|auth")
SEARCHED_CHARS = 4_000  # to search for secrets if fewer are shown
JSON_NAMES = ("arguments", "data", "schema")  # members with JSON as text


@dataclass(slots=True)
class Redaction:
    """Removes secrets recognized by their shape; `found` counts their kinds. With `keep`, it changes nothing."""

    keep: bool = False
    found: list[str] = field(default_factory=list[str])

    @property
    def count(self) -> int:
        return len(self.found)

    @count.setter
    def count(self, number: int) -> None:
        """Count findings only in the block's first pass; later passes see the same text again."""
        del self.found[number:]

    @property
    def kinds(self) -> str:
        """Count of each kind, most first."""
        return ", ".join(f"{number} {kind}" for kind, number in Counter(self.found).most_common())

    def text(self, text: str) -> str:
        if self.keep or not text:
            return text
        clean, found = redact_kinds(text)
        self.found += found
        return clean

    def line(self, text: str, width: int) -> str:
        """Return a text on one line, cut to a length after a longer part was searched for secrets."""
        return one_line(self.text(text[:SEARCHED_CHARS]), width)

    def value(self, value: object, name: str = "") -> object:
        """Return a JSON value without secrets in texts and member names; `name` is the value's own."""
        match value:
            case str():
                return self._named(value, name)
            case list() | tuple():
                return [self.value(item) for item in as_array(value)]  # pyright: ignore[reportUnknownArgumentType]
            case dict() | JsonObject():
                members = as_object(value)  # pyright: ignore[reportUnknownArgumentType] -- the keys of JSON are strings
                return {self.text(key): self.value(item, key) for key, item in members.items()}
            case _:
                return value

    def entry(self, entry: Entry) -> bytes:
        """Return an entry's line without secrets. It keeps its id, which no longer matches the changed line."""
        if self.keep:
            return entry.line
        before = self.count
        try:
            body = self.value(read_body(entry))
        except RecursionError as error:
            raise unreadable(entry, error) from error
        if self.count == before:
            return entry.line
        members = {"at": entry.at, "body": body, "kind": entry.kind, "parent": entry.parent}
        return b'{"id":"%b",%b\n' % (entry.id.encode(), canonical_bytes(members)[1:])

    def _named(self, text: str, name: str) -> str:
        if self.keep:
            return text
        if name in JSON_NAMES and text[:1] in ("{", "["):
            return self._json(text)
        if SECRET_NAMES.search(name) and "\n" not in text and '"' not in text:
            head = f'{name}: "'
            clean, found = redact_kinds(f'{head}{text}"')
            if clean.startswith(head) and clean.endswith('"'):
                self.found += found
                return clean[len(head) : -1]
        return self.text(text)

    def _json(self, text: str) -> str:
        before = self.count
        try:
            value: object = json.loads(text)
            clean = self.value(value)
        except (ValueError, RecursionError):
            return self.text(text)
        return text if self.count == before else json_dump(clean)
