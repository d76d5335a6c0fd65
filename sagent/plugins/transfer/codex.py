"""Transcripts of codex: `~/.codex/sessions/YEAR/MONTH/DAY/rollout-TIME-ID.jsonl`, one item a line in order.

Items of the type `response_item` are the conversation as it was sent; the others are facts about it.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.errors import UsageError
from sagent.lib.json import as_array, as_int, as_object, as_str, json_dump, json_parse
from sagent.messages import Part
from sagent.plugins.transfer.lines import first_object, read_objects
from sagent.plugins.transfer.steps import MAX_DEPTH, Child, Draft, Spent, Transcript, tasks, word
from sagent.usage import Usage

if TYPE_CHECKING:
    from sagent.context.todo import Task

MAX_SEARCHED_FILES = 2_000
"""Files that are looked at for sub-agents of a session."""
_INSERTED = re.compile(
    r"\s*<(environment_context|user_instructions|INSTRUCTIONS|skill|permissions instructions|subagent_notification|"
    r"user_shell_command|turn_aborted|recommended_plugins)\b|# AGENTS\.md instructions"
)
_ABORTED = re.compile(r"\s*<turn_aborted>")
_IMAGE_TAG = re.compile(r"</?image\b[^>]*>")
_EXIT = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d+)$", re.MULTILINE)
_REPEATED = frozenset({
    *("agent_message", "agent_reasoning", "agent_reasoning_raw_content", "context_compacted", "exec_command_begin"),
    *("exec_command_end", "item_completed", "item_started", "task_complete", "task_started", "thread_name_updated"),
    *("thread_settings_applied", "token_count", "turn_aborted", "user_message", "web_search_end", "patch_apply_end"),
    *("mcp_tool_call_begin", "mcp_tool_call_end", "view_image_tool_call", "patch_apply_begin"),
    "agent_reasoning_section_break",
})  # fmt: skip
"""Events that repeat items of the conversation."""


def read_codex(file: Path, *, own: bool) -> Transcript:
    """Return a transcript of codex with its sub-agents. Raises UsageError if the file cannot be read."""
    return _Reader(file, own=own, depth=0, agents=set()).read()


class _Reader:
    def __init__(self, file: Path, *, own: bool, depth: int, agents: set[str]) -> None:
        self._file, self._own, self._depth = file, own, depth
        self._agents = agents  # ids of sub-agents, those of all levels together
        self._draft = Draft("codex", own=own, depth=depth)
        self._id, self._cwd, self._version, self._started = "", "", "", ""
        self._provider, self._model = "openai", ""
        self._spent: list[Spent] = []
        self._counted: Mapping[str, object] = {}  # the last total
        self._per_call = False
        self._list: tuple[Task, ...] = ()
        self._lists: dict[str, tuple[Task, ...]] = {}  # by the id of the call that wrote it
        self._turn = 0  # number of the reply that items join; -1 after a message of the person
        self._replies = 0

    def read(self) -> Transcript:
        for line in read_objects(self._file, self._draft):
            kind, payload = as_str(line.get("type")), as_object(line.get("payload"))
            self._take(kind, payload, as_str(line.get("timestamp"))[:40])
        draft = self._draft
        return Transcript(
            "codex",
            self._id,
            self._file,
            draft.steps(),
            self._cwd,
            "",
            self._version,
            tuple(self._spent),
            self._list,
            tuple(self._children()),
            draft.left_out,
        )

    def _take(self, kind: str, payload: Mapping[str, object], at: str) -> None:
        draft = self._draft
        match kind:
            case "session_meta":
                if not self._id:
                    self._id = as_str(payload.get("id"))
                    self._cwd, self._version = as_str(payload.get("cwd")), as_str(payload.get("cli_version"))
                    self._provider = as_str(payload.get("model_provider")) or self._provider
                    self._started = at
                if as_object(payload.get("base_instructions")) or as_str(payload.get("instructions")):
                    draft.leave_out("the program's own instructions")
            case "turn_context":
                self._model = as_str(payload.get("model")) or self._model
            case "response_item":
                self._take_item(payload, at)
            case "compacted":
                self._compact(payload)
            case "token_usage_record":
                self._per_call = True
                self._bill(as_object(payload.get("usage")))
            case "event_msg":
                self._take_event(payload)
            case _:
                draft.leave_out(f"a line of the program's own: {word(kind)}")

    def _take_event(self, event: Mapping[str, object]) -> None:
        """Take the cost, and an interruption; the rest repeats the conversation."""
        match event.get("type"):
            case "token_count" if not self._per_call:  # older versions
                info = as_object(event.get("info"))
                total = as_object(info.get("total_token_usage"))
                if total and total != self._counted:
                    self._counted = total
                    self._bill(as_object(info.get("last_token_usage")))
            case "turn_aborted":
                self._draft.interrupt()
            case "thread_rolled_back":
                self._draft.take_back(as_int(event.get("num_turns"), 1))
                self._turn = -1
            case kind if kind not in _REPEATED:
                self._draft.leave_out(f"an event: {word(kind)}")
            case _:
                pass

    def _take_item(self, item: Mapping[str, object], at: str) -> None:
        draft, kind = self._draft, as_str(item.get("type"))
        match kind:
            case "message":
                self._take_message(item, at)
            case "reasoning":
                self._take_reasoning(item, at)
            case "function_call" | "custom_tool_call":
                raw = item.get("arguments") if kind == "function_call" else {"input": item.get("input")}
                name = as_str(item.get("name"))
                parts = draft.call(item.get("call_id"), name, raw)
                self._reply(parts, at)
                if name == "update_plan" and isinstance(raw, str):
                    with suppress(ValueError, RecursionError):
                        plan = tasks(as_object(json_parse(raw)).get("plan"), "step")
                        self._lists[as_str(item.get("call_id"))] = plan
            case "local_shell_call":
                self._reply(draft.call(item.get("call_id") or item.get("id"), "local_shell", item.get("action")), at)
            case "function_call_output" | "custom_tool_call_output" | "local_shell_call_output":
                self._take_output(item)
            case "web_search_call":
                self._reply(draft.text(f"[web search: {json_dump(dict(as_object(item.get('action'))))}]"), at)
            case "compaction" | "compaction_summary":
                draft.leave_out("a summary that only its provider can read: the messages before it stay")
            case _:
                draft.leave_out(f"an item: {word(kind)}")

    def _take_message(self, item: Mapping[str, object], at: str) -> None:
        draft, role = self._draft, as_str(item.get("role"))
        parts: list[Part] = []
        for block in draft.blocks(item.get("content")):
            match block.get("type"):
                case "input_text" | "output_text" | "text":
                    parts += draft.text(_IMAGE_TAG.sub("", as_str(block.get("text"))))
                case "input_image":
                    parts += draft.media_url(block.get("image_url"))
                case kind:
                    draft.leave_out(f"a part of a message: {word(kind)}")
        key = as_str(item.get("id"))
        if role == "assistant":
            self._reply(parts, at)
            return
        text = "".join(getattr(part, "text", "") for part in parts)
        if role in ("developer", "system"):
            draft.leave_out("the program's own instructions")
            return
        self._turn = -1
        if _ABORTED.match(text):
            draft.interrupt()
        if _is_inserted(item, text):
            draft.tell(parts, at, key)
        else:
            draft.say(parts, at, key)

    def _take_reasoning(self, item: Mapping[str, object], at: str) -> None:
        blocks = [*as_array(item.get("summary")), *as_array(item.get("content"))]
        parts = [part for block in blocks for part in self._draft.thinking(as_object(block).get("text"))]
        if parts:
            self._reply(parts, at)
            self._draft.thinking("", item.get("encrypted_content"))
        else:
            self._draft.leave_out("thinking that only its provider can read")

    def _take_output(self, item: Mapping[str, object]) -> None:
        draft, output = self._draft, item.get("output")
        parts, failed = _parts_of(draft, output)
        text = "".join(getattr(part, "text", "") for part in parts)
        code = _EXIT.search(text)
        draft.answer(item.get("call_id"), parts, failed=failed or (code is not None and code[1] != "0"))
        if not text.startswith("unsupported call"):
            self._list = self._lists.get(as_str(item.get("call_id")), self._list)
        self._turn = -1

    def _reply(self, parts: list[Part], at: str) -> None:
        """Add parts of a reply: all items between two messages of others are one reply."""
        if not parts:
            return
        if self._turn < 0 or not self._replies:
            self._replies += 1
        self._turn = 1
        name = f"{self._provider}/{self._model}" if self._model else ""
        self._draft.reply(parts, name, at=at, key=f"reply {self._replies}")

    def _compact(self, payload: Mapping[str, object]) -> None:
        draft = self._draft
        kept: list[int] = []
        summary = as_str(payload.get("message"))
        for item in map(as_object, as_array(payload.get("replacement_history"))):
            number = draft.number_of(as_str(item.get("id"))) if as_str(item.get("id")) else -1
            if number >= 0:
                kept.append(number)
            elif item.get("type") in ("compaction", "compaction_summary"):
                summary = ""
            elif item.get("role") == "user" and not summary:
                content = map(as_object, as_array(item.get("content")))
                summary = "".join(as_str(block.get("text")) for block in content)
        draft.compact(summary, kept)
        self._turn = -1

    def _bill(self, usage: Mapping[str, object]) -> None:
        read = as_int(usage.get("cached_input_tokens"))
        written = as_int(usage.get("cache_write_input_tokens"))
        counted = Usage(
            input=max(as_int(usage.get("input_tokens")) - read - written, 0),
            cache_read=read,
            cache_write=written,
            output=as_int(usage.get("output_tokens")),
            reasoning=as_int(usage.get("reasoning_output_tokens")),
        )
        if counted != Usage():
            self._spent.append(Spent(self._provider, self._model, counted))

    def _children(self) -> Iterator[Child]:
        """Yield the sub-agents, whose files name this session as their parent."""
        if not self._id or "sessions" not in self._file.parts:
            return
        root = Path(*self._file.parts[: len(self._file.parts) - self._file.parts[::-1].index("sessions")])
        try:
            later = [
                each for each in root.rglob("rollout-*.jsonl") if each != self._file and each.name >= self._file.name
            ]
        except OSError:
            return
        if len(later) > MAX_SEARCHED_FILES:
            self._draft.leave_out("a later file that was not searched for sub-agents", len(later) - MAX_SEARCHED_FILES)
        for file in sorted(later)[:MAX_SEARCHED_FILES]:
            about = as_object(first_object(file).get("payload"))
            if parent_of(about) != self._id:
                continue
            own = as_str(about.get("id")) or file.name
            if self._depth >= MAX_DEPTH or own in self._agents:
                self._draft.leave_out("a sub-agent that is too deep, or was taken over already")
                continue
            self._agents.add(own)
            name = as_str(about.get("agent_nickname")) or own[:8]
            try:
                transcript = _Reader(file, own=False, depth=self._depth + 1, agents=self._agents).read()
            except UsageError:
                self._draft.leave_out("a sub-agent whose file cannot be read")
                continue
            yield Child(name, "", transcript)


def parent_of(about: Mapping[str, object]) -> str:
    """Return the id of the session that started this one as a sub-agent; "" for one of a person."""
    spawned = as_object(as_object(as_object(about.get("source")).get("subagent")).get("thread_spawn"))
    return as_str(spawned.get("parent_thread_id"))


def _is_inserted(item: Mapping[str, object], text: str) -> bool:
    """Return True for a message that the program inserted."""
    about = as_object(item.get("internal_chat_message_metadata_passthrough"))
    kinds = [as_str(each) for each in as_array(about.get("content_item_kinds"))]
    if kinds and kinds != ["unknown"]:
        return not any(kind.startswith("user.") for kind in kinds)
    return _INSERTED.match(text) is not None


def _parts_of(draft: Draft, output: object) -> tuple[list[Part], bool]:
    """Return the content of an output and True for a failure; older versions wrap it in JSON."""
    if isinstance(output, str):
        with suppress(ValueError, RecursionError):
            wrapped = as_object(json_parse(output) if output.startswith("{") else None)
            if isinstance(text := wrapped.get("output"), str):
                code = as_int(as_object(wrapped.get("metadata")).get("exit_code"))
                return draft.text(text), code != 0
        return draft.text(output), False
    if isinstance(output, list):
        parts: list[Part] = []
        for block in map(as_object, as_array(output)):  # pyright: ignore[reportUnknownArgumentType] -- parsed JSON
            match block.get("type"):
                case "input_image":
                    parts += draft.media_url(block.get("image_url"))
                case "input_text" | "output_text" | "text":
                    parts += draft.text(block.get("text"))
                case kind:
                    draft.leave_out(f"a part of a result: {word(kind)}")
        return parts, False
    held = as_object(output)
    parts, failed = _parts_of(draft, held.get("content")) if held else ([], False)
    return parts, failed or held.get("success") is False
