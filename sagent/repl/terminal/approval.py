"""What a person may answer to a call that is put to them, and what becomes of the rules that they allow."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from sagent.errors import SagentError
from sagent.lib.json import as_str
from sagent.lib.text import spelled
from sagent.messages import ToolCall
from sagent.policy.rules import COMMAND_RULES, EDITS, Rule
from sagent.policy.shell import split
from sagent.repl.settings_file import add_rule
from sagent.repl.terminal.picker import Option
from sagent.repl.view.calls import essence

if TYPE_CHECKING:
    from sagent.repl.opening import Current

MOST_OTHERS = 3  # calls that are named
MOST_LOOKED_AT = 1_000  # of a session's calls, the last ones
Answer: TypeAlias = Literal["once", "session", "always", "no"]


def approval_options(rules: Sequence[str], *, kept: bool = True) -> list[Option[Answer]]:
    """Only what names its rules can be allowed for longer than once, and for ever only where they are `kept`."""
    rules = [spelled(rule) for rule in rules]
    every = ", ".join(rule if "(" in rule else f"every call of {rule}" for rule in rules)
    longer: list[Option[Answer]] = [
        Option("session", "Yes, for this session", every, key="s", short="session"),
        Option("always", "Yes, always", f"adds {', '.join(rules)} to your settings", key="a", short="always"),
    ]
    longer = longer if kept else longer[:1]
    no = Option[Answer]("no", "No, and say why", key="n", short="no")
    return [Option("once", "Yes, once", key="y", short="once"), *(longer if rules else ()), no]


def also_allowed(rules: Sequence[str], call: ToolCall, calls: Sequence[ToolCall]) -> list[str]:
    """What else of a session's last calls, in words and each once, rules would have allowed or had a part in
    allowing."""
    parsed = [Rule.parse(rule) for rule in rules]
    found = (
        essence(one, 60) or one.name for one in calls[-MOST_LOOKED_AT:] if any(_names(rule, one) for rule in parsed)
    )
    return list(dict.fromkeys(text for text in found if text != essence(call, 60)))


def _names(rule: Rule, call: ToolCall) -> bool:
    if rule.tool in COMMAND_RULES:
        command = as_str(call.arguments.get("command"))
        named = call.name == "Bash" and bool(command)
        return named and (
            not rule.pattern or any(part.words and rule.allows_command(part.words) for part in split(command).parts)
        )
    path = as_str(call.arguments.get("file_path"))
    if rule.tool not in ("Read", *EDITS) or not path:
        return rule.tool == call.name and not rule.pattern
    here = call.name in EDITS if rule.tool in EDITS else call.name == rule.tool
    return here and rule.matches_path(path, (), "", anywhere=True)


def rules_text(rules: Sequence[str], others: Sequence[str], made: int = 0) -> str:
    """The rules that `s` and `a` write, and which others of the calls `made` in this session they match."""
    more = f" and {len(others) - MOST_OTHERS} more" if len(others) > MOST_OTHERS else ""
    matched = f"also matches {', '.join(others[:MOST_OTHERS])}{more}" if others else "matches no other"
    last = f"last {MOST_LOOKED_AT:,} " if made > MOST_LOOKED_AT else ""
    return f"{', '.join(map(spelled, rules))} · {matched} of this session's {last}calls"


def allow_rules(current: "Current", rules: Sequence[str], *, always: bool) -> Iterator[tuple[str, bool]]:
    """Take rules that the person allows; into the settings too, where it is for always. What is to be said of each,
    and whether it went well."""
    policy = current.opened.policy
    policy.rules = replace(policy.rules, allow=(*policy.rules.allow, *map(Rule.parse, rules)))
    path = current.settings.config_dir / "config.toml"
    for rule in rules if always else ():
        try:
            add_rule(path, rule)
            current.use(replace(settings := current.settings, allow=(*settings.allow, rule)))
            yield f"{rule} is allowed from now on, also in {path}", True
        except (OSError, SagentError) as error:
            yield f"{rule} is allowed for this session only: {error}", False
