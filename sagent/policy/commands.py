"""The judgement of command lines, part by part: every part must be allowed, and no part denied."""

import os
import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from sagent.policy import Ask, Deny
from sagent.policy.harmless import SEARCHES, is_plain_repository, only_looks
from sagent.policy.paths import Obstacle, PathJudge
from sagent.policy.places import env_files
from sagent.policy.rules import EDITS, Rule
from sagent.policy.shell import SHELLS, Part, Redirect, Script, Word, program, split, unwrap
from sagent.policy.trees import Trees, changed_trees, is_asked_for, trees
from sagent.policy.wrappers import INTERPRETERS, WRAPPERS, bare_text, is_opaque, runs

# Variables that change how much a program says, and not what it does.
_ASSIGNABLE = frozenset(
    {"CI", "NODE_ENV", "NO_COLOR", "FORCE_COLOR", "LANG", "LC_ALL", "COLUMNS", "LINES", "TERM", "DEBIAN_FRONTEND"}
    | {"RUST_LOG", "RUST_BACKTRACE", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"}
)
# Programs whose arguments are files that they change.
_WRITERS = frozenset(
    {"rm", "mv", "cp", "tee", "touch", "truncate", "install", "ln", "dd", "sed", "chmod", "chown", "chgrp", "mkdir"}
    | {"rmdir", "rsync", "shred", "unlink", "patch", "perl", "tar", "unzip", "wget", "curl", "sort", "scp", "setfacl"}
)
# Commands after which it is not known where the shell is, or what its words mean.
_MOVERS = frozenset({"cd", "pushd", "popd", "eval", "source", ".", "exec", "shopt", "set", "export", "alias"})
_PLACES = 8  # a script that may be in more directories than this may be anywhere
_WILDCARD_LIMIT = 1000  # files


class CommandJudge:
    def __init__(self, paths: PathJudge, command: str) -> None:
        self._paths = paths
        self._command = command

    @cached_property
    def _script(self) -> Script:
        return split(self._command)

    @cached_property
    def _parts(self) -> tuple[Part, ...]:
        return tuple(self._script.walk())

    def denied(self, *, confined: bool = False) -> Deny | Ask | None:
        """What the deny rules say, in every mode. Where they cannot be sure it is a question, but for files where the
        command is `confined`: then they are out of its reach."""
        if not any(rule.pattern for rule in self._paths.rules.deny):
            return None
        places = _Directories(self._paths, loops=False)
        below: list[str] = []
        for part in self._parts:
            if denied := self._denied_path(part, places.known or (self._paths.cwd,)):
                return denied
            moved = part.looped and len(places.known or ()) > 1  # each time round it may be elsewhere
            if not confined:
                below += self._denied_trees(part, None if moved else places.known)
            places.follow(unwrap(part.words))
        doubts: list[str] = []
        rules = [rule for rule in self._paths.rules.deny if rule.tool == "Bash" and rule.pattern]
        for part in self._parts if rules else ():
            for words, sure in runs(part):
                if sure and (rule := next((rule for rule in rules if rule.denies_command(words) == "yes"), None)):
                    return Deny(f"The rule {rule} denies `{_shown(words)}`.")
                doubts += _suspicions(words, rules, sure=sure)
        if rules and self._script.broken:
            doubts.append(f"The command cannot be read with certainty: {self._script.doubt}.")
        doubts += self._mentions(rules)
        if not doubts and not below:
            return None
        if self._paths.mode == "plan":
            return Deny((doubts or below)[0])
        if not doubts:
            return Ask(below[0], "Name a narrower directory, or use Grep, which leaves denied files out.")
        return Ask(doubts[0], "Write plain commands, each with its program's name, so that deny rules can be checked.")

    def _mentions(self, rules: Sequence[Rule]) -> Iterator[str]:
        """Denied programs that are named anywhere in a text of which not everything was understood."""
        if not self._script.doubt and not any(is_opaque(words) for part in self._parts for words, _ in runs(part)):
            return
        text = bare_text(self._command)
        for rule in rules:
            name = re.escape(rule.program()).replace(r"\*", r"[^\s/]*").replace(r"\?", r"[^\s/]")
            if re.search(rf"(?<![\w.-]){name}(?![\w.-])", text):
                yield f"The command cannot be read with certainty, and names a program of the rule {rule}."

    def _denied_path(self, part: Part, directories: Sequence[str]) -> Deny | None:
        """Path rules hold for what a command names in so many words: its arguments and redirections."""
        if not any(rule.pattern and rule.tool != "Bash" for rule in self._paths.rules.deny):
            return None
        writer = any(program(word) in _WRITERS for word in part.words)
        named = [(redirect.target, redirect.writes) for redirect in part.redirects]
        for word, writes in [*((word, writer) for word in part.words), *named]:
            tools = ("Read", *EDITS) if writes or word.text.startswith("-") else ("Read",)
            spelled = list(self._spellings(word, directories))
            if word.kind == "glob":
                spelled += _matches(spelled) or ()  # where they are too many, what it may name is asked about
            for path in spelled:
                if rule := self._paths.denying(path, tools):
                    return Deny(f"The rule {rule} denies `{_shown(part.words)}`: it names {word.raw}.")
        return None

    def _denied_trees(self, part: Part, known: Sequence[str] | None) -> Iterator[str]:
        """Commands that read or change whole directories, in which a path rule may deny something."""
        kinds = ((("Read", "Grep"), trees, "read"), (EDITS, changed_trees, "change"))
        for tools, below, does in kinds:
            rule = next((rule for rule in self._paths.rules.deny if rule.pattern and rule.tool in tools), None)
            found = ((words, below(words)) for words, _ in runs(part)) if rule is not None else ()
            for words, places in found:
                if places is None:
                    continue
                directories = self._directories(places, known)
                if directories is None:
                    yield f"What `{_shown(words)}` would {does} is only known when it runs; {rule} may deny some of it."
                for directory in directories or ():
                    if denying := self._paths.denying_below(directory, tools):
                        yield f"`{_shown(words)}` may {does} what the rule {denying} denies."

    def _directories(self, found: Trees, known: Sequence[str] | None) -> list[str] | None:
        """The directories that are read to their depths, or None where that is not certain."""
        if any(word.kind == "dynamic" for word in found.places):
            return None
        if known is None:
            if found.here or any(not word.text.startswith(("/", "~/")) for word in found.places):
                return None
            known = ()
        directories = list(known) if found.here else []
        for word in found.places:
            text = _expanded(word, self._paths.places.home)
            if word.kind == "glob":  # whatever it names is below the directory before the first wildcard
                text = re.split(r"[*?\[]", text, maxsplit=1)[0]
                text = text[: text.rfind("/") + 1] or "."
            directories += [text] if text.startswith("/") else [f"{place}/{text}" for place in known]
        return [directory for directory in directories if os.path.isdir(directory)]  # noqa: PTH112 -- paths are texts here

    def obstacle(self) -> Obstacle | None:
        """The first thing in the command that is not allowed."""
        if self._script.doubt:
            return Obstacle(
                f"The command cannot be taken apart with certainty: {self._script.doubt}.",
                "Write it as plain commands, or run with --permission-mode full.",
            )
        places = _Directories(self._paths, loops=any(part.looped for part in self._parts))
        return next(filter(None, (self._part_obstacle(part, places) for part in self._parts)), None)

    def _part_obstacle(self, part: Part, places: "_Directories") -> Obstacle | None:
        if obstacle := next(filter(None, (self._redirect_obstacle(each, places) for each in part.redirects)), None):
            return obstacle
        words = unwrap(part.words)
        assigned = [word for word in part.words[: len(part.words) - len(words)] if word.is_assignment]
        strange = next((word for word in assigned if not _is_assignable(word, alone=not words)), None)
        if self._rule_allows(part.words) or (strange is None and self._rule_allows(words)):
            places.follow(words)
            return None
        if strange is not None:
            return Obstacle(
                f"Setting {strange.raw.partition('=')[0]} may change what programs do: `{_shown(part.words)}`.",
                self._paths.remedy(f"Bash({_raw(part.words)})"),
            )
        if not words or part.script is not None:  # the parts of that script are judged by themselves
            return None
        if words[0].raw == "cd" and places.enter(words):
            return None
        if only_looks(words) and not self._script.computes_input:
            return self._look_obstacle(words, places)
        return Obstacle(f"Running `{_shown(part.words)}` needs permission.", self._remedy(words))

    def _remedy(self, words: tuple[Word, ...]) -> str:
        """What allows a command. No rule is named that would be read as one for more than this."""
        rule = _suggested(words)
        if any(word.kind == "glob" for word in words) and not rule.endswith(":*)"):
            return "Allowed with --permission-mode full."
        return self._paths.remedy(rule)

    def unsandboxed_rules(self) -> list[str]:
        """The rules that let it run outside of a sandbox, one for each part; none where what it does is not certain,
        and none for a word that another time stands for something else."""
        commands = self._certain()
        literal = all(word.kind == "literal" for words in commands for word in words)
        return [f"Unsandboxed({_raw(words)})" for words in commands] if literal else []

    def is_unsandboxed(self) -> bool:
        """Whether rules let each part of it run outside of a sandbox."""
        rules = [rule for rule in self._paths.rules.allow if rule.tool == "Unsandboxed"]
        if any(not rule.pattern for rule in rules):
            return True
        commands = self._certain()
        return bool(commands) and all(any(rule.allows_command(each) for rule in rules) for each in commands)

    def _certain(self) -> list[tuple[Word, ...]]:
        """Its commands; none where there may be others, or files that it opens besides."""
        if self._script.doubt or any(part.redirects or part.script for part in self._parts):
            return []
        return [part.words for part in self._parts if part.words]

    def _rule_allows(self, words: tuple[Word, ...]) -> bool:
        if not words or self._paths.mode == "plan":
            return False
        return any(
            rule.allows_command(words) for rule in self._paths.rules.allow if rule.tool == "Bash" and rule.pattern
        )

    def _redirect_obstacle(self, redirect: Redirect, places: "_Directories") -> Obstacle | None:
        target = redirect.target
        if target.kind == "literal" and re.fullmatch(r"/dev/(null|stdout|stderr|fd/[0-9]+)", target.text):
            return None
        paths = places.resolve(target)
        if paths is None:
            unknown = f"Which file a redirection to {target.raw} opens is only known when it runs."
            return Obstacle(unknown, "Name the file.")
        if target.text.startswith("/dev/"):
            return Obstacle(f"Opening {target.text} needs permission.", "Allowed with --permission-mode full.")
        hinder = self._paths.write_obstacle if redirect.writes else self._paths.read_obstacle
        return next(filter(None, map(hinder, paths)), None)

    def _look_obstacle(self, words: tuple[Word, ...], places: "_Directories") -> Obstacle | None:
        """A command that only looks is free, but not at keys, and not as git in a planted repository."""
        shown, remedy = f"`{_shown(words)}`", self._remedy(words)
        if places.known is None:
            return Obstacle(f"Where {shown} would run is not certain.", remedy)
        if words[0].text == "git" and not all(map(is_plain_repository, places.known)):
            return Obstacle(f"{shown} would run in a bare repository, whose configuration may run programs.", remedy)
        tree = trees(words)
        searches = tree is not None or words[0].text in SEARCHES
        looked = [*places.known] if searches else []
        for word in words[1:]:
            spelled = list(self._spellings(word, places.known))
            if word.kind == "glob":
                spelled = _matches(spelled)
                if spelled is None:
                    return Obstacle(f"{shown} names too many files to be judged.", remedy)
            looked += spelled
        is_bad = self._paths.places.holds_secrets if searches else self._paths.places.is_secret
        secret = next((path for path in looked if is_bad(path)), None)
        if secret is None and tree is not None and tree.hidden:
            found = (file for place in self._directories(tree, places.known) or () for file in env_files(place))
            secret = next((file for file in found if is_asked_for(file.rpartition("/")[2], words)), None)
        if secret is None:
            return None
        return Obstacle(f"{shown} would look at {secret}, which may hold keys or passwords.", remedy)

    def _spellings(self, word: Word, directories: Sequence[str]) -> Iterator[str]:
        """The absolute paths that an argument may name: itself, or the value inside an option."""
        inner = [_expanded(word, self._paths.places.home), *word.text.split("=", 1)[1:]]
        if word.text.startswith("-"):
            inner += [word.text[2:], word.text[word.text.find("/") :] if "/" in word.text else ""]
        inner += [text for _, colon, text in [word.text.rpartition(":")] if colon]  # a file of a commit, or of a host
        inner += [self._paths.places.home + text[1:] for text in inner[1:] if text.startswith("~/")]
        for text in filter(None, inner):
            yield from (text if text.startswith("/") else f"{place}/{text}" for place in directories)


class _Directories:
    """Where a script may be while it runs: every place it may have gone to, for a `cd` may fail or be in a subshell.

    `known` is None when it may be anywhere.
    """

    def __init__(self, paths: PathJudge, *, loops: bool) -> None:
        self._paths = paths
        self._loops = loops
        self.known: tuple[str, ...] | None = (paths.cwd,)

    def enter(self, words: tuple[Word, ...]) -> bool:
        """`cd`: whether it certainly stays inside the roots."""
        targets = self._targets(words)
        inside = self._paths.in_roots  # the shell goes by the names, and programs by where they really lead
        if not targets or not all(inside(target) and inside(os.path.normpath(target)) for target in targets):
            return False
        self._add(targets)
        return True

    def follow(self, words: tuple[Word, ...]) -> None:
        if targets := self._targets(words):
            self._add(targets)
        elif words and words[0].text in _MOVERS:
            self.known = None

    def resolve(self, word: Word) -> tuple[str, ...] | None:
        """The absolute paths that a word may mean, or None where that is not known."""
        if word.kind != "literal":
            return None
        text = _expanded(word, self._paths.places.home)
        if text.startswith("/"):
            return (text,)
        return None if self.known is None else tuple(f"{place}/{text}" for place in self.known)

    def _targets(self, words: tuple[Word, ...]) -> tuple[str, ...]:
        if len(words) != 2 or words[0].text != "cd" or words[1].text.startswith("-"):
            return ()
        return self.resolve(words[1]) or ()

    def _add(self, places: Sequence[str]) -> None:
        joined = tuple(dict.fromkeys((*(self.known or ()), *places)))
        self.known = None if self._loops or len(joined) > _PLACES else joined


def _suspicions(words: tuple[Word, ...], rules: Sequence[Rule], *, sure: bool) -> Iterator[str]:
    for rule in rules:
        if rule.denies_command(words) != "no":
            yield f"`{_shown(words)}` may be what the rule {rule} denies."
    if sure and words[0].kind != "literal":
        yield f"Which program `{_shown(words)}` runs is only known when it runs."


def _matches(patterns: list[str]) -> list[str] | None:
    """The files that wildcards name now, or None when they are too many to look at."""
    from glob import iglob
    from itertools import islice

    # Brackets mean more to bash ([^a], [[:lower:]]) than to Python: whatever they may stand for counts.
    wider = [re.sub(r"\[[!^]?\]?(?:\[[:.=][^\]]*\]|[^\]/])*\]", "*", pattern) for pattern in patterns]
    found = [path for pattern in wider for path in islice(iglob(pattern), _WILDCARD_LIMIT + 1)]  # noqa: PTH207 -- as the shell does it
    return found if len(found) <= _WILDCARD_LIMIT else None


def _expanded(word: Word, home: str) -> str:
    """A word's text with the home in the place of a tilde; a quoted tilde is a name like any other."""
    return home + word.text[1:] if word.raw == "~" or word.raw.startswith("~/") else word.text


def _is_assignable(word: Word, *, alone: bool) -> bool:
    """Whether setting a variable leaves programs what they are: a few that are well known, and where no command gets it
    lower-case names that are not in the environment."""
    name = word.raw.partition("=")[0].removesuffix("+")
    return name in _ASSIGNABLE or (alone and name.islower() and name not in os.environ and name != "histchars")


def _suggested(words: tuple[Word, ...]) -> str:
    """The rule a person would most likely want: program and subcommand, or exactly this command where that is risky."""
    first = words[0].text
    if first in INTERPRETERS or first in SHELLS or first in WRAPPERS or first in _WRITERS:
        return f"Bash({_raw(words)})"
    second = words[1].text if len(words) > 1 and words[1].kind == "literal" else ""
    return f"Bash({first} {second}:*)" if re.fullmatch(r"[a-z][a-z0-9:_-]*", second) else f"Bash({_raw(words)})"


def _raw(words: Sequence[Word]) -> str:
    return " ".join(word.raw for word in words)


def _shown(words: Sequence[Word]) -> str:
    text = _raw(words)
    return text if len(text) <= 200 else text[:199] + "…"
