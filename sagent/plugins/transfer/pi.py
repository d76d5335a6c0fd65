"""Transcripts of pi: `~/.pi/agent/sessions/DIRECTORY/TIME_ID.jsonl`, a tree of
entries of which the last branch counts."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

from sagent.lib.json import EMPTY, as_int, as_object, as_str
from sagent.messages import Part, StopReason
from sagent.plugins.transfer.lines import read_objects
from sagent.plugins.transfer.steps import Draft, Spent, Transcript, word
from sagent.usage import Usage

_STOPS: Mapping[str, StopReason] = {
    "stop": "end",
    "toolUse": "tool_use",
    "length": "max_tokens",
    "error": "error",
    "aborted": "interrupted",
}


def read_pi(file: Path, *, own: bool) -> Transcript:
    """Return a transcript of pi. Raises UsageError if the file cannot be read."""
    return _Reader(file, own=own).read()


class _Reader:
    def __init__(self, file: Path, *, own: bool) -> None:
        self._file, self._draft = file, Draft("pi", own=own)
        self._spent: list[Spent] = []
        self._title = ""

    def read(self) -> Transcript:
        lines = list(read_objects(self._file, self._draft))
        head = next((line for line in lines if line.get("type") == "session"), EMPTY)
        for line in self._on_branch([line for line in lines if line is not head]):
            self._take(line)
        version = f"format {as_int(head.get('version'), 1)}"
        ends = (as_str(head.get("cwd")), self._title, version, tuple(self._spent), (), (), self._draft.left_out)
        return Transcript("pi", as_str(head.get("id")), self._file, self._draft.steps(), *ends)

    def _on_branch(self, lines: Sequence[Mapping[str, object]]) -> Sequence[Mapping[str, object]]:
        """Return the entries of the last branch; all of a file without ids, which is of version 1."""
        by_id = {as_str(line.get("id")): line for line in reversed(lines) if as_str(line.get("id"))}
        if not by_id:
            return lines
        kept: set[str] = set()
        at = as_str(next(line for line in reversed(lines) if as_str(line.get("id"))).get("id"))
        while at in by_id and at not in kept:
            kept.add(at)
            at = as_str(by_id[at].get("parentId"))
        if at and at not in by_id:
            self._draft.leave_out("the messages before a line that is missing")
        gone = sum(line.get("type") == "message" for name, line in by_id.items() if name not in kept)
        self._draft.leave_out("a message of a branch that was abandoned", gone)
        same = sum(as_str(line.get("id")) in by_id and line is not by_id[as_str(line.get("id"))] for line in lines)
        self._draft.leave_out("a line with the id of an earlier one", same)
        return [line for line in lines if (name := as_str(line.get("id"))) in kept and line is by_id[name]]

    def _take(self, line: Mapping[str, object]) -> None:
        draft, kind, key = self._draft, as_str(line.get("type")), as_str(line.get("id"))
        at = as_str(line.get("timestamp"))[:40]
        match kind:
            case "message":
                self._take_message(as_object(line.get("message")), at, key)
            case "compaction":
                kept = draft.numbers_since(as_str(line.get("firstKeptEntryId")))
                draft.compact(as_str(line.get("summary")), kept, as_int(line.get("tokensBefore")))
            case "branch_summary":
                draft.tell(draft.text(line.get("summary")), at, key)
            case "custom_message":
                draft.tell(self._parts(line.get("content")), at, key)
            case "session_info":
                self._title = as_str(line.get("name")) or self._title
            case "model_change" | "thinking_level_change" | "label":
                draft.alias(key, draft.size)
            case _:
                draft.leave_out(f"a line of the program's own: {word(kind)}")
                draft.alias(key, draft.size)

    def _take_message(self, message: Mapping[str, object], at: str, key: str) -> None:
        draft, content = self._draft, message.get("content")
        match message.get("role"):
            case "user":
                draft.say(self._parts(content), at, key)
            case "assistant":
                self._take_reply(message, at, key)
            case "toolResult":
                failed = message.get("isError") is True
                number = draft.answer(message.get("toolCallId"), self._parts(content), failed=failed)
                if number >= 0:
                    draft.alias(key, number)
            case "system":
                draft.leave_out("the program's own instructions")
                draft.alias(key, draft.size)
            case "bashExecution":
                said = f"$ {as_str(message.get('command'))}\n{as_str(message.get('output'))}"
                if message.get("excludeFromContext") is True:
                    draft.leave_out("a command of the person that the model was not shown")
                else:
                    draft.tell(draft.text(said), at, key)
            case "custom" | "branchSummary" | "compactionSummary":
                draft.tell(self._parts(content or message.get("summary")), at, key)
            case role:
                draft.leave_out(f"a message of the role {word(role)}")

    def _take_reply(self, message: Mapping[str, object], at: str, key: str) -> None:
        provider, model = as_str(message.get("provider")), as_str(message.get("model"))
        stop = _STOPS.get(as_str(message.get("stopReason")))
        self._draft.reply(self._parts(message.get("content")), f"{provider}/{model}" if model else "", stop, at, key)
        usage, cost = as_object(message.get("usage")), as_object(as_object(message.get("usage")).get("cost"))
        if usage:
            hour = as_int(usage.get("cacheWrite1h"))
            counted = Usage(
                input=as_int(usage.get("input")),
                cache_read=as_int(usage.get("cacheRead")),
                cache_write=max(as_int(usage.get("cacheWrite")) - hour, 0),
                cache_write_1h=hour,
                output=as_int(usage.get("output")),
                reasoning=as_int(usage.get("reasoning")),
            )
            self._spent.append(Spent(provider, model, counted, usd_of(cost.get("total"))))

    def _parts(self, content: object) -> list[Part]:
        draft, parts = self._draft, list[Part]()
        for block in draft.blocks(content):
            match block.get("type"):
                case "text":
                    parts += draft.text(block.get("text"))
                case "thinking":
                    if block.get("redacted") is True:
                        draft.leave_out("thinking that only its provider can read")
                    else:
                        parts += draft.thinking(block.get("thinking"), block.get("thinkingSignature"))
                case "image":
                    parts += draft.media(block.get("mimeType"), block.get("data"))
                case "toolCall":
                    parts += draft.call(block.get("id"), block.get("name"), block.get("arguments"))
                case kind:
                    draft.leave_out(f"a part of a message: {word(kind)}")
        return parts


def usd_of(value: object) -> Decimal | None:
    """Return a price in USD above 0; None for another value, also 0, which programs write for unknown prices."""
    with suppress(ArithmeticError, ValueError):
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1_000_000:
            return Decimal(str(value))
    return None
