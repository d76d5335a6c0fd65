"""Transcripts of Claude Code: `~/.claude/projects/DIRECTORY/ID.jsonl`, and `ID/subagents/agent-NAME.jsonl`.

Each line names the one before it (`parentUuid`), so that a file holds every branch; the last one counts. A reply is
written block by block, each a line with the same id of the message.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.errors import UsageError
from sagent.lib.json import as_array, as_int, as_object, as_str, valid_text
from sagent.messages import Part, StopReason
from sagent.plugins.transfer.lines import read_objects
from sagent.plugins.transfer.steps import MAX_DEPTH, Child, Draft, Spent, Transcript, tasks, word
from sagent.usage import Usage

if TYPE_CHECKING:
    from sagent.context.todo import Task

_SYNTHETIC = "<synthetic>"  # the model of replies that the program wrote itself
_INSERTED = re.compile(
    r"\s*<(command-name|command-message|local-command-\w+|bash-(input|stdout|stderr)|system-reminder|task-notification|"
    r"user-memory-input)>"
)
_INTERRUPTED = "[Request interrupted by user"
_STOPS: Mapping[str, StopReason] = {
    "end_turn": "end",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "stop_sequence": "stop_sequence",
    "refusal": "refusal",
    "pause_turn": "pause",
    "model_context_window_exceeded": "context_overflow",
}
_TITLES = {"summary": "summary", "ai-title": "aiTitle", "custom-title": "customTitle"}


def read_claude(file: Path, *, own: bool, depth: int = 0) -> Transcript:
    """Return a transcript of Claude Code with its sub-agents. Raises UsageError if the file cannot be read."""
    return _Reader(file, own=own, depth=depth).read()


class _Reader:
    def __init__(self, file: Path, *, own: bool, depth: int) -> None:
        self._file, self._own, self._depth = file, own, depth
        self._draft = Draft("claude", own=own, depth=depth)
        self._id, self._cwd, self._version, self._title = "", "", "", ""
        self._billed: dict[str, Spent] = {}
        self._list: tuple[Task, ...] = ()
        self._lists: dict[str, tuple[Task, ...]] = {}  # by the id of the call that wrote it
        self._tasks: dict[str, Task] = {}
        self._preserved: Sequence[str] | None = None  # of the compaction whose summary follows
        self._before, self._after = 0, 0

    def read(self) -> Transcript:
        lines = list(read_objects(self._file, self._draft))
        side = self._depth > 0 or self._file.name.startswith("agent-")
        for line in self._on_branch(lines, side=side):
            self._take(line)
        draft = self._draft
        return Transcript(
            "claude",
            self._id if not side else self._file.stem,
            self._file,
            draft.steps(),
            self._cwd,
            self._title,
            self._version,
            tuple(self._billed.values()),
            tuple(self._tasks.values()) or self._list,
            tuple(self._children()),
            draft.left_out,
        )

    def _on_branch(self, lines: Sequence[Mapping[str, object]], *, side: bool) -> Iterator[Mapping[str, object]]:
        """Yield the lines of the last branch, in their order, and note facts of the others."""
        linked = [line for line in lines if as_str(line.get("uuid")) and (side or line.get("isSidechain") is not True)]
        self._draft.leave_out("a line of a sub-agent in its parent's file", sum(
            as_str(line.get("uuid")) != "" and not side and line.get("isSidechain") is True for line in lines
        ))  # fmt: skip
        by_id = {as_str(line.get("uuid")): line for line in reversed(linked)}
        kept: set[str] = set()
        at = self._leaf(lines, linked)
        while at in by_id and at not in kept:
            kept.add(at)
            line = by_id[at]
            at = as_str(line.get("parentUuid")) or as_str(line.get("logicalParentUuid"))
        if at and at not in by_id:
            self._draft.leave_out("the messages before a line that is missing")
            place = next(i for i, line in enumerate(linked) if as_str(line.get("uuid")) in kept)
            kept |= {as_str(line.get("uuid")) for line in linked[:place]}
        replies = {_reply_id(by_id[each]) for each in kept} - {""}
        for line in lines:
            mine = as_str(line.get("uuid"))
            if mine not in by_id:
                self._note(line)
            elif line is not by_id[mine]:
                self._draft.leave_out("a line with the id of an earlier one")
            elif mine in kept or _reply_id(line) in replies or (_parent(line) in kept and _is_result(line)):
                yield line
            elif line.get("type") in ("user", "assistant"):
                self._draft.leave_out("a message of a branch that was abandoned")

    def _leaf(self, lines: Sequence[Mapping[str, object]], linked: Sequence[Mapping[str, object]]) -> str:
        """Return the id of the last line of the conversation."""
        talk = [as_str(line.get("uuid")) for line in linked if line.get("type") in ("user", "assistant", "attachment")]
        named = [as_str(line.get("leafUuid")) for line in lines if line.get("type") == "last-prompt"]
        known = {as_str(line.get("uuid")): place for place, line in enumerate(linked)}
        if named and named[-1] in known:
            followers = linked[known[named[-1]] + 1 :]  # written after the name of the last one
            if not any(line.get("type") in ("user", "assistant") for line in followers):
                return named[-1]
        return talk[-1] if talk else ""

    def _note(self, line: Mapping[str, object]) -> None:
        """Take the facts of a line outside the conversation."""
        kind = as_str(line.get("type"))
        if kind in _TITLES:
            self._title = as_str(line.get(_TITLES[kind])) or self._title
        elif line.get("isSidechain") is not True:
            self._draft.leave_out(f"a line of the program's own: {word(kind)}")

    def _take(self, line: Mapping[str, object]) -> None:
        self._id = as_str(line.get("sessionId")) or self._id
        self._cwd = self._cwd or as_str(line.get("cwd"))
        self._version = as_str(line.get("version")) or self._version
        kind = as_str(line.get("type"))
        if kind == "assistant":
            self._take_reply(line)
        elif kind == "user":
            self._take_user(line)
        elif kind == "attachment":
            self._take_attachment(line)
        elif kind == "system" and line.get("subtype") == "compact_boundary":
            about = as_object(line.get("compactMetadata"))
            kept = as_object(about.get("preservedMessages"))
            self._preserved = [as_str(each) for each in as_array(kept.get("allUuids") or kept.get("uuids"))]
            self._before, self._after = as_int(about.get("preTokens")), as_int(about.get("postTokens"))
        else:
            named = as_str(line.get("subtype")) if kind == "system" else kind
            self._draft.leave_out(f"a line of the program's own: {word(named)}")

    def _take_reply(self, line: Mapping[str, object]) -> None:
        message, draft = as_object(line.get("message")), self._draft
        model = as_str(message.get("model"))
        if model == _SYNTHETIC or line.get("isApiErrorMessage") is True:
            draft.leave_out("a reply that the program wrote itself, such as an error")
            return
        parts: list[Part] = []
        for block in draft.blocks(message.get("content")):
            parts += self._reply_part(block)
        key = _reply_id(line) or as_str(line.get("uuid"))
        name = f"anthropic/{model}" if model else ""
        number = draft.reply(parts, name, _STOPS.get(as_str(message.get("stop_reason"))), _at(line), key)
        if number >= 0:
            draft.alias(as_str(line.get("uuid")), number)
        if usage := as_object(message.get("usage")):
            self._billed[key] = Spent("anthropic", model, _usage(usage))

    def _reply_part(self, block: Mapping[str, object]) -> list[Part]:
        draft = self._draft
        match block.get("type"):
            case "text":
                return draft.text(block.get("text"))
            case "thinking":
                return draft.thinking(block.get("thinking"), block.get("signature"))
            case "tool_use":
                name, given = as_str(block.get("name")), as_object(block.get("input"))
                if name == "TodoWrite":
                    self._lists[as_str(block.get("id"))] = tasks(given.get("todos"), "content")
                return draft.call(block.get("id"), name, block.get("input"))
            case "redacted_thinking":
                draft.leave_out("thinking that only its provider can read")
            case kind:
                draft.leave_out(f"a part of a reply: {word(kind)}")
        return []

    def _take_user(self, line: Mapping[str, object]) -> None:
        draft, key = self._draft, as_str(line.get("uuid"))
        parts: list[Part] = []
        for block in draft.blocks(as_object(line.get("message")).get("content")):
            match block.get("type"):
                case "text":
                    parts += draft.text(block.get("text"))
                case "image" | "document":
                    parts += self._media(block)
                case "tool_result":
                    self._take_result(block, line)
                case kind:
                    draft.leave_out(f"a part of a message: {word(kind)}")
        text = "".join(getattr(part, "text", "") for part in parts)
        if line.get("isCompactSummary") is True:
            kept = [draft.number_of(each) for each in self._preserved or ()]
            draft.compact(text, [each for each in kept if each >= 0], self._before, self._after)
            self._preserved = None
        elif text.startswith(_INTERRUPTED):
            draft.interrupt()
            draft.tell(parts, _at(line), key)
        elif line.get("isMeta") is True or _INSERTED.match(text) or _from_other(line):
            draft.tell(parts, _at(line), key)
        else:
            draft.say(parts, _at(line), key)

    def _take_result(self, block: Mapping[str, object], line: Mapping[str, object]) -> None:
        draft, parts = self._draft, list[Part]()
        for each in draft.blocks(block.get("content")):
            match each.get("type"):
                case "text":
                    parts += draft.text(each.get("text"))
                case "image" | "document":
                    parts += self._media(each)
                case kind:
                    draft.leave_out(f"a part of a result: {word(kind)}")
        failed = block.get("is_error") is True
        number = draft.answer(block.get("tool_use_id"), parts, failed=failed)
        if not failed:
            self._list = self._lists.get(as_str(block.get("tool_use_id")), self._list)
        if number >= 0:
            draft.alias(as_str(line.get("uuid")), number)
        self._take_task(as_object(line.get("toolUseResult")))

    def _take_task(self, done: Mapping[str, object]) -> None:
        """Follow the to-do list that TaskCreate and TaskUpdate write."""
        made = as_object(done.get("task"))
        if (number := as_str(made.get("id"))) and (found := tasks([{**made, "status": "pending"}], "subject")):
            self._tasks[number] = found[0]
        change = as_object(done.get("statusChange"))
        old = self._tasks.get(as_str(done.get("taskId")))
        if old is not None and (state := as_str(change.get("to"))):
            self._tasks.pop(as_str(done.get("taskId")), None)
            if state != "deleted":
                self._tasks[as_str(done.get("taskId"))] = tasks([{"subject": old.text, "status": state}], "subject")[0]

    def _take_attachment(self, line: Mapping[str, object]) -> None:
        """Take what was added to a prompt: files, and prompts that were typed while it worked."""
        attached, draft, key = as_object(line.get("attachment")), self._draft, as_str(line.get("uuid"))
        kind = as_str(attached.get("type"))
        if kind == "queued_command":
            parts: list[Part] = []
            for block in draft.blocks(attached.get("prompt")):
                parts += draft.text(block.get("text")) if block.get("type") == "text" else self._media(block)
            from_person = attached.get("commandMode", "prompt") == "prompt"
            (draft.say if from_person else draft.tell)(parts, _at(line), key)
        elif kind == "file":
            content = as_object(attached.get("content"))
            held = as_object(content.get("file"))
            name = valid_text(as_str(held.get("filePath")) or as_str(attached.get("filename")))
            if content.get("type") == "text":
                draft.tell(draft.text(f"{name}:\n{as_str(held.get('content'))}"), _at(line), key)
            else:
                media = draft.media(held.get("type"), held.get("base64"))
                draft.tell([*draft.text(f"{name}:"), *media] if media else [], _at(line), key)
        else:
            draft.leave_out(f"an attachment: {word(kind)}")

    def _media(self, block: Mapping[str, object]) -> list[Part]:
        source = as_object(block.get("source"))
        if source.get("type") == "base64":
            return self._draft.media(source.get("media_type"), source.get("data"), as_str(block.get("title")))
        if source.get("type") == "text":
            return self._draft.text(source.get("data"))
        self._draft.leave_out("a file that the transcript only names")
        return []

    def _children(self) -> Iterator[Child]:
        """Yield the sub-agents, whose files lie in a folder with the session's id."""
        if self._depth or self._file.name.startswith("agent-"):
            return
        folder = self._file.with_suffix("") / "subagents"
        try:
            files = sorted(folder.glob("agent-*.jsonl"))
        except OSError:
            return
        for file in files:
            about = _meta(file)
            try:
                transcript = read_claude(file, own=False, depth=min(self._depth + 1, MAX_DEPTH))
            except UsageError:
                self._draft.leave_out("a sub-agent whose file cannot be read")
                continue
            yield Child(file.stem, as_str(about.get("toolUseId")), transcript)


def _meta(file: Path) -> Mapping[str, object]:
    from sagent.plugins.transfer.lines import first_object

    return first_object(file.with_suffix(".meta.json"))


def _at(line: Mapping[str, object]) -> str:
    return as_str(line.get("timestamp"))[:40]


def _reply_id(line: Mapping[str, object]) -> str:
    return as_str(as_object(line.get("message")).get("id")) if line.get("type") == "assistant" else ""


def _parent(line: Mapping[str, object]) -> str:
    return as_str(line.get("parentUuid"))


def _is_result(line: Mapping[str, object]) -> bool:
    content = as_array(as_object(line.get("message")).get("content"))
    return any(as_object(block).get("type") == "tool_result" for block in content)


def _from_other(line: Mapping[str, object]) -> bool:
    """Return True for a message that came from neither the person nor a call."""
    origin = as_object(line.get("origin"))
    return bool(origin) and origin.get("kind", "human") != "human"


def _usage(usage: Mapping[str, object]) -> Usage:
    hour = as_int(as_object(usage.get("cache_creation")).get("ephemeral_1h_input_tokens"))
    written = as_int(usage.get("cache_creation_input_tokens"))
    return Usage(
        input=as_int(usage.get("input_tokens")),
        cache_read=as_int(usage.get("cache_read_input_tokens")),
        cache_write=max(written - hour, 0),
        cache_write_1h=hour,
        output=as_int(usage.get("output_tokens")),
    )
