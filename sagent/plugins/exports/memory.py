"""Redaction of a whole session, in which most texts occur more than once: each is searched for secrets only once."""

from collections.abc import Mapping
from dataclasses import field
from hashlib import blake2b

from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_object, as_str
from sagent.transcript.redaction import JSON_NAMES, SECRET_NAMES, Redaction

_NO_TEXT = frozenset({int, float, bool, type(None)})
_MAX_KEPT_CHARS = 64  # of a text that is remembered as it is; longer ones by a hash


@dataclass(slots=True)
class SessionRedaction(Redaction):
    """Redaction that remembers the texts without secrets in `clean`, which several may share: names of members, ids,
    and results that a log, a page and a report repeat. `plain` are names whose values are texts like any other."""

    clean: set[str | bytes] = field(default_factory=set[str | bytes])
    plain: set[str] = field(default_factory=set[str])

    @classmethod
    def of(cls, redaction: Redaction) -> "SessionRedaction":
        """Return one with the findings of another, to which it adds its own."""
        return cls(redaction.keep, redaction.found)

    def apart(self) -> "SessionRedaction":
        """Return one that shares this memory and counts anew."""
        return SessionRedaction(self.keep, clean=self.clean, plain=self.plain)

    def value(self, value: object, name: str = "") -> object:
        kind = type(value)
        if kind is dict:  # as JSON is read; whatever else there is takes longer
            return self._members(as_object(value))
        if kind is str:
            return self._named(as_str(value), name)
        return value if kind in _NO_TEXT else Redaction.value(self, value, name)

    def _members(self, members: Mapping[str, object]) -> dict[str, object]:
        clean, plain = self.clean, self.plain
        found: dict[str, object] = {}
        for key, item in members.items():
            kind, name = type(item), key if key in clean else self.text(key)
            if kind is str and key in plain:
                item = item if item in clean else self.text(as_str(item))  # noqa: PLW2901 -- most are known
            elif kind is str and key not in JSON_NAMES and SECRET_NAMES.search(key) is None:
                plain.add(key)
                item = self.text(as_str(item))  # noqa: PLW2901
            elif kind not in _NO_TEXT:
                item = self.value(item, key)  # noqa: PLW2901
            found[name] = item
        return found

    def text(self, text: str) -> str:
        if self.keep or not text:
            return text
        key = text if len(text) <= _MAX_KEPT_CHARS else blake2b(text.encode("utf-8", "surrogatepass")).digest()
        if key in self.clean:
            return text
        before = self.count
        found = Redaction.text(self, text)
        if self.count == before:
            self.clean.add(key)
        return found
