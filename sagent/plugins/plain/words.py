"""Events and blocks of a conversation in words and whole lines: no signs, no columns, no colours."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, assert_never

from sagent.context.todo import State, Task
from sagent.events import Advised, Finished, Retrying, ToolFinished
from sagent.lib.figures import duration, money
from sagent.lib.text import count, in_repl
from sagent.repl.view.blocks import Block, MessageBlock, Page, Report, Shell, Thought, shown_output
from sagent.repl.view.calls import argument_line, render_approval
from sagent.repl.view.diff import changes, diff_rows
from sagent.repl.view.lines import Line, one_line, plain, printable
from sagent.repl.view.markdown import Piece
from sagent.repl.view.view import ROOT, View

if TYPE_CHECKING:
    from collections.abc import Callable

    from sagent.messages import ToolCall
    from sagent.policy import Ask
    from sagent.repl.terminal.picker import Option
    from sagent.tools.ask import Question

T = TypeVar("T")
MAX_ARGUMENT_CHARS = 500
MAX_OUTPUT_LINES, MAX_DIFF_LINES = 10, 60
MAX_LINE_CHARS = 1_000
MAX_COLUMNS = 2_000  # columns: the terminal breaks lines
_LEVELS = {"info": "", "warning": "Warning: ", "error": "Error: "}
_CHANGES = {"+": "added", "-": "removed"}
_STATES: Mapping[State, str] = {"pending": "to do", "in_progress": "doing", "completed": "done"}


def block_text(block: Block) -> str:
    """Return a block of a transcript as text."""
    match block:
        case MessageBlock(text, sender, attached):
            more = f" ({count(attached, 'attachment')})" if attached else ""
            lines = text.rstrip("\n").split("\n")
            if sender and len(lines) > MAX_OUTPUT_LINES:
                lines = [*lines[:MAX_OUTPUT_LINES], f"({count(len(lines) - MAX_OUTPUT_LINES, 'more line')})"]
            said = "\n".join(lines)
            return f"{one_line(sender) or 'You'}: {said}{more}"
        case Piece():
            return _source(block)
        case Thought(_, seconds):
            return f"Thought for {duration(seconds)}."
        case ToolFinished():
            return call_text(block)
        case Advised(_, advice):
            verdict = f"{advice.verdict or advice.status}, {money(advice.usd)}"
            reason = f"{advice.reason}\n" if advice.reason else ""
            return f"Advice of {advice.advisor} ({advice.trigger}): {verdict}\n{reason}{advice.text}"
        case Report(text, level):
            return _LEVELS[level] + in_repl(text).strip()
        case Finished(agent, result):
            figures = f"{count(result.turns, 'turn')}, {duration(result.duration)}"
            figures += f", {money(result.run_usd)}" if result.run_usd else ""
            if (error := result.error) is not None:
                return f"{agent} failed: {error.message}"
            return f"{agent} is done ({figures}): {one_line(result.content[:300])}"
        case Shell(command, output, code):
            return "\n".join(filter(None, (f"Your command {command}: exit {code}", *_end(output.split("\n"), 60))))
        case Page(lines):
            return page_text(lines)
        case _:
            assert_never(block)


def page_text(lines: Sequence[Line]) -> str:
    """Return lines without their styles, and without blanks at their ends."""
    return "\n".join(line.rstrip() for line in plain(lines).split("\n"))


def said_text(lines: Sequence[Line]) -> str:
    """Return lines without what marks them as somebody's words."""
    return "\n".join(re.sub(r"^(?:\? |  │ )", "", line) for line in page_text(lines).split("\n"))


def _source(piece: Piece) -> str:
    """Return a piece of an answer much as it was written."""
    match piece.kind:
        case "heading":
            text = f"{'#' * piece.level} {piece.text}"
        case "item":
            text = f"{' ' * piece.level}{piece.mark} {piece.text}"
        case "quote":
            text = "\n".join(f"> {line}" for line in piece.text.split("\n"))
        case "rule":
            text = "---"
        case "paragraph" | "code" | "table":
            text = piece.text
    return "\n" * piece.gap + text


def call_name(call: "ToolCall") -> str:
    """Return a call's tool with its command or file."""
    return f"{call.name} {argument_line(call, MAX_ARGUMENT_CHARS)}".strip()


def call_text(block: ToolFinished, *, whole: bool = False) -> str:
    """Return a call that ended, its outcome, and the end of its output or its change; all of them with `whole`."""
    who = "" if block.agent == ROOT else f"{block.agent}: "
    took = f" ({duration(block.seconds)})" if block.seconds >= 1 else ""
    failed = " failed" if block.result.is_error and block.summary != "was denied" else ""
    summary = one_line(block.summary) or "done"
    job = f", {block.job}" if block.job and not summary.endswith(block.job) else ""
    if block.diff:
        added, removed = changes(block.diff)[1:3]
        summary = f"{count(added, 'line')} added, {removed} removed"
        below = _end([*diff_texts(block.diff)], 10_000_000 if whole else MAX_DIFF_LINES, keep_first=True)
    else:
        lines = [line for line in block.result.text.split("\n") if line.strip()] if whole else shown_output(block)
        if summary == "was denied":
            summary, lines = f"was denied: {one_line(block.result.text)}", []
        elif lines and len(lines) == 1 and one_line(lines[0])[:199] == summary[:199]:
            lines = []
        below = _end(lines, 10_000_000 if whole else MAX_OUTPUT_LINES)
    link = " " if summary.startswith("was denied") else ": "
    return "\n".join((f"{who}{call_name(block.call)}{job}{failed}{link}{summary}{took}", *below))


def _end(lines: Sequence[str], most: int, *, keep_first: bool = False) -> Iterator[str]:
    """Yield the last lines, or the first ones, indented; and the number of those left out."""
    left = len(lines) - most
    note = f"  ({count(left, 'more line')}: /show)"
    if left <= 0:
        shown: Sequence[str] = [f"  {line}" for line in lines]
    elif keep_first:
        shown = [*(f"  {line}" for line in lines[:most]), note]
    else:
        shown = [note, *(f"  {line}" for line in lines[-most:])]
    yield from (_cut(line.rstrip(), most) for line in shown)


def _cut(line: str, most: int) -> str:
    """Cut an endless line, unless all lines are shown."""
    if len(line) <= MAX_LINE_CHARS or most > MAX_DIFF_LINES:
        return line
    return f"{line[:MAX_LINE_CHARS]} ({len(line) - MAX_LINE_CHARS:,} more characters: /show)"


def diff_texts(diff: str, say: "Callable[[str], str]" = printable, path: str = "") -> Iterator[str]:
    """Yield the lines of a diff, with words for what became of each."""
    for sign, number, text in diff_rows(diff, say, path):
        yield _changed(sign, number, plain([text]))


def _changed(sign: str, number: int, text: str) -> str:
    what = f" {_CHANGES[sign]}" if sign in _CHANGES else ""
    return f"{number}{what}: {text}" if number else f"({text.strip()})"


def approval_text(call: "ToolCall", ask: "Ask", read: "Callable[[str], str | None]") -> str:
    """Return what a person is asked about a call: the whole command, change or arguments, and why."""
    rows = list[str]()
    for line in render_approval(call, ask, read, MAX_COLUMNS):
        text, lead = plain([line]), plain([line[:1]]).strip()
        if lead.isdecimal() and "class:diff." in "".join(style for style, _ in line[1:2]):
            text = f"  {_changed(plain([line[1:2]]).strip(), int(lead), plain([line[2:]]))}"
        rows.append(text.rstrip())
    return "\n".join(("Permission needed. " + rows[0].removeprefix("? "), *rows[1:]))


def option_texts(options: "Sequence[Option[T]]", *, keys: bool) -> Iterator[str]:
    """Yield the choices, one a line: each with its key, or with its number."""
    for number, option in enumerate(options, 1):
        key = option.key if keys else f"{number}{f' or {option.key}' * bool(option.key)}"
        label = option.label.replace(", because …", ", or write why not") + ", which is current" * option.current
        yield f"  {key}: {', '.join(' '.join(text.split()) for text in (label, option.hint) if text)}"


def question_text(question: "Question") -> str:
    """Return a question of an agent, with numbered answers."""
    who = "The model" if question.agent == ROOT else question.agent
    rows = (f"  {number}: {option}" for number, option in enumerate(question.options, 1))
    return "\n".join((f"{who} asks: {question.text}", *rows))


def tasks_text(tasks: Sequence[Task]) -> str:
    """Return a to-do list."""
    return "\n".join(("To-do list:", *(f"  {_STATES[task.state]}: {task.text}" for task in tasks)))


def retry_text(event: Retrying) -> str:
    """Say why and when a model is called again."""
    who = "" if event.agent == ROOT else f"{event.agent}: "
    gone = " The text above is discarded." if event.discarded and not who else ""
    reason = f"{who}{event.reason.rstrip('.')}."
    if event.discarded and not event.seconds:
        return f"{reason} The reply starts again.{gone}"
    return f"{reason} Trying again in {event.seconds:.0f} s, attempt {event.attempt + 1}; /stop stops.{gone}"


def working_text(view: View, at: float) -> str:
    """Return what is in progress, for a person who has heard nothing for a while; `at` as in `reduce`."""
    texts = list[str]()
    for running in view.running.values():
        who = "" if running.agent == ROOT else f"{running.agent}: "
        last = running.tail.strip().rpartition("\n")[2]
        output = f"; its last output: {one_line(last)[:200]}" if last else ""
        place = f" as {running.job}" if running.job else ""
        texts.append(f"{who}{call_name(running.call)} has been running{place} for {_about(at - running.since)}{output}")
    texts += (f"{child.path} is working: {child.doing}" for child in view.children.values() if child.state == "working")
    if not texts and view.since is not None:
        doing = "is thinking" if view.thinking else "is writing" if view.flow.begun else "has not answered yet"
        texts.append(f"The model {doing}, {_about(at - view.since)} after your message")
    return "\n".join(f"{text}." for text in texts)


def _about(seconds: float) -> str:
    return duration(float(round(seconds)))
