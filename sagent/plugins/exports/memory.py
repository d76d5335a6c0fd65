"""Redaction of a whole session, in which most texts occur more than once: each is searched for secrets only once."""

from dataclasses import field
from hashlib import blake2b

from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_object, as_str
from sagent.transcript.redaction import Redaction

_NO_TEXT = frozenset({int, float, bool, type(None)})
_MAX_KEPT_CHARS = 64  # of a text that is remembered as it is; longer ones by a hash


@dataclass(slots=True)
class SessionRedaction(Redaction):
    """Redaction that remembers the texts without secrets in `clean`, which several may share: names of members, ids,
    and results that a log, a page and a report repeat."""

    clean: set[str | bytes] = field(default_factory=set[str | bytes])

    @classmethod
    def of(cls, redaction: Redaction) -> "SessionRedaction":
        """Return one with the findings of another, to which it adds its own."""
        return cls(redaction.keep, redaction.found)

    def apart(self) -> "SessionRedaction":
        """Return one that shares this memory and counts anew."""
        return SessionRedaction(self.keep, clean=self.clean)

    def value(self, value: object, name: str = "") -> object:
        kind = type(value)
        if kind is dict:  # as JSON is read; whatever else there is takes longer
            members, clean = as_object(value), self.clean
            return {key if key in clean else self.text(key): self.value(item, key) for key, item in members.items()}
        if kind is str:
            return self._named(as_str(value), name)
        return value if kind in _NO_TEXT else Redaction.value(self, value, name)

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
