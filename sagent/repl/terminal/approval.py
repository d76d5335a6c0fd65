"""Approval of calls: the answers that a person may give, and what becomes of the rules that they allow."""

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from sagent.errors import SagentError
from sagent.lib.json import as_str
from sagent.lib.names import path_of, unquote_path
from sagent.lib.text import spelled_name
from sagent.messages import ToolCall
from sagent.policy.rules import EDITS, MAX_REMEDY_CHARS, Rule, is_inside
from sagent.repl.terminal.picker import Option

if TYPE_CHECKING:
    from sagent.policy import Ask
    from sagent.repl.opening import CurrentSession

Answer: TypeAlias = Literal["once", "session", "always", "edits", "edit", "explain", "no"]
_MORE: Sequence[Option[Answer]] = (
    Option("edit", "edit the command", key="e", short="e"),
    Option("explain", "explain", key="?", short="?"),
)


def approval_options(
    rules: Sequence[str], *, can_save: bool = True, more: Collection[Answer] = ()
) -> list[Option[Answer]]:
    """Return the options: only a call with rules can be allowed for longer, and for good only if `can_save`; and those
    of `more`, of which "edits" takes the place of "always"."""
    rules = [spelled_name(rule) for rule in rules]
    every = ", ".join(rule if "(" in rule else f"every call of {rule}" for rule in rules)
    longer: list[Option[Answer]] = [Option("session", "this session", every, key="s", short="session")]
    if "edits" in more:
        longer.append(Option("edits", "all edits this session", key="a", short="all edits"))
    elif can_save:
        longer.append(Option("always", "always", f"adds {', '.join(rules)} to your settings", key="a"))
    once, no = Option[Answer]("once", "once", key="y"), Option[Answer]("no", "no, because …", key="n", short="no")
    return [once, *(longer if rules else ()), *(one for one in _MORE if one.value in more), no]


def is_project_edit(call: ToolCall, directory: Path) -> bool:
    """Return True if a call changes a file that the rule `Edit` covers too, below the project's directory."""
    path = as_str(call.arguments.get("file_path"))
    if call.name not in EDITS or not path:
        return False
    try:
        real = os.path.realpath(directory / path_of(unquote_path(path)))
    except (ValueError, OSError, RuntimeError):
        return False
    return is_inside(real, os.path.realpath(directory))


def scope_text(
    rules: Sequence[str], ask: "Ask", matched: str, *, can_save: bool, edits: bool = False
) -> tuple[str, str]:
    """Say which calls an answer for longer allows, `matched` in words, or why only this one can be allowed."""
    if rules and edits:
        return "s allows: ", f"{matched} · a allows every edit in the project"
    if rules:
        return ("s and a allow: ", matched) if can_save else ("s allows: ", f"{matched} · no a: settings are elsewhere")
    why = "no rule can be written for this call" if "--allow" in ask.remedy else "no rule covers such a call"
    return "only once: ", "its rules are too long to read" if len(ask.remedy) > MAX_REMEDY_CHARS else why


def allow_rules(current: "CurrentSession", rules: Sequence[str], *, always: bool) -> Iterator[tuple[str, bool]]:
    """Apply rules that the person allows; save permanent ones in the settings. Return a sentence for each, and True if
    it succeeded."""
    from sagent.repl.settings_file import add_rule  # with a reader of TOML

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
