"""The transcript in plain lines: what happens is told once."""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from sagent.events import (
    AdviceDelta,
    Event,
    Received,
    Retrying,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
)
from sagent.lib.text import count
from sagent.plugins.plain.terminal import LineTerminal
from sagent.plugins.plain.words import block_text, retry_text, tasks_text
from sagent.repl.view.blocks import Block, MessageBlock, Thought
from sagent.repl.view.diff import changes
from sagent.repl.view.markdown import Piece
from sagent.repl.view.view import ROOT, View, plain_text, reduce

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sagent.context.todo import Task

MAX_KEPT_CALLS = 50  # for /show
MAX_WAITING_CHARS = 160  # of a line of an answer, before its beginning is written


class Paper:
    """The display: what happens is told once, in whole lines."""

    def __init__(self, terminal: LineTerminal) -> None:
        self.view = View()
        self.calls: list[ToolFinished] = []  # the last ones
        self.changes: dict[str, tuple[int, int]] = {}  # lines added and removed in this turn, by file
        self.said = ""  # the message that stands above
        self.near = ROOT  # the agent whose answers are told as they come
        self._kept: list[Piece] = []  # of the root's answers, while another agent is followed
        self._terminal, self._text, self._in_line = terminal, "", False  # the part of a line that was not written yet
        self._begun = set[str]()  # agents

    def write(self, *blocks: Block) -> None:
        for block in blocks:
            self._terminal.write(block_text(block))

    def follow(self, agent: str) -> None:
        """Tell the answers of this agent from now on; the root's are kept, and told on return."""
        self._flush()
        self.near = agent
        if agent == ROOT:
            kept, self._kept = self._kept, []
            self.write(*kept)

    def paint(self) -> None:
        """Do nothing: all is written at once."""

    def show_tasks(self, tasks: "Sequence[Task]") -> None:
        self.view = replace(self.view, tasks=tuple(tasks))

    def show_waiting(self, agent: str, waits_for: str) -> None:
        """Write why a call to a local server waits, once for each reason."""
        before = self.view.waits_for.get(agent, "")
        self.view = replace(self.view, waits_for={**self.view.waits_for, agent: waits_for})
        if waits_for and before.partition("…")[0].partition(":")[0] != waits_for.partition("…")[0].partition(":")[0]:
            self._terminal.write(waits_for if agent in ("", ROOT) else f"{agent}: {waits_for}")

    def show(self, event: Event) -> None:
        """Tell an event. One that cannot be told is written as plain text."""
        try:
            self._show(event)
        except Exception as error:
            self._terminal.write(f"{plain_text(event)} (the display failed: {type(error).__name__}: {error})")

    def _show(self, event: Event) -> None:
        before = self.view
        if event.agent == self.near and not isinstance(event, TextDelta | ThinkingDelta | ToolProgress | AdviceDelta):
            self._flush()
        self.view, blocks = reduce(before, event, asyncio.get_running_loop().time())
        match event:
            case TextDelta(agent, text) if agent == self.near:
                self._stream(text)
            case Retrying():
                self._terminal.write(retry_text(event))
                return
            case ToolFinished() if event.agent != ROOT and not blocks:
                blocks = (event,)
            case Received(agent, message) if agent != ROOT and agent not in self._begun:
                self._begun.add(agent)
                self._terminal.write(f"{agent} has begun: {' '.join(message.content[:300].split())}")
            case _:
                pass
        for block in blocks:
            if isinstance(block, Piece) and self.near != ROOT:
                self._kept.append(block)
            if isinstance(block, Piece) or (isinstance(block, Thought) and block.seconds < 1):
                continue
            if isinstance(block, MessageBlock) and not block.sender and block.text == self.said:
                self.said = ""
                continue
            self.write(block)
            if isinstance(block, ToolFinished):
                self._keep(block)
        if self.view.tasks != before.tasks:
            self._terminal.write(tasks_text(self.view.tasks))

    def _stream(self, text: str) -> None:
        """Write an answer by lines, a long one in parts that end with a word."""
        *lines, rest = (self._text + text).split("\n")
        cut = rest.rfind(" ") + 1 if len(rest) > MAX_WAITING_CHARS else 0
        whole = "".join(line.rstrip("\r") + "\n" for line in lines) + rest[:cut]
        self._text = rest[cut:]
        if whole:
            self._in_line = not whole.endswith("\n")
            self._terminal.stream(whole)

    def _flush(self) -> None:
        text, self._text = self._text, ""
        if text or self._in_line:
            self._in_line = False
            self._terminal.stream(f"{text}\n")

    def _keep(self, block: ToolFinished) -> None:
        self.calls = [*self.calls, block][-MAX_KEPT_CALLS:]
        if block.diff:
            path = str(block.call.arguments.get("file_path") or block.summary)
            added, removed = changes(block.diff)[1:3]
            before = self.changes.get(path, (0, 0))
            self.changes[path] = (before[0] + added, before[1] + removed)

    def turn_end(self) -> str:
        """Return the files that the turn has changed, and forget them."""
        changes, self.changes = self.changes, {}
        if not changes:
            return ""
        added, removed = (sum(column) for column in zip(*changes.values(), strict=True))
        return f", {count(len(changes), 'file')} changed ({count(added, 'line')} added, {removed} removed)"
