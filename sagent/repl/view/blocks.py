"""Blocks of a transcript, written once above the input line, and their lines.

Pure: the same block in the same width gives the same lines.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias, assert_never

from sagent.context.prompt import CUT, SHOWN
from sagent.events import Advice, Advised, Finished, ToolFinished
from sagent.lib.dataclass import dataclass
from sagent.lib.figures import count, duration, money
from sagent.lib.json import as_str, json_dump, json_freeze_object
from sagent.lib.text import count as counted
from sagent.lib.text import in_repl
from sagent.messages import DENIED, Message, Text, ToolCall, ToolResult
from sagent.repl.view.calls import argument_line
from sagent.repl.view.diff import changes, render_diff
from sagent.repl.view.lines import (
    TAB,
    Line,
    Span,
    cut,
    cut_line,
    fold,
    fold_long,
    line_width,
    one_line,
    printable,
    width_of,
    wrap,
)
from sagent.repl.view.links import leading_to_file
from sagent.repl.view.markdown import MAX_LINE_CHARS, Piece, pieces_of, render_piece

if TYPE_CHECKING:
    from sagent.session.contents import ResultEntry

Level: TypeAlias = Literal["info", "warning", "error"]
PLAN_MODE = "plan mode"  # sender of messages that the status line shows instead
MAX_EARLIER_MESSAGES = 30
MAX_SAID_LINES = 40  # of a person's message
MAX_SAID_CHARS, MAX_FOLDED_CHARS = 2_000, 600  # of a line of one, and of a longer one
MAX_SHELL_LINES = 60  # of a person's command
MAX_FAILED_LINES, MAX_DONE_LINES = 5, 2  # of a call's output
MAX_EXPANDED_LINES = 100  # of a block that is expanded in the scrollback; longer ones are for a pager
MAX_LINES_WITHOUT_PAGER = 400
MAX_PAGED_DIFF_LINES = 10_000
_INDENT: Line = (("", "    "),)
_BAR: Line = (("class:dim", "  │ "),)
MARKS = {"info": ("class:news", "· "), "warning": ("class:warning", "! "), "error": ("class:failed", "✗ ")}


@dataclass(frozen=True, slots=True)
class MessageBlock:
    """A message of a person, or of `sender`: an agent, a job. `attached` counts its attachments."""

    text: str
    sender: str = ""
    attached: int = 0


@dataclass(frozen=True, slots=True)
class Thought:
    """The model's finished reasoning, as one line or in full."""

    text: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """A sentence from the program to the person."""

    text: str
    level: Level = "info"


@dataclass(frozen=True, slots=True)
class Shell:
    """A command line of the person's, and its output."""

    command: str
    output: str
    code: int


@dataclass(frozen=True, slots=True)
class Page:
    """Lines that are ready, as a command writes them."""

    lines: tuple[Line, ...]


Block: TypeAlias = MessageBlock | Piece | Thought | ToolFinished | Advised | Finished | Report | Shell | Page
"""Some events are blocks as they are: a call that was answered, advice, and the end of another agent's turn."""


def failure_report(kind: str, message: str) -> Report:
    """Return a report of how a turn failed."""
    return Report("Interrupted.", "warning") if kind == "interrupted" else Report(message, "error")


def shown_file(sender: str) -> Report:
    """Return a report of a file that a message of this sender shows to the model."""
    return Report(f"{one_line(sender.removeprefix(SHOWN))} is shown to the model.")


def past_blocks(
    messages: Sequence[Message], agent: str, limit: int = MAX_EARLIER_MESSAGES, results: "Iterable[ResultEntry]" = ()
) -> Sequence[Block]:
    """Return the end of an earlier conversation, after a note on how to see the rest. `results` are those of its log,
    with facts that messages lack: seconds, outcome and diff."""
    blocks: list[Block] = []
    if len(messages) > limit:
        blocks.append(Report(f"Earlier messages are not shown here: /earlier {10 * limit} shows more."))
    messages = messages[-limit:]
    cards = _past_cards(messages, agent, results)
    for message in messages:
        if message.role == "user":
            texts = [part.text for part in message.parts if isinstance(part, Text)]
            if message.sender.startswith(SHOWN):
                blocks.append(shown_file(message.sender))
            elif message.sender == "sagent" and message.content.startswith(CUT):
                blocks.append(Report("The conversation before this point was summarized for the model."))
            elif texts and message.sender != PLAN_MODE:
                blocks.append(MessageBlock(message.content if message.sender else texts[0], message.sender))
            continue
        blocks += pieces_of(message.content)
        for call in message.calls:
            blocks += pieces_of(as_str(call.arguments.get("plan"))) if call.name == "ExitPlan" and call.whole else ()
            if cards and cards[-1][0] is call:
                blocks.append(cards.pop()[1])
    return blocks


def _past_cards(
    messages: Sequence[Message], agent: str, results: "Iterable[ResultEntry]"
) -> list[tuple[ToolCall, ToolFinished]]:
    """Return the calls in messages with their cards, the last one first: servers may give many calls one id."""
    logged: dict[str, list[ResultEntry]] = {}
    for entry in results:
        logged.setdefault(entry.result.call_id, []).append(entry)
    cards, found = list[tuple[ToolCall, ToolFinished]](), dict[str, ToolResult]()
    for message in reversed(messages):
        for call in reversed(message.calls):
            result = found.pop(call.id, None)
            if result is None and message is messages[-1]:
                result = ToolResult(call.id, (Text("has no result"),), is_error=True)
            if result is not None:
                same = logged.get(call.id)
                cards.append((call, _past_card(agent, call, result, same.pop() if same else None)))
        found |= {result.call_id: result for result in message.results}
    return cards


def _past_card(agent: str, call: ToolCall, result: ToolResult, entry: "ResultEntry | None") -> ToolFinished:
    """Return the card of an earlier call as it was shown, as far as the log has it."""
    if result.denied:
        shown = ToolResult(call.id, (Text(result.text.removeprefix(DENIED)),), is_error=True)
        return ToolFinished(agent, call, shown, 0.0, "was denied")
    if entry is None:
        return ToolFinished(agent, call, result, 0.0, past_summary(result.text))
    call = replace(call, arguments=json_freeze_object(entry.made)) if entry.made else call
    return ToolFinished(agent, call, result, entry.seconds, entry.summary or past_summary(result.text), entry.diff)


def past_summary(text: str) -> str:
    """Return a short outcome of a call, which logs do not keep: a command's exit, else the first line."""
    lines = text.strip().split("\n")
    code = next((line for line in reversed(lines[-5:]) if line.startswith("[exit code ")), "")
    return f"exit {code[11:].rstrip(']')}" if code else lines[0][:200]


def render_block(block: Block, width: int) -> list[Line]:
    match block:
        case MessageBlock():
            return _said(block, width)
        case Piece():
            return render_piece(block, width, edge=width + 1)
        case Thought(text, seconds):
            took = f" for {duration(seconds)}" if seconds >= 1 else ""
            return [(("class:thinking", f"✻ Thought{took}, {len(text.split())} words"),)]
        case ToolFinished():
            return _called(block, width)
        case Advised(_, advice):
            return _advice(advice, width)
        case Report(text, level):
            style, mark = MARKS[level]
            return wrap([(style, printable(in_repl(text)).strip())], width, ((style, mark),))
        case Finished():
            return [_returned(block, width)]
        case Shell():
            return _shell(block, width)
        case Page(lines):
            sizes = {line_width(line[:1]) for line in lines if line[1:] and line_width(line) > width}
            below = {size for size in sizes if size > width // 2}
            return [part for line in lines for part in _fitted(line, width, below)]
        case _:
            assert_never(block)


def _fitted(line: Line, width: int, below: Collection[int]) -> list[Line]:
    """Return a line of a page. A line that is too long continues below its second column. If the first column has a
    width in `below`, which is more than half of the page, the second is below the first in all such lines. A lone link
    stays on one line for copying."""
    size = line_width(line[:1])
    stacked = size in below and bool(line[1:])
    if not line or (line_width(line) <= width and not stacked):
        return [line]
    if len(line) == 1 and line[0][0].startswith("class:link"):
        return list(fold(line, width + 1, joined=True))
    style, text = line[0]
    name: Line = ((style, text.rstrip()),)
    if len(line) == 1 or line_width(name) > width:
        spans, indent = _without_indent(line)
        return wrap(spans, width, (("", indent),) if indent else ())
    if stacked:
        rest: Line = (("", "  "), *line[1:])
        return [name, *([rest] if line_width(rest) <= width else wrap(_without_indent(line[1:])[0], width, _INDENT))]
    spans, gap = _without_indent(line[1:])
    return wrap(spans, width, (*line[:1], ("", gap)), (("", " " * size + gap),))


def _without_indent(line: Line) -> tuple[Line, str]:
    style, text = line[0]
    indent = text[: len(text) - len(text.lstrip(" "))]
    return ((style, text[len(indent) :]), *line[1:]), indent


def separated(previous: Block | None, block: Block) -> bool:
    """Return True if an empty line belongs between two blocks. Pieces of one answer have their own; calls and reports
    stand together."""
    if isinstance(previous, Piece) and isinstance(block, Piece):
        return False
    if previous is None:
        return isinstance(block, MessageBlock) and not block.sender
    return not (_is_work(previous) and _is_work(block))


def _is_work(block: Block) -> bool:
    reported = isinstance(block, MessageBlock) and bool(block.sender)
    return reported or isinstance(block, Thought | ToolFinished | Finished | Report)


def expandable(block: Block) -> bool:
    match block:
        case Thought() | Advised():
            return True
        case Finished():
            return bool(block.result.content)
        case ToolFinished():
            return bool(block.result.content or block.diff or block.call.arguments)
        case Piece():
            return block.kind != "table" and _has_long(block.text, MAX_LINE_CHARS)
        case MessageBlock():
            return block.text.count("\n") >= MAX_SAID_LINES or _has_long(block.text, MAX_SAID_CHARS)
        case Shell():
            return block.output.count("\n") >= MAX_SHELL_LINES or _has_long(block.output, MAX_SAID_CHARS)
        case _:
            return False


def _has_long(text: str, most: int) -> bool:
    """Return True if a line of a text has more characters."""
    return len(text) > most and any(len(line) > most for line in text.split("\n"))


def expand(block: Block, width: int) -> list[Line]:
    """Return a block in full, as long as it is."""
    match block:
        case MessageBlock():
            return _said(block, width, whole=True)
        case Piece():
            return render_piece(block, width, edge=width + 1, most=len(block.text))
        case Thought(text):
            lines = wrap([("class:thinking", printable(text))], width, (("class:dim", "  "),))
            return [*render_block(block, width), *lines]
        case ToolFinished():
            return _expanded_call(block, width)
        case Advised(_, advice):
            read, written = count(advice.usage.total_input), count(advice.usage.output)
            asked: list[Line] = [(("class:dim", f"  asked: {one_line(advice.question)}"),)] if advice.question else []
            said = f"  {advice.model}: {read} tokens read, {written} written"
            return [*_advice(advice, width), *asked, (("class:dim", said),)]
        case Finished():
            said = [line for piece in pieces_of(block.result.content) for line in render_piece(piece, width - 2)]
            return [_returned(block, width), *(((("", "  "), *line) if line else line) for line in said)]
        case Shell():
            return _shell(block, width, whole=True)
        case _:
            return render_block(block, width)


def without_middle(lines: Sequence[Line]) -> Sequence[Line]:
    """Return the beginning and the end of an expanded block, if it is long."""
    if len(lines) <= MAX_LINES_WITHOUT_PAGER:
        return lines
    left, half = len(lines) - MAX_LINES_WITHOUT_PAGER, MAX_LINES_WITHOUT_PAGER // 2
    return [*lines[:half], (("class:dim", f"  … {left} lines left out …"),), *lines[-half:]]


# ----------------------------------------------------------------------------------------------------------------------
# Each block


def _said(block: MessageBlock, width: int, *, whole: bool = False) -> list[Line]:
    text = printable(block.text).strip("\n")
    if not whole:
        text = fold_long(text, MAX_SAID_CHARS, MAX_FOLDED_CHARS)
    lines = text.split("\n")
    if len(lines) > MAX_SAID_LINES and not whole:
        lines = [*lines[: MAX_SAID_LINES - 1], f"… {len(lines) - MAX_SAID_LINES + 1} more lines"]
    if block.attached:
        lines.append(f"[{block.attached} attachment{'s' if block.attached > 1 else ''}]")
    if block.sender:
        lines = [f"{one_line(block.sender)}: {lines[0]}", *lines[1:]]
        if len(lines) > 4 and not whole:
            lines = [*lines[:3], f"… {len(lines) - 3} more lines"]
    shown = "\n".join(lines)
    if block.sender:
        return wrap([("class:news", shown)], width, (("class:mark", "↳ "),))
    return wrap([("class:said", shown)], width, (("class:mark", "› "),))


def _called(block: ToolFinished, width: int) -> list[Line]:
    mark: Span = ("class:failed", "✗ ") if block.result.is_error else ("class:done", "● ")
    who = "" if block.agent == "root" else f"{block.agent} "
    took = f" ({duration(block.seconds)})" if block.seconds >= 1 else ""
    summary = one_line(block.summary) or ("failed" if block.result.is_error else "done")
    if block.diff:
        found = changes(block.diff)
        summary = f"{'≥' * found.cut}+{found.added} -{found.removed}"
    style = "class:failed" if block.result.is_error else "class:outcome"
    job = f"{block.job} " if block.job and not block.summary.endswith(block.job) else ""
    room = max(width - 2 - width_of(who + job) - len(block.call.name) - len(took) - 3, 10)
    below, most = shown_output(block), MAX_FAILED_LINES if block.result.is_error else MAX_DONE_LINES
    if 0 < len(below) <= most and one_line(below[0])[:199] == summary[:199]:  # they would repeat each other
        if len(summary) > (room // 2 if argument_line(block.call) else room):
            summary = "failed" if block.result.is_error else "done"
        else:
            below.pop(0)
    short = argument_line(block.call, max(room - min(len(summary), room // 2) - 2, 8))
    head: list[Span] = [mark, ("class:news", who + job), ("class:tool", block.call.name)]
    if short:
        path = block.call.arguments.get("file_path")
        style_of = leading_to_file("class:argument", path) if isinstance(path, str) else "class:argument"
        head += [("class:argument", " "), (style_of, short)]
    head += [("class:dim", " · "), (style, summary), ("class:dim", took)]
    line = cut_line(tuple(span for span in head if span[1]), width)
    if block.diff:
        return [line, *render_diff(block.diff, width)]
    return [line, *_last_rows(below, width, most)]


def _last_rows(lines: Sequence[str], width: int, limit: int) -> list[Line]:
    """Return the end of an output in at most so many rows, below the number of hidden lines; of one that is
    cut, the hidden characters are counted if it is long."""
    rows: list[Line] = []
    for number, text in enumerate(reversed(lines)):
        if (room := limit - len(rows)) <= 0:
            rows.insert(
                0, (("class:dim", f"  … {counted(len(lines) - number, 'more line')}"), ("class:hint", " · Ctrl-O"))
            )
            break
        found = list(_output(text[: room * width], width))
        if len(text) > MAX_SAID_CHARS:
            found = found[: room - 1]  # and a row that counts the rest
            characters = len(text) - sum(len(part) for row in found for _, part in row[1:])
            found.append((("class:dim", f"  … {characters:,} more characters"), ("class:hint", " · Ctrl-O")))
        elif len(found) > room or len(text) > room * width:
            found = [*found[: room - 1], cut_line((*found[room - 1], ("class:output", "…")), width)]
        rows[:0] = found
    return rows


def shown_output(block: ToolFinished) -> list[str]:
    """Return the lines of output to show of a call: of a command, or of one that failed."""
    goes_on = block.job and block.summary.endswith(block.job)
    if goes_on or not (block.result.is_error or "command" in block.call.arguments):
        return []
    lines = [line for line in printable(block.result.text).split("\n") if line.strip()]
    if lines and lines[-1].startswith("[exit code"):
        lines.pop()  # the line above has it
    return [] if lines == ["(no output)"] else lines


def _expanded_call(block: ToolFinished, width: int) -> list[Line]:
    lines = [_called(block, width)[0]]
    for name, value in block.call.arguments.items():
        text = value if isinstance(value, str) else json_dump(value)
        lines += wrap([("class:argument", printable(text))], width, (("class:dim", f"  {name}: "),), (("", TAB),))
    if block.call.malformed is not None:
        lines += wrap([("class:failed", printable(block.call.malformed))], width, (("", "  "),))
    if block.diff:
        lines += render_diff(block.diff, width, max_lines=MAX_PAGED_DIFF_LINES)
    return [*lines, *_output(block.result.text, width)]


def _output(text: str, width: int) -> Iterator[Line]:
    for line in printable(text).strip("\n").split("\n"):
        yield from wrap([("class:output", line)], width, _BAR, _BAR)


def _shell_output(text: str, width: int) -> list[Line]:
    if "\x1b" not in text:
        return list(_output(text, width)) if text.strip() else []
    from sagent.repl.view.colours import coloured

    rows = wrap(coloured(text.strip("\n"), "class:output"), width, _BAR, _BAR)
    while rows and rows[-1] == _BAR:
        rows.pop()
    return rows


def _shell(block: Shell, width: int, *, whole: bool = False) -> list[Line]:
    lines = [cut_line((("class:mark", "! "), ("class:said", one_line(block.command))), width)]
    plain = not whole and "\x1b" not in block.output  # a sequence is not to be cut
    output = fold_long(block.output, MAX_SAID_CHARS, MAX_FOLDED_CHARS) if plain else block.output
    shown = _shell_output(output, width)
    if (left := len(shown) - MAX_SHELL_LINES) > 0 and not whole:
        lines.append((("class:dim", f"  … {left} lines before"), ("class:hint", ", Ctrl-O shows them")))
        shown = shown[left:]
    return [*lines, *shown, *([(("class:failed", f"  exit {block.code}"),)] if block.code else ())]


def _returned(block: Finished, width: int) -> Line:
    result = block.result
    figures = f"{result.turns} turn{'s' if result.turns != 1 else ''}, {duration(result.duration)}"
    figures += f", {money(result.run_usd)}" if result.run_usd else ""
    if (error := result.error) is not None:
        why = "interrupted" if error.kind == "interrupted" else one_line(error.message)
        who: Line = (("class:failed", "✗ "), ("class:news", block.agent), ("class:dim", " · "), ("class:failed", why))
        return cut_line(who, width)
    first = next((line for piece in pieces_of(result.content) for line in render_piece(piece, 10_000) if line), ())
    said = cut(one_line("".join(text for _, text in first)), max(width - len(block.agent) - len(figures) - 8, 10))
    head: Line = (("class:done", "● "), ("class:news", block.agent), ("class:dim", f" {figures} · "))
    return cut_line((*head, ("", said)), width)


def _advice(advice: Advice, width: int) -> list[Line]:
    """Return advice in its frame: advisor, trigger, verdict and price, then the text."""
    whole = min(width, 100)
    inner = whole - 4
    state = {"answered": "", "cut": " (cut at its length limit)"}.get(advice.status, f" {advice.status}")
    verdict = advice.verdict or ("" if state else "advice")
    title = f" {advice.advisor} · {advice.trigger}{' · ' + verdict if verdict else ''}{state} "
    price = f" {money(advice.usd)} · {duration(advice.seconds)} "
    style = {"proceed": "class:done", "stop": "class:failed"}.get(advice.verdict, "class:advice")
    if len(title) + len(price) > inner:
        price = f" {money(advice.usd)} "
    title, top = cut(title, max(inner - len(price), 8)), "class:advice"
    fill = max(whole - len(title) - len(price) - 4, 1)
    head: Line = ((top, "╭─"), (style, title), (top, "─" * fill), ("class:dim", price), (top, "─╮"))
    body = wrap([("class:warning", printable(advice.reason))], inner) if advice.reason else []
    body += [line for piece in pieces_of(printable(advice.text)) for line in render_piece(piece, inner)]
    foot: Line = ((top, "╰" + "─" * (whole - 2) + "╯"),)
    rows = (((top, "│ "), *line, ("", " " * (inner - line_width(line))), (top, " │")) for line in body)
    return [cut_line(head, width), *rows, foot]
