"""Tool calls as a person reads them: the main argument, the change of an edit, the question to answer."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.errors import ToolError
from sagent.lib.json import as_str, json_dump
from sagent.lib.text import main_argument, spelled, spelled_name
from sagent.messages import ToolCall
from sagent.policy.rules import EDITS, PATH_TOOLS
from sagent.repl.view.diff import render_whole_diff
from sagent.repl.view.lines import TAB, Line, Span, cut, one_line, printable, wrap
from sagent.repl.view.markdown import pieces_of, render_piece

if TYPE_CHECKING:
    from sagent.policy import Ask
    from sagent.tools.ask import Question

MAX_COMPARED_CHARS = 1_000_000  # of a file that is compared with what will replace it
MAX_REASON_COLUMNS = 600
_IN_DIFF = ("file_path", "content", "old_string", "new_string", "edits")
_VERBS = (*PATH_TOOLS, "NotebookEdit")  # names of tools that say what is done with their file
_WITH_COMMAND = ("command", "reason", "needs")  # of Bash: requests beyond the sandbox are shown separately


def argument_line(call: ToolCall, width: int = 100) -> str:
    """Return the most informative argument of a call, on one line."""
    return cut(one_line(main_argument(call.arguments)), width)


def proposal(call: ToolCall, read: Callable[[str], str | None]) -> str:
    """Return the change of a call of Edit or Write as a unified diff; "" if unknown, or for other calls. `read` returns
    a file's text, or None."""
    from sagent.tools.change import unified_diff
    from sagent.tools.replacement import proposed

    path = as_str(call.arguments.get("file_path"))
    if call.name not in EDITS or not path:
        return ""
    try:
        return unified_diff(*proposed(call, read(path)), path, max_lines=None)
    except ToolError:
        return ""


def read_text(directory: Path, path: str) -> str | None:
    """Return a file that `proposal` compares, relative to `directory`; None if it cannot be read as a whole."""
    from sagent.lib.names import path_of, unquote_path
    from sagent.tools.textfile import read_whole

    try:
        return read_whole(directory / path_of(unquote_path(path)), MAX_COMPARED_CHARS)
    except (OSError, ValueError, RuntimeError):
        return None


def render_approval(
    call: ToolCall, ask: "Ask", read: Callable[[str], str | None], width: int, waiting: int = 0
) -> list[Line]:
    """Render the agent, its request and why it needs approval, with the whole diff, command or arguments; invisible and
    misleading characters are marked.

    `read` returns a file's text, or None; `waiting` counts the calls waiting after this one."""
    diff = proposal(call, read)
    command = as_str(call.arguments.get("command"))
    path = as_str(call.arguments.get("file_path")) if call.name in _VERBS else ""
    what = "Run this command" if call.name == "Bash" else f"{call.name if path else 'Call'} "
    asked: list[Span] = [("class:ask", what), ("class:tool", spelled_name(path) if path else spelled(call.name))]
    asked = asked[:1] if call.name == "Bash" else asked
    more: list[Span] = [("class:dim", f" ({waiting} more waiting)")] if waiting else []
    who = "? " if ask.agent in ("", "root") else f"? {ask.agent}: "
    lines = wrap([("class:ask", who), *asked, ("class:ask", "?"), *more], width, (), (("", "  "),))
    if ask.wants:
        why = list(_wants(ask.wants, as_str(call.arguments.get("reason")), width))
    else:
        why = wrap([("class:dim", _lines(ask.reason))], width, (("", "  "),))
    if diff:  # a diff may be long, and the reason must be visible first
        lines += [*why, *render_whole_diff(diff, width)]
    elif command:
        lines += wrap([("class:code", _lines(command))], width, (("class:mark", "  $ "),))
    known = _WITH_COMMAND if call.name == "Bash" else ("command",)
    shown = _IN_DIFF if diff else known if command else ("file_path",) if path else ()
    for name, value in call.arguments.items():
        if name not in shown:
            text = value if isinstance(value, str) else json_dump(value)
            lines += wrap([("class:argument", _lines(text))], width, (("class:dim", f"  {spelled(name)}: "),))
    return lines if diff else lines + why


def _lines(text: str) -> str:
    """Return a whole text in lines, with the same characters marked."""
    return "\n".join(map(spelled, text.replace("\r\n", "\n").replace("\t", TAB).split("\n")))


def _wants(wants: Sequence[str], reason: str, width: int) -> Iterator[Line]:
    """Yield a command's requests beyond the sandbox, a line each, and the model's reason."""
    for number, want in enumerate(wants):
        lead = "         " if number else "  wants: "
        yield from wrap([("class:warning", spelled(want))], width, (("class:dim", lead),))
    said = cut(spelled(" ".join(reason.split())), MAX_REASON_COLUMNS)
    yield from wrap(
        [("", said or "gives no reason")], width, (("class:dim", f"  the model {'says: ' if said else ''}"),)
    )


def render_agents_question(question: "Question", width: int) -> list[Line]:
    """Render an agent's question, and how it can be answered."""
    who = "The model asks" if question.agent == "root" else f"{question.agent} asks"
    ways = ["space selects"] if question.multiple else []
    ways += ["Enter answers, or write something else"] if question.options else ["write, and Enter"]
    head: Line = (("class:ask", f"? {who}"), ("class:dim", f"  {', '.join(ways)}; Esc skips it"))
    body = [line for piece in pieces_of(printable(question.text)) for line in render_piece(piece, width - 2)]
    return [head, *((("", "  "), *line) for line in body)]
