"""Three output formats of a run: the answer alone, one JSON object, or every event as a line of JSON."""

import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TextIO

from sagent.events import (
    Event,
    Finished,
    Notice,
    ReplyFinished,
    Result,
    Retrying,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
)
from sagent.lib.json import json_dump
from sagent.lib.text import escaped, in_shell, one_line, printable

if TYPE_CHECKING:
    from sagent.config import Settings
    from sagent.repl.view.blocks import Block

MAX_COLUMNS, MAX_DIFF_ROWS = 160, 400  # where there is no terminal; of a change
PROPOSED = "planned"  # the answer is a plan, which was the argument of a call
ROOT = "root"  # the agent that the person talks to


class Renderer(Protocol):
    """Takes every event of a run, then its result."""

    def on_event(self, event: Event) -> None: ...

    def on_result(self, result: Result) -> None: ...


def renderer_for(settings: "Settings", out: TextIO, err: TextIO) -> Renderer:
    """Return the renderer of the output format. Progress is shown on a terminal, or if the log level asks for it."""
    match settings.output_format:
        case "json":
            return JsonRenderer(out, err)
        case "stream-json":
            return StreamRenderer(out)
        case _:
            talk = settings.log_level in ("info", "debug") or (err.isatty() and settings.log_level != "error")
            thinking = settings.log_level == "debug"
            twice = err.isatty() and _is_pipe(out)
            text = not out.isatty() and not twice
            transcript = Transcript(err, text=text, before_calls=twice, thinking=thinking) if talk else None
            return TextRenderer(out, err, transcript, quiet=settings.log_level == "error")


def _is_pipe(out: TextIO) -> bool:
    """Return True if the answer goes to another program, which may show it on the same terminal."""
    from os import fstat
    from stat import S_ISFIFO

    try:
        return S_ISFIFO(fstat(out.fileno()).st_mode)
    except (OSError, ValueError):  # closed, or no file
        return False


class JsonRenderer:
    """Writes one object at the end; warnings go to stderr."""

    def __init__(self, out: TextIO, err: TextIO | None = None) -> None:
        self._out, self._err = out, err

    def on_event(self, event: Event) -> None:
        """Show only important warnings before the end."""
        if self._err is not None:
            warn(event, self._err)

    def on_result(self, result: Result) -> None:
        from sagent.transcript.event_json import encode_result

        self._out.write(escaped(json_dump(encode_result(result))) + "\n")
        self._out.flush()


class StreamRenderer:
    """Writes one event a line, at once: lines of one burst are written together, at the latest when the loop idles."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._defer: Callable[[Callable[[], None]], object] | None = None
        self._on_failure: Callable[[OSError], None] | None = None
        self._lines: list[str] = []

    def attach(self, defer: Callable[[Callable[[], None]], object], on_failure: Callable[[OSError], None]) -> None:
        """Write bursts through `loop.call_soon`, and call `on_failure` if that fails."""
        self._defer = defer
        self._on_failure = on_failure

    def on_event(self, event: Event) -> None:
        from sagent.transcript.event_json import encode_event

        if isinstance(event, Finished) and event.agent == ROOT:
            return  # on_result writes it, last
        if not self._lines and self._defer is not None:
            self._defer(self.flush)
        self._lines.append(escaped(json_dump(encode_event(event))))
        if self._defer is None:
            self.flush()

    def on_result(self, result: Result) -> None:
        from sagent.transcript.event_json import encode_result

        self._lines.append(escaped(json_dump({"type": "result", "agent": ROOT, **encode_result(result)})))
        self.flush()

    def flush(self) -> None:
        if not self._lines:
            return
        text = "".join(f"{line}\n" for line in self._lines)
        self._lines.clear()
        try:
            self._out.write(text)
            self._out.flush()
        except OSError as error:
            if self._on_failure is None:
                raise
            self._on_failure(error)


class WaitingLine:
    """A temporary line on standard error that says why calls to a local server wait; on a terminal only."""

    def __init__(self, err: TextIO) -> None:
        self._err = err
        self._shown = ""  # the line on the terminal to replace next
        self._told: dict[str, str] = {}  # by agent; the last one is shown

    def tell(self, agent: str, waits_for: str, *, shown: bool = True) -> None:
        """Record a reason, and show the last one, unless another line is being written."""
        self._told.pop(agent, None)
        if waits_for:
            self._told[agent] = waits_for if agent in ("", ROOT) else f"{agent.rpartition('/')[2]}: {waits_for}"
        if shown and self._err.isatty():
            self._show(next(reversed(self._told.values()), ""))

    def hide(self) -> None:
        """Make room for another line."""
        if self._shown:
            self._show("")

    def _show(self, text: str) -> None:
        from shutil import get_terminal_size

        from sagent.lib.terminal import replace_line

        line = printable(one_line(text, get_terminal_size().columns - 1))
        if line != self._shown:
            replace_line(self._err, line, self._shown)
        self._shown = line


class TextRenderer:
    """Writes the answer to stdout; to stderr the progress, if there is a transcript, and finally the head of the log,
    which later proves that nothing before it was rewritten."""

    def __init__(self, out: TextIO, err: TextIO, transcript: "Transcript | None", *, quiet: bool = False) -> None:
        self._out, self._err, self._transcript, self._quiet = out, err, transcript, quiet
        self._live = out.isatty()
        self._open_line = False
        self._waiting = WaitingLine(err)

    def on_waiting(self, agent: str, waits_for: str) -> None:
        """Show why a call of an agent to a local server waits."""
        busy = self._open_line or self._quiet or (self._transcript is not None and self._transcript.open_line)
        self._waiting.tell(agent, waits_for, shown=not busy)

    def on_event(self, event: Event) -> None:
        """Show progress; and the text itself if a person watches stdout."""
        self._waiting.hide()
        if isinstance(event, TextDelta) and self._live and event.agent == ROOT:
            self._open_line = not event.text.endswith("\n")
            self._out.write(printable(event.text))
            self._out.flush()
            return
        if not isinstance(event, ThinkingDelta):
            self._end_line()
        if self._transcript is not None:
            self._transcript.on_event(event)
            return
        warn(event, self._err, live=self._live)

    def on_result(self, result: Result) -> None:
        """Write the answer, unless it was streamed, and any error to stderr."""
        self._waiting.hide()
        if self._live:
            self._end_line()
        if result.content and (not self._live or result.stop_reason == PROPOSED):
            self._out.write(result.content + "\n")
        self._out.flush()
        write_end(result, self._err, denied=self._transcript is None, quiet=self._quiet)

    def _end_line(self) -> None:
        if self._open_line:
            self._out.write("\n")
            self._out.flush()
        self._open_line = False


def report(*lines: str) -> None:
    """Write a message that is no part of a result to standard error, at once."""
    sys.stderr.write("".join(f"sagent: {printable(in_shell(line))}\n" for line in lines))
    sys.stderr.flush()


def write_end(result: Result, err: TextIO, *, denied: bool, quiet: bool) -> None:
    """Write the errors, with `denied` also the calls that the policy denied; and the session, for programs with the
    head of its log."""
    denials = result.denials if denied else ()
    err.writelines(printable(f"sagent: denied {denial.tool}: {denial.reason}\n") for denial in denials)
    if result.error is not None:
        err.write(printable(f"sagent: {in_shell(result.error.message)}\n"))
    if result.session_path and result.head and not quiet:
        head = "" if err.isatty() else f", head {result.head}"
        err.write(printable(f"sagent: session {result.session_id}{head}\n"))
    err.flush()


def warn(event: Event, err: TextIO, *, live: bool = False) -> None:
    """Write a warning that a person should see even without progress. `live`: they see the text stream."""
    match event:
        case Notice(agent, "warning" | "error", text):
            who = "" if agent == ROOT else f"{agent}: "
            err.write(f"sagent: {printable(who + in_shell(text))}\n")
        case Retrying(seconds=seconds, discarded=discarded) if seconds or not discarded or live:
            err.write(f"sagent: {again(event, shown=live)}\n")
        case _:
            return
    err.flush()


def again(event: Retrying, which: str = "", *, shown: bool = True) -> str:
    """Say why and when a call is repeated, and that shown text is discarded. With text discarded and no delay, it is
    not a retry but a new start of the reply."""
    anew = event.discarded and not event.seconds
    when = "the reply starts again" if anew else f"trying again in {waiting(event.seconds)}{which}"
    gone = "; the text above is discarded" if shown and event.discarded else ""
    return f"{printable(event.reason).rstrip('.')}; {when}{gone}"


def waiting(seconds: float) -> str:
    """Return a wait as text: "0.4 s", "12 s"."""
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


class Transcript:
    """A run as a person reads it in a terminal, line by line: the answer as it streams, and the REPL's blocks."""

    def __init__(self, out: TextIO, *, text: bool = True, before_calls: bool = False, thinking: bool = False) -> None:
        """`before_calls`: show only the text before calls, which is no answer yet."""
        from sagent.repl.view.view import View

        self._out, self._text, self._before_calls, self._thinking = out, text, before_calls, thinking
        self._colours = out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._view = View()
        self.open_line = False

    def on_event(self, event: Event) -> None:
        """Write what a person should see. Of agents below the root, only their calls and ends, with their names."""
        from sagent.repl.view.view import reduce

        if self._before_calls and event.agent == ROOT and isinstance(event, ReplyFinished) and event.message.calls:
            self._line(*event.message.content.splitlines())
        self._view, blocks = reduce(self._view, event, time.monotonic())
        match event:
            case TextDelta("root", text) if self._text:
                self._write(text)
            case ThinkingDelta("root", text) if self._thinking:
                self._write(text)
            case ReplyFinished("root"):
                self._line()
                for block in blocks:
                    self._show(block)
            case Retrying("root", _, _, attempt, _, _):
                self._line(f"… {again(event, f' (attempt {attempt + 1})')}")
            case Finished("root"):  # its error is told at the end, in a line of its own
                self._line()
            case ToolFinished() if event.agent != ROOT and not blocks:
                self._show(event)
            case _:
                for block in blocks:
                    self._show(block)

    def _show(self, block: "Block") -> None:
        from shutil import get_terminal_size

        from sagent.lib.terminal import write_styled
        from sagent.repl.view.blocks import MARKS, MessageBlock, Report, Thought, render_block
        from sagent.repl.view.diff import render_diff
        from sagent.repl.view.markdown import Piece
        from sagent.repl.view.sgr import styled

        if isinstance(block, Piece | Thought) or (isinstance(block, MessageBlock) and not block.sender):
            return  # text is written as it streams, and the request is known
        width = max(get_terminal_size().columns - 1, 40) if self._out.isatty() else MAX_COLUMNS
        if isinstance(block, Report):
            self._line(f"{MARKS[block.level][1]}{in_shell(block.text)}")
            return
        rows = render_block(block, width)
        if isinstance(block, ToolFinished) and block.diff:
            rows = [rows[0], *render_diff(block.diff, width, max_lines=MAX_DIFF_ROWS)]
        rows = [tuple(span for span in row if span[0] != "class:hint") for row in rows]  # keys that nothing reads here
        lines = [styled(row, "auto") if self._colours else "".join(text for _, text in row) for row in rows]
        self._write("\n" if self.open_line else "")
        write_styled(self._out, "".join(f"{line if self._colours else printable(line)}\n" for line in lines))
        self.open_line = False

    def _write(self, text: str) -> None:
        self._out.write(printable(text))
        self._out.flush()
        self.open_line = not text.endswith("\n") if text else self.open_line

    def _line(self, *texts: str) -> None:
        """Write whole lines, below earlier output."""
        self._write(("\n" if self.open_line else "") + "".join(f"{text}\n" for text in texts))


def binary_safe(stream: TextIO) -> TextIO:
    """Return the stream set to write UTF-8, whatever the locale, without ever failing on a character."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=False)
    return stream
