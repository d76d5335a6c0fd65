"""Transcripts of Gemini CLI: `~/.gemini/tmp/PROJECT/chats/session-TIME-ID.jsonl`, and `.json` of earlier versions.

A line is a message, which replaces an earlier one of its id, or `{"$set": {...}}`, which changes facts of the session;
set `messages` replace all before them.
"""

from collections.abc import Mapping
from pathlib import Path

from sagent.errors import UsageError
from sagent.lib.json import as_array, as_int, as_object, as_str, json_dump, json_parse
from sagent.messages import Part, ToolCall
from sagent.plugins.transfer.lines import MAX_FILE_BYTES, read_objects
from sagent.plugins.transfer.steps import Draft, Spent, Transcript, tasks, word
from sagent.usage import Usage

_CONTEXT = "<session_context>"


def read_gemini(file: Path, *, own: bool) -> Transcript:
    """Return a transcript of Gemini CLI. Raises UsageError if the file cannot be read."""
    return _Reader(file, own=own).read()


class _Reader:
    def __init__(self, file: Path, *, own: bool) -> None:
        self._file, self._draft = file, Draft("gemini", own=own)
        self._messages: dict[str, Mapping[str, object]] = {}  # by id, as they are at the end
        self._seen: dict[str, Mapping[str, object]] = {}  # all, as they were last written one by one
        self._id, self._title = "", ""
        self._spent: list[Spent] = []
        self._list = tasks((), "description")

    def read(self) -> Transcript:
        lines = [self._whole()] if self._file.suffix == ".json" else read_objects(self._file, self._draft)
        for line in lines:
            self._keep(line)
        gone = [message for key, message in self._seen.items() if key not in self._messages]
        self._draft.leave_out(
            "a message that the program took out of its session", sum(not _answers(one) for one in gone)
        )
        for message in self._messages.values():
            self._take(message)
        facts = (_project(self._file), self._title, "", tuple(self._spent), self._list, (), self._draft.left_out)
        return Transcript("gemini", self._id, self._file, self._draft.steps(), *facts)

    def _whole(self) -> Mapping[str, object]:
        """Return the only object of a file. Raises UsageError."""
        from sagent.lib.regular import read_regular

        try:
            text = read_regular(self._file, max_bytes=MAX_FILE_BYTES).decode("utf-8-sig", "replace")
            return as_object(json_parse(text))
        except OSError as error:
            raise UsageError(f"{self._file}: {error.strerror or error}.") from error
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{self._file} is cut or damaged, and nothing of it can be read.") from error

    def _keep(self, line: Mapping[str, object]) -> None:
        """Follow the changes of a session, so that the messages are those at its end."""
        changed = as_object(line.get("$set")) or line
        self._id = as_str(changed.get("sessionId")) or self._id
        self._title = as_str(changed.get("summary")) or self._title
        if "messages" in changed:
            self._messages = {}
            for number, message in enumerate(map(as_object, as_array(changed.get("messages")))):
                name = as_str(message.get("id"))
                key = name if name and name not in self._messages else f"{name} {number}"
                full = self._seen.get(name, message)  # with its model, calls and tokens
                self._messages[key] = full if full.get("type") == message.get("type") else message
                self._seen.setdefault(name or key, message)
        elif "$rewindTo" in line:
            self._rewind(as_str(line.get("$rewindTo")))
        elif as_str(line.get("type")) and (key := as_str(line.get("id"))):
            self._messages[key] = self._seen[key] = line
        elif "$set" not in line and "sessionId" not in line:
            self._draft.leave_out("a line of the program's own")

    def _rewind(self, key: str) -> None:
        names = [*self._messages]
        place = names.index(key) if key in names else 0
        self._messages = {name: self._messages[name] for name in names[:place]}

    def _take(self, message: Mapping[str, object]) -> None:
        draft, at, key = self._draft, as_str(message.get("timestamp"))[:40], as_str(message.get("id"))
        match message.get("type"):
            case "user" if _answers(message):
                self._take_answers(message)
            case "user":
                parts = self._parts(message.get("content"))
                text = "".join(getattr(part, "text", "") for part in parts)
                (draft.tell if text.startswith(_CONTEXT) else draft.say)(parts, at, key)
            case "gemini":
                self._take_reply(message, at, key)
            case "info" | "error" | "warning":
                draft.leave_out("a remark of the program")
            case kind:
                draft.leave_out(f"a message of the type {word(kind)}")

    def _take_reply(self, message: Mapping[str, object], at: str, key: str) -> None:
        draft, parts = self._draft, list[Part]()
        for thought in map(as_object, as_array(message.get("thoughts"))):
            words = (as_str(thought.get("subject")), as_str(thought.get("description")))
            parts += draft.thinking("\n".join(filter(None, words)))
        parts += [part for part in self._parts(message.get("content")) if part not in parts]
        calls = [as_object(each) for each in as_array(message.get("toolCalls"))]
        known = {part.id for part in parts if isinstance(part, ToolCall)}
        for call in calls:
            if as_str(call.get("id")) not in known:
                parts += draft.call(call.get("id"), call.get("name"), call.get("args"))
            if call.get("name") == "write_todos" and call.get("status") == "success":
                self._list = tasks(as_object(call.get("args")).get("todos"), "description")
        model = as_str(message.get("model"))
        draft.reply(parts, f"google/{model}" if model else "", None, at, key)
        for call in calls:
            self._take_result(call)
        if tokens := as_object(message.get("tokens")):
            self._bill(model, tokens)

    def _take_result(self, call: Mapping[str, object]) -> None:
        draft, parts = self._draft, list[Part]()
        for each in map(as_object, as_array(call.get("result"))):
            if answer := as_object(each.get("functionResponse")):
                parts += self._answer_parts(answer)
            elif media := as_object(each.get("inlineData")):
                parts += draft.media(media.get("mimeType"), media.get("data"))
            else:
                parts += self._parts([each])
        if parts or call.get("status") in ("success", "error", "cancelled"):
            draft.answer(call.get("id"), parts, failed=call.get("status") != "success")

    def _take_answers(self, message: Mapping[str, object]) -> None:
        """Take the results of calls, each with the media after it, unless the calls already have them."""
        results: list[tuple[object, list[Part]]] = []
        before: list[Part] = []
        for part in map(as_object, as_array(message.get("content"))):
            if answer := as_object(part.get("functionResponse")):
                if self._draft.is_answered(as_str(answer.get("id"))):
                    results.append(("", []))
                else:
                    results.append((answer.get("id"), self._answer_parts(answer)))
            elif not results:
                before += self._parts([part])
            elif results[-1][0]:
                results[-1][1].extend(self._parts([part]))
        for name, parts in results:
            if name:
                self._draft.answer(name, parts)
        self._draft.say(before, as_str(message.get("timestamp"))[:40])

    def _answer_parts(self, answer: Mapping[str, object]) -> list[Part]:
        draft, response = self._draft, as_object(answer.get("response"))
        text = response.get("output", response.get("error"))
        parts = draft.text(text if isinstance(text, str) else json_dump(dict(response)))
        return [*parts, *self._parts(answer.get("parts"))]

    def _parts(self, content: object) -> list[Part]:
        draft = self._draft
        if isinstance(content, str):
            return draft.text(content)
        parts: list[Part] = []
        for part in map(as_object, as_array(content)):
            if part.get("thought") is True:
                parts += draft.thinking(part.get("text"))
            elif "text" in part:
                parts += draft.text(part.get("text"))
            elif media := as_object(part.get("inlineData")):
                parts += draft.media(media.get("mimeType"), media.get("data"))
            elif call := as_object(part.get("functionCall")):
                parts += draft.call(call.get("id"), call.get("name"), call.get("args"))
            else:
                draft.leave_out(f"a part of a message: {word(next(iter(part), ''))}")
        return parts

    def _bill(self, model: str, tokens: Mapping[str, object]) -> None:
        read, thought = as_int(tokens.get("cached")), as_int(tokens.get("thoughts"))
        counted = Usage(
            input=max(as_int(tokens.get("input")) - read, 0),
            cache_read=read,
            output=as_int(tokens.get("output")) + thought,
            reasoning=thought,
        )
        self._spent.append(Spent("google", model, counted))


def _answers(message: Mapping[str, object]) -> bool:
    """Return True for a message that only carries results of calls."""
    return any("functionResponse" in as_object(part) for part in as_array(message.get("content")))


def _project(file: Path) -> str:
    """Return the directory that a chat belongs to, which a file beside the chats names; "" if unknown."""
    from sagent.lib.regular import read_regular

    try:
        return read_regular(file.parent.parent / ".project_root", max_bytes=4096).decode("utf-8", "replace").strip()
    except OSError:
        return ""
