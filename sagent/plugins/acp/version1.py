"""Protocol version 1: translate agent events and earlier conversations to `session/update`.

Source: https://agentclientprotocol.com/protocol/v1 and its schema. A turn's updates come before the turn's response,
and every announced call ends as "completed" or "failed".
"""

import os
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, assert_never

from sagent.context.todo import TODO, written
from sagent.events import (
    Advice,
    AdviceDelta,
    Advised,
    Denied,
    Event,
    Finished,
    Notice,
    Received,
    ReplyFinished,
    Retrying,
    SessionOpened,
    Switched,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from sagent.lib.dataclass import dataclass
from sagent.lib.json import json_thaw
from sagent.lib.text import fenced, one_line, printable
from sagent.messages import Image, Message, Part, Text, Thinking, ToolCall, ToolResult
from sagent.peer import Status
from sagent.plugins.acp import calls
from sagent.plugins.acp.calls import CallIds
from sagent.plugins.hosting.proposal import Proposal, proposal_of
from sagent.tool import Workspace
from sagent.usage import Cost

Update: TypeAlias = Mapping[str, object]
ROOT = "root"
_SPEAKERS = {"user": "user", "assistant": "agent"}


def text_block(text: str) -> Update:
    return {"type": "text", "text": text}


def chunk(kind: str, message: str, block: Update) -> Update:
    """Return one chunk of a message; `kind` is "user_message", "agent_message" or "agent_thought"."""
    return {"sessionUpdate": f"{kind}_chunk", "messageId": message, "content": block}


def content(block: Update) -> Update:
    """Wrap a block as content of a tool call."""
    return {"type": "content", "content": block}


def diff(change: Proposal) -> Update:
    return {"type": "diff", "path": change.path, "oldText": change.old, "newText": change.new}


def new_id() -> str:
    """Return a new message id, unique among all processes that work on the session."""
    return os.urandom(8).hex()


def usage(status: Status, cost: Cost) -> Update:
    """Report the context size and the session's cost. Models without a known price are listed, because the cost is then
    a minimum. If the window is unknown, the tokens in use stand for its size."""
    more = {"_meta": {"sagent": {"unpriced": list(cost.unpriced)}}} if cost.unpriced else {}
    return {
        "sessionUpdate": "usage_update",
        "used": status.context_tokens,
        "size": max(status.window or 0, status.context_tokens),
        "cost": {"amount": float(cost.total), "currency": "USD"},
        **more,
    }


def plan(call: ToolCall, result: ToolResult) -> Iterator[Update]:
    """Yield the to-do list that a call has written, if any."""
    if (tasks := written(call, failed=result.is_error)) is not None:
        entries = [{"content": task.text, "priority": "medium", "status": task.state} for task in tasks]
        yield {"sessionUpdate": "plan", "entries": entries}


def with_agent(event: Notice) -> str:
    """Return a notice's text, with its agent's path unless that is the root."""
    return event.text if event.agent == "root" else f"{event.agent}: {event.text}"


def notice(level: str, text: str, *, known: bool) -> Update:
    """Return a notice of sagent itself. A client that does not know notices gets it as a thought of the agent."""
    text = printable(text)
    if not known:
        return chunk("agent_thought", new_id(), text_block(f"{level.capitalize()}: {text}"))
    title, _, rest = text.partition("\n")
    more = {"description": rest.strip()} if rest.strip() else {}
    return {"sessionUpdate": "notice", "severity": level, "title": title, **more}


@dataclass(frozen=True, slots=True)
class Past:
    """The result of an earlier call, and its change of files as a unified diff."""

    result: ToolResult
    diff: str = ""


class Updates:
    """The updates of one session. If the client knows no `notices`, they are sent as thoughts of the agent. With
    `terminals`, commands are shown as terminals through the `_meta` members that Zed and its agents use."""

    def __init__(self, workspace: Workspace, *, notices: bool, terminals: bool = False) -> None:
        self._workspace, self._notices, self._terminals = workspace, notices, terminals
        self._output: dict[str, str] = {}  # output of running commands that was already sent
        self._message, self._thought = new_id(), new_id()
        self._ids = CallIds()
        self._changes: dict[str, Proposal] = {}  # proposed changes of calls that have begun
        self._asides = 0
        self._advice: dict[tuple[str, str], str] = {}

    def of(self, event: Event) -> Iterator[Update]:
        """Yield the updates for an event."""
        match event:
            case TextDelta("root", text):
                yield chunk("agent_message", self._message, text_block(text))
            case ThinkingDelta("root", text):
                yield chunk("agent_thought", self._thought, text_block(text))
            case ReplyFinished("root") | Received("root"):
                self._message, self._thought = new_id(), new_id()
            case Retrying("root"):
                self._message, self._thought = new_id(), new_id()
                why = f"The model call is repeated: {one_line(event.reason, 300)}"
                yield notice("info", why, known=self._notices)
            case ToolStarted(agent, call):
                yield from self._started(agent, call)
            case ToolProgress():
                yield from self._progress(event)
            case ToolFinished():
                yield from self._finished(event)
            case AdviceDelta():
                yield from self._advising(event)
            case Advised():
                yield from self._advised(event.advice, event.agent)
            case Notice(_, level) if level != "info":
                yield notice(level, with_agent(event), known=self._notices)
            case (
                TextDelta() | ThinkingDelta() | ReplyFinished() | Received() | Retrying() | SessionOpened() | Denied()
                | Switched() | Notice() | Finished()
            ):  # fmt: skip
                return
            case _:
                assert_never(event)

    def said(self, text: str) -> Update:
        """Return a message of sagent itself, such as a slash command's output. Several lines are shown verbatim."""
        return chunk("agent_message", new_id(), text_block(fenced(text) if "\n" in text else text))

    # -- tool calls

    def announce(self, agent: str, call: ToolCall) -> tuple[str, list[Update]]:
        """Return a call's id, and its announcement unless it was sent already."""
        name, new = self._ids.begin(agent, call.id)
        if not new:
            return name, []
        if (change := proposal_of(call, self._workspace)) is not None:
            self._changes[name] = change
        return name, [self._announcement(name, agent, call)]

    def changes(self, name: str) -> list[Update]:
        """Return the proposed changes of an open call as content."""
        change = self._changes.get(name)
        return [] if change is None else [diff(change)]

    def place(self, call: ToolCall, changed: str = "") -> list[Update]:
        """Return the location that a call reads, or has changed according to a unified diff."""
        if (path := calls.place_of(call, self._workspace)) is None:
            return []
        line = calls.line_of(call, changed)
        return [{"path": str(path), **({"line": line} if line else {})}]

    def _announcement(self, name: str, agent: str, call: ToolCall) -> Update:
        shown: dict[str, object] = {
            "sessionUpdate": "tool_call",
            "toolCallId": name,
            "name": call.name,
            "title": calls.title_of(call, agent),
            "kind": calls.kind_of(call),
            "status": "pending",
            "rawInput": json_thaw(call.arguments) if call.malformed is None else call.malformed,
        }
        more = {"locations": self.place(call), "content": self.changes(name)}
        return {**shown, **{key: value for key, value in more.items() if value}}

    def synthetic(self, title: str, kind: str, blocks: Sequence[Update]) -> tuple[str, Update]:
        """Return a call that no model has made, such as advice: its id and its announcement."""
        self._asides += 1
        name, _ = self._ids.begin(ROOT, f"sagent-{self._asides}-{new_id()}")
        shown = {"toolCallId": name, "title": title, "kind": kind, "status": "in_progress"}
        return name, {"sessionUpdate": "tool_call", **shown, "content": [content(block) for block in blocks]}

    def ended(self, name: str, *, failed: bool = False, **more: object) -> Update:
        """Return the update that ends a call."""
        self._ids.end(name, job=False)
        self._changes.pop(name, None)
        return _update(name, status="failed" if failed else "completed", **more)

    def close(self) -> list[Update]:
        """Return an end for each open call, because a turn may not end before its calls."""
        left = self._ids.take_open()
        self._changes.clear()
        self._output.clear()
        self._advice.clear()
        return [_update(name, status="failed") for name in left]

    def _started(self, agent: str, call: ToolCall) -> Iterator[Update]:
        if (agent, call.name) == (ROOT, TODO):
            return
        name, news = self.announce(agent, call)
        if self._terminals and call.name == "Bash" and not self._ids.is_job(name):
            self._output[name] = ""
            terminal = {"terminal_info": {"terminal_id": name, "cwd": str(self._workspace.cwd)}}
            more = {"content": [{"type": "terminal", "terminalId": name}], "_meta": terminal}
            yield {**(news[0] if news else _update(name)), "status": "in_progress", **more}
            return
        yield from ({**each, "status": "in_progress"} for each in news)
        if not news and not self._ids.is_job(name):
            before = self._changes.get(name)
            if (change := proposal_of(call, self._workspace)) is not None:
                self._changes[name] = change  # an earlier call may have changed the file
            more = {"content": self.changes(name)} if change not in (None, before) else {}
            yield _update(name, status="in_progress", **more)

    def _progress(self, event: ToolProgress) -> Iterator[Update]:
        name = self._ids.find(event.agent, event.call_id)
        if name in self._output:
            data, self._output[name] = calls.new_output(self._output[name], event.text), event.text
            if data:
                yield _update(name, _meta={"terminal_output": {"terminal_id": name, "data": printable(data)}})
        elif name is not None and event.text:
            shown = fenced(calls.shortened(printable(event.text)).rstrip("\n"))
            yield _update(name, content=[content(text_block(shown))])

    def _finished(self, event: ToolFinished) -> Iterator[Update]:
        call, result = event.call, event.result
        if (event.agent, call.name) == (ROOT, TODO):
            yield from plan(call, result)
            return
        name = self._ids.find(event.agent, call.id)
        if name is None:  # answered without having started
            name, news = self.announce(event.agent, call)
            yield from news
        change = self._changes.pop(name, None)
        self._ids.end(name, job=bool(event.job))
        shown = _outcome(call, result, change)
        if name in self._output:
            data = printable(calls.new_output(self._output.pop(name), calls.shortened(result.text)))
            code = {"terminal_id": name, "exit_code": 1 if result.is_error else 0, "signal": None}
            shown["_meta"] = {"terminal_output": {"terminal_id": name, "data": data}, "terminal_exit": code}
            del shown["content"]
        if event.diff and (place := self.place(call, event.diff)):
            shown["locations"] = place
        yield _update(name, **shown)

    # -- advisors

    def _advising(self, event: AdviceDelta) -> Iterator[Update]:
        key = (event.agent, event.advisor)
        if event.trigger != "asked" and key not in self._advice:  # requested advice is shown as a call's result
            name, shown = self.synthetic(f"Advice of {event.advisor} ({event.trigger})", "think", ())
            self._advice[key] = name
            yield shown

    def _advised(self, advice: Advice, agent: str) -> Iterator[Update]:
        name = self._advice.pop((agent, advice.advisor), None)
        if name is not None:
            text = advice.text or f"{advice.status}: {advice.reason}"
            failed = advice.status in ("failed", "withheld")
            yield self.ended(name, failed=failed, content=[content(text_block(calls.shortened(text)))])

    # -- what was said before

    def replay(self, messages: Iterable[Message | Past]) -> Iterator[Update]:
        """Yield an earlier conversation. Messages that did not come from the person are left out, as they were then."""
        asked: dict[str, tuple[str, ToolCall]] = {}
        for each in messages:
            if isinstance(each, Past):
                if (call := asked.pop(each.result.call_id, None)) is not None:
                    yield from self._replayed_end(*call, each)
                continue
            message = new_id()
            for part in each.parts:
                if isinstance(part, ToolCall):
                    name, new = self._ids.begin(ROOT, part.id) if part.name != TODO else ("", True)
                    if new:  # otherwise it is still in progress
                        asked[part.id] = name, part
                    if new and name:
                        yield self._announcement(name, ROOT, part)
                elif not each.sender:
                    yield from _replayed_part(part, _SPEAKERS[each.role], message)
        for name, _ in asked.values():
            if name:
                self._ids.end(name, job=False)
                yield _update(name, status="failed")

    def _replayed_end(self, name: str, call: ToolCall, past: Past) -> Iterator[Update]:
        if call.name == TODO:
            yield from plan(call, past.result)
            return
        self._ids.end(name, job=False)
        shown = _outcome(call, past.result, None)
        if past.diff:
            shown["content"] = [content(text_block(fenced(past.diff.rstrip("\n"), "diff")))]
        yield _update(name, **shown)


def _replayed_part(part: Part, sayer: str, message: str) -> Iterator[Update]:
    """Yield the update for a part of an earlier message."""
    match part:
        case Text(text) if text:
            yield chunk(f"{sayer}_message", message, text_block(text))
        case Image(media_type, data):
            yield chunk(f"{sayer}_message", message, image_block(media_type, data))
        case Thinking(text) if text:
            yield chunk("agent_thought", f"{message}-thought", text_block(text))
        case _:
            return


def image_block(media_type: str, data: bytes) -> Update:
    return {"type": "image", "mimeType": media_type, "data": b64encode(data).decode()}


def _update(name: str, **members: object) -> Update:
    return {"sessionUpdate": "tool_call_update", "toolCallId": name, **members}


def _outcome(call: ToolCall, result: ToolResult, change: Proposal | None) -> dict[str, object]:
    """Return the status and content of a result: the change of a file if there is one, else the text and images."""
    failed = result.is_error
    if change is not None and not failed:
        return {"status": "completed", "content": [diff(calls.current_proposal(change))]}
    text = calls.shortened(printable(result.text)).strip("\n")
    shown = text if calls.kind_of(call) in ("think", "switch_mode", "other") or failed else fenced(text)
    blocks = [content(text_block(shown))] if text else []
    blocks += [content(image_block(part.media_type, part.data)) for part in result.content if isinstance(part, Image)]
    return {"status": "failed" if failed else "completed", "content": blocks}
