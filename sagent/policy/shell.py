"""A shell script taken apart into the commands it would run, so that each can be judged by itself.

This reads bash as bash reads it where it claims to (`Script.doubt` is empty), and says so where it does not. What it
does not model (arithmetic, `case`, functions, arrays, `[[`) is still taken apart as well as may be, for deny rules.
"""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from sagent.lib.dataclass import dataclass

Kind: TypeAlias = Literal["literal", "glob", "dynamic"]

SHELLS = frozenset({"bash", "sh", "dash", "zsh", "ksh", "ash", "mksh", "rbash", "fish", "csh", "tcsh"})
DEPTH = 8  # scripts inside scripts; deeper is in doubt

_REDIRECTION = re.compile(r"&>>|&>|<<<|<<-|<<|<>|<&|>>|>&|>\||<|>")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")
_NAMED_DESCRIPTOR = re.compile(r"\{[A-Za-z_]\w*(\[.*\])?\}")
_SPLIT_OPERATOR = re.compile(r"[$<>&|(;`]\\\n")
_STARTERS = frozenset({"if", "then", "elif", "else", "while", "until", "do", "!", "{"})
_ENDERS = frozenset({"fi", "done", "}"})
_ODD = frozenset({"case", "esac", "select", "function", "coproc", "[["})
_BLANK = " \t"
_META = " \t\n;&|<>()"


class Word(NamedTuple):
    """A word: its text after quote removal, or as written where only the shell knows what becomes of it.

    "glob" words hold unquoted wildcards, "dynamic" ones expansions.
    """

    text: str
    kind: Kind
    raw: str

    @property
    def is_assignment(self) -> bool:
        """Whether it would set a variable when it stands before a command."""
        return _ASSIGNMENT.match(self.raw) is not None


class Redirect(NamedTuple):
    """A file that the shell opens for a command."""

    target: Word
    writes: bool


@dataclass(frozen=True, slots=True)
class Part:
    """One simple command. `script` is what it hands to a shell to run (`bash -c '...'`), judged in its place.

    `looped`: a loop began before it.
    """

    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...] = ()
    script: "Script | None" = None
    looped: bool = False


@dataclass(frozen=True, slots=True)
class Script:
    """The commands a script may run. With `doubt` the list may be incomplete; when `broken` it means little.

    `computes_input`: what a here-document or a here-string holds is only known when it runs.
    """

    parts: tuple[Part, ...]
    doubt: str = ""
    broken: bool = False
    computes_input: bool = False

    def walk(self) -> Iterator[Part]:
        """Every part, those of scripts inside included."""
        for part in self.parts:
            yield part
            if part.script is not None:
                yield from part.script.walk()


def split(command: str, depth: int = 0) -> Script:
    """Take a script apart. Never raises: what cannot be read is a doubt."""
    reader = _Reader(command, depth)
    if depth > DEPTH:
        reader.fail("it nests too deeply")
    elif odd := next((ch for ch in command if not ch.isprintable() and ch not in "\n\t"), None):
        reader.fail(f"it holds the unprintable character {odd!a}")
    elif _SPLIT_OPERATOR.search(command):
        reader.fail("a line is continued inside an operator")
    try:
        reader.read_list("")
    except RecursionError:
        reader.fail("it nests too deeply")
    return Script(tuple(reader.parts), reader.doubt, reader.broken, reader.computes_input)


class _Reader:
    """Reads one script from left to right. Words of substitutions become parts of their own, before their command."""

    def __init__(self, text: str, depth: int) -> None:
        self.text = text
        self.depth = depth
        self.at = 0
        self.parts: list[Part] = []
        self.doubt = ""
        self.broken = False
        self.loops = False
        self.computes_input = False
        self.heredocs: list[tuple[str, bool, bool]] = []  # delimiter, tabs stripped, quoted

    def wonder(self, why: str) -> None:
        """Something here is not modelled."""
        self.doubt = self.doubt or why

    def fail(self, why: str) -> None:
        """From here on the text may mean anything."""
        self.wonder(why)
        self.broken = True

    def read_list(self, closing: str) -> None:
        """Read commands up to the closing parenthesis, or to the end."""
        command = _Command(self)
        open_heredocs = len(self.heredocs)
        while self._read_element(command):
            if command.left:
                command.left = False
                if closing:
                    if len(self.heredocs) > open_heredocs:
                        self.fail("a here-document begins inside a substitution and ends outside")
                    return
                self.wonder("a parenthesis closes nothing")
        command.flush()
        if closing:
            self.fail("a parenthesis is not closed")
        if self.heredocs:
            self.fail("a here-document has no body")

    def _read_element(self, command: "_Command") -> bool:
        """Read on by one step; False at the end of the text."""
        ch = self.text[self.at : self.at + 1]
        if ch == "":
            return False
        if ch in _BLANK:
            self.at += 1
        elif self.text.startswith("\\\n", self.at):
            self.at += 2
        elif ch == "#":
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
        elif ch == "\n":
            command.flush()
            self.at += 1
            self._read_heredocs()
        elif ch in "<>" or self.text.startswith("&>", self.at):
            self._read_redirection(command)
        elif ch in ";&|":
            self._read_operator(command)
        elif ch == "(":
            self._read_group(command)
        elif ch == ")":
            command.flush()
            command.left = True
            self.at += 1
        else:
            self._read_plain(command)
        return True

    def _read_operator(self, command: "_Command") -> None:
        command.flush()
        if self.text.startswith((";;", ";&"), self.at):
            self.wonder("a case statement")
        while self.at < len(self.text) and self.text[self.at] in ";&|" and not self.text.startswith("&>", self.at):
            self.at += 1

    def _read_group(self, command: "_Command") -> None:
        if command.words or command.closed:
            self.wonder("a function or an array")
            command.flush()
        if self.text.startswith("((", self.at):
            self.wonder("arithmetic")
        self.at += 1
        self.read_list(")")
        command.closed = True

    def _read_plain(self, command: "_Command") -> None:
        word = self.read_word()
        if word.raw.isascii() and word.raw.isdigit() and self.text[self.at : self.at + 1] in ("<", ">"):
            return  # the number of a file descriptor
        if _NAMED_DESCRIPTOR.fullmatch(word.raw) and self.text[self.at : self.at + 1] in ("<", ">"):
            self.wonder("a redirection sets a variable")
        command.add(word)

    def _read_redirection(self, command: "_Command") -> None:
        if self._at_process():
            command.add(self._process_substitution())
            return
        match = _REDIRECTION.match(self.text, self.at)
        assert match is not None  # the caller saw its first character
        operator = match.group()
        self.at = match.end()
        while self.text[self.at : self.at + 1] in (" ", "\t"):
            self.at += 1
        target = self._process_substitution() if self._at_process() else self.read_word()
        if not target.raw:
            self.fail("a redirection names no file")
        if operator in ("<<", "<<-"):
            if target.kind == "dynamic":
                self.fail("a here-document's delimiter is computed")
            self.heredocs.append((target.text, operator == "<<-", any(ch in target.raw for ch in "'\"\\")))
        elif operator in (">&", "<&") and re.fullmatch(r"[0-9]+-?|-", target.raw):
            pass  # a copy of a descriptor
        elif operator == "<<<":
            self.computes_input |= target.kind == "dynamic"
        else:
            command.redirects.append(Redirect(target, operator not in ("<", "<&")))

    def _at_process(self) -> bool:
        return self.text.startswith(("<(", ">("), self.at)

    def _process_substitution(self) -> Word:
        start = self.at
        self.at += 2
        self.read_list(")")
        raw = self.text[start : self.at]
        return Word(raw, "dynamic", raw)

    def _read_heredocs(self) -> None:
        for delimiter, tabs, quoted in self.heredocs:
            body: list[str] = []
            while True:
                if self.at >= len(self.text):
                    self.fail("a here-document does not end")
                    break
                end = self.text.find("\n", self.at)
                line = self.text[self.at : end if end >= 0 else len(self.text)]
                self.at += len(line) + 1
                if (line.lstrip("\t") if tabs else line) == delimiter:
                    break
                body.append(line)
            if not quoted:
                self._read_heredoc_body("\n".join(body))
        self.heredocs = []

    def _read_heredoc_body(self, body: str) -> None:
        if "\\\n" in body:
            self.fail("a here-document continues a line")
        inner = _Reader(body, self.depth)
        while inner.at < len(body):
            self.computes_input |= inner.read_expansion([]) == "dynamic"
        self._take(inner)

    def _take(self, inner: "_Reader") -> None:
        self.parts += inner.parts
        self.doubt = self.doubt or inner.doubt
        self.broken |= inner.broken
        self.loops |= inner.loops
        self.computes_input |= inner.computes_input

    def read_word(self) -> Word:
        """The word that begins here; empty where none does."""
        start, out, kind = self.at, list[str](), "literal"
        while self.at < len(self.text) and (ch := self.text[self.at]) not in _META:
            if ch == "'":
                end = self.text.find("'", self.at + 1)
                if end < 0:
                    self.fail("a quote is not closed")
                    end = len(self.text)
                out.append(self.text[self.at + 1 : end])
                self.at = end + 1
            elif ch == '"':
                kind = self._stronger(kind, self._read_double(out))
            elif ch in "\\$`":
                if ch == "\\" and self.at + 1 == len(self.text):
                    self.fail("the script ends in a backslash")
                kind = self._stronger(kind, self.read_expansion(out, quoted=False))
            else:
                if ch in "*?[":
                    kind = self._stronger(kind, "glob")
                out.append(ch)
                self.at += 1
        raw = self.text[start : self.at].replace("\\\n", "")
        if raw in ("[", "[["):
            kind = "literal"
        if _has_braces(raw) or (raw.startswith("~") and raw != "~" and not raw.startswith("~/")):
            kind = "dynamic"
        return Word(raw if kind == "dynamic" else "".join(out), kind, raw)

    @staticmethod
    def _stronger(first: Kind, second: Kind) -> Kind:
        return "dynamic" if "dynamic" in (first, second) else "glob" if "glob" in (first, second) else "literal"

    def _read_double(self, out: list[str]) -> Kind:
        kind: Kind = "literal"
        self.at += 1
        while self.at < len(self.text):
            if self.text[self.at] == '"':
                self.at += 1
                return kind
            kind = self._stronger(kind, self.read_expansion(out))
        self.fail("a quote is not closed")
        return kind

    def read_expansion(self, out: list[str], *, quoted: bool = True) -> Kind:
        """One character, one escape or one expansion; `quoted` as inside double quotes."""
        ch = self.text[self.at]
        following = self.text[self.at + 1 : self.at + 2]
        if ch == "\\":
            if following != "\n":
                out.append(following if not quoted or following in '$`"\\' else ch + following)
            self.at += 2
            return "literal"
        if ch == "`":
            self._read_backtick(quoted=quoted)
            return "dynamic"
        if ch == "$":
            return self._read_dollar(out, following, quoted=quoted)
        out.append(ch)
        self.at += 1
        return "literal"

    def _read_dollar(self, out: list[str], following: str, *, quoted: bool) -> Kind:
        if following == "(":
            if self.text.startswith("((", self.at + 1):
                self.wonder("arithmetic")
            self.at += 2
            self.read_list(")")
        elif following == "{":
            self._read_parameter()
        elif following == "[":
            self.fail("arithmetic in brackets")
            self.at += 2
        elif following == "'" and not quoted:
            end = re.compile(r"(?:[^'\\]|\\.)*'", re.DOTALL).match(self.text, self.at + 2)
            if end is None or (self.depth and "\\'" in end.group()):  # sh does not know these quotes
                self.fail("a quote is not closed")
            self.at = end.end() if end else len(self.text)
        elif following == '"' and not quoted:
            self.at += 1
            self._read_double([])
        elif name := _NAME.match(self.text, self.at + 1):
            self.at = name.end()
        else:
            out.append("$")
            self.at += 1
            return "literal"
        return "dynamic"

    def _read_parameter(self) -> None:
        """`${...}`. Quotes inside follow rules of their own, indirection and subscripts evaluate text: doubtful."""
        self.at += 2
        if _NAME.match(self.text, self.at) is None or self.text.startswith("!", self.at):
            self.fail("an expansion of an unusual kind")
        if name := _NAME.match(self.text, self.at):
            self.at = name.end()
            if re.compile(":(?![-=?+])").match(self.text, self.at):
                self.wonder("an offset, which is computed")
        while self.at < len(self.text):
            ch = self.text[self.at]
            if ch == "}":
                self.at += 1
                return
            if ch in "\\'\"":
                self.fail("quotes inside an expansion")
                self.at += 1
            elif ch in "$`":
                self.read_expansion([])
            else:
                if ch in "@[":
                    self.wonder("an expansion of an unusual kind")
                self.at += 1
        self.fail("a brace is not closed")

    def _read_backtick(self, *, quoted: bool) -> None:
        match = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL).match(self.text, self.at)
        if match is None:
            self.fail("a backtick is not closed")
            self.at = len(self.text)
            return
        self.at = match.end()
        escaped = r"\\([$`\\\"])" if quoted else r"\\([$`\\])"
        inner = _Reader(re.sub(escaped, r"\1", match.group(1)), self.depth + 1)
        if inner.depth > DEPTH:
            self.fail("it nests too deeply")
            return
        inner.read_list("")
        self._take(inner)


class _Command:
    def __init__(self, reader: _Reader) -> None:
        self.reader = reader
        self.words: list[Word] = []
        self.redirects: list[Redirect] = []
        self.closed = False  # a group ended here; only redirections may follow
        self.left = False  # a parenthesis was closed

    def add(self, word: Word) -> None:
        """The next word: a reserved one, or one of the command."""
        if not word.raw:
            self.reader.fail("an unexpected character")
            self.reader.at += 1
            return
        if self.closed:
            self.reader.wonder("a word follows a closed group")
        if not self.words and not self.redirects:
            if word.raw in _STARTERS:
                self.reader.loops |= word.raw in ("while", "until")
                return
            if word.raw in _ENDERS:
                self.closed = True
                return
            if word.raw in _ODD:
                self.reader.wonder(f"the keyword {word.raw}")
        self.words.append(word)

    def flush(self) -> None:
        words, redirects = tuple(self.words), tuple(self.redirects)
        self.words, self.redirects, self.closed = [], [], False
        if words and words[0].raw == "for":
            words = self._loop(words)
        if words or redirects:
            script = self._script(words)
            if script is not None and script.doubt:
                self.reader.wonder(script.doubt)
                self.reader.broken |= script.broken
            self.reader.computes_input |= script is not None and script.computes_input
            self.reader.parts.append(Part(words, redirects, script, self.reader.loops))

    def _loop(self, words: tuple[Word, ...]) -> tuple[Word, ...]:
        """`for NAME in ...` sets a variable and runs nothing by itself."""
        self.reader.loops = True
        name = words[1].raw if len(words) > 1 else ""
        if not name.isidentifier() or not name.isascii() or (len(words) > 2 and words[2].raw != "in"):
            self.reader.wonder("a loop of an unusual kind")
            return words
        return (Word(f"{name}=", "literal", f"{name}="),)

    def _script(self, words: tuple[Word, ...]) -> Script | None:
        """The script inside `bash -c '...'` or `eval ...`, when every letter of it is known."""
        words = unwrap(words)
        if not words or words[0].kind != "literal":
            return None
        if words[0].text == "eval":
            texts = words[1:]
        elif words[0].text in ("bash", "sh", "dash"):
            texts = _shell_script(words)
        else:
            return None
        if not texts or any(word.kind != "literal" for word in texts):
            return None
        return split(" ".join(word.text for word in texts), self.reader.depth + 1)


def unwrap(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The words without the assignments and the harmless wrappers before them (`X=1 timeout 5 nice npm test`).

    A wrapper used in a way that is not understood stays.
    """
    while words:
        if words[0].is_assignment:
            words = words[1:]
            continue
        if words[0].kind != "literal" or words[0].text not in ("nohup", "time", "nice", "timeout", "command", "env"):
            return words
        rest = _after_options(words)
        if not rest:
            return words
        words = rest
    return words


def _after_options(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """What a harmless wrapper runs; nothing where its options are unusual."""
    name, at = words[0].text, 1
    valued, plain = {
        "timeout": (("-k", "-s"), ("--foreground", "-v", "--preserve-status")),
        "nice": (("-n",), ()),
        "time": ((), ("-p",)),
    }.get(name, ((), ()))
    while at < len(words) and words[at].kind == "literal" and words[at].text.startswith("-"):
        if words[at].text not in valued and words[at].text not in plain:
            return ()
        at += 2 if words[at].text in valued else 1
    if name == "timeout":
        if at >= len(words) or not re.fullmatch(r"[0-9.]+[smhd]?", words[at].text):
            return ()
        at += 1
    return words[at:] if at < len(words) and all(word.kind == "literal" for word in words[1 : at + 1]) else ()


def _shell_script(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The script word of `bash -c SCRIPT`, also `bash -lc` and `bash -euo pipefail -c`."""
    at = 1
    while at < len(words) and words[at].kind == "literal" and re.fullmatch(r"-(?:[euxl]+[oc]?|[oc])", words[at].text):
        if words[at].text.endswith("c"):
            return words[at + 1 : at + 2]
        if words[at].text.endswith("o"):
            if words[at + 1 : at + 2] and words[at + 1].text != "pipefail":
                return ()
            at += 1
        at += 1
    return ()


def program(word: Word) -> str:
    """The name of the program a word stands for, its directory left out; "" where it is computed."""
    return word.text.rpartition("/")[2] if word.kind == "literal" else ""


def _has_braces(raw: str) -> bool:
    """Whether braces may multiply the word: `{a,b}`, `{1..3}`."""
    if "{" not in raw:
        return False
    bare = re.sub(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.", "", raw, flags=re.DOTALL)
    return "{" in bare and ("," in bare or ".." in bare)
