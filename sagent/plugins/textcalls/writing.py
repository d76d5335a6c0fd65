"""A history as plain messages: calls as the blocks that they are in text, results as messages of the user's."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import is_

from sagent.lib.dataclass import dataclass
from sagent.lib.json import JsonObject, as_array, as_object, as_str, json_dump
from sagent.lib.text import fenced, one_line
from sagent.messages import Message, Part, Text, ToolCall, ToolResult
from sagent.model import ToolSpec
from sagent.plugins.textcalls.blocks import BlockContext, is_doubted, own_text, read
from sagent.plugins.textcalls.edits import lines_of, text_of, write_search
from sagent.plugins.textcalls.paths import path_in, path_line
from sagent.plugins.textcalls.task import (
    check_in,
    command_to_run,
    counts,
    counts_in_files,
    counts_occurrences,
    deletes_many,
    encloses,
    file_to_make,
    is_enclosure,
    is_shown_file,
    is_test,
    moves_file,
    names_file,
    one_file,
    only_asks,
    paths_in,
    picks_lines,
    said_in,
    sorts,
)
from sagent.sandbox.signs import HOW_TO_ASK

OUTPUT = "The output of the command:"
NEXT = "If that is all, answer in plain words. If something is left to do, write the next block."
ANSWER = (
    "Answer the question. Copy names, paths and numbers from the output as they are. If something must still be looked"
    " up, write the next block."
)
DONE = "Is the task done? Then say so in plain words, without a block. Else write the next block."
"""Last words after results, after those for a question, and after written files. They were chosen by measurements, see
docs/eval.md."""
QUOTE = (
    "(If a command can do it, or something must be counted or looked up, write a ```bash block. Else quote the line"
    " that says it, and answer.)"
)
COUNT = "(Do not count by eye: write a ```bash block with a command that counts.)"
PROGRAM = (
    "(Do not do it by eye: write a ```bash block that runs a Python program{how}: python3 - <<'EOF', the program, EOF.)"
)
FIND = "(Write a ```bash block with `find`, so that those in subfolders are found too.)"
WITHOUT_GIT = (
    "Files of .git cannot be changed. Write the command again without them, in a ```bash block, as in `find . -type f"
    " -not -path './.git/*'`."
)
MEND = "Mend it: write the path {path} on a line of its own and then the whole new file in a block."
COUNT_ALL = "(Do not count by eye: write a ```bash block with `grep -o` and `wc -l`.)"
CHECK = "Check it: run {check} in a ```bash block."
CHECK_UNCHANGED = "Run {check} in a ```bash block to see what is wrong."
"""Last words after files that were written or left unchanged, if the request names a command or a test."""
ADVISOR = "advisor"  # the tool that asks for advice, and the beginning of the sender of unasked advice
ENDLESS = (
    "The block has no end, so nothing was done. Write it again, whole, and end it with ```. If it was too long, do it"
    " in smaller steps."
)
LOST = "It was interrupted: there is no result."
NO_OUTPUT = "(no output)"
UNCHANGED = "It holds exactly this already."
"""The result of a file that is written as it is."""
LEFT_OUT = "{path} was not changed, because your block leaves out {lost}. Write the whole file again, with {names}."
"""The result of a write that removes functions or classes. It is the last text: a model that is shown the file there
writes it unchanged."""
BROKEN = "{path} was not changed, because it could not be read any more: {fault}. Write the whole file again."
ASIDE = (
    "{path} was not changed, because your block changes {aside} too, which was not asked for. Write the whole file"
    " again, with {aside} as it was."
)
"""Results of a write that breaks a file, and of one that changes more than the request names."""
RESTORED = f"{{path}} was written, but with {{aside}} as it was: nothing else was to be changed.\n\n{DONE}"
"""What a model is told of a write that was to change more."""
_HELD = (
    LEFT_OUT[LEFT_OUT.index(" was") : LEFT_OUT.index("{lost}")],
    BROKEN[BROKEN.index(" was") : BROKEN.index("{fault}")],
    ASIDE[ASIDE.index(" was") : ASIDE.index("{aside}")],
)
_PROTECTED = re.compile(
    r"(?:^|[\s/'\"])\.git/[^\n]*(?:Device or resource busy|Read-only file system|Permission denied)"
)
MAX_COMMAND = 80  # characters of a command that its result names


@dataclass(frozen=True, slots=True)
class Reminders:
    """The last words of a person's message, by what the model can do. Small models follow the last words best."""

    runs: bool = True
    writes: bool = True

    @classmethod
    def of(cls, tools: Mapping[str, ToolSpec]) -> "Reminders":
        """Return the reminders for these tools."""
        return cls("Bash" in tools, "Write" in tools)

    def after(self, message: Message) -> str:
        """Return the reminder after a person's message."""
        if self.runs and deletes_many(message) and not encloses(message):
            return FIND
        if not encloses(message) and not (self.writes and names_file(message)):
            if self.runs and (asked := command_to_run(message)):
                return f"(Do not guess: first write a ```bash block with {asked}.)"
            if self.runs and counts(message):
                return COUNT
            what = ": the command that was asked for, or one" if self.runs else ""
            block = "a ```bash block" if self.runs else "a block"
            return f"(Do not guess: first write {block}{what} that looks at the files that matter.)"
        if self.runs and moves_file(message):
            return "(Do not write the file anew: write a ```bash block with the command that does it.)"
        if self.runs and counts_in_files(message):
            return COUNT_ALL if counts_occurrences(message) else COUNT
        if self.runs and sorts(message) and (path := one_file(message)):
            return PROGRAM.format(how=f", without packages, which writes {path}")
        if self.runs and picks_lines(message):
            return PROGRAM.format(how="")
        if self.runs and only_asks(message) and "?" in said_in(message):
            return QUOTE
        if (path := file_to_make(message)) and not counts(message):
            change = f"Write the path {path} on a line of its own and then the whole new file in a block."
        else:
            change = "If a file must change, write its path and then the whole new file in a block."
        run = "If a command can do it, or something must be counted or looked up, write a ```bash block."
        said = " ".join((*([change] if self.writes else ()), *([run] if self.runs else ())))
        return f"({said})" if said else ""


class WrittenConversation:
    """The messages of one conversation as text models get them. Each message is written once, and later ones are
    added."""

    def __init__(self, reminders: Reminders | None) -> None:
        """Without `reminders`, messages have none: the model can do nothing in this conversation."""
        self._reminders = reminders
        self._known: list[Message] = []
        self._written: list[Message] = []
        self._calls: list[ToolCall] = []  # calls without a result so far
        self._lost: Message | None = None  # the message that answers these if no result has come
        self._next = NEXT  # the last words after a result
        self._check = ""  # the command or test by which the last request is checked
        self._endless = False  # the last reply was cut in its block
        self.again = False  # the last reply is left out: the request before it is made once more

    def follow(self, messages: Sequence[Message]) -> bool:
        """Add new messages. Returns False, and changes nothing, if the messages do not begin with the known ones."""
        known = len(self._known)
        if len(messages) < known or not all(map(is_, self._known, messages)):
            return False
        self._known += messages[known:]
        at = known
        while at < len(messages):
            message, at = messages[at], at + 1
            if message.role == "user":
                files: list[Part] = []
                while at < len(messages) and is_shown_file(messages[at]):  # these go below the message
                    files += messages[at].parts
                    at += 1
                self._hear(replace(message, parts=(*message.parts, *files)) if files else message)
            else:
                self._written += self._unanswered()
                self._calls, self._lost = list(message.calls), None
                endless = _is_endless(message)
                self.again, self._endless = endless and not self._endless, endless
                if not self.again:
                    self._written.append(said(message) if message.calls else message)
        return True

    def messages(self) -> Sequence[Message]:
        """Return the messages of a request that is made now."""
        return [*self._written, *self._unanswered()]

    def _unanswered(self) -> Sequence[Message]:
        if not self._calls or self.again:
            return ()
        if self._lost is None:
            results = [(call, ToolResult(call.id, (Text(LOST),), is_error=True)) for call in self._calls]
            self._lost = Message("user", self._reminded(answered(results), self._next))
        return (self._lost,)

    def _hear(self, message: Message) -> None:
        """Take a message of the user's: results come first, in the order of their calls."""
        waiting: dict[str, list[ToolResult]] = {}
        for result in message.results:
            waiting.setdefault(result.call_id, []).append(result)
        results: list[tuple[ToolCall, ToolResult]] = []
        left: list[ToolCall] = []
        for call in self._calls:
            if found := waiting.get(call.id):
                results.append((call, found.pop(0)))
            else:
                left.append(call)
        if results:
            self._calls, self._lost = left, None
        others = [part for part in message.parts if not isinstance(part, ToolResult)]
        if self.again and results:
            if not others:
                return
            written = replace(message, parts=tuple(others))
        elif results:
            shown = paths_in(others)
            words = _mend(shown) if shown else self._words_after(results)
            written = Message("user", self._reminded([*answered(results), *others], words), message.sender)
        elif not others or (message.sender and not self._is_task(message)):
            written = message if not message.results else replace(message, parts=tuple(others))
        else:
            reminder = self._reminders.after(message) if self._reminders else ""
            self._next = ANSWER if only_asks(message) else NEXT
            self._check = check_in(message) if self._reminders and self._reminders.runs else ""
            written = Message("user", self._reminded(others, reminder), message.sender)
        self._written.append(written)

    def _words_after(self, results: Sequence[tuple[ToolCall, ToolResult]]) -> str:
        """Return the last words after results. Written files need no more reading, but perhaps a check. An unchanged
        file beside a changed one is no failure."""
        if any(call.name not in ("Write", "Edit") for call, _ in results):
            met = any(result.is_error and _PROTECTED.search(result.text) for _, result in results)
            return WITHOUT_GIT if met else self._next
        if any(map(_says_how, (result for _, result in results))):
            return ""
        if any(result.is_error and not _is_unchanged(result) for _, result in results):
            return self._next
        as_it_is = all(result.is_error for _, result in results)
        if not self._check:
            return self._next if as_it_is else DONE
        return (CHECK_UNCHANGED if as_it_is else CHECK).format(check=self._check)

    def _is_task(self, message: Message) -> bool:
        """Return True for the message by which another agent began this conversation."""
        return not self._written and message.sender != "sagent" and ":" not in message.sender

    def _reminded(self, parts: Sequence[Part], reminder: str) -> tuple[Part, ...]:
        """Return parts with neighbouring texts joined, and the reminder at their end."""
        last = (Text(reminder),) if reminder and self._reminders else ()
        joined: list[Part] = []
        for part in (*parts, *last):
            if joined and isinstance(part, Text) and isinstance(before := joined[-1], Text):
                joined[-1] = Text(f"{before.text.rstrip()}\n\n{part.text}" if before.text.strip() else part.text)
            else:
                joined.append(part)
        return tuple(joined)


def _mend(paths: Sequence[str]) -> str:
    """Return the last words after a failed command and the files that it names: tests seldom are to change."""
    mended = [path for path in paths if not is_test(path)]
    return MEND.format(path=mended[0] if len(mended) == 1 else "of the file that must change")


def _is_endless(message: Message) -> bool:
    """Return True for a reply that reached its output limit within its only block."""
    cut = message.calls[0] if len(message.calls) == 1 else None
    return (
        cut is not None
        and message.stop == "max_tokens"
        and not cut.whole
        and own_text(cut) is not None
        and not is_doubted(cut)
    )


def is_advice(message: Message) -> bool:
    """Return True for unasked advice, and for advice that a compaction has kept."""
    return message.sender == ADVISOR or message.sender.startswith(f"{ADVISOR}:")


def enclose(path: str, text: str) -> Text:
    """Return a file for a person's message: its path, and a block with its text."""
    return Text(f"{path_line(path) or path}\n{fenced(text.removesuffix(chr(10)))}")


def meant_by(messages: Sequence[Message], tools: Mapping[str, ToolSpec]) -> BlockContext:
    """Return the files and commands that unnamed blocks of the next reply may be meant for."""
    last = messages[-1] if messages else None
    told = last is not None and (is_advice(last) or last.sender == "sagent")
    advised = read(last.content, tools, "end", "advised") if last and told and "Bash" in tools else ()
    commands = {as_str(part.arguments.get("command")) for part in advised if isinstance(part, ToolCall)}
    return BlockContext(_meant_files(messages) if "Write" in tools else {}, commands - {""})


def _meant_files(messages: Sequence[Message]) -> Mapping[str, str]:
    """Return the texts of files that the model was given or has written, by path, in their latest version. Returns none
    after a question, because the answer may show another version of a file."""
    files: dict[str, str] = {}
    asked = ""
    for message in messages:
        texts = [part.text for part in message.parts if isinstance(part, Text)] if message.role == "user" else []
        for text in filter(is_enclosure, texts):
            path, _, block = text.partition("\n")
            files[path_in(path)] = block.partition("\n")[2].rpartition("\n")[0]
        if texts and not message.sender:
            asked = "".join(text for text in texts if not is_enclosure(text))
        for call in message.calls:
            if call.name == "Write" and call.whole:
                files[as_str(call.arguments.get("file_path"))] = as_str(call.arguments.get("content"))
    return {} if "?" in asked else files


def said(message: Message) -> Message:
    """Return a message of the model's with its calls as text."""
    parts: list[Part] = []
    texts: list[str] = []
    apart = False  # the next text begins a paragraph
    for part in message.parts:
        match part:
            case Text(text):
                texts += ["\n\n", text] if apart else [text]
                apart = False
            case ToolCall():
                own = own_text(part)
                before = "".join(texts[-1:])
                if own is None and before and not apart:
                    texts.append("\n" if before.endswith("\n") else "\n\n")
                texts += ["\n\n"] if apart else []
                texts.append(block_of(part) if own is None else own)
                apart = own is None
            case _:
                parts += [Text("".join(texts))] if texts else []
                parts.append(part)
                texts, apart = [], False
    parts += [Text("".join(texts))] if texts else []
    return replace(message, parts=tuple(parts), stop="end" if message.stop == "tool_use" else message.stop)


def block_of(call: ToolCall) -> str:
    """Return a call as a block."""
    if call.malformed is not None:
        return fenced(call.malformed, call.name)
    arguments, path = call.arguments, path_line(as_str(call.arguments.get("file_path")))
    content = arguments.get("content")
    block = ""
    if call.name == "Bash" and {*arguments} <= {"command", "description"}:
        block = fenced(as_str(arguments.get("command")), "bash")
    elif call.name == "Write" and path and isinstance(content, str) and "\r" not in content:
        block = _file(path, content)
    elif call.name == "Edit" and path:
        block = _edit(path, arguments)
    return block or fenced(json_dump(arguments), call.name)


def _file(path: str, content: str) -> str:
    lines = lines_of(content)
    if text_of(lines) != content:
        return ""
    fence = fenced(content).partition("\n")[0]
    return "\n".join((path, fence, *lines, fence))


def _edit(path: str, arguments: JsonObject) -> str:
    given = [as_object(edit) for edit in as_array(arguments.get("edits"))] or [arguments]
    if any(each.get("replace_all") for each in given):
        return ""
    text = write_search([(as_str(each.get("old_string")), as_str(each.get("new_string"))) for each in given])
    return f"{path}\n{fenced(text.removesuffix(chr(10)))}" if text else ""


def answered(results: Sequence[tuple[ToolCall, ToolResult]]) -> list[Part]:
    """Return results as parts of a message of the user's."""
    alone = sum(call.name == "Bash" for call, _ in results) == 1
    wrote = any(call.name in ("Write", "Edit") and not result.is_error for call, result in results)
    told = [(call, result) for call, result in results if not (wrote and _is_unchanged(result))]
    return [part for call, result in told for part in _answer(call, result, alone=alone)]


def _says_how(result: ToolResult) -> bool:
    """Return True for the result of a write that was held, and that says how to write the file: its last words."""
    return result.is_error and any(each in result.text for each in _HELD)


def _is_unchanged(result: ToolResult) -> bool:
    """Return True for the result of a write that changed nothing."""
    return result.is_error and result.text == UNCHANGED


def _answer(call: ToolCall, result: ToolResult, *, alone: bool) -> Iterable[Part]:
    """Return the parts of one result: a head and its text, then its other parts."""
    text = result.text.replace(HOW_TO_ASK, "") if result.text.strip() else NO_OUTPUT  # a bash block has no `needs`
    cut = not call.whole and result.is_error and not is_doubted(call)
    yield Text(ENDLESS if cut else _head(call, result, alone=alone) + text)
    yield from (part for part in result.content if not isinstance(part, Text))


def _head(call: ToolCall, result: ToolResult, *, alone: bool) -> str:
    command = one_line(as_str(call.arguments.get("command")), MAX_COMMAND)
    path = as_str(call.arguments.get("file_path"))
    failed = result.is_error or result.denied
    if is_doubted(call) or _says_how(result):
        return ""
    match call.name:
        case "Bash" if result.denied:
            return "The command was not run:\n"
        case "Bash" if failed:
            return "The command failed:\n" if alone else f"`{command}` failed:\n"
        case "Bash":
            return f"{OUTPUT}\n" if alone else f"The output of `{command}`:\n"
        case "Write" | "Edit":
            return f"{path or 'The file'} was not changed:\n" if failed else ""
        case name:
            return f"{name} failed:\n" if failed else f"The result of {name}:\n"
