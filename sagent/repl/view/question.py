"""Questions to the person as lines: a call to allow, and what an agent wants to know."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from sagent.lib.json import as_str
from sagent.repl.view.calls import essence, proposal
from sagent.repl.view.diff import render_diff
from sagent.repl.view.lines import Line, printable, wrap
from sagent.repl.view.markdown import Flow, feed, finish, render_piece

if TYPE_CHECKING:
    from sagent.messages import ToolCall
    from sagent.policy import Ask
    from sagent.tools.ask import Question

MOST_COMMAND = 12  # lines


def render_approval(
    call: "ToolCall", ask: "Ask", read: Callable[[str], str | None], width: int, waiting: int = 0
) -> list[Line]:
    """Who wants to do what, why it needs approval, and the diff or the command. `read` gives a file's text, or None;
    `waiting` counts the calls that wait after this one."""
    who = "The model wants" if ask.agent in ("", "root") else f"{ask.agent} wants"
    more = f" ({waiting} more wait)" if waiting else ""
    lines: list[Line] = [(("class:ask", f"? {who} to call "), ("class:tool", call.name), ("class:dim", more))]
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
    return lines + wrap([("class:dim", printable(ask.reason))], width, (("", "  "),))


def render_agents_question(question: "Question", width: int) -> list[Line]:
    """Who asks what, and how it can be answered."""
    who = "The model asks" if question.agent == "root" else f"{question.agent} asks"
    flow, pieces = feed(Flow(), printable(question.text))
    ways = ["space ticks"] if question.multiple else []
    ways += ["Enter chooses, or write something else"] if question.options else ["write, and Enter"]
    head: Line = (("class:ask", f"? {who}"), ("class:dim", f"  {', '.join(ways)}; Esc skips the question"))
    body = [line for piece in (*pieces, *finish(flow)) for line in render_piece(piece, width - 2)]
    return [head, *((("", "  "), *line) for line in body)]
