"""Approval of calls: the answers that a person may give, and what becomes of the rules that they allow."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from sagent.errors import SagentError
from sagent.lib.text import spelled_name
from sagent.policy.rules import Rule
from sagent.repl.settings_file import add_rule
from sagent.repl.terminal.picker import Option

if TYPE_CHECKING:
    from sagent.repl.opening import CurrentSession

Answer: TypeAlias = Literal["once", "session", "always", "no"]


def approval_options(rules: Sequence[str], *, can_save: bool = True) -> list[Option[Answer]]:
    """Return the options: only a call with rules can be allowed for longer, and for good only if `can_save`."""
    rules = [spelled_name(rule) for rule in rules]
    every = ", ".join(rule if "(" in rule else f"every call of {rule}" for rule in rules)
    longer: list[Option[Answer]] = [
        Option("session", "Yes, for this session", every, key="s", short="session"),
        Option("always", "Yes, always", f"adds {', '.join(rules)} to your settings", key="a", short="always"),
    ]
    longer = longer if can_save else longer[:1]
    no = Option[Answer]("no", "No, and say why", key="n", short="no")
    return [Option("once", "Yes, once", key="y", short="once"), *(longer if rules else ()), no]


def allow_rules(current: "CurrentSession", rules: Sequence[str], *, always: bool) -> Iterator[tuple[str, bool]]:
    """Apply rules that the person allows; save permanent ones in the settings. Return a sentence for each, and True if
    it succeeded."""
    policy = current.opened.policy
    policy.rules = replace(policy.rules, allow=(*policy.rules.allow, *map(Rule.parse, rules)))
    path = current.settings.user_file
    for rule in rules if always else ():
        try:
            add_rule(path, rule)
            current.use(replace(settings := current.settings, allow=(*settings.allow, rule)))
            yield f"{spelled_name(rule)} is allowed from now on, and was added to {path}", True
        except (OSError, SagentError) as error:
            yield f"{spelled_name(rule)} is allowed for this session only: {error}", False
