"""Splits a shell script into the commands it would run, so that each can be judged separately.

tree-sitter's grammar of bash parses the script, and each piece is compared with bash's own rules for words, because the
grammar is looser than bash. If they differ, or the tree has a node that is not modelled here (arithmetic, `case`,
functions, arrays, `[[`), `Script.doubt` says so. The script is still split as well as possible, for deny rules.
"""

import re
import time
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from sagent.lib.dataclass import dataclass
from sagent.policy.programs import usual_name

if TYPE_CHECKING:
    from tree_sitter import Language, Node

Kind: TypeAlias = Literal["literal", "glob", "dynamic"]

SHELLS = frozenset({"bash", "sh", "dash", "zsh", "ksh", "ash", "mksh", "rbash", "fish", "csh", "tcsh"})
_MAX_CACHED_CHARS = 4_000  # of a script that is remembered
MAX_WORDS = 5_000  # to read: half a second, in which nothing else runs
_PARSE_TIMEOUT_SECONDS = 1.0  # a script of 250 kB takes a twentieth of it
_PIECE_BYTES = 1 << 16  # bytes
DEPTH = 8  # scripts inside scripts; deeper is in doubt

# The grammar's kinds of nodes that are understood.
_STATEMENTS = frozenset(
    {"list", "pipeline", "redirected_statement", "command", "command_name", "subshell", "compound_statement"}
    | {"negated_command", "if_statement", "elif_clause", "else_clause", "for_statement", "while_statement", "do_group"}
    | {"variable_assignments", "test_command", "unary_expression", "binary_expression", "declaration_command"}
    | {"unset_command", "file_redirect", "herestring_redirect", "heredoc_redirect"}
)
_COMPUTED = frozenset({"simple_expansion", "expansion", "command_substitution", "process_substitution"})
_ODD = frozenset({"arithmetic_expansion", "translated_string", "array", "subscript", "regex"})  # a doubt
_PIECES = _COMPUTED | _ODD | {"string", "raw_string", "ansi_c_string"}
_WORDS = (
    _PIECES
    | {"word", "number", "concatenation", "variable_assignment", "variable_name", "test_operator"}
    | {"brace_expression", "extglob_pattern"}
)
# Its tokens.
_SEPARATORS = frozenset({";", "&", "&&", "||", "|", "|&"})
_REDIRECTIONS = frozenset({"<", ">", ">>", "&>", "&>>", "<&", ">&", ">|", "<<<", "<<", "<<-"})
_ENDERS = frozenset({"fi", "done", "}"})
_KEYWORDS = _ENDERS | {"if", "then", "elif", "else", "while", "until", "do", "for", "in", "!", "{"}
_ODD_KEYWORDS = frozenset({"case", "esac", "select", "function", "coproc", "[["})
_TOKENS = _SEPARATORS | _REDIRECTIONS | _KEYWORDS | {"(", ")", ">&-", "<&-", "((", "))"}

# Characters of bash tokens; \0 stands for an expansion. A dollar at a word's end is literal.
_BARE = re.compile(r"(?:[^\s'\"\\$`;&|<>()\0]|\\[^\n\0])*\$?")
_QUOTED = re.compile(r"(?:[^\\$`\0]|\\[^\n\0]|\$(?![\w({\[*@#?$!\0-])|\0)*", re.ASCII)
_PARAMETER = re.compile(r"\$(?:\w+|[@*#?$!-])", re.ASCII)
_EXPANSION = re.compile(
    r"\$\{(?:#?(?:\w+|[@*#?])|\w+(?::?[-+?=]|##?|%%?|//?[#%]?|\^\^?|,,?)[^\\'\"`$\[\]@{}<>()]*)\}", re.ASCII
)
_DEFAULT = re.compile(r"\$\{([A-Za-z_]\w*):?=", re.ASCII)  # it sets the variable
_GAP = re.compile(r"(?:[ \t\n]|(?<=[ \t\n])\\\n)*")
_DELIMITER = re.compile(r"(['\"]?)(\w[\w.-]*)\1|\\(\w[\w.-]*)", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_ELEMENT = re.compile(r"[A-Za-z_]\w*\[", re.ASCII)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_NOT_IN_SH = re.compile(r"&>|\$['\"]|\+=|<<<|[<>]\(")  # dash and bash read them differently
_MAX_WRAPPER_WORDS = 12
_WRAPPER = re.compile(
    r"(?:nohup|command|env|time(?: -p)?|nice(?: -n -?[0-9]+)?"
    r"|timeout(?: --foreground| --preserve-status| -v| -[ks] [A-Z0-9]+[smhd]?)* [0-9.]+[smhd]?) (?!-)"
)
_SHELL = re.compile(r"(?:bash|sh|dash)(?: -[euxl]+| -[euxl]*o pipefail)* -[euxl]*c ")
_AFTER_DOLLAR = ("", " ", "\t", "\n", ";", "|")


class Word(NamedTuple):
    """A word: its text after quote removal, or as written if only the shell knows its value.

    "glob" words have unquoted wildcards, "dynamic" ones expansions.
    """

    text: str
    kind: Kind
    raw: str

    @property
    def is_assignment(self) -> bool:
        """True if it sets a variable when placed before a command."""
        return _ASSIGNMENT.match(self.raw) is not None

    @property
    def is_home(self) -> bool:
        """True if the shell replaces its tilde by the home directory, which it does only unquoted."""
        return self.raw == "~" or self.raw.startswith("~/")


class Redirect(NamedTuple):
    """A file that the shell opens for a command."""

    target: Word
    writes: bool
    appends: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """A simple command. `is_read`: commands that it makes a shell run (`bash -c '...'`) follow as their own parts."""

    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...] = ()
    is_read: bool = False


@dataclass(frozen=True, slots=True)
class Script:
    """The commands a script may run. With `doubt` the list may be incomplete; with `broken` it says little.

    `loops`: some commands may run repeatedly. `has_input`: it has here-documents or here-strings; `computes_input`: the
    content of one is known only at run time.
    """

    parts: tuple[Part, ...]
    doubt: str = ""
    broken: bool = False
    loops: bool = False
    computes_input: bool = False
    has_input: bool = False


def split(command: str, depth: int = 0, *, for_sh: bool = False) -> Script:
    """Split a script for bash or, with `for_sh`, sh. Never raises: unreadable parts become doubts. Recent results are
    cached, because a call is judged, recorded and reported by its parts."""
    return (_split if len(command) > _MAX_CACHED_CHARS else _split_short)(command, depth, for_sh)


@lru_cache(500)
def _split_short(command: str, depth: int, for_sh: bool) -> Script:  # noqa: FBT001 -- a cache's key
    return _split(command, depth, for_sh)


def _split(command: str, depth: int, for_sh: bool) -> Script:  # noqa: FBT001 -- as above
    reader = _Reader(command, depth)
    if depth > DEPTH:
        reader.give_up("it nests too deeply")
    elif odd := next((ch for ch in command if not ch.isprintable() and ch not in "\n\t"), None):
        reader.give_up(f"it holds the unprintable character {odd!a}")
    elif for_sh and _NOT_IN_SH.search(command):
        reader.give_up("sh and bash differ in how they read it")
    try:
        reader.read()
    except RecursionError:
        reader.give_up("it nests too deeply")
    seen = (reader.broken, reader.loops, reader.computes_input, reader.has_input)
    return Script(tuple(reader.parts), reader.doubt, *seen)


@cache
def _language() -> "Language":
    from tree_sitter import Language
    from tree_sitter_bash import language

    return Language(language())


def _tree(text: str) -> "Node":
    """Return the syntax tree of a text. Its offsets are those of the text, because each non-ASCII character becomes
    `_`, part of a word.

    Raises ValueError if parsing takes too long: with errors or pipes its time grows with the square of the length.
    """
    from tree_sitter import Parser

    if text.count("|") > MAX_WORDS:
        raise ValueError
    data, end = re.sub(r"[^\x00-\x7f]", "_", text).encode(), time.thread_time() + _PARSE_TIMEOUT_SECONDS
    parser = Parser(_language())
    return parser.parse(
        lambda at, _: data[at : at + _PIECE_BYTES], progress_callback=lambda _at, _failed: time.thread_time() > end
    ).root_node


class _Reader:
    """Collects the parts of one script. Substitutions become parts before the command that contains them."""

    def __init__(self, text: str, depth: int) -> None:
        self.text = text
        self.depth = depth
        self.parts: list[Part] = []
        self.doubt = ""
        self.broken = False
        self.loops = False
        self.computes_input = self.has_input = False

    def note_doubt(self, reason: str) -> None:
        """Record that something is not modelled."""
        self.doubt = self.doubt or reason

    def give_up(self, reason: str) -> None:
        """Give up on the text: it may mean anything."""
        self.note_doubt(reason)
        self.broken = True

    def take(self, script: Script) -> None:
        """Add the commands of another script to this one's."""
        self.parts += script.parts
        self.doubt = self.doubt or script.doubt
        self.broken |= script.broken
        self.loops |= script.loops
        self.computes_input |= script.computes_input
        self.has_input |= script.has_input

    def read(self) -> None:
        try:
            tree = _tree(self.text)
        except ValueError:
            self.give_up("it takes too long to read")
            return
        if _is_torn(tree):
            self.give_up("its syntax is wrong or unusual")
        _List(self, 0).read(_tokens(tree, self), len(self.text))

    def source(self, node: "Node") -> str:
        return self.text[node.start_byte : node.end_byte]

    def word(self, node: "Node") -> Word:
        raw, out, bare, at, computed = self.source(node), list[str](), "", node.start_byte, False
        for piece in [*_outermost(node, _PIECES), None]:
            between = self.text[at : piece.start_byte if piece else node.end_byte]
            ends = piece is None and self.text[node.end_byte : node.end_byte + 1] in _AFTER_DOLLAR
            if not _BARE.fullmatch(between) or (between.endswith("$") and not ends):
                self.give_up("a word is written in an unusual way")
            out.append(re.sub(r"\\(.)", r"\1", between))
            bare += re.sub(r"\\.", "", between)
            if piece:
                text = self._piece(piece)
                computed |= text is None
                out.append(text or "")
                at = piece.end_byte
        if raw.startswith("#"):
            self.give_up("a comment begins in an unusual place")
        computed |= "{" in bare and ("," in bare or ".." in bare)
        computed |= raw.startswith("~") and raw != "~" and not raw.startswith("~/")
        computed |= "~" in bare and _ASSIGNMENT.match(raw) is not None
        if computed:
            return Word(raw, "dynamic", raw)
        is_glob = raw not in ("[", "[[") and re.search(r"[*?[]", bare) is not None
        return Word("".join(out), "glob" if is_glob else "literal", raw)

    def _piece(self, node: "Node") -> str | None:
        """Return the text of a quoted or expanded part of a word; None if only the shell knows it."""
        source = self.source(node)
        if node.type == "raw_string":
            if not re.fullmatch(r"'[^']*'", source):
                self.give_up("a quote is not closed")
            return source[1:-1]
        if node.type == "string":
            if self.quoted(node, node.start_byte + 1, node.end_byte - 1):
                return None
            if not re.fullmatch(r'"(?:[^"\\]|\\.)*"', source, re.DOTALL):
                self.give_up("a quote is not closed")
            return re.sub(r'\\([$`"\\])', r"\1", source[1:-1])
        if node.type != "ansi_c_string":
            self._expand(node)
        elif not re.fullmatch(r"\$'(?:[^'\\]|\\.)*'", source, re.DOTALL):
            self.give_up("a quote is not closed")
        return None

    def quoted(self, node: "Node | None", start: int, end: int) -> bool:
        """Read text in double quotes or in a here-document; return True if a part of it is computed."""
        holes = [hole for child in (node.children if node else ()) for hole in _outermost(child, _COMPUTED)]
        if not _QUOTED.fullmatch(self._skeleton(holes, start, end)):
            self.give_up("a quoted text is written in an unusual way")
        for hole in holes:
            self._expand(hole)
        return bool(holes)

    def _skeleton(self, holes: "Iterable[Node]", start: int, end: int) -> str:
        """Return a text with \\0 in place of computed parts."""
        out: list[str] = []
        for hole in holes:
            out.append(self.text[start : hole.start_byte])
            start = hole.end_byte
        return "\0".join([*out, self.text[start:end]])

    def _expand(self, node: "Node") -> None:
        source = self.source(node)
        if node.type in ("command_substitution", "process_substitution"):
            self._substitute(node, source)
            return
        holes = [hole for child in node.children for hole in _outermost(child, _COMPUTED)]
        if node.type == "simple_expansion":
            if not _PARAMETER.fullmatch(source):
                self.give_up("an expansion is written in an unusual way")
        elif node.type == "expansion":
            skeleton = self._skeleton(holes, node.start_byte, node.end_byte)
            if sets := _DEFAULT.match(skeleton):
                self.parts.append(_assignment(sets[1]))
            if not _EXPANSION.fullmatch(skeleton):
                note = self.give_up if re.search(r"[\\'\"`]", skeleton) else self.note_doubt
                note("an expansion of an unusual kind")
        else:
            self.note_doubt(f"{node.type.replace('_', ' ')}")
        for hole in holes:
            self._expand(hole)

    def _substitute(self, node: "Node", source: str) -> None:
        tokens = list(_tokens(node, self))
        if source.startswith("`"):
            if re.search(r"[\\\"#]|<<", source):
                self.give_up("backticks around more than plain words")
        elif source.startswith("$(("):
            self.note_doubt("arithmetic")
        elif not source.startswith(("$(", "<(", ">(")):
            self.give_up("a substitution is written in an unusual way")
        if len(tokens) < 2 or self.source(tokens[-1]) not in (")", "`"):
            self.give_up("a substitution is not closed")
            return
        _List(self, tokens[0].end_byte).read(iter(tokens[1:-1]), tokens[-1].start_byte)


def _is_torn(node: "Node") -> bool:
    """Return True if the grammar met something unknown."""
    if not node.has_error:
        return False
    return node.is_missing or (node.type == "ERROR" and not _is_late(node)) or any(map(_is_torn, node.children))


def _is_late(node: "Node") -> bool:
    """Return True if an error is `|` or `;` after `<<EOF 2>&1`, where the grammar takes the rest of the line for words
    of that redirection."""
    above = node.parent
    inside = above is not None and above.parent is not None and above.parent.type == "heredoc_redirect"
    return inside and [child.type in _SEPARATORS for child in node.children] == [True]


def _tokens(node: "Node", reader: _Reader) -> Iterator["Node"]:
    """Yield the tokens of a command in order: words, operators, keywords, comments, here-documents."""
    for child in node.children:
        is_number = child.type == "unary_expression" and child.children[0].type == "-"  # in `[ x -gt -1 ]`
        if child.type in _WORDS or is_number or child.type == "heredoc_body" or not child.children:
            yield child
            continue
        if child.type not in _STATEMENTS and not (child.type == "ERROR" and _is_late(child)):
            reader.note_doubt(f"{child.type.replace('_', ' ')}")
        yield from _tokens(child, reader)


def _outermost(node: "Node", kinds: frozenset[str]) -> Iterator["Node"]:
    """Yield the outermost nodes of some kinds: the node itself, or those below it."""
    if node.type in kinds:
        yield node
        return
    for child in node.children:
        yield from _outermost(child, kinds)


class _List:
    """Groups tokens into commands, in a script or a substitution.

    Like bash, it assigns words to commands by the operators and line ends between them. The tree is not used for that,
    because it puts redirections and here-documents in odd places.
    """

    def __init__(self, reader: _Reader, start: int) -> None:
        self.reader = reader
        self.at = start  # end of the last token
        self.before = ""  # that token, if it directly precedes
        self.was_word = False  # so was that token
        self.words: list[Word] = []
        self.redirects: list[Redirect] = []
        self.redirection = ""  # an operator that waits for its file
        self.heredoc: tuple[str, bool, bool] | None = None  # delimiter, tabs stripped, quoted
        self.closed = False  # a group ended here; only redirections may follow
        self.header = False  # in a loop's header, whose words are not run

    def read(self, tokens: Iterator["Node"], end: int) -> None:
        """Read tokens of the text up to an offset."""
        for number, token in enumerate(tokens):
            if number == MAX_WORDS:
                self.reader.give_up(f"it has more than {MAX_WORDS:,} words")
                return
            source = self.reader.source(token)
            if not source.strip() and token.type != "heredoc_body":
                continue  # a line end, part of the gap
            if self.at and token.end_byte <= self.at:
                continue  # the last line of a here-document
            if not self._cross_gap(token.start_byte, token):
                self._add(token, source)
                self.at = token.end_byte
        self._cross_gap(end, None)
        self._flush()
        if self.heredoc:
            self.reader.give_up("a here-document has no body")

    def _cross_gap(self, end: int, token: "Node | None") -> bool:
        """Check the text between two tokens; return True if the next token is a here-document, which is read then."""
        gap = self.reader.text[self.at : end]
        if re.fullmatch(r"[ \t]+-[ \t]+", gap):  # the grammar leaves it out before a here-document
            self._add_word(Word("-", "literal", "-"))
            gap = " "
        if end < self.at or not _GAP.fullmatch(gap):
            self.reader.give_up("something is not part of any command")
        if gap:
            self.before = ""
        if line_end := re.search(r"(?<!\\)\n", gap):
            self._flush()
            if self.heredoc:
                return self._read_heredoc(self.at + line_end.end(), self.heredoc, token)
        return False

    def _read_heredoc(self, start: int, heredoc: tuple[str, bool, bool], token: "Node | None") -> bool:
        delimiter, tabs, quoted = heredoc
        self.heredoc, self.reader.has_input = None, True
        tab = "\t*" if tabs else ""
        last_line = re.compile(rf"^{tab}{re.escape(delimiter)}$", re.MULTILINE)
        last = last_line.search(self.reader.text, start)
        if (
            last is None
            or token is None
            or token.type not in ("heredoc_body", "heredoc_end")
            or not start <= token.start_byte <= token.end_byte <= last.end()
        ):
            self.reader.give_up("a here-document is written in an unusual way")
            return False
        if not quoted:
            self.reader.computes_input |= self.reader.quoted(token, start, last.start())
        self.at = last.end()
        return True

    def _add(self, token: "Node", source: str) -> None:
        reader = self.reader
        self._check_boundary(token, source)
        if self.heredoc and "\n" in source:
            reader.give_up("a here-document begins before a text of several lines")
        if token.type == "comment":
            if "\n" in source or reader.text[token.end_byte : token.end_byte + 1] not in ("", "\n"):
                reader.give_up("a comment ends in an unusual way")
        elif token.type == "heredoc_start":
            self._start_heredoc(source)
        elif token.type == "file_descriptor":
            pass  # checked where tokens touch
        elif token.is_named or source not in _TOKENS or (source == "!" and self.words):
            self._add_word(reader.word(token))
        elif self.redirection:
            reader.give_up("a redirection names no file")
        elif source in _REDIRECTIONS:
            self.redirection = source
        elif source in _KEYWORDS:
            self._add_keyword(source)
        else:
            if source == "(" and (self.words or self.closed):
                reader.note_doubt("a function or an array")
            elif source not in _SEPARATORS and source not in ("(", ")"):
                reader.note_doubt(f"the operator {source}")
            self._flush()
            self.closed = source == ")"

    def _check_boundary(self, token: "Node", source: str) -> None:
        """Check that bash also splits two tokens here, with nothing between them."""
        before, was_word, is_word = self.before, self.was_word, token.is_named or source not in _TOKENS - _KEYWORDS
        self.before = source
        self.was_word = is_word or source in (">&-", "<&-")
        if token.type == "file_descriptor":
            self.before = ""
            if self.reader.text[token.end_byte : token.end_byte + 1] not in ("<", ">") or not source.isdigit():
                self.reader.give_up("a redirection of an unusual kind")
        if not before:
            return
        if was_word and is_word:
            self.reader.give_up("two words touch each other")
        elif was_word and source[0] in "<>" and re.fullmatch(r"[0-9]+|\{.*\}", before):
            self.reader.give_up("a redirection of an unusual kind")
        elif not (was_word or is_word) and {before[-1], source[0]} <= set(";&|<>"):
            self.reader.give_up("two operators touch each other")
        elif before == source == "(":
            self.reader.note_doubt("arithmetic")

    def _start_heredoc(self, source: str) -> None:
        match = _DELIMITER.fullmatch(source)
        if match is None or self.heredoc or self.redirection not in ("<<", "<<-"):
            self.reader.give_up("a here-document begins in an unusual way")
        else:
            self.heredoc = (match[2] or match[3], self.redirection == "<<-", match[2] != source)
        self.redirection = ""

    def _add_word(self, word: Word) -> None:
        if self.redirection:
            self._redirect(self.redirection, word)
            return
        if self.closed:
            self.reader.give_up("a word follows a closed group")
        if all(each.is_assignment or each.raw in ("time", "-p", "--") for each in self.words):  # starts a pipeline
            if word.raw in _KEYWORDS | _ODD_KEYWORDS and not self.header:
                self.reader.note_doubt(f"the keyword {word.raw}")
            if _ELEMENT.match(word.raw):
                self.reader.note_doubt("an array")
        self.words.append(word)

    def _redirect(self, operator: str, target: Word) -> None:
        self.redirection = ""
        if operator == "<<<":
            self.reader.has_input = True
            self.reader.computes_input |= target.kind == "dynamic"
        elif operator in ("<<", "<<-"):
            self.reader.give_up("a here-document begins in an unusual way")
        elif operator not in (">&", "<&") or not re.fullmatch(r"[0-9]+-?|-", target.raw):
            if operator == ">&" and target.raw != target.text:  # bash removes quotes twice here
                self.reader.give_up("a redirection of an unusual kind")
            self.redirects.append(Redirect(target, operator not in ("<", "<&"), operator in (">>", "&>>")))

    def _add_keyword(self, source: str) -> None:
        if source == "in" and self.header:
            return
        if self.words or self.redirects or self.closed:
            self.reader.note_doubt(f"the keyword {source} in an unusual place")
            self._flush()
        self.reader.loops |= source in ("while", "until")
        self.header = source == "for"
        self.closed = source in _ENDERS

    def _flush(self) -> None:
        """Complete the command that was read."""
        reader, words, redirects = self.reader, tuple(self.words), tuple(self.redirects)
        if self.redirection:
            reader.give_up("a redirection names no file")
        if self.header:  # it sets a variable and runs nothing itself
            name = words[0].raw if words else ""
            if not _NAME.fullmatch(name):
                reader.note_doubt("a loop of an unusual kind")
            reader.loops = True
            words = _assignment(name).words
        self.words, self.redirects, self.redirection, self.closed, self.header = [], [], "", False, False
        if words or redirects:
            script = _nested(words, reader.depth)
            reader.parts.append(Part(words, redirects, is_read=script is not None))
            if script is not None:
                reader.take(script)


def _assignment(name: str) -> Part:
    """Return a part that sets a variable to an unknown value."""
    return Part((Word(f"{name}=", "literal", f"{name}="),))


def _nested(words: tuple[Word, ...], depth: int) -> Script | None:
    """Return the script that `bash -c '...'` or `eval ...` runs, if all of it is literal."""
    words = unwrap(words)
    name = words[0].text if words else ""
    texts = words[1:] if name == "eval" else _words_after(_SHELL, words)[:1]
    if not texts or any(word.kind != "literal" for word in texts):
        return None
    return split(" ".join(word.text for word in texts), depth + 1, for_sh=name != "bash")


def unwrap(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the words without leading assignments and harmless wrappers (`X=1 timeout 5 nice npm test`).

    A wrapper with unknown options is kept.
    """
    while words:
        rest = words[1:] if words[0].is_assignment else _words_after(_WRAPPER, words)
        if not words[0].is_assignment and (not rest or rest[0].kind != "literal"):
            break
        words = rest
    return words


def _words_after(pattern: re.Pattern[str], words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the words after those of a pattern; () if they do not match it."""
    match = pattern.match(" ".join(word.text.replace(" ", "_") for word in words[:_MAX_WRAPPER_WORDS]))
    return words[match[0].count(" ") :] if match else ()


def program(word: Word) -> str:
    """Return the usual name of a word's program, without its directory; "" if the shell computes it."""
    return usual_name(word.text.rpartition("/")[2]) if word.kind == "literal" else ""
