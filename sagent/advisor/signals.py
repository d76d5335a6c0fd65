"""Signals in an executor's turns: failures, doubt, no progress. Counted in code, from results and not from words."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from sagent.advisor.changes import finds_nothing, runs_tests
from sagent.advisor.conversation import TOOL, is_held
from sagent.advisor.rules import Rules, Trigger
from sagent.agent.runs import wanted_advice
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_str
from sagent.messages import ToolCall
from sagent.policy import Turn

_CONFIDENCE = re.compile(r"\[CONFIDENCE\s*[:=]\s*(\d++(?:\.\d++)?|\.\d++)\s*(%?)\s*\]", re.IGNORECASE)
_WAITS = (TOOL, "BackgroundTask")  # tools whose calls show no work: one is repeated while waiting
_MIN_OVERLAP = 0.7  # of two replies' words, from which on they are the same
_MIN_WORDS = 8  # that a reply must have to be compared


class Spotter(NamedTuple):
    """A trigger of a plugin. `look` returns its finding, or ""; with `at_end` it runs when the executor ends."""

    name: str
    look: "Callable[[Watch], str]"
    at_end: bool = False


@dataclass(slots=True)
class Watch:
    """Turns of one agent since its task began. It counts even if no advisor may be asked. `last` is the latest turn,
    and `kept` stores values of plugins' triggers during a task."""

    last: Turn | None = None
    kept: dict[str, object] = field(default_factory=dict[str, object])
    turns: int = 0
    failed: int = 0  # consecutive turns with a failed call
    tests: Counter[str] = field(default_factory=Counter[str])  # failures of the same test command without a success
    idle: int = 0  # turns in a row that brought no call that was not made before
    alike: int = 0  # consecutive similar replies
    wrote: bool = False
    called: bool = False  # any tool
    doubt: float | None = None  # the confidence stated in the last reply
    need: str | None = None  # question of the last reply
    _calls: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    _edits: set[tuple[str, str, str]] = field(default_factory=set[tuple[str, str, str]])
    _reverted: bool = False
    _words: frozenset[str] = frozenset()

    def observe(self, turn: Turn) -> None:
        """Take a turn into account."""
        self.turns += 1
        self.last = turn
        text = turn.reply.content
        self.need = wanted_advice(text)
        stated = _CONFIDENCE.search(text)
        self.doubt = None if stated is None else float(stated[1]) / (100 if stated[2] or float(stated[1]) > 1 else 1)
        self._compare(text)
        self.called = self.called or turn.results is not None
        errors = _errors(turn)
        calls = [call for call in turn.reply.calls if call.name not in _WAITS and call.id in errors]
        if not calls:
            return
        self.failed = self.failed + 1 if any(errors[call.id] for call in calls) else 0
        for call in calls:
            self._count_test(call, failed=errors[call.id])
            self._count_edit(call, failed=errors[call.id])
        made = {(call.name, repr(call.arguments)) for call in calls}
        self.idle = 0 if made - self._calls else self.idle + 1
        self._calls |= made

    def fires(
        self, rules: Rules, triggers: tuple[str, ...], more: Sequence[Spotter] = (), *, ended: bool
    ) -> tuple[str, str] | None:
        """Return the first rule that applies after a turn, with its reason; `ended`: the executor is finished."""
        for name, what in self._reasons(rules, ended=ended):
            if name in triggers:
                return name, what
        for one in more:
            if one.name in triggers and (ended or not one.at_end) and (what := one.look(self)):
                return one.name, what
        return None

    def heard(self) -> None:
        """Reset the counters, because advice was given."""
        self.failed = self.idle = self.alike = 0
        self.tests.clear()
        self._reverted, self.need, self.doubt = False, None, None

    def _reasons(self, rules: Rules, *, ended: bool) -> list[tuple[Trigger, str]]:
        found: list[tuple[Trigger, str]] = []
        if self.need is not None:
            found.append(("need_advice", f"the executor asks for advice: {self.need}".rstrip(": ")))
        if self.failed >= rules.failure_threshold:
            found.append(("failures", f"{self.failed} turns in a row had a call that failed"))
        if self.tests and max(self.tests.values()) >= max(2, rules.failure_threshold):
            command = max(self.tests, key=lambda name: self.tests[name])
            found.append(("failures", f"the same test has failed {self.tests[command]} times: {command[:200]}"))
        if self.doubt is not None and self.doubt < rules.confidence_threshold:
            found.append(("confidence", f"the executor reports a confidence of {self.doubt:g}"))
        if self._reverted:
            found.append(("stagnation", "an edit was reverted"))
        if self.idle >= rules.stagnation_turns:
            found.append(("stagnation", f"{self.idle} turns in a row only repeated calls made before"))
        if self.alike + 1 >= rules.stagnation_turns > 1:
            found.append(("stagnation", f"{self.alike + 1} replies in a row say the same"))
        if ended and self.wrote:
            found.append(("done", "the executor is about to declare its task done"))
        elif ended and self.called:
            found.append(("no_change", "the executor is about to answer, and no call has changed anything"))
        elif ended:
            found.append(("no_calls", "the executor is about to answer without having called a tool"))
        return found

    def _compare(self, text: str) -> None:
        words = frozenset(re.findall(r"\w+", text.lower()))
        if len(words) < _MIN_WORDS:
            return
        both = len(words & self._words) / len(words | self._words)
        self.alike = self.alike + 1 if both > _MIN_OVERLAP else 0
        self._words = words

    def _count_test(self, call: ToolCall, *, failed: bool) -> None:
        command = " ".join(as_str(call.arguments.get("command")).split())
        if not command or not runs_tests(command):
            return
        if failed:
            self.tests[command] += 1
        else:
            self.tests.pop(command, None)

    def _count_edit(self, call: ToolCall, *, failed: bool) -> None:
        path = as_str(call.arguments.get("file_path"))
        old, new = as_str(call.arguments.get("old_string")), as_str(call.arguments.get("new_string"))
        if failed or not path or not (old or new):
            return
        self._reverted = self._reverted or (path, new, old) in self._edits
        self._edits.add((path, old, new))


def _errors(turn: Turn) -> Mapping[str, bool]:
    """Return the failed calls. One that was not allowed, or has to wait, shows nothing about the executor's work; one
    that found nothing has not failed."""
    results = turn.results.results if turn.results else ()
    commands = {call.id: as_str(call.arguments.get("command")) for call in turn.reply.calls}
    return {
        result.call_id: result.is_error and not finds_nothing(commands.get(result.call_id, ""), result.text)
        for result in results
        if not result.denied and not is_held(result.text)
    }
