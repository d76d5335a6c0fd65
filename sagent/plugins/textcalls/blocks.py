"""Read blocks in a reply as calls while the reply is written.

A ```bash block is a command. A block under a path is that file's new content. Search-and-replace blocks and diffs are
edits. A block with a tool's name is a call of that tool. Any other block is text, with everything in it.
"""

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import field, replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, Json, JsonObject, as_array, as_object, as_str, json_freeze, valid_text
from sagent.lib.nearjson import read_near
from sagent.messages import CUT, Private, StopReason, Text, ToolCall
from sagent.model import ToolSpec
from sagent.plugins.textcalls.edits import REPLACE, SEARCH, begins_search, read_diff, read_search, text_of
from sagent.plugins.textcalls.likeness import find_original
from sagent.plugins.textcalls.marks import THOUGHTS
from sagent.plugins.textcalls.paths import path_after, path_in, path_in_comment, suffix_of

FAMILY = "textcalls"
"""The label of a call's own text, by which it goes back as it was written."""
QUOTED, UNDECIDED = "quoted", "undecided"
"""Keys in a call's private data, beside its `text`: the reply only quotes the call, or the call may be part of a
thought."""

SHELLS = frozenset({"bash", "sh", "shell", "zsh", "console", "terminal", "shell-session", "shellsession"})
MAX_BLANK_LINES = 2  # between a path and its block
MAX_INFO = 300  # characters after a fence

_SCRIPTS = (".sh", ".bash", ".zsh", ".bats", ".command", ".bashrc", ".zshrc", ".profile", ".bash_profile")
_OF_SERVERS = "mcp__"  # how names of MCP tools begin, of missing tools too
_NEAR = 0.85  # how similar a word after a fence is to a tool's name
_MIN_NEAR_CHARS = 6  # shortest such name
_JOINED = re.compile(r"[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]+)+")  # as tools are named, and few languages
_LANGUAGES = ("Script", "Shell", "Json", "Yaml", "Toml", "Lang")  # end the names of these
_OUTPUTS = frozenset({"output", "result", "results", "stdout", "stderr", "traceback", "pycon"})
_LINES_OF_PATH = 3  # of a block that has only a path
_MARKDOWN = (".md", ".mdx", ".markdown", ".mkd")
_FENCE = re.compile(r"([ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*)(`{3,}|~{3,})(.*)", re.DOTALL)
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+")
_INNER = re.compile(r"[A-Za-z][\w+#.:/-]*(?:[ \t][^`]*)?")
_THOUGHT = tuple(THOUGHTS)
_THOUGHT_END = re.compile(rf"(?<![`\"'])(?:{'|'.join(map(re.escape, THOUGHTS.values()))})(?!`(?!``)|[\"'])")

Kind: TypeAlias = Literal["text", "shell", "file", "diff", "tool"]


class Block(NamedTuple):
    """A call as the model wrote it. `source` is its text with the white space around it. If one block has several
    calls, the first call has the text. `malformed` holds arguments that cannot be read."""

    name: str
    arguments: JsonObject
    source: str
    malformed: str | None = None
    whole: bool = True


@dataclass(slots=True)
class _Open:
    """A block that has not ended. `fences` has its own fence and those of blocks within it, the innermost last. It is
    empty for a search-and-replace without a fence."""

    kind: Kind
    fences: list[tuple[str, int]]
    indent: int
    word: str
    path: str
    raw: list[str]
    lines: list[str] = field(default_factory=list[str])
    markdown: bool = False
    swallowed: bool = False  # a block within it would be a call by itself


class BlockContext(NamedTuple):
    """Facts of the conversation about blocks: texts of files by path, for blocks without a path; commands that were
    advised, for blocks without a word after the fence and replies without a block; and whether this model's replies
    begin within its thinking."""

    files: Mapping[str, str] = MappingProxyType({})
    commands: Container[str] = ()
    thinks_first: bool = False


NOTHING_MEANT = BlockContext()


class BlockReader:
    """Reads a reply as it comes in. `tools` are the tools it may call, by name. `context` says what a block without a
    path or word may be meant for."""

    def __init__(self, tools: Mapping[str, ToolSpec], context: BlockContext = NOTHING_MEANT) -> None:
        self._tools, self._files, self._commands = tools, context.files, context.commands
        self._may_think = context.thinks_first  # the prompt may have begun thinking that has not ended
        self._line: list[str] = []  # pieces of the line that has not ended
        self._held: list[str] = []  # text after a block, shown if another block follows
        self._calls: list[tuple[str, Block]] = []  # each with the text before it
        self._texts: list[str] = []  # known to be text since the last call
        self._prose: list[str] = []  # later lines, which may still begin a block
        self._path_at = -1  # index of the last line in the prose that may name a file
        self._list_indent = 0  # columns of the list item that we are in
        self._edited = ""  # path of an edit, which another edit may follow
        self._open: _Open | None = None
        self._ending = ""  # a bare fence in a Markdown file: the next line says whether it ends the block
        self._late = False  # a call was found at the end of what seemed to be text
        self._thought_at = -1  # number of calls before the thinking began
        self._thinks = False  # the reply begins with thinking that has not ended
        self.thought_first = False  # the reply ended thinking that it had not begun

    def feed(self, text: str) -> str:
        """Take some text and return what can be shown of the reply."""
        shown: list[str] = []
        start = 0
        while start < len(text):
            end = text.find("\n", start) + 1 or len(text)
            piece, start = text[start:end], end
            (self._held if self._holds_back else shown).append(piece)
            self._line.append(piece)
            if piece.endswith("\n"):
                line = "".join(self._line)
                self._line.clear()
                self._take(line)
                if self._late or not self._holds_back:
                    shown += self._held
                    self._late = False
                    self._held.clear()
        return "".join(shown)

    def finish(self, *, cut: bool = False) -> str:
        """End the reply and return what is left to show. If the reply is `cut`, only a complete line can end a
        block."""
        line = "".join(self._line)
        self._line.clear()
        if (self._thinks or (cut and self._may_think)) and not _THOUGHT_END.search(line):
            self._void(line)
            held, self._held = "".join(self._held), []
            return held
        if cut and self._open is not None:
            self._open.raw += [self._ending, line]
            self._open.lines.append(line)
            self._ending = ""
        elif line:
            self._take(line)
        if self._ending:
            self._close()
        held, self._held = "".join(self._held), []
        said = "".join((*self._texts, *self._prose))
        if not cut and not self._calls and self._open is None and said.strip() in self._commands:
            bare = _Open("shell", [], 0, "", "", [said], said.strip().splitlines())
            self._texts, self._prose = [], []
            self._add(bare, _read(bare, self._tools))
            return held
        if (block := self._open) is None:
            return held if self._late or not self._called else ""
        self._open = None
        if self._only_shown(block):
            block.kind = "text"
        if not cut and (command := self._unfenced(block)) is not None:
            self._texts = []
            self._add(command, _read(command, self._tools))
            return held
        if not cut and (file := self._doubled(block)) is not None:
            self._add(file, _read(file, self._tools))
            return held
        if block.kind == "text" and (cut or not block.swallowed):
            self._texts += block.raw
            return ""
        self._add(block, _unfinished(block))
        return held

    def parts(self, stem: str) -> tuple[Text | ToolCall, ...]:
        """Return the parts of the finished reply: calls with ids that begin with the stem, and the text before the last
        of them. Without a call, that is all of the text."""
        if not self._called:
            text = "".join((*self._texts, *self._prose))
            return (Text(text),) if text else ()
        made: list[Text | ToolCall] = []
        before = ""  # white space that belongs to the next call
        for number, (text, block) in enumerate(self._calls):
            body = text.strip()
            start = text.index(body)
            if body and not made:
                made.append(Text(text[: start + len(body)]))
            elif body:
                made[-1] = _widened(made[-1], text[:start])
                made.append(Text(body))
            before = text[start + len(body) :]
            private = Private(FAMILY, before + block.source)
            call_id = f"{stem}_{number}"
            made.append(ToolCall(call_id, block.name, block.arguments, block.malformed, private, block.whole))
        return tuple(made)

    @property
    def held_bytes(self) -> int:
        """Bytes of text that have come and are not yet shown."""
        return sum(len(piece.encode("utf-8", "replace")) for piece in self._held)

    @property
    def _called(self) -> bool:
        return bool(self._calls)

    @property
    def _holds_back(self) -> bool:
        """True after a block, until the next one has begun."""
        return bool(self._ending) or (self._called and (self._open is None or self._open.kind == "text"))

    def _unfenced(self, block: _Open) -> _Open | None:
        """Return the command of a reply that forgot the first fence of its only shell block; None for any other reply.
        The last fence of such a reply has opened this block."""
        if self._calls or block.kind != "text" or block.word or any(line.strip() for line in block.lines):
            return None
        first, *lines = "".join(self._texts).strip().splitlines() or [""]
        if first.strip().lower() not in SHELLS or not lines:
            return None
        return _Open("shell", block.fences, 0, first.strip(), "", [*self._texts, *block.raw], lines)

    def _doubled(self, block: _Open) -> _Open | None:
        """Return the file at the end of a reply that wrote its first fence twice; None for any other reply. The second
        one seems to end an empty block, and the last one has opened this block."""
        if not self._calls or block.kind != "text" or block.word or any(line.strip() for line in block.lines):
            return None
        before, call = self._calls[-1]
        text = "".join(self._texts)
        if call.name != "Write" or call.arguments.get("content") != "" or not text.strip():
            return None
        del self._calls[-1]
        self._texts = [before]
        raw, path = [call.source, text, *block.raw], as_str(call.arguments.get("file_path"))
        lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
        return _Open("file", block.fences, 0, "", path, raw, lines)

    def _take(self, line: str) -> None:
        """Take a line."""
        text = line.removesuffix("\n").removesuffix("\r")
        if end := self._end_of_thought(text):
            self.thought_first |= self._thought_at < 0
            self._void(line[:end])
            if line[end:].strip():
                self._take(line[end:])
            else:
                self._texts.append(line[end:])
            return
        if self._ending:
            if text.strip() and not _FENCE.match(text):
                self._go_on()
            else:
                self._close()
        if self._open is None:
            if not self._begin(line, text):
                self._say(line, text)
            return
        block = self._open
        if not block.fences:
            block.raw.append(line)
            block.lines.append(text)
            if REPLACE.fullmatch(text.strip()):
                self._close()
        elif self._ends(block, text):
            if block.markdown and len(block.fences) == 1:
                self._ending = line
            elif len(block.fences) > 1:
                block.fences.pop()
                self._keep(block, line, text)
            else:
                block.raw.append(line)
                self._close()
        else:
            self._keep(block, line, text)

    def _end_of_thought(self, text: str) -> int:
        """Return where thinking ends in a line, 0 if it does not. Note where thinking begins. The prompt may have begun
        it: a mark within a file or a quotation is then part of that text."""
        if self._open is None and self._thought_at < 0 and text.lstrip().startswith(_THOUGHT):
            self._thought_at = len(self._calls)
            self._thinks = not (self._calls or self._texts or "".join(self._prose).strip())
        match = _THOUGHT_END.search(text) if "<" in text or "[" in text else None
        shown = self._open is not None and self._open.kind in ("file", "text") and self._thought_at < 0
        return 0 if match is None or shown else match.end()

    def _void(self, line: str) -> None:
        """Turn calls within the thinking into text, up to the end of a line."""
        thought = self._calls[max(0, self._thought_at) :]
        del self._calls[max(0, self._thought_at) :]
        before = [piece for text, call in thought for piece in (text, call.source)]
        self._texts = [*before, *self._texts, *self._prose, *(self._open.raw if self._open else ()), self._ending, line]
        self._prose, self._path_at, self._edited, self._ending = [], -1, "", ""
        self._open, self._thought_at, self._thinks, self._may_think = None, -1, False, False

    def _keep(self, block: _Open, line: str, text: str) -> None:
        block.raw.append(line)
        block.lines.append(_dedented(text, block.indent))

    def _ends(self, block: _Open, text: str) -> bool:
        """Return True if a line ends the innermost open block. Note if the line begins another block."""
        mark, size = block.fences[-1]
        bare = text.strip()
        if not bare.startswith(mark * size):
            return False
        run = len(bare) - len(bare.lstrip(mark))
        if run == len(bare):
            indent = len(text) - len(text.lstrip()) if "\t" not in text else len(text.expandtabs(4)) - len(bare)
            return len(block.fences) > 1 or indent <= block.indent + 3
        info = bare[run:].strip()
        if _INNER.fullmatch(info):
            block.fences.append((mark, run))
            word = info.split(maxsplit=1)[0]
            block.swallowed = block.swallowed or word.lower() in SHELLS or word in self._tools
        return False

    def _go_on(self) -> None:
        """Read the bare fence before this line as the beginning of a block within a Markdown file."""
        block, line, self._ending = self._open, self._ending, ""
        assert block is not None
        text = line.strip()
        block.fences.append((text[0], len(text)))
        self._keep(block, line, line.removesuffix("\n").removesuffix("\r"))

    def _say(self, line: str, text: str) -> None:
        """Add a line that is not part of a block."""
        self._prose.append(line)
        if not text.strip():
            return
        self._path_at = len(self._prose) - 1
        self._edited = ""
        if item := _ITEM.match(text):
            self._list_indent = len(item[0].expandtabs(4))
        elif not text[0].isspace():
            self._list_indent = 0

    def _begin(self, line: str, text: str) -> bool:
        """Begin a block with this line. Returns False if the line begins none."""
        path = self._path_before()
        if SEARCH.fullmatch(text) and (path or self._edited):
            raw = self._taken(with_path=bool(path))
            self._open = _Open("file", [], 0, "", path or self._edited, [*raw, line], [text])
            return True
        fence = _FENCE.fullmatch(text)
        if fence is None or (fence[2][0] == "`" and "`" in fence[3]):
            return False
        indent = len(fence[1].expandtabs(4))
        inner = 0 < self._list_indent <= indent < self._list_indent + 4 or _ITEM.match(fence[1])
        if indent > 3 and not inner:
            return False  # a block of code by its indentation
        info = fence[3].strip()
        kind, word, path, above = self._kind(info if len(info) <= MAX_INFO else "", path)
        raw = self._taken(with_path=above)
        markdown = kind == "file" and (suffix_of(path) in _MARKDOWN or word in ("markdown", "md"))
        fences = [(fence[2][0], len(fence[2]))]
        self._open = _Open(kind, fences, indent, word, path, [*raw, line], markdown=markdown)
        return True

    def _kind(self, info: str, above: str) -> tuple[Kind, str, str, bool]:
        """Return a block's kind, its first word, its path, and whether that is the path above it. Words after its fence
        and the line above it decide."""
        first = info.split(maxsplit=1)[0] if info else ""
        if name := self._tool_of(first):
            return "tool", name, "", False
        own = path_after(info)
        path, word = self._known(own or above), re.split(r"[:{]", first.lower(), maxsplit=1)[0]
        from_above = bool(path) and not own
        if word in SHELLS:
            scripted = path and (suffix_of(path) in _SCRIPTS or not suffix_of(path))
            return ("shell", word, path, from_above) if scripted else ("shell", word, "", False)
        if word in ("diff", "patch") and suffix_of(path) not in (".diff", ".patch"):
            return "diff", word, path, from_above
        if path and word not in _OUTPUTS:
            return "file", word, path, from_above
        return "text", word, "", False

    def _known(self, path: str) -> str:
        """Return a path as the one known file has it that differs from it in case only; the path for any other."""
        alike = [known for known in self._files if known.casefold() == path.casefold()]
        return alike[0] if len(alike) == 1 else path

    def _tool_of(self, word: str) -> str:
        """Return the name of the tool that a word after a fence means. A word that can only be a tool's name is
        returned as it is, also if there is no such tool. Returns "" for other words."""
        if word in self._tools or word.startswith(_OF_SERVERS):
            return word
        bare = _bare(word)
        if not word.replace("_", "").replace("-", "").isalnum() or word.lower() in SHELLS:
            return ""
        joined = [name for name in self._tools if name[1:] != _bare(name)[1:]]
        names = {_bare(name): name for name in (*joined, *(() if word.islower() else self._tools))}
        if bare in names:
            return names[bare]
        near = [name for name in map(_bare, self._tools) if len(name) >= _MIN_NEAR_CHARS]
        if get_close_matches(bare, near, 1, _NEAR):
            return word
        return word if _JOINED.fullmatch(word) and not word.endswith(_LANGUAGES) else ""

    def _only_shown(self, block: _Open) -> bool:
        """Return True for a block without arguments whose word is not like the name of any tool."""
        if block.kind != "tool" or block.word in self._tools or block.word.startswith(_OF_SERVERS):
            return False
        near = get_close_matches(_bare(block.word), map(_bare, self._tools), 1, _NEAR)
        return not near and not "\n".join(block.lines).lstrip().startswith("{")

    def _path_before(self) -> str:
        """Return the path in the last line of the text, if only a blank line or two follow it."""
        if self._path_at < 0 or len(self._prose) - 1 - self._path_at > MAX_BLANK_LINES:
            return ""
        lines = self._prose[self._path_at].splitlines()
        return path_in(lines[1] if len(lines) == _LINES_OF_PATH else lines[0])

    def _taken(self, *, with_path: bool) -> list[str]:
        """Take the line with the path, and those after it, out of the text."""
        at = self._path_at if with_path else len(self._prose)
        taken = self._prose[at:]
        self._texts += self._prose[:at]
        self._prose, self._path_at = [], -1
        return taken

    def _close(self) -> None:
        """End the open block."""
        block, self._open = self._open, None
        assert block is not None
        if self._ending:
            block.raw.append(self._ending)
            self._ending = ""
        if self._only_shown(block):
            block.kind = "text"
        late = block.kind == "text"
        if late and not block.word and "\n".join(block.lines).strip() in self._commands:
            block.kind = "shell"
        path = self._path_by_likeness(block)
        calls = (_written(block, path),) if path else _read(block, self._tools)
        self._late = bool(calls) and late
        if calls:
            self._add(block, calls)
        elif (
            block.word not in _OUTPUTS and len(block.raw) == _LINES_OF_PATH and block.lines and path_in(block.lines[0])
        ):
            self._prose, self._path_at = ["".join(block.raw)], 0  # as a line that is only a path, before another block
        else:
            self._texts += block.raw

    def _path_by_likeness(self, block: _Open) -> str:
        """Return the path of the file of which a block without a path is a new version; "" if there is none, or if the
        reply writes that file itself. A comment with the path is removed if the file has none."""
        if not self._files or block.path or block.kind not in ("text", "shell") or block.word in _OUTPUTS:
            return ""
        files = {**self._files}
        for _, call in self._calls:
            files.pop(as_str(call.arguments.get("file_path")), None)
        if block.kind == "shell":
            files = {path: text for path, text in files.items() if suffix_of(path) in _SCRIPTS or text[:2] == "#!"}
        named = path_in_comment(block.lines[0]) if block.lines else ""
        if named in files and not files[named].startswith(block.lines[0]):
            del block.lines[0]
        return find_original(files, block.lines)

    def _add(self, block: _Open, calls: Sequence[Block]) -> None:
        text, source = "".join(self._texts), "".join(block.raw)
        for call in calls:
            self._calls.append((text, call._replace(source=source)))
            text = source = ""
        self._texts = []
        self._edited = block.path if calls[-1].name == "Edit" else ""


def read(
    text: str,
    tools: Mapping[str, ToolSpec],
    stop: StopReason | None,
    stem: str,
    context: BlockContext = NOTHING_MEANT,
) -> tuple[Text | ToolCall, ...]:
    """Return the parts of a whole reply that ended for `stop`."""
    reader = BlockReader(tools, context)
    reader.feed(valid_text(text))
    reader.finish(cut=stop in CUT)
    return reader.parts(stem)


def thinks_first(text: str) -> bool:
    """Return True for a reply that ends thinking which it has not begun: the prompt began it."""
    if not _THOUGHT_END.search(text):
        return False
    reader = BlockReader({})
    reader.feed(text)
    reader.finish()
    return reader.thought_first


def own_text(call: ToolCall) -> str | None:
    """Return a call's text as the model wrote it; None if it was made in another way."""
    if call.private is None or call.private.family != FAMILY:
        return None
    data = call.private.data
    return data if isinstance(data, str) else as_str(as_object(data).get("text"))


def doubted(call: ToolCall, mark: str) -> ToolCall:
    """Return a call marked as QUOTED or UNDECIDED, so that it is not made."""
    return replace(call, whole=False, private=Private(FAMILY, JsonObject({"text": own_text(call), mark: True})))


def is_doubted(call: ToolCall) -> bool:
    """Return True for a call that a reply only quotes, or that may be a thought."""
    marks = as_object(call.private.data) if call.private is not None and call.private.family == FAMILY else EMPTY
    return QUOTED in marks or UNDECIDED in marks


def text_argument(spec: ToolSpec) -> str:
    """Return the argument that a block of plain text gives: the required one, or else the first. Returns "" unless it
    is one string."""
    properties = as_object(spec.parameters.get("properties"))
    required = [as_str(name) for name in as_array(spec.parameters.get("required"))]
    name = required[0] if len(required) == 1 else next(iter(properties), "") if not required else ""
    return name if as_object(properties.get(name)).get("type") == "string" else ""


def _read(block: _Open, tools: Mapping[str, ToolSpec]) -> tuple[Block, ...]:
    """Return the calls of a block that has ended; none if the block is text."""
    match block.kind:
        case "shell":
            body = "\n".join(block.lines)
            if block.path and (suffix_of(block.path) in _SCRIPTS or body.startswith("#!")):
                return (_written(block),)
            return (Block("Bash", JsonObject({"command": _command(block.lines)}), ""),)
        case "file":
            if not begins_search(block.lines):
                return (_written(block),)
            change = read_search(block.path, block.lines)
            return _unfinished(block) if change is None else (Block(*change, ""),)
        case "diff":
            return tuple(Block(*change, "") for change in read_diff(block.path, block.lines, runs="Bash" in tools))
        case "tool":
            return (_call(tools.get(block.word) or ToolSpec(block.word, "", EMPTY), "\n".join(block.lines)),)
        case "text":  # or an edit with its path inside
            path = path_in(block.lines[0]) if len(block.lines) > 1 else ""
            change = read_search(path, block.lines[1:]) if path and begins_search(block.lines[1:]) else None
            return () if change is None else (Block(*change, ""),)


def _written(block: _Open, path: str = "") -> Block:
    return Block("Write", JsonObject({"file_path": path or block.path, "content": text_of(block.lines)}), "")


def _unfinished(block: _Open) -> tuple[Block, ...]:
    """Return the call of an incomplete block. An incomplete text counts as the command within it."""
    names: Mapping[Kind, str] = {"text": "Bash", "shell": "Bash", "diff": "Edit", "tool": block.word}
    name = names.get(block.kind, "Edit" if begins_search(block.lines) else "Write")
    return (Block(name, EMPTY, "", "\n".join(block.lines), whole=False),)


def _command(lines: Sequence[str]) -> str:
    """Return a command. From a transcript, which begins with a prompt, return what was typed."""
    first = next((line for line in lines if line.strip()), "")
    if first.startswith("{") and (command := as_str(as_object(_json("\n".join(lines))).get("command"))):
        return command
    if not first.startswith("$ "):
        return "\n".join(lines)
    typed: list[str] = []
    goes_on = False
    for line in lines:
        if line.startswith("$ "):
            typed.append(line[2:])
        elif goes_on:
            typed.append(line.removeprefix("> "))
        else:
            continue
        goes_on = typed[-1].endswith("\\")
    return "\n".join(typed)


def _call(spec: ToolSpec, body: str) -> Block:
    """Return the call of the tool that a block names. Its arguments are JSON or plain text."""
    name, given = text_argument(spec), _json(body)
    if isinstance(given, JsonObject):
        return Block(spec.name, given, "")
    text = body.strip()
    if name and text and not (text.startswith("{") and text.endswith("}")):
        return Block(spec.name, JsonObject({name: body}), "")
    return Block(spec.name, EMPTY, "", body if text else None)


def _bare(name: str) -> str:
    """Return a tool's name without case and separators."""
    return name.lower().replace("_", "").replace("-", "")


def _json(text: str) -> Json:
    """Return the JSON value that a text is; None if it is none."""
    try:
        return json_freeze(read_near(text).value)
    except ValueError:
        return None


def _dedented(text: str, indent: int) -> str:
    """Return a line without as many columns of white space as its block is indented."""
    left = indent
    at = 0
    while left > 0 and at < len(text) and text[at] in " \t":
        left -= 4 if text[at] == "\t" else 1
        at += 1
    return text[at:]


def _widened(part: Text | ToolCall, space: str) -> Text | ToolCall:
    """Return a call with white space added to its text."""
    if isinstance(part, Text) or part.private is None or not space:
        return part
    return replace(part, private=Private(FAMILY, as_str(part.private.data) + space))
