"""Judges a command's requests beyond its sandbox."""

import os
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, assert_never

from sagent.lib.names import quote_path
from sagent.lib.text import one_line
from sagent.policy import Deny
from sagent.policy.paths import Obstacle, PathJudge, quoted
from sagent.policy.rules import EDITS, Rule, escape
from sagent.sandbox.profile import Need
from sagent.tool import Effect

if TYPE_CHECKING:
    from sagent.policy.commands import CommandJudge


MAX_SHOWN_CHARS = 1_000  # of a repository's configuration


def denied_need(effect: Effect, judge: PathJudge) -> Deny | None:
    """Return the denial of a command's requests, by deny rules and plan mode; None if nothing denies them."""
    if judge.mode == "plan":
        return Deny("In plan mode commands get no more than the sandbox gives: nothing is written, no host reached.")
    for need in effect.needs:
        match need.kind:
            case "network":
                rule = next((rule for rule in judge.rules.deny if rules_out_host(rule, need.target)), None)
            case "write" | "read":
                rule = judge.denying_below(need.target, EDITS if need.kind == "write" else ("Read",))
            case "all":
                rule = next((rule for rule in judge.rules.deny if rule.tool == "Unsandboxed"), None)
            case _:
                assert_never(need.kind)
        if rule is not None:
            return Deny(f"The rule {rule} denies {_described(need)}.")
    return None


def need_obstacle(effect: Effect, judge: PathJudge, commands: "CommandJudge") -> Obstacle | None:
    """Return the requests of a command that no rule grants, with the rules that would grant just those."""
    lacking = [need for need in effect.needs if not _is_granted(need, judge, commands)]
    if not lacking:
        return None
    wants = tuple(map(_described, lacking))
    reason = " ".join(effect.reason.split())
    said = f" Its reason: {reason}" if reason else " It gives no reason."
    leaves = any(need.kind == "all" for need in lacking)
    if leaves and (followers := commands.followers()):
        said = f" {' and '.join(followers)} will do what files here say by then, which other calls may change.{said}"
    if leaves and commands.obeyed:
        said = f" It may run a program there: {one_line('; '.join(commands.obeyed), MAX_SHOWN_CHARS)}.{said}"
    rules = [tuple(_rules(need, commands)) for need in lacking]
    remedy = " ".join(f"--allow {quoted(rule)}" for rule in chain.from_iterable(rules))
    return Obstacle(
        f"`{effect.command}` wants more than the sandbox gives: {' and '.join(wants)}.{said}",
        f"Allowed with {remedy}." if all(rules) else "Allowed with --permission-mode full.",
        wants,
    )


def _is_granted(need: Need, judge: PathJudge, commands: "CommandJudge") -> bool:
    match need.kind:
        case "network":
            return any(_covers_host(rule, need.target) for rule in judge.rules.allow)
        case "write":
            return judge.write_obstacle(need.target) is None and not os.path.ismount(need.target)
        case "read":
            return judge.read_obstacle(need.target) is None
        case "all":
            return commands.is_unsandboxed()
        case _:
            assert_never(need.kind)


def rules_out_host(rule: Rule, host: str) -> bool:
    """Return True if a deny rule covers a host in any spelling, or one of the hosts of an entry."""
    from sagent.sandbox.hosts import Entry

    if rule.tool != "Network" or not rule.pattern or host == "*":
        return rule.tool == "Network"
    try:
        return Entry.parse(rule.pattern).rules_out(Entry.parse(host))
    except ValueError:  # the proxy does not take it either
        return False


def _covers_host(rule: Rule, host: str) -> bool:
    is_below = rule.pattern.startswith("*.") and host.endswith(rule.pattern[1:])
    return rule.tool == "Network" and (not rule.pattern or host == rule.pattern or is_below)


def _rules(need: Need, commands: "CommandJudge") -> Iterator[str]:
    """Yield the narrowest rules that grant a need; none if such a rule would read like a wider one."""
    match need.kind:
        case "network":
            yield from [f"Network({need.target})"] if need.target != "*" else []
        case "write":
            yield f"Edit({escape(need.target)})"
        case "read":
            yield f"Read({escape(need.target)})"
        case "all":
            yield from commands.unsandboxed_rules()
        case _:
            assert_never(need.kind)


def _described(need: Need) -> str:
    match need.kind:
        case "network":
            every = "every host, for the sandbox here cannot distinguish them"
            return f"to reach {every if need.target == '*' else need.target}"
        case "write":
            return f"to write {quote_path(need.target)}"
        case "read":
            return f"to read {quote_path(need.target)}"
        case "all":
            return "to run without the sandbox"
        case _:
            assert_never(need.kind)
