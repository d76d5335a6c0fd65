"""The scope of a permission: this once, in its session, or always, by the rules that it names."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from sagent.errors import UsageError
from sagent.lib.text import spelled
from sagent.plugins.hosting.live import LiveSession, Question
from sagent.policy import Ask
from sagent.policy.rules import Rule, rules_for

Keep: TypeAlias = Callable[[str], None]
"""Writes a rule into the person's settings. Raises SagentError and OSError."""


def offered(question: Question, keep: Keep | None) -> Mapping[str, object]:
    """Return the rules that a longer consent to a call writes, and for how long it may be given, as JSON."""
    if not isinstance(question.about, tuple):
        return {}
    rules = rules_for(question.about[1])
    return {"rules": list(map(spelled, rules)), "scopes": _scopes(rules, keep)}


def allow(live: LiveSession, ask: Ask, scope: str, keep: Keep | None) -> None:
    """Apply the rules of an allowed call; save permanent ones in the settings. Raises UsageError for a scope that was
    not offered, and errors of `keep`: then the session has none of them."""
    rules = rules_for(ask)
    if scope not in (scopes := _scopes(rules, keep)):
        raise UsageError(f"scope={scope} is not offered for this call: it can be allowed for {', '.join(scopes)}.")
    if scope == "once":
        return
    if keep is not None and scope == "always":
        for rule in rules:
            keep(rule)
    live.policy.rules = replace(live.policy.rules, allow=(*live.policy.rules.allow, *map(Rule.parse, rules)))


def _scopes(rules: Sequence[str], keep: Keep | None) -> Sequence[str]:
    """Return the scopes: only a call with rules can be allowed for longer than once."""
    return ["once", *(["session"] if rules else ()), *(["always"] if rules and keep is not None else ())]
