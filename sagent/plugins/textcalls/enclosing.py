"""Files for a model that writes its calls as text: files that a prompt names, and files that the model changes unread.

Such a model can read a file only by a command, and it makes up files that it was not shown. Each agent of the tree is
checked at each run, because any agent may be switched to such a model.
"""

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from uuid import uuid4

from sagent.agent.progress import UNPROVEN
from sagent.context.prompt import SHOWN
from sagent.engine.state import AgentState, Arrived, Inbox
from sagent.errors import ToolError
from sagent.events import Failure
from sagent.lib.encoding import Text, decode
from sagent.lib.json import JsonObject, as_str
from sagent.lib.names import quote_path
from sagent.lib.regular import open_regular
from sagent.messages import Message, Part, ToolCall, user
from sagent.messages import Text as MessageText
from sagent.peer import Action, Inject, Moment, Stop
from sagent.plugins.textcalls.blocks import is_doubted
from sagent.plugins.textcalls.contents import changed_aside, fault_in, forbids_more, left_out, without_aside
from sagent.plugins.textcalls.endings import ANNOUNCED, ECHOED, Ending, Fault, announces, echoes
from sagent.plugins.textcalls.paths import suffix_of
from sagent.plugins.textcalls.task import (
    counts,
    last_request,
    mends,
    mends_command,
    names_project,
    picks_lines,
    renamed_in,
    said_in,
    sorts,
)
from sagent.plugins.textcalls.writing import ASIDE, BROKEN, LEFT_OUT, RESTORED, UNCHANGED, enclose
from sagent.policy import Allow, Deny, Policy, Postpone, Turn, Verdict
from sagent.tool import Effect, Workspace, foresee
from sagent.tools import List, Read

MAX_FILE_BYTES = 8_000
MAX_TOTAL_BYTES = 24_000
MAX_FILES = 8
MAX_FURTHER_FILES, MAX_FURTHER_BYTES = 2, 2_000  # files named by those files, and bytes of each
MAX_LISTINGS, MAX_NAMES, MAX_NAMES_CHARS = 2, 40, 800  # directories, names of each, and characters of these
MAX_ENTRIES = 10_000  # of a directory that are looked at
MAX_LISTED = 8  # definitions that one write removes
MAX_NAMED = 32  # files in one prompt about which the policy is asked
MAX_WHOLE_DATA, SAMPLE_LINES, MAX_SAMPLE_LINE = (
    1_500,
    8,
    120,
)  # bytes of data that a command is to work on, and a sample
_DATA = frozenset({".csv", ".tsv", ".log", ".txt", ".jsonl", ".out"})
MAX_CAUSES = 3  # files shown after a failed command
MAX_LEFT, MAX_LOOKED_IN = 8, 500  # files with a name that was to be replaced, and files that are searched for it
MAX_TOLD = 2  # faults at the end of one run
MAX_WORDS = 5_000  # different words in one prompt that may be names
UNSEEN = """It was not written: the file exists, and you have not seen it. It holds:
{shown}
Write the whole new file again, with all of this that is to stay."""
UNREAD = "{path} exists, and you have not seen it. Print it first (cat), or change it with a command (sed)."
_BACKTICKS = re.compile(r"`([^`\n]+)`")
_WORDS = re.compile(r"[\"'](?=([^\"'\n]{1,200})[\"'])|([\w@%+=:,./\\~-]+)")  # in quotation marks, or without spaces
_DIRECTORY = (  # where a word is the name of a directory
    r"(?:[`'\"]{name}[`'\"]|\b(?:directory|folder)\s+{name}(?![\w./-])|(?<![\w./-]){name}\s+(?:directory|folder)\b)"
)
_PLACE = re.compile(r":\d+(?:[:-]\d+)*$")  # a line of a file, as compilers write it
_IMPORTS = re.compile(r"^[ \t]*(?:from[ \t]+([.\w]{1,200})[ \t]+import|import[ \t]+([\w., \t]{1,400}))", re.MULTILINE)
_HIDDEN = re.compile(r"(?:^|[/\\])\.[^./\\]")
_BEFORE, _AFTER = ",:;", ".,:;"  # punctuation around a name in a sentence
_ATTACHED = re.compile(r'\n<(?:file|directory) path="([^"\n]*)">\n')


async def admit(
    state: AgentState, prompt: Message | None, read: Sequence[Message] | Failure
) -> Sequence[Message] | Failure:
    """Return the messages for an agent to `read`, followed by the files that its prompt names. Prepare its policy and
    inbox for the run."""
    if not isinstance(state.inbox, FilledInbox):
        state.inbox = FilledInbox(state.inbox, lambda message: _files_for(state, message))
        state.policy = ShowingPolicy(state, state.inbox, state.policy)
    await state.inbox.fill()
    if isinstance(read, Failure) or prompt is None or prompt.sender or not is_text_model(state.model):
        return read
    files = [file async for file in _readable(state, prompt)]
    named = {name for name, _ in files}
    kept = tuple(part for part in prompt.parts if _attached_name(part) not in named)
    left = prompt if len(kept) == len(prompt.parts) else replace(prompt, parts=kept)
    shown = (left, *map(_shown, files), *[_shown(listing) async for listing in _listings(state, prompt)])
    return [each for message in read for each in (shown if message is prompt else (message,))]


class ShowingPolicy(Policy):
    """An agent's policy with help for text models. It shows the model a file that it would replace unseen. It tells the
    model when a write changes nothing, when a block lacks a path, and when the model explains a fault without mending
    it. It adds the files that messages name if those arrive during a turn."""

    def __init__(self, state: AgentState, inbox: "FilledInbox", inner: Policy) -> None:
        self._state, self._inbox, self._inner = state, inbox, inner
        self._held: dict[str, str] = {}  # calls of this turn, with the notes about them
        self._wrote: set[Path] = set()  # files of this run: written once more as they are, they are done
        self._warned: set[Path] = set()  # files of this run of which a write was doubted
        self._aside: dict[Path, ToolCall] = {}  # writes of this run that changed more than was asked for
        self._restored_in: dict[str, str] = {}  # written files of this turn, with what was left there as it was
        self._run: object = None  # the run for which the following was told
        self._told: set[str] = set()  # kinds of faults
        self._delayed: dict[str, str] = {}  # calls of this turn that wait, with the notes about them
        self._waiting = ""  # the note about all calls of the previous turn

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        verdict = await self._judge(call, effect, workspace)
        if isinstance(verdict, Postpone) and verdict.reason != UNCHANGED:
            self._delayed[call.id] = verdict.reason
        return verdict

    async def _judge(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        """Return the policy's verdict. If it allows a write, first check what the model must see before it."""
        verdict = await self._inner.before_tool(call, effect, workspace)
        own = workspace is self._state.workspace and is_text_model(self._state.model)
        if call.name != "Write" or isinstance(verdict, Deny | Postpone) or not own:
            return verdict
        path = workspace.resolve(as_str(call.arguments.get("file_path")))
        if call.id not in self._held:
            known = path.is_file()
            if known and path.resolve() not in workspace.known_files:
                shown = await self._read(path)
                if shown is None:
                    self._held[call.id] = UNREAD.format(path=path)
                elif shown.strip():
                    self._held[call.id] = UNSEEN.format(shown=shown)
            elif known and path not in self._wrote and _holds(path, as_str(call.arguments.get("content"))):
                if (first := self._aside.pop(path, None)) and (kept := self._restored(path, first)):
                    return Allow(
                        JsonObject({**call.arguments, "content": kept})
                    )  # it took back what it should have kept
                self._held[call.id] = UNCHANGED
            elif path not in self._warned and (doubt := self._doubt(path, call)):
                self._warned.add(path)
                self._held[call.id] = doubt
        if call.id in self._held:
            return Postpone(self._held[call.id])
        if path in self._warned and forbids_more(self._asked()) and (kept := self._restored(path, call)):
            return Allow(JsonObject({**call.arguments, "content": kept}))
        self._wrote.add(path)
        return verdict

    async def after_turn(self, turn: Turn) -> Sequence[Action]:
        actions = await self._inner.after_turn(turn)
        if turn.agent == self._state.path:
            self._held.clear()
            if turn.results is None:
                self._wrote.clear()
                self._warned.clear()
                self._aside.clear()
            actions = self._judged_end(turn, actions, await self._unrenamed() if turn.results is None else ())
            results = () if turn.results is None else turn.results.results
            doubted = {call.id for call in turn.reply.calls if is_doubted(call)}
            told_of = [self._delayed.get(each.call_id, each.text * (each.call_id in doubted)) for each in results]
            self._waiting = "\n".join(told_of) if all(told_of) else ""
            self._delayed.clear()
            told = [
                user(RESTORED.format(path=path, aside=each), sender="sagent")
                for path, each in self._restored_in.items()
            ]
            self._restored_in.clear()
            actions = actions or [*map(_injected, (*told, *await self._causes(turn)))]
            await self._inbox.fill()
        return actions

    async def _causes(self, turn: Turn) -> Sequence[Message]:
        """Return the unseen files that failed commands name, if the request is to mend what they show."""
        state, calls = self._state, {call.id: call for call in turn.reply.calls}
        history = state.context.history
        at = last_request(history, ("", state.above))
        if turn.results is None or at < 0 or not is_text_model(state.model) or not mends(history[at]):
            return []
        failed = [
            each.text
            for each in turn.results.results
            if each.is_error and not each.denied and each.call_id in calls and calls[each.call_id].name == "Bash"
        ]
        known, cwd = set(state.workspace.known_files), state.workspace.cwd
        found: list[Message] = []
        async for name, text in _readable(state, user("\n".join(failed))):
            real = state.workspace.resolve(name).resolve()
            if real not in known and len(found) < MAX_CAUSES:
                known.add(real)
                found.append(_shown((os.path.relpath(cwd / name, cwd), text)))
        return found

    async def _unrenamed(self) -> Sequence[str]:
        """Return the files that may be read unasked and that have the name which the request says to replace."""
        state, history = self._state, self._state.context.history
        at = last_request(history, ("", state.above))
        name = renamed_in(history[at])[0] if at >= 0 and is_text_model(state.model) else ""
        found = await asyncio.to_thread(lambda: [*islice(_having(name, state.workspace.cwd), MAX_LEFT)]) if name else []
        return [path for path in found if await _may_read(state, state.workspace.cwd / path)]

    def _judged_end(self, turn: Turn, actions: Sequence[Action], unrenamed: Sequence[str]) -> Sequence[Action]:
        """Return the actions after a turn. A model that ends its run with something missing is told what. If it leaves
        that so, or misses too much, the run fails."""
        state, reply = self._state, turn.reply
        if self._run is not state.run:
            self._run = state.run
            self._told.clear()
        ended = turn.results is None and reply.stop in (None, "end")
        in_text = is_text_model(state.model)  # others are told only if they announce what they do not do
        if not ended or state.closing or not (in_text or announces(reply.content)):
            return actions
        others = [action for action in actions if not _is_unproven(action)]
        if self._waiting:
            echo = echoes(reply.content, self._waiting)
            return [*others, Inject(user(ECHOED, sender="sagent"), "next")] if echo else actions
        if others or state.inbox.holds() or state.jobs.running() or (fault := self._fault(unrenamed)) is None:
            return actions
        if not in_text:
            if fault.kind != "undone":
                return actions
            fault = fault._replace(told=ANNOUNCED)
        if fault.kind in self._told or len(self._told) == MAX_TOLD:
            return [Stop(fault.reason)]
        self._told.add(fault.kind)
        return [Inject(user(fault.told, sender="sagent"), "next")]

    def _fault(self, unrenamed: Sequence[str]) -> Fault | None:
        """Return what is missing at the end of this run; None for an answer."""
        state = self._state

        def exists(path: str) -> bool:
            return _exists(state.workspace, path)

        def unchanged(path: str) -> bool:
            return _is_as_seen(state.workspace, path)

        history, senders = state.context.history, ("", state.above)
        return Ending(history, senders, state.tools.__contains__, exists, unrenamed, unchanged).fault()

    def _asked(self) -> str:
        """Return the words of the last request."""
        history = self._state.context.history
        at = last_request(history, ("", self._state.above))
        return said_in(history[at]) if at >= 0 else ""

    def _doubt(self, path: Path, call: ToolCall) -> str:
        """Return the note about a write that breaks a file, removes something without being asked to, or changes more
        than was asked for; "" for any other."""
        told, after = as_str(call.arguments.get("file_path")), as_str(call.arguments.get("content"))
        with suppress(OSError):
            before = (_text_of(path) or "") if path.is_file() else ""
            if fault := fault_in(told, before, after):
                return BROKEN.format(path=told, fault=fault)
            asked = self._asked()
            lost, names = left_out(told, before, after, asked)
            if lost:
                return LEFT_OUT.format(path=told, lost=_listed(lost), names=_listed(names))
            if aside := changed_aside(told, before, after, asked):
                self._aside[path] = call
                return ASIDE.format(path=told, aside=_listed(aside))
        return ""

    def _restored(self, path: Path, call: ToolCall) -> str:
        """Return the text of a write that changes more than was asked for, with that as it was; "" if nothing can be
        restored."""
        told, after = as_str(call.arguments.get("file_path")), as_str(call.arguments.get("content"))
        with suppress(OSError):
            before, asked = (_text_of(path) or "") if path.is_file() else "", self._asked()
            if (kept := without_aside(told, before, after, asked)) != after:
                self._restored_in[told] = _listed(changed_aside(told, before, after, asked))
                return kept
        return ""

    async def _read(self, path: Path) -> str | None:
        """Return the text of a file that may be read unasked and is short."""
        arguments = JsonObject({"file_path": str(path)})
        effect = foresee(Read(), arguments, self._state.workspace)
        verdict = await self._inner.before_tool(_reading(arguments), effect, self._state.workspace)
        if not isinstance(verdict, Allow) or verdict.arguments is not None:
            return None
        with suppress(OSError):
            return read_short(effect.real or path, MAX_FILE_BYTES, self._state.workspace)
        return None


def _exists(workspace: Workspace, path: str) -> bool:
    with suppress(ToolError, OSError, ValueError):
        return os.path.lexists(workspace.resolve(path))
    return True


def _is_as_seen(workspace: Workspace, path: str) -> bool:
    """Return True for a file with the times and size that it had when the model saw all of it."""
    with suppress(ToolError, OSError, ValueError):
        real = workspace.resolve(path).resolve()
        status, seen = real.stat(), workspace.known_files.get(real)
        return seen is not None and (seen.mtime_ns, seen.size) == (status.st_mtime_ns, status.st_size)
    return False


class FilledInbox(Inbox):
    """An inbox that puts files after the messages that name them."""

    def __init__(self, before: Inbox, files: Callable[[Message], Awaitable[Sequence[Message]]]) -> None:
        super().__init__()
        vars(self).update(vars(before))
        self._files = files
        self._filled: list[Message] = []  # messages whose files were looked for and that still wait
        self._one = asyncio.Lock()

    async def arrival(self, *moments: Moment) -> None:
        """Wait as the inner inbox does. A caller that waits for any message is going to read it."""
        await super().arrival(*moments)
        if not moments:
            await self.fill()

    async def fill(self) -> None:
        """Add the files of waiting messages, so that they are not read without them."""
        async with self._one:
            while (item := self._next()) is not None:
                files = await self._files(item[1].message)
                self._filled.append(item[1].message)
                if (at := self._place(item[1].message)) >= 0:
                    self._waiting[at + 1 : at + 1] = [(item[0], Arrived(file)) for file in files]

    def _next(self) -> tuple[Moment, Arrived] | None:
        waiting = {id(each.message) for _, each in self._waiting}
        self._filled = [message for message in self._filled if id(message) in waiting]
        known = {id(message) for message in self._filled}
        return next((item for item in self._waiting if id(item[1].message) not in known), None)

    def _place(self, message: Message) -> int:
        return next((at for at, (_, each) in enumerate(self._waiting) if each.message is message), -1)


async def _files_for(state: AgentState, message: Message) -> Sequence[Message]:
    """Return the files that a message of a person or of the agent above names."""
    if message.sender not in ("", state.above) or not is_text_model(state.model):
        return ()
    files = [_shown(file) async for file in _readable(state, message)]
    return [*files, *[_shown(listing) async for listing in _listings(state, message)]]


def _shown(file: tuple[str, str]) -> Message:
    """Return a file, or the names in a directory, as a message. Compactions know it by its sender."""
    return Message("user", (enclose(*file),), f"{SHOWN}{file[0]}")


def _injected(message: Message) -> Inject:
    return Inject(message, "next")


def _is_unproven(action: Action) -> bool:
    """Return True for the reminder to a model that claims to have done something and called nothing."""
    return isinstance(action, Inject) and action.message.content == UNPROVEN


def is_text_model(model: object) -> bool:
    """Return True for a model that uses the text protocol at this moment."""
    return getattr(model, "protocol", "") == "text"


def _attached_name(part: Part) -> str | None:
    """Return the name of the file or directory that a part holds, if somebody attached it with @; None for others."""
    match = _ATTACHED.match(part.text) if isinstance(part, MessageText) else None
    return match and match[1]


def names_in(text: str) -> Iterator[str]:
    """Yield words of a text that may be names of files, each once, as written.

    Names within a command in backticks do not count: a command is to be run, so its source is not shown, unless it is
    to be mended.
    """
    if not mends_command(text):
        text = _BACKTICKS.sub(lambda match: " " if len(match[1].split()) > 1 else match[0], text)
    seen: set[str] = set()
    for match in _WORDS.finditer(text):
        word = match[1] or match[2] or ""
        word = word.lstrip(_BEFORE).rstrip(_AFTER)
        if not word or word in seen or word.startswith("~") or not any(map(str.isalnum, word)):
            continue
        seen.add(word)
        yield word
        if (bare := _PLACE.sub("", word.removeprefix("@"))) != word and bare not in seen:
            seen.add(bare)
            yield bare


def named_files(text: str, workspace: Workspace, folder: str = "") -> Iterator[tuple[str, Path]]:
    """Yield the regular files of the workspace that a text names, each once, with the name as it is written within a
    folder."""
    seen: set[Path] = set()
    roots = [root.resolve() for root in workspace.roots]
    for name in islice(names_in(text), MAX_WORDS):
        word = str(Path(folder, name)) if folder else name
        try:
            if not os.path.lexists(workspace.cwd / word):  # before names alike are looked for in every directory
                continue
            path = workspace.resolve(word).resolve()
            if path in seen or not path.is_file() or not any(map(path.is_relative_to, roots)):
                continue
        except (ToolError, OSError, ValueError):
            continue
        seen.add(path)
        yield word, path


async def _readable(state: AgentState, prompt: Message) -> AsyncGenerator[tuple[str, str]]:
    """Give the files of a prompt that may be read unasked and are short, with their text, then a few that they name."""
    parts = [part.text for part in prompt.parts if isinstance(part, MessageText) and _attached_name(part) is None]
    named = await asyncio.to_thread(lambda: [*islice(named_files("\n".join(parts), state.workspace), MAX_NAMED)])
    sampled = counts(prompt) or sorts(prompt) or picks_lines(prompt)  # a command does it, whatever there is
    given: dict[Path, tuple[str, str]] = {}
    left = MAX_TOTAL_BYTES
    for name, path in named:
        if len(given) < MAX_FILES and (text := await _read_unasked(state, path, min(left, MAX_FILE_BYTES))) is not None:
            shown = _sample(text) if sampled and suffix_of(name) in _DATA else text
            if shown is not text:
                state.workspace.known_files.pop(path, None)  # it has not been seen whole
            left, given[path] = left - len(shown), (name, text)
            yield name, shown
    further = await asyncio.to_thread(_named_in, [*given.values()], state.workspace)
    count = 0
    for name, path in further.items():
        if path in given or count >= MAX_FURTHER_FILES:
            continue
        if (text := await _read_unasked(state, path, min(left, MAX_FURTHER_BYTES))) is not None:
            left, count = left - len(text), count + 1
            yield name, text


def _sample(text: str) -> str:
    """Return the first lines of a long text, and how many there are more."""
    if len(text) <= MAX_WHOLE_DATA:
        return text
    lines = text.splitlines()
    kept = lines[:SAMPLE_LINES]
    return "\n".join([*(line[:MAX_SAMPLE_LINE] for line in kept), f"({len(lines) - len(kept)} more lines)"])


async def _listings(state: AgentState, prompt: Message) -> AsyncGenerator[tuple[str, str]]:
    """Give the directories that a prompt names and that may be read unasked: the name with a slash, and what is there.
    One that is attached with @ is there already."""
    attached = {(_attached_name(part) or "").rstrip("/") for part in prompt.parts}
    text = "\n".join(
        part.text for part in prompt.parts if isinstance(part, MessageText) and _attached_name(part) is None
    )
    named = await asyncio.to_thread(_directories_for, text, state.workspace)
    for name, path in named:
        arguments = JsonObject({"path": str(path)})
        with suppress(ToolError, OSError):
            effect = foresee(List(), arguments, state.workspace)
            call = ToolCall(f"enclosed_{uuid4().hex}", "List", arguments)
            verdict = await state.policy.before_tool(call, effect, state.workspace)
            if name not in attached and isinstance(verdict, Allow) and verdict.arguments is None:
                yield f"{name}/", await asyncio.to_thread(_names_in, effect.real or path)


def _directories_for(text: str, workspace: Workspace) -> Sequence[tuple[str, Path]]:
    """Return the directories that a text names; the working directory for one about the project that names nothing in
    it."""
    named = [*islice(named_directories(text, workspace), MAX_LISTINGS)]
    if not named and names_project(text) and next(named_files(text, workspace), None) is None:
        return [(".", workspace.cwd)]
    return named


def named_directories(text: str, workspace: Workspace) -> Iterator[tuple[str, Path]]:
    """Yield the directories below the workspace that a text names as such: with a slash, in quotation marks, or beside
    the word directory or folder. Each comes once, without a slash at its end."""
    seen: set[Path] = set()
    roots = [root.resolve() for root in workspace.roots]
    for name in islice(names_in(text), MAX_WORDS):
        word = name.removeprefix("@")
        if "/" not in word and not re.search(_DIRECTORY.format(name=re.escape(word)), text):
            continue
        try:
            if not (workspace.cwd / word).is_dir():  # before names alike are looked for in every directory
                continue
            path = workspace.resolve(word).resolve()
            if path in (*roots, *seen) or not any(map(path.is_relative_to, roots)):
                continue
        except (ToolError, OSError, ValueError):
            continue
        seen.add(path)
        yield word.rstrip("/"), path


def _names_in(path: Path) -> str:
    """Return the first names in a directory, a line each; those of directories end with a slash. Hidden ones are left
    out. Raises OSError."""
    with os.scandir(path) as entries:
        seen = [entry for entry in islice(entries, MAX_ENTRIES) if not entry.name.startswith((".", "__pycache__"))]
    found = sorted(seen, key=lambda entry: entry.name)
    names = [f"{quote_path(entry.name)}{'/' * entry.is_dir()}" for entry in found]
    shown = [name for at, name in enumerate(names[:MAX_NAMES]) if sum(map(len, names[: at + 1])) <= MAX_NAMES_CHARS]
    rest = [f"({len(names) - len(shown)} more)"] if len(shown) < len(names) else []
    return "\n".join([*shown, *rest]) or "(empty)"


def _named_in(files: Sequence[tuple[str, str]], workspace: Workspace) -> dict[str, Path]:
    """Return the files that files name, relative to the workspace's directory or to their own. Hidden files are left
    out, because nobody has asked for them."""
    found: dict[str, Path] = {}
    for name, text in files:
        with_modules = f"{text}\n{' '.join(imported(name, text))}"
        for folder in dict.fromkeys(("", str(Path(name).parent))):
            named = islice(named_files(with_modules, workspace, folder), MAX_NAMED)
            found |= {each: path for each, path in named if not _HIDDEN.search(each)}
    return found


def _having(word: str, folder: Path) -> Iterator[str]:
    """Yield the short files below a folder that have a word. Hidden ones are left out."""
    pattern = re.compile(rf"\b{re.escape(word)}\b")
    looked = 0
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if not each.startswith((".", "__pycache__", "node_modules")))
        for name in sorted(names):
            looked += 1
            if looked > MAX_LOOKED_IN:
                return
            with suppress(OSError):
                if not name.startswith(".") and pattern.search(_text_of(Path(at, name)) or ""):
                    yield os.path.relpath(Path(at, name), folder)


async def _may_read(state: AgentState, path: Path) -> bool:
    """Return True for a file that the policy lets the agent read."""
    arguments = JsonObject({"file_path": str(path)})
    with suppress(ToolError, OSError):
        verdict = await state.policy.before_tool(
            _reading(arguments), foresee(Read(), arguments, state.workspace), state.workspace
        )
        return isinstance(verdict, Allow) and verdict.arguments is None
    return False


async def _read_unasked(state: AgentState, path: Path, max_bytes: int) -> str | None:
    """Return the text of a file that the policy lets the agent read and that is short enough; None for any other."""
    arguments = JsonObject({"file_path": str(path)})
    with suppress(ToolError, OSError):
        effect = foresee(Read(), arguments, state.workspace)
        verdict = await state.policy.before_tool(_reading(arguments), effect, state.workspace)
        if isinstance(verdict, Allow) and verdict.arguments is None:
            return read_short(effect.real or path, max_bytes, state.workspace)
    return None


def imported(name: str, text: str) -> Iterator[str]:
    """Yield the paths of modules that a Python file imports, from its own folder or the project's."""
    if not name.endswith(".py"):
        return
    for one, several in _IMPORTS.findall(text):
        for module in one.split() or (each.split()[0] for each in several.split(",") if each.strip()):
            if path := module.strip(".").replace(".", "/"):
                yield f"{path}.py"
                yield f"{path}/__init__.py"


def _listed(names: Sequence[str]) -> str:
    """Return names as a sentence has them."""
    *first, last = names if len(names) <= MAX_LISTED else (*names[:MAX_LISTED], "the rest")
    return f"{', '.join(first)} and {last}" if first else last


def _text_of(path: Path, max_bytes: int = MAX_FILE_BYTES) -> str | None:
    """Return a file's text if it has at most this many bytes; None for another file. Raises OSError."""
    with open_regular(path) as file:
        data = file.read(max_bytes + 1)
    text = decode(data) if len(data) <= max_bytes else None
    return text.text if isinstance(text, Text) else None


def _holds(path: Path, content: str) -> bool:
    """Return True for a file that has this text, whatever its line ends."""
    with suppress(OSError):
        text = _text_of(path, 4 * len(content) + MAX_FILE_BYTES)
        return text is not None and text.splitlines() == content.splitlines()
    return False


def _reading(arguments: JsonObject) -> ToolCall:
    """Return a call of Read that no model made. It has an id of its own, because policies remember their verdicts by
    id."""
    return ToolCall(f"enclosed_{uuid4().hex}", "Read", arguments)


def read_short(real: Path, max_bytes: int, workspace: Workspace) -> str | None:
    """Return the text of a file with at most this many bytes, and count the file as seen; None for any other file.
    Raises OSError."""
    with open_regular(real) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes or not isinstance(text := decode(data), Text):
        return None
    workspace.saw(real, data)
    return text.text.replace("\r\n", "\n")
