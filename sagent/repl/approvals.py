"""Questions of the policy, put to the person one after the other: what would be done, and four answers."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import Literal, TypeAlias

from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_str
from sagent.messages import ToolCall
from sagent.policy import Ask
from sagent.repl.terminal.picker import Option
from sagent.repl.view.calls import essence, proposal
from sagent.repl.view.diff import render_diff
from sagent.repl.view.lines import Line, printable, wrap
from sagent.repl.view.markdown import Flow, feed, finish, render_piece
from sagent.tools.ask import Question

Answer: TypeAlias = Literal["once", "session", "always", "no"]
MOST_COMMAND = 12  # lines


@dataclass(frozen=True, slots=True)
class Approval:
    """A call that waits for a person. `agent` is "" for the one the person talks to."""

    call: ToolCall
    ask: Ask
    agent: str = ""
    answer: "asyncio.Future[str | None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def settle(self, reason: str | None) -> None:
        """Answer it: None is yes."""
        if not self.answer.done():
            self.answer.set_result(reason)


def rule_for(approval: Approval) -> str:
    """The rule that would allow this call and its like: the one that the policy names, else all calls of the tool."""
    import shlex

    remedy = approval.ask.remedy
    _, found, rest = remedy.partition("--allow ")
    if found:
        try:
            words = shlex.split(rest.removesuffix("."))
        except ValueError:
            words = []
        if words:
            return words[0]
    return approval.call.name


def options(rule: str) -> list[Option[Answer]]:
    """The answers, each with its key."""
    return [
        Option("once", "Yes, once", key="y"),
        Option("session", "Yes, for this session", rule, key="s"),
        Option("always", "Yes, always", f"adds {rule} to your settings", key="a"),
        Option("no", "No, and say why", key="n"),
    ]


def render_question(approval: Approval, read: Callable[[str], str | None], width: int, waiting: int) -> list[Line]:
    """Who wants to do what, why it is a question, and the diff or the command."""
    call = approval.call
    who = f"{approval.agent} wants" if approval.agent else "The model wants"
    more = f" ({waiting} more wait)" if waiting else ""
    head: Line = (("class:ask", f"? {who} to call "), ("class:tool", call.name), ("class:dim", more))
    lines: list[Line] = [head]
    diff = proposal(call, read)
    command = as_str(call.arguments.get("command"))
    if diff:
        lines.append((("class:argument", f"  {essence(call, width - 2)}"),))
        lines += render_diff(diff, width, most=40)
    elif command:
        shown = wrap([("class:code", printable(command))], width, (("class:mark", "  $ "),))
        lines += shown[:MOST_COMMAND]
        if len(shown) > MOST_COMMAND:
            lines.append((("class:dim", f"    … {len(shown) - MOST_COMMAND} more lines"),))
    else:
        for name, value in list(call.arguments.items())[:6]:
            text = value if isinstance(value, str) else repr(value)
            lines += wrap([("class:argument", printable(text[:300]))], width, (("class:dim", f"  {name}: "),))[:3]
    lines += wrap([("class:dim", printable(approval.ask.reason))], width, (("", "  "),))
    return lines


def render_agents_question(question: Question, width: int) -> list[Line]:
    """Who asks what, and how it can be answered."""
    who = "The model asks" if question.agent == "root" else f"{question.agent} asks"
    flow, pieces = feed(Flow(), printable(question.text))
    body = [line for piece in (*pieces, *finish(flow)) for line in render_piece(piece, width - 2)]
    ways = ["space ticks"] if question.multiple else []
    ways += ["Enter chooses, or write something else"] if question.options else ["write, and Enter"]
    lead: Line = (("", "  "),)
    return [
        (("class:ask", f"? {who}"), ("class:dim", f"  {', '.join(ways)}; Esc leaves it")),
        *(lead + line for line in body),
    ]


class Approvals:
    """Those that wait, in the order in which they came."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._waiting: list[Approval] = []
        self._changed = changed

    @property
    def waiting(self) -> Sequence[Approval]:
        """All that wait; the first is the one to show."""
        return tuple(self._waiting)

    async def ask(self, call: ToolCall, ask: Ask, agent: str = "") -> str | None:
        """Wait for the person's answer: None is yes, a text the reason for no."""
        approval = Approval(call, ask, agent)
        self._waiting.append(approval)
        self._changed()
        try:
            return await approval.answer
        finally:
            self._waiting.remove(approval)
            self._changed()


def add_rule(path: Path, rule: str) -> None:
    """Write a rule into the list `allow` of `[permissions]` in a settings file, everything else left as it is.

    The file is made where there is none. Raises OSError, and ValueError where the rule cannot be put in safely.
    """
    import json
    import re
    import tomllib

    from sagent.repl.login import write_private

    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        text = ""
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not valid TOML: {error}") from error
    table = before.get("permissions", {})
    rules: list[object] = list(table.get("allow", []))
    if rule in rules:
        return
    quoted = json.dumps(rule, ensure_ascii=False)
    header = re.search(r"^[ \t]*\[[ \t]*permissions[ \t]*\][ \t]*(?:#.*)?$", text, re.MULTILINE)
    end = "" if not text or text.endswith("\n") else "\n"
    if header is None:
        changed = f"{text}{end}\n[permissions]\nallow = [{quoted}]\n".lstrip("\n")
    elif "allow" not in table:
        changed = f"{text[: header.end()]}\nallow = [{quoted}]{text[header.end() :] or chr(10)}"
    else:
        opening = re.compile(r"^[ \t]*allow[ \t]*=[ \t]*\[", re.MULTILINE).search(text, header.end())
        if opening is None:
            raise ValueError(f"{path}: the list permissions.allow is written in a way that is not changed by itself")
        changed = f"{text[: opening.end()]}{quoted}{', ' if rules else ''}{text[opening.end() :]}"
    wanted = {**before, "permissions": {**table, "allow": [rule, *rules]}}
    if header is None or "allow" not in table:
        wanted = {**before, "permissions": {**table, "allow": [rule]}}
    if tomllib.loads(changed) != wanted:
        raise ValueError(f"{path}: the rule could not be put in; add {quoted} to permissions.allow yourself")
    write_private(path, changed)
