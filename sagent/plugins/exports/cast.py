"""A session as a recording of a terminal, in the form of asciinema (asciicast 2): the output that the REPL would have
printed.

See docs.asciinema.org/manual/asciicast/v2.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import assert_never

from sagent.events import Advice, Advised, ToolFinished
from sagent.lib.json import as_object, json_freeze_object, valid_text
from sagent.messages import Text, ToolCall, ToolResult
from sagent.plugins.exports import steps
from sagent.plugins.exports.exported import Exported, Exporting
from sagent.plugins.exports.timeline import Call, Shown, Timeline, TurnShown, read_timeline, words_of
from sagent.repl.view.blocks import Block, MessageBlock, Report, Thought, past_summary, render_block, separated
from sagent.repl.view.lines import Line, drawable, one_line
from sagent.repl.view.markdown import pieces_of
from sagent.repl.view.sgr import styled
from sagent.session.store import named_logs
from sagent.transcript.redaction import Redaction

WIDTH, HEIGHT, THEME = 100, 30, "dark"
MAX_IDLE_SECONDS = 2.0  # between two pieces, however long it took
TYPED, PRINTED = 0.03, 0.04  # seconds for a character of a prompt, and for a row of output
MAX_TYPING_SECONDS = 2.0  # for a prompt


def write_cast(timeline: Timeline, redaction: Redaction) -> Iterator[bytes]:
    """Yield the lines of the recording: its header, then pieces of output, each with its time in seconds. Pauses are
    cut."""
    found = redaction.count
    title = timeline.heading(redaction)
    header: dict[str, object] = {"version": 2, "width": WIDTH, "height": HEIGHT, "idle_time_limit": MAX_IDLE_SECONDS}
    if (began := _seconds(timeline.first)) is not None:
        header["timestamp"] = int(began)
    yield _line({**header, "title": one_line(title), "env": {"TERM": "xterm-256color"}})
    recording, before = _Recording(), None
    redaction.count = found
    for shown in timeline.shown:
        recording.reach(_at(shown))
        for block in _blocks(shown, redaction):
            rows = [drawable(row) for row in render_block(block, WIDTH)]
            if rows and before is not None and separated(before, block):
                yield recording.piece("\r\n", 0.0)
            before = block if rows else before
            yield from (
                recording.typed(rows) if isinstance(block, MessageBlock) and not block.sender else recording.rows(rows)
            )


class _Recording:
    """The clock of a recording: the log's, without pauses."""

    def __init__(self) -> None:
        self._now = self._shown = 0.0  # and at the last output
        self._at: float | None = None  # of the log

    def reach(self, at: float | None) -> None:
        """Advance the clock to a time in the log."""
        if at is not None:
            passed = 0.0 if self._at is None else max(0.0, at - self._at)
            self._now = min(self._now + passed, self._shown + MAX_IDLE_SECONDS)
            self._at = at if self._at is None else max(self._at, at)

    def typed(self, rows: Sequence[Line]) -> Iterator[bytes]:
        """Rows that a person wrote, by the character."""
        count = sum(len(text) for row in rows for _, text in row) or 1
        pause = min(TYPED, MAX_TYPING_SECONDS / count)
        for row in rows:
            for style, text in row:
                yield from (self.piece(styled(((style, character),), THEME), pause) for character in text)
            yield self.piece("\r\n", pause)

    def rows(self, rows: Sequence[Line]) -> Iterator[bytes]:
        for row in rows:
            yield self.piece(styled(row, THEME) + "\r\n", min(PRINTED, MAX_IDLE_SECONDS / len(rows)))

    def piece(self, text: str, pause: float) -> bytes:
        self._now += pause
        self._shown = self._now
        return _line([round(self._now, 3), "o", valid_text(text)])


def export_cast(exporting: Exporting) -> Exported:
    """Export a session as a terminal recording."""
    timeline = read_timeline(exporting.session, named_logs(exporting.session))
    exporting.put(write_cast(timeline, exporting.redaction))
    return Exported(exporting.redaction.count, problems=tuple(timeline.damaged))


def _blocks(shown: Shown, redaction: Redaction) -> Sequence[Block]:
    """Return the blocks that the REPL would print. For other agents these are their calls and the results."""
    match shown:
        case steps.MessageStep("root", text, sender):
            return (MessageBlock(redaction.text(text), sender, len(shown.media)),)
        case TurnShown(turn, _, calls):
            own = turn.agent == "root"
            thought = (Thought(redaction.text(turn.thinking), 0.0),) if own and turn.thinking.strip() else ()
            said = pieces_of(redaction.text(turn.text)) if own else ()
            return (*thought, *said, *(_call(turn.agent, call, redaction) for call in calls if own or call.diff))
        case steps.Consulted(agent, advice):
            return (Advised(agent, _clean_advice(advice, redaction)),)
        case steps.Remark(agent):
            who = "" if agent == "root" else f"{agent}: "
            return (Report(f"{who}{redaction.text(words_of(shown))}"),)
        case steps.MessageStep():
            return ()
        case _:
            assert_never(shown)


def _call(agent: str, call: Call, redaction: Redaction) -> ToolFinished:
    text = redaction.text(call.result)
    asked = ToolCall("", call.name, json_freeze_object(as_object(redaction.value(dict(call.arguments)))))
    summary = "was denied" if call.state == "denied" else past_summary(text)
    result = ToolResult("", (Text(text),), call.state in ("failed", "denied"))
    return ToolFinished(agent, asked, result, call.seconds, summary, redaction.text(call.diff))


def _clean_advice(advice: Advice, redaction: Redaction) -> Advice:
    text, reason, question = map(redaction.text, (advice.text, advice.reason, advice.question))
    return replace(advice, text=text, reason=reason, question=question)


def _at(shown: Shown) -> float | None:
    return _seconds(shown.turn.at if isinstance(shown, TurnShown) else shown.at)


def _seconds(at: str) -> float | None:
    """Return a time of the log in seconds since 1970; None if it has none."""
    try:
        return datetime.fromisoformat(at).timestamp()
    except ValueError:
        return None


def _line(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"
