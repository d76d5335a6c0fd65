"""Allow and deny rules: `Bash(git status:*)`, `Edit(src/**)`, `Read(~/.ssh/**)`, `Write`, `mcp__github__*`."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from sagent.errors import ConfigError
from sagent.lib.dataclass import dataclass
from sagent.lib.text import nearest
from sagent.policy.readings import by_letter, doubtful, escape, names_tool, readings, split_classes, unescape
from sagent.tool import Effect

if TYPE_CHECKING:
    from sagent.policy import Ask
    from sagent.policy.shell import Word

COMMAND_RULES = ("Bash", "Unsandboxed")
BEYOND_THE_SANDBOX = ("Network", "Unsandboxed")  # names of rules that are no tools
PATH_TOOLS = ("Read", "Edit", "Write", "Grep", "Glob", "List")
EDITS = ("Edit", "Write")
MAX_REMEDY_CHARS = 4_000  # of what names rules
Match: TypeAlias = Literal["yes", "maybe", "no"]


@dataclass(frozen=True, slots=True)
class Rule:
    """A tool, or several by wildcard, and a pattern of commands or paths; no pattern means every call.

    `Edit` and `Write` rules cover every call that writes files, `Read` rules every call that reads them. `Network`
    rules cover hosts that sandboxed commands may reach, `Unsandboxed` rules commands that may run without a sandbox.
    """

    tool: str
    pattern: str = ""

    def __str__(self) -> str:
        return f"{self.tool}({self.pattern})" if self.pattern else self.tool

    @classmethod
    def parse(cls, text: str) -> "Rule":
        """Parse a rule. Raises ConfigError that lists the accepted forms."""
        match = re.fullmatch(r"\s*([A-Za-z_][\w*?.-]*|\*)\s*(?:\((.*)\))?\s*", text, re.DOTALL)
        if match is None:
            raise ConfigError(
                f"{text!r} is not a rule: write Tool or Tool(pattern), as in Bash(git status:*), Edit(src/**)."
            )
        tool, given = match.group(1), match.group(2) or ""
        pattern = given.strip()
        if match.group(2) is not None and not pattern:
            raise ConfigError(f"{text!r} has an empty pattern: write {tool} for every call.")
        if not pattern:
            return cls(tool)
        if tool in COMMAND_RULES:
            return cls(tool) if pattern in ("*", ":*") else cls(tool, _checked_command(text, pattern))
        if tool in PATH_TOOLS:
            return cls(tool, given)
        if tool == "Network":
            from sagent.sandbox.profile import Need

            try:
                return cls(tool, Need.parse(f"network:{pattern}").target)
            except ValueError as error:
                raise ConfigError(
                    f"{text!r} does not name a host: write Network(example.org) or Network(*.example.org)."
                ) from error
        raise ConfigError(f"{text!r}: {_no_pattern(tool)}")

    @property
    def documented(self) -> "Rule":
        """The rule as an allowance, in its one documented reading."""
        return Rule(self.tool, self.pattern.strip())

    @property
    def readings(self) -> "tuple[Rule, ...]":
        """The possible meanings of this rule; a denial applies to all of them."""
        return tuple(Rule(self.tool, pattern) for pattern in readings(self.pattern))

    def denies_tool(self, tool: str, effect: Effect) -> bool:
        """Return True if every call of a tool is denied, however its name is written."""
        if self.pattern:
            return False
        known = next((name for name in (*PATH_TOOLS, *COMMAND_RULES) if name.lower() == self.tool.lower()), self.tool)
        return Rule(known).covers(tool, effect) or names_tool(self.tool, tool)

    def covers(self, tool: str, effect: Effect) -> bool:
        """Return True if the rule is about this tool's calls at all."""
        if self.tool in EDITS:
            return tool in EDITS or effect.kind == "write"
        if self.tool == "Read":
            return tool == "Read" or effect.kind == "read"
        return fnmatchcase(tool, self.tool)

    def anchored(self, directory: Path) -> "Rule":
        """Return rule with a relative path pattern made relative to `directory`, for rules that come with a project."""
        pattern = self.pattern.lstrip()
        if self.tool not in PATH_TOOLS or "/" not in pattern.rstrip("/ ") or pattern.startswith(("/", "~", "**")):
            return self
        return Rule(self.tool, f"{escape(str(directory))}/{pattern.removeprefix('./')}")

    def allows_command(self, words: "Sequence[Word]") -> bool:
        """Return True if a command has the rule's words as written: as a prefix for `:*`, else exactly. An option by
        which a reading program would write or run something must also be named: `git log --output`."""
        wanted, is_open = self._command()
        if len(words) < len(wanted) or (len(words) > len(wanted) and not is_open):
            return False
        from sagent.policy.harmless import acts

        named = all(
            _same(want, word) and want.is_home == word.is_home for want, word in zip(wanted, words, strict=False)
        )
        named = named and _assigned(wanted) == _assigned(words[: len(wanted)])
        return named and not acts(words, len(wanted))

    def denies_command(self, words: "Sequence[Word]") -> Match:
        """Match a command line: "yes" if the rule names it, with any further arguments, "maybe" if it might."""
        from sagent.policy.programs import names_program

        wanted = self._without_assignments()
        name = words[0].text.rpartition("/")[2] if words[0].kind == "literal" else ""
        if not (name and names_program(wanted[0].text, name)) and not _may_be(wanted[0], words[0]):
            return "no"
        rest, given = wanted[1:], words[1:]
        if len(given) >= len(rest) and all(_may_be(want, word) for want, word in zip(rest, given, strict=False)):
            return "yes"
        for word in given:
            if rest and (word.kind != "literal" or _may_be(rest[0], word)):
                rest = rest[1:]
        return "no" if rest else "maybe"

    def program(self) -> str:
        """Return the program that a Bash rule names."""
        return self._without_assignments()[0].text.rpartition("/")[2]

    def _without_assignments(self) -> "tuple[Word, ...]":
        """Return the command's own words without assignments; the last word always stays."""
        words, _ = self._command()
        while len(words) > 1 and words[0].is_assignment:
            words = words[1:]
        return words

    def _command(self) -> "tuple[tuple[Word, ...], bool]":
        from sagent.policy.shell import split

        text = self.pattern.removesuffix(":*").removesuffix(" *")
        words = split(text).parts[0].words
        return words, text != self.pattern or (words[-1].kind == "glob" and text.endswith("*"))

    def matches_path(self, path: str, roots: Sequence[str], home: str, *, anywhere: bool) -> bool:
        """Return True if an absolute path matches the pattern. Patterns without a slash name a file or directory at
        any depth: under the roots, or `anywhere` on the disk."""
        if not self.pattern:
            return anywhere or any(is_inside(path, root) for root in roots)
        if not anywhere and self._is_unsure(roots, home):
            return False
        regexes = self.documented.regexes(roots, home, anywhere=anywhere)
        return any(re.fullmatch(regex, path, re.DOTALL) for regex in regexes)

    def reaches_below(self, directory: str, roots: Sequence[str], home: str) -> bool:
        """Return True if a path below an absolute directory may be denied; True in doubt."""
        from sagent.policy.denial import fold

        for reading in self.readings:
            if reading.floats:
                return True
            for pattern in _absolute(reading.pattern, roots, home):
                literal, rest = _cut_literal(pattern)
                for place in (literal, os.path.realpath(literal)):
                    if is_inside(fold(place), fold(directory)) and os.path.lexists(place):
                        return True
                    if rest and is_inside(fold(directory), fold(place)):
                        return True
        return False

    def literal_places(self, roots: Sequence[str], home: str) -> Iterator[str]:
        """Yield the absolute paths before the pattern's first wildcard, which the rule names literally."""
        for pattern in _absolute(self.documented.pattern, roots, home):
            pieces = split_classes(pattern)
            wild = (at for at in range(len(pieces)) if unescape(pieces[at]) is None)
            at = next(wild, len(pieces))
            rest = re.split(r"[*?]", pieces[at], maxsplit=1)[0] if at < len(pieces) and at % 2 == 0 else ""
            yield ((unescape("".join(pieces[:at])) or "") + rest).rstrip("/")

    def named_places(self, roots: Sequence[str], home: str) -> Iterator[str]:
        """Yield the absolute paths that the rule names without a wildcard."""
        if "/" not in self.pattern:
            return
        for pattern in _absolute(self.pattern.removesuffix("/**"), roots, home):
            if (place := unescape(pattern)) is not None:
                yield place

    def _is_unsure(self, roots: Sequence[str], home: str) -> bool:
        """Return True if a class of letters has several readings, or a file or directory has that literal name."""
        if doubtful(self.pattern) != self.pattern:
            return True
        found = (_cut_literal(way) for pattern in _absolute(self.pattern, roots, home) for way in by_letter(pattern))
        return any(os.path.lexists(literal) for literal, _ in found)

    @property
    def floats(self) -> bool:
        """True if the pattern matches names at any depth."""
        return "/" not in self.pattern or self.pattern.startswith("**/")

    def regexes(self, roots: Sequence[str], home: str, *, anywhere: bool) -> Iterator[str]:
        """Regular expressions that together match every path the pattern covers; use `re.DOTALL`."""
        if self.floats:
            from sagent.lib.gaps import DIRECTORIES, join_tokens

            below = self.pattern.removeprefix("**/")
            name = _tokens(os.path.normpath(below) if below else below)
            for root in ("",) if anywhere else roots:
                yield join_tokens([re.escape(root.rstrip("/")), "/", DIRECTORIES, *name]) + "(?:/.*)?"
            return
        for pattern in _absolute(self.pattern, roots, home):
            yield _regex(pattern)
            yield _real_regex(pattern)
        if anywhere and ".." in self.pattern.split("/"):  # `..` after a link is the parent of its target
            yield from (_real_regex(f"{escape(root)}/{self.pattern}") for root in roots)


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules for calls allowed without asking, and for calls always denied."""

    allow: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()

    @classmethod
    def parse(cls, allow: Iterable[str] = (), deny: Iterable[str] = ()) -> "Rules":
        """Read both lists. Raises ConfigError."""
        return cls(tuple(map(Rule.parse, allow)), tuple(map(Rule.parse, deny)))


def rules_for(ask: "Ask") -> list[str]:
    """Return the rules that would allow this call another time, as the policy names them; none if they are too long for
    a person to read."""
    import shlex

    if len(ask.remedy) > MAX_REMEDY_CHARS:
        return []
    try:
        words = shlex.split(ask.remedy.removesuffix("."))
        rules = [following for word, following in pairwise(words) if word == "--allow"]
        "".join(rules).encode()  # file names that are not UTF-8 cannot be in a rule
        return rules if all(str(Rule.parse(rule)) == rule for rule in rules) else []
    except (ValueError, ConfigError):  # it cannot be parsed, or no rule can be written for it
        return []


def is_inside(path: str, root: str) -> bool:
    """Return True if an absolute path is a directory or below it; both already free of symlinks."""
    return path == root or path.startswith(root.rstrip("/") + "/")


def _same(want: "Word", word: "Word") -> bool:
    if want.kind == "glob":
        return word.kind == "literal" and fnmatchcase(word.text, want.text)
    return want.text == word.text and want.kind == word.kind


def _may_be(want: "Word", word: "Word") -> bool:
    """Return True if a word matches a deny rule's word, by wildcards or literally."""
    if _same(want, word):
        return True
    from unicodedata import normalize  # few rules need it

    return normalize("NFC", want.text) == normalize("NFC", word.text)


def _assigned(words: "Sequence[Word]") -> int:
    """Count the unquoted variable assignments before a command."""
    return sum(1 for _ in takewhile(lambda word: word.is_assignment, words))


def _checked_command(text: str, pattern: str) -> str:
    from sagent.policy.shell import split

    script = split(pattern.removesuffix(":*").removesuffix(" *"))
    if script.doubt or len(script.parts) != 1 or script.parts[0].redirects or not script.parts[0].words:
        why = f" ({script.doubt})" if script.doubt else ""
        raise ConfigError(
            f"{text!r} does not name one command{why}. Commands are judged part by part: give one rule for each part, "
            "as in Bash(npm test), Bash(git log:*)."
        )
    return pattern


def _no_pattern(tool: str) -> str:
    names = (*COMMAND_RULES, "Network", *PATH_TOOLS)
    return f"only {', '.join(names)} take patterns{nearest(tool, names) or f'. Write {tool} for every call.'}"


def _absolute(pattern: str, roots: Sequence[str], home: str) -> Iterator[str]:
    if pattern == "~" or pattern.startswith("~/"):
        yield os.path.normpath(escape(home) + pattern[1:])
    elif pattern.startswith("/"):
        yield os.path.normpath(f"/{pattern.lstrip('/')}")  # of two slashes normpath leaves both
    else:
        yield from (os.path.normpath(f"{escape(root)}/{pattern}") for root in roots)


def _cut_literal(pattern: str) -> tuple[str, str]:
    """Return the path of a pattern's directories before its first wildcard, and the rest of the pattern."""
    parts = pattern.split("/")
    count = next((at for at, part in enumerate(parts) if unescape(part) is None), len(parts))
    return unescape("/".join(parts[:count])) or "/", "/".join(parts[count:])


def _regex(pattern: str) -> str:
    """Return a glob as a regular expression that also matches paths below; `**` crosses slashes."""
    from sagent.lib.gaps import join_tokens

    return join_tokens(_tokens(pattern)) + "(?:/.*)?"


def _real_regex(pattern: str) -> str:
    """Return a regular expression for the resolved directories before a pattern's first wildcard."""
    literal, rest = _cut_literal(pattern)
    return re.escape(os.path.realpath(literal)).rstrip("/") + (_regex(f"/{rest}") if rest else "(?:/.*)?")


def _tokens(pattern: str) -> Sequence[str]:
    from sagent.lib.gaps import ANY, CLASS, DIRECTORIES, STAR, class_regex

    pattern = pattern.rstrip("/").removesuffix("/**") or "/**"
    known = {"**": (ANY,), "*": (STAR,), "?": ("[^/]",)}
    out: list[str] = []
    for piece in re.findall(rf"\*\*/|\*\*|{CLASS}|.", pattern, re.DOTALL):
        if piece == "**/":
            is_name = not out or out[-1] in ("/", DIRECTORIES)
            out += (DIRECTORIES,) if is_name else () if out[-1] == ANY else (ANY, "/")
        elif len(piece) > 1 and piece[0] == "[":
            out.append(class_regex(piece))
        else:
            out += known.get(piece) or map(re.escape, piece)
    return out
