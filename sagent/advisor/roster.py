"""The advisors of an agent by name: their models, and the muted ones."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from sagent.advisor.advisor import Advisor, parse_advisor, role_text
from sagent.errors import UsageError
from sagent.model import Model


class Roster:
    """`muted` is shared by all agents of a tree; relative paths of role files start at `base`."""

    def __init__(
        self, advisors: Sequence[Advisor], muted: set[str], base: Path, resolve: Callable[[Advisor], Model]
    ) -> None:
        self._by_name = {advisor.name: advisor for advisor in advisors}
        self._muted, self._base, self._resolve = muted, base, resolve
        self._models: dict[str, Model] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all advisors, in order."""
        return tuple(self._by_name)

    @property
    def every(self) -> tuple[Advisor, ...]:
        """All advisors, in order."""
        return tuple(self._by_name.values())

    @property
    def active(self) -> tuple[Advisor, ...]:
        """The advisors that are not switched off."""
        return tuple(one for name, one in self._by_name.items() if name not in self._muted)

    @property
    def alone(self) -> Advisor | None:
        """The only advisor, unless it is muted."""
        return self.active[0] if len(self._by_name) == 1 and self.active else None

    def chosen(self, name: str, *, every: bool) -> Sequence[Advisor]:
        """Return the advisors for a question: the named one, else all or the first that are not muted."""
        if name:
            return [self._named(name)]
        if not self._by_name:
            raise UsageError("no advisor is set: give one with --advisor, or switch one on")
        there = self.active or self.every
        return there if every else there[:1]

    def model(self, advisor: Advisor) -> Model:
        """Return the model of an advisor. Raises UsageError."""
        if advisor.name not in self._models:
            self._models[advisor.name] = self._resolve(advisor)
        return self._models[advisor.name]

    def plan(self, change: str) -> Callable[[], tuple[str, Sequence[str]]]:
        """Check a change. Return a function that makes it and returns its description and the advisors to stop asking.
        Raises UsageError for an impossible one."""
        name, word = toggle(change)
        if not word:
            advisor = parse_advisor(change)
            role_text(advisor, self._base)
            self._resolve(advisor)
            return lambda: self._set(advisor)
        if name:
            self._named(name)
        elif not self._by_name:
            raise UsageError("no advisor is set: give one, as provider/model")
        return lambda: self._toggle(name, word)

    def _toggle(self, name: str, word: str) -> tuple[str, Sequence[str]]:
        whom = (name,) if name else self.names
        for each in whom:
            (self._muted.add if word == "off" else self._muted.discard)(each)
        return f"advisor {name or 'all'} {word}", whom if word == "off" else ()

    def _set(self, advisor: Advisor) -> tuple[str, Sequence[str]]:
        self._by_name[advisor.name] = advisor
        self._models.pop(advisor.name, None)
        self._muted.discard(advisor.name)
        return f"advisor {advisor}", ()

    def describe(self) -> str:
        """Describe the advisors in words: "advisor=openai/gpt-5.5 (off)"."""
        return ", ".join(f"{one}{' (off)' if name in self._muted else ''}" for name, one in self._by_name.items())

    def _named(self, name: str) -> Advisor:
        if name not in self._by_name:
            raise UsageError(f"there is no advisor {name!r}; there are {', '.join(self._by_name) or 'none'}")
        return self._by_name[name]


def toggle(change: str) -> tuple[str, str]:
    """("NAME", "off") of "NAME=off", ("", "on") of "on"; ("", "") of what names a model."""
    name, equals, word = (part.strip() for part in change.partition("="))
    if not equals:
        name, word = "", name
    return (name, word) if word in ("on", "off") else ("", "")


def recall(changes: Iterable[str]) -> tuple[Mapping[Advisor, str], Sequence[str]]:
    """Return the advisors, each with its given address or "", and the names of muted ones, by the changes in a log: all
    of them ("advisors NAME=MODEL at URL; ..."), one ("advisor NAME=MODEL"), or a switch ("advisor all off"). Raises
    UsageError."""
    by_name: dict[str, Advisor] = {}
    places: dict[Advisor, str] = {}
    off: set[str] = set()
    for change in changes:
        kind, _, what = change.partition(" ")
        name, _, word = what.rpartition(" ")
        if kind == "advisors":
            found = [] if what == "none" else [each.partition(" at ") for each in what.split("; ")]
            places = {parse_advisor(one): place for one, _, place in found}
            by_name, off = {one.name: one for one in places}, set()
        elif word in ("on", "off"):
            (off.update if word == "off" else off.difference_update)(by_name if name == "all" else (name,))
        else:
            advisor = parse_advisor(what)
            by_name[advisor.name] = advisor
            off.discard(advisor.name)
    known = {one: places.get(one, "") for one in by_name.values()}
    return known, tuple(name for name in by_name if name in off)
