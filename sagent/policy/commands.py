"""Judges command lines part by part: every part must be allowed, and no part denied."""

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from sagent.lib.git import foreign_settings
from sagent.lib.text import cut
from sagent.policy import Ask, Deny
from sagent.policy.harmless import acts, is_plain_repository, only_looks, takes_names
from sagent.policy.paths import Obstacle, PathJudge
from sagent.policy.places import env_files
from sagent.policy.programs import listed, spellings, table
from sagent.policy.rules import EDITS, PATH_TOOLS, Rule, is_inside
from sagent.policy.shell import SHELLS, Part, Redirect, Script, Word, program, split, unwrap
from sagent.policy.trees import leaves_files, searches, shows, starts_here
from sagent.policy.wrappers import (
    INTERPRETERS,
    WRAPPERS,
    bare_text,
    brings_code,
    is_fed,
    is_opaque,
    known_program,
    may_run,
    runs,
)

_ASSIGNABLE, _WRITERS, _RUNNERS = map(listed, ("assignable", "writers", "runners"))
_RUN_SCRIPTS = frozenset({"npm", "pnpm", "yarn", "cargo"})  # their `run` runs the project's own scripts
_CALLS_GIT = re.compile("|".join(table("lists")["calls_git"]))
_OBEYED, _OBEYED_NOT, _FOLLOW_FILES = table("obeyed"), table("obeyed_not"), listed("follow_files")
_OPEN_NOTHING = frozenset({"echo", "printf", "test", "[", "kill", "exit", "return", "export"})
# Commands after which the shell's directory, or the meaning of its words, is unknown.
_MOVERS = frozenset({"cd", "pushd", "popd", "eval", "source", ".", "exec", "shopt", "set", "export", "alias"})
_MAX_PLACES = 8  # a script that may be in more directories than this may be anywhere
_WILDCARD_LIMIT = 1000  # files, and characters
_MAX_ENTRIES = 20_000  # of directories that are looked through for them


class CommandJudge:
    def __init__(self, paths: PathJudge, command: str, obeyed: Sequence[str] = ()) -> None:
        self._paths, self._command, self._known_obeyed = paths, command, obeyed

    @cached_property
    def _script(self) -> Script:
        return split(self._command)

    @cached_property
    def obeyed(self) -> tuple[str, ...]:
        """Paths and reasons that may run a program outside of a sandbox, as the tool found them and as they are now."""
        return tuple(dict.fromkeys((*self._known_obeyed, *self.obeys(shared=False))))

    @cached_property
    def _place(self) -> "_Whereabouts":
        return _Whereabouts.during(self._script, self._paths)

    def denied(self, *, confined: bool = False) -> Deny | Ask | None:
        """Apply the deny rules, which hold in every mode. If they are uncertain, return a question; not about files if
        the command is `confined`, because the sandbox denies them."""
        if not any(rule.pattern for rule in self._paths.rules.deny):
            return None
        unproven: list[str] = []
        guarded = any(self._paths.path_rules(PATH_TOOLS))
        for part in self._script.parts if guarded else ():
            words = tuple(dict.fromkeys((*part.words, *(word for line, _ in runs(part) for word in line))))
            if denied := self._denied_path(part, words):
                return denied
            unproven += () if confined else self._unproven(part, words)
        if guarded and not confined and self._script.broken:
            unproven.append(f"The files that the command opens are uncertain: {self._script.doubt}.")
        rules = [rule for rule in self._paths.rules.deny if rule.tool == "Bash" and rule.pattern]
        doubts = list[str]()
        for part in self._script.parts if rules else ():
            if denied := _denied_program(part, rules):
                return denied
            doubts += [doubt for words, likely in runs(part) for doubt in _suspicions(words, rules, likely=likely)]
            doubts += [doubt for words in may_run(part) for doubt in _suspicions(words, rules, likely=False)]
        if rules and self._script.broken:
            doubts.append(f"The command cannot be read with certainty: {self._script.doubt}.")
        doubts += self._mentions(rules)
        if not doubts and not unproven:
            return None
        if self._paths.mode == "plan":
            return Deny((doubts or unproven)[0])
        if not doubts:
            return Ask(unproven[0], "Name the files, or a narrower directory. Grep leaves denied files out.")
        return Ask(doubts[0], "Write plain commands, each with its program's name, so that deny rules can be checked.")

    def _mentions(self, rules: Sequence[Rule]) -> Iterator[str]:
        """Yield denied programs that are named anywhere in a text that was not completely understood."""
        lines = (words for part in self._script.parts for words, _ in runs(part))
        if not self._script.doubt and not any(map(is_opaque, lines)):
            return
        text = bare_text(self._command)
        for rule in rules:
            if re.search(rf"(?<![\w.-]){spellings(rule.program())}(?![\w.-])", text):
                yield f"The command cannot be read with certainty, and names a program of the rule {rule}."

    def _denied_path(self, part: Part, words: Sequence[Word]) -> Deny | None:
        """Return the deny rule for a path that the command names literally, in its arguments and redirections."""
        writer = any(program(word) in _WRITERS for word in words)
        named = [(redirect.target, redirect.writes) for redirect in part.redirects]
        for word, writes in [*((word, writer) for word in words), *named]:
            tools = ("Read", *EDITS) if writes or word.text.startswith("-") else ("Read",)
            for path in self._named(word) or ():  # too many matches prove nothing here
                if rule := self._paths.denying(path, tools):
                    return Deny(f"The rule {rule} denies `{_shown(part.words)}`: it names {path}.")
        return None

    def _unproven(self, part: Part, words: Sequence[Word]) -> Iterator[str]:
        """Yield the reasons why a command may touch denied files: names known only when it runs, or a directory that
        contains some."""
        line, targets = unwrap(part.words), [redirect.target for redirect in part.redirects]
        if not line or part.is_read or line[0].text in _OPEN_NOTHING:
            words = ()
        looks = not words or only_looks(line)
        lists, unpacks = (any(takes_names(each, name) for each, _ in runs(part)) for name in ("file_lists", "unpacks"))
        changes = unpacks or any(each.writes for each in part.redirects) or not (looks or leaves_files(line))
        named = [self._named(word) for word in (*words, *targets) if word.kind != "dynamic"]
        written = chain.from_iterable(paths or () for paths in named) if changes and not looks else ()
        if denying := next(filter(None, (self._paths.denying(path, EDITS) for path in written)), None):
            yield f"`{_shown(part.words)}` may write what the rule {denying} denies."
        tools = ("Read", "Grep", *EDITS) if changes else ("Read", "Grep")
        rule = next(self._paths.path_rules(tools), None)
        if rule is None:
            return
        hides = lists or (unpacks and any(self._paths.path_rules(EDITS)))
        if hides or len(named) < len(words) + len(targets) or None in named:
            yield f"What `{_shown(part.words)}` opens is only known when it runs; {rule} may deny it."
        if looks and (not words or not searches(line)):
            return
        if any(brings_code(each) for each, _ in runs(part)):
            yield f"The code in `{_shown(part.words)}` may open any file when it runs; {rule} may deny it."
        if not self._place.certain:
            yield f"The directory in which `{_shown(part.words)}` would run is uncertain; {rule} may deny files there."
        here = self._place.known if any(starts_here(each) for each, _ in runs(part)) else ()
        for directory in filter(os.path.isdir, (*here, *(path for paths in named for path in paths or ()))):
            if denying := self._paths.denying_below(directory, tools):
                yield f"`{_shown(part.words)}` may go through what the rule {denying} denies."

    def obstacle(self) -> Obstacle | None:
        """Return the part of the command that no rule allows; of several, all of them, with a rule for each."""
        if self._script.doubt:
            return Obstacle(
                f"The command cannot be taken apart with certainty: {self._script.doubt}.",
                "Write it as plain commands, or run with --permission-mode full.",
            )
        found: dict[str, Obstacle] = {}
        for part in self._script.parts:
            opened = chain.from_iterable(map(self._redirect_obstacles, part.redirects))
            for each in filter(None, (*opened, self._part_obstacle(part))):
                found.setdefault(each.rule, each)
        if len(found) < 2 or "" in found:
            return found.get("") or next(iter(found.values()), None)
        first, others = next(iter(found.values())), len(found) - 1
        more = f"{others} more parts of the command need" if others > 1 else "Another part of the command needs"
        return Obstacle(f"{first.reason} {more} it too.", self._paths.remedy(*found))

    def _part_obstacle(self, part: Part) -> Obstacle | None:
        words = unwrap(part.words)
        assigned = [word for word in part.words[: len(part.words) - len(words)] if word.is_assignment]
        strange = next((word for word in assigned if not _is_assignable(word, alone=not words)), None)
        if self._rule_allows(part.words) or (strange is None and self._rule_allows(words)):
            return None
        if strange is not None:
            reason = f"Setting {strange.raw.partition('=')[0]} may change what programs do: `{_shown(part.words)}`."
            return self._lifted(reason, _exactly(part.words))
        if not words or part.is_read or (words[0].raw == "cd" and self._place.stays_inside(words, self._paths)):
            return None
        if only_looks(words) and not self._script.computes_input:
            return self._look_obstacle(words)
        return self._hinder(f"Running `{_shown(part.words)}` needs permission.", words)

    def _hinder(self, reason: str, words: tuple[Word, ...]) -> Obstacle:
        """Return the obstacle that a command is."""
        return self._lifted(reason, _suggested(words))

    def _lifted(self, reason: str, rule: str) -> Obstacle:
        """Return an obstacle with the rule that lifts it; "" if none does, or if the command's input could differ from
        the one shown to a person."""
        rule = "" if self._script.has_input and not rule.endswith(":*)") else rule
        return self._paths.obstacle(reason, rule) if rule else Obstacle(reason, "Allowed with --permission-mode full.")

    def unsandboxed_rules(self) -> list[str]:
        """Return the rules that let it run outside the sandbox, one for each part; none if its effect may vary."""
        commands = self._certain()
        certain = all(map(_exactly, commands)) and not self.obeyed
        return [f"Unsandboxed({_raw(words)})" for words in commands] if certain else []

    def is_unsandboxed(self) -> bool:
        """Return True if rules let every part of it run outside the sandbox."""
        rules = [rule for rule in self._paths.rules.allow if rule.tool == "Unsandboxed"]
        if any(not rule.pattern for rule in rules):
            return True
        commands = self._certain()
        covered = bool(commands) and all(any(rule.allows_command(command) for rule in rules) for command in commands)
        return covered and not self.obeyed

    def obeys(self, *, shared: bool) -> tuple[str, ...]:
        """Return what may make the commands run a program if they call git or its like, whose configuration lies with
        the files; the hooks of the person's own repository do not count. `shared`: what still runs may change it."""
        from sagent.sandbox.obeyed import obeyed_from  # few commands leave the sandbox

        found: list[str] = []
        for words, name, kept in self._obeying():
            calls_git = _CALLS_GIT.fullmatch(name) is not None
            if shared:
                found.append(f"commands that still run here may change what {name} obeys")
            named = [*_directories(words), *(word for word in words[1:] if kept and not word.text.startswith("-"))]
            if not self._place.certain or any(word.kind != "literal" for word in named):
                found.append(f"where `{_shown(words)}` would run is not certain")
            home = self._paths.places.home
            places = (place for word in named for place in self._place.below(_expanded(word, home)))
            for place in dict.fromkeys((*self._place.known, *places)):
                found += foreign_settings(place, self._paths.roots) if calls_git else ()
                found += obeyed_from(place, kept)
        return tuple(dict.fromkeys(found))

    @property
    def may_obey(self) -> bool:
        """True if any of the commands is git or its like. No file is read."""
        return any(True for _ in self._obeying())

    def _obeying(self) -> Iterator[tuple[tuple[Word, ...], str, tuple[str, ...]]]:
        """Yield the commands that are git or its like: their words, their program, and the files that it obeys."""
        for words in (line for part in self._script.parts for line, _ in runs(part)):
            name = known_program(words[0])
            kept = _OBEYED.get(name, ())
            spared = words[1:] and words[1].text in _OBEYED_NOT.get(name, ())
            if (kept or _CALLS_GIT.fullmatch(name)) and not spared:
                yield words, name, kept

    def remover(self, tree: str) -> str:
        """Return the program that removes a linked work tree, named for `git worktree remove`, or for `rm -r` with or
        without directories around it; "" if none does."""
        for words in (line for part in self._script.parts for line, likely in runs(part) if likely):
            name, texts = known_program(words[0]), [word.text for word in words]
            if name == "git" and {"worktree", "remove"} <= {*texts}:  # it takes the end of a path for its name
                if any(tree.endswith(f"/{os.path.normpath(text).rpartition('/')[2]}") for text in texts):
                    return name
            elif name == "rm" and any(re.match(r"-[^-]*[rR]|--r", text) for text in texts):
                for word in (word for word in words[1:] if not word.text.startswith("-")):
                    there = [path for path in self._named(word) or () if os.path.lexists(path)]
                    latest = there if word.kind == "glob" else there[-1:]  # where the last `cd` leads
                    if any(is_inside(tree, os.path.realpath(path)) for path in latest):
                        return name
        return ""

    def followers(self) -> list[str]:
        """Return the programs of the commands that do what files of the workspace say."""
        names = (known_program(line[0]) for part in self._script.parts for line, likely in runs(part) if likely)
        return [name for name in dict.fromkeys(names) if name in _FOLLOW_FILES]

    def _certain(self) -> list[tuple[Word, ...]]:
        """Return the script's commands; none if it may run others, open files itself, or bring input."""
        script = self._script
        if script.doubt or script.has_input or any(part.redirects or part.is_read for part in script.parts):
            return []
        return [part.words for part in self._script.parts if part.words]

    def _rule_allows(self, words: tuple[Word, ...]) -> bool:
        if not words or self._paths.mode == "plan":
            return False
        return any(
            rule.allows_command(words) for rule in self._paths.rules.allow if rule.tool == "Bash" and rule.pattern
        )

    def _redirect_obstacles(self, redirect: Redirect) -> Iterator[Obstacle]:
        target = redirect.target
        if target.kind == "literal" and re.fullmatch(r"/dev/(null|stdout|stderr|fd/[0-9]+)", target.text):
            return
        paths = self._place.resolve(target, self._paths.places.home)
        if not paths:
            unknown = f"Which file a redirection to {target.raw} opens is only known when it runs."
            yield Obstacle(unknown, "Name the file.")
        elif target.text.startswith("/dev/"):
            yield Obstacle(f"Opening {target.text} needs permission.", "Allowed with --permission-mode full.")
        else:
            hinder = self._paths.write_obstacle if redirect.writes else self._paths.read_obstacle
            for path, found in zip(paths, map(hinder, paths), strict=True):
                if found is not None:  # a rule for a file does not cover everything below a directory
                    yield self._lifted(found.reason, "") if os.path.isdir(path) else found  # noqa: PTH112 -- a text path

    def _look_obstacle(self, words: tuple[Word, ...]) -> Obstacle | None:
        """Return a command that only reads is free, except for keys, and for git in a planted repository."""
        shown, known = f"`{_shown(words)}`", self._place.known
        if not self._place.certain:
            return self._hinder(f"Where {shown} would run is not certain.", words)
        if words[0].text == "git" and not all(map(is_plain_repository, known)):
            reason = f"{shown} would run in a bare repository, whose configuration may run programs."
            return self._hinder(reason, words)
        looked = [*known] if starts_here(words) else []
        for word in words[1:]:
            named = self._named(word)
            if named is None:
                return self._hinder(f"{shown} names too many files to be judged.", words)
            looked += named
        places = self._paths.places
        secret = next(filter(places.holds_secrets if searches(words) else places.is_secret, looked), None)
        if secret is None and searches(words):
            found = (file for place in filter(os.path.isdir, looked) for file in env_files(place))
            secret = next((file for file in found if shows(file.rpartition("/")[2], words)), None)
        if secret is None:
            return None
        return self._hinder(f"{shown} would look at {secret}, which may hold {places.what_lies_at(secret)}.", words)

    def _named(self, word: Word) -> list[str] | None:
        """Return absolute paths that an argument may name, or the value inside an option; None if they are too many."""
        home = self._paths.places.home
        inner = [_expanded(word, home), *word.text.split("=", 1)[1:]]
        if word.text.startswith("-"):
            inner += [word.text[2:], word.text[word.text.find("/") :] if "/" in word.text else ""]
        inner += [text for _, colon, text in [word.text.rpartition(":")] if colon]  # a file of a commit, or of a host
        inner += [text.lstrip("@<") for text in inner if text[:1] in "@<"]  # `-d @FILE`, `-F x=<FILE`
        inner += [home + text[1:] for text in inner[1:] if text.startswith("~/")]
        paths = [path for text in filter(None, inner) for path in self._place.below(text)]
        return _matches(paths) if word.kind == "glob" else paths


class _Whereabouts(NamedTuple):
    """The directories that a script may be in: every one that it may change to, because a `cd` may fail or be in a
    subshell. If the list is not `certain`, the script may be anywhere else as well."""

    known: tuple[str, ...]
    certain: bool = True

    @classmethod
    def during(cls, script: Script, paths: PathJudge) -> "_Whereabouts":
        place = cls((paths.cwd,))
        for part in script.parts:
            words = unwrap(part.words)
            if not words or words[0].text not in _MOVERS:
                continue
            targets = place.targets(words, paths.places.home)
            known = tuple(dict.fromkeys((*place.known, *targets)))
            certain = place.certain and bool(targets) and not script.loops and len(known) <= _MAX_PLACES
            place = cls(known[:_MAX_PLACES], certain)
        return place

    def stays_inside(self, words: tuple[Word, ...], paths: PathJudge) -> bool:
        """Return True if a `cd` certainly leads into the roots."""
        targets = self.targets(words, paths.places.home)
        inside = paths.in_roots  # the shell uses names as spelled, programs resolve links
        return bool(targets) and all(inside(target) and inside(os.path.normpath(target)) for target in targets)

    def targets(self, words: tuple[Word, ...], home: str) -> tuple[str, ...]:
        if len(words) != 2 or words[0].text not in ("cd", "pushd") or words[1].text.startswith(("-", "+")):
            return ()
        return self.resolve(words[1], home)

    def resolve(self, word: Word, home: str) -> tuple[str, ...]:
        """Return the absolute paths that a word may mean; none if that is unknown."""
        text = _expanded(word, home)
        return self.below(text) if word.kind == "literal" and (self.certain or text.startswith("/")) else ()

    def below(self, text: str) -> tuple[str, ...]:
        if match := re.fullmatch(r"/+proc/[^/]+/(?:task/[^/]+/)?(cwd|root)(/.*|)", text, re.DOTALL):
            return tuple(f"{place}{match[2]}" for place in self.known) if match[1] == "cwd" else (match[2] or "/",)
        return (text,) if text.startswith("/") else tuple(f"{place}/{text}" for place in self.known)


def _directories(words: tuple[Word, ...]) -> Iterator[Word]:
    """Yield the directories that options of git, or a program like it, name, each from the last `-C` before it."""
    start = ""
    for word, value in zip(words, (*words[1:], words[-1]), strict=True):
        name, equals, inner = word.text.partition("=")
        if name in ("-C", "--cwd", "--git-dir", "--work-tree", "-R", "--repository", "-d", "--directory"):
            place = os.path.join(start, inner if equals else value.text)  # noqa: PTH118 -- a text path
            start = place if name in ("-C", "--cwd") else start
            yield (word if equals else value)._replace(text=place, raw=place)


def _denied_program(part: Part, rules: Sequence[Rule]) -> Deny | None:
    for words, likely in runs(part):
        if likely and (rule := next((rule for rule in rules if rule.denies_command(words) == "yes"), None)):
            return Deny(f"The rule {rule} denies `{_shown(words)}`.")
    return None


def _suspicions(words: tuple[Word, ...], rules: Sequence[Rule], *, likely: bool) -> Iterator[str]:
    for rule in rules:
        if rule.denies_command(words) != "no":
            yield f"`{_shown(words)}` may be what the rule {rule} denies."
    if likely and words[0].kind != "literal":
        yield f"Which program `{_shown(words)}` runs is only known when it runs."


def _matches(patterns: Sequence[str]) -> list[str] | None:
    """Return the files that match wildcards now, as the shell finds them; None if there are too many of them."""
    from fnmatch import translate

    found, left = list[str](), _MAX_ENTRIES
    for pattern in patterns:
        if len(pattern) > _WILDCARD_LIMIT:
            return None
        places = [""]
        # Brackets mean more to bash ([^a], [[:lower:]]) than to Python: any possible match counts.
        for part in re.sub(r"\[[!^]?\]?(?:\[[:.=][^\]]*\]|[^\]/])*\]", "*", pattern).strip("/").split("/"):
            if not re.search(r"[*?]", part):
                places = [f"{place}/{part}" for place in places]
                continue
            fits, above, places = re.compile(translate(part)).match, places, list[str]()
            for place in above:
                with contextlib.suppress(OSError):
                    names = os.listdir(place or "/")  # noqa: PTH208 -- as the shell does it
                    left -= 1 + len(names)
                    places += [f"{place}/{name}" for name in names if fits(name) and (name[0] != "." or part[0] == ".")]
                if left < 0:
                    return None
        found += filter(os.path.lexists, places)
    return found if len(found) <= _WILDCARD_LIMIT else None


def _expanded(word: Word, home: str) -> str:
    """Return a word's text with the tilde replaced by the home directory; a quoted tilde stays."""
    return home + word.text[1:] if word.is_home else word.text


def _is_assignable(word: Word, *, alone: bool) -> bool:
    """Return True if setting a variable does not affect programs: a few known ones, and, if no command inherits it,
    lower-case names that are not in the environment."""
    name = word.raw.partition("=")[0].removesuffix("+")
    return name in _ASSIGNABLE or (alone and name.islower() and name not in os.environ and name != "histchars")


def _suggested(words: tuple[Word, ...]) -> str:
    """Return the rule that a person most likely wants: program and subcommand, or, if risky, this exact command."""
    first, name = words[0].text, known_program(words[0])
    if name in INTERPRETERS or name in SHELLS or name in WRAPPERS or name in _WRITERS:
        return _exactly(words)
    named = all(word.kind == "literal" and word.raw == word.text for word in words[:2])
    second = words[1].text if len(words) > 1 and named else ""
    anything = second in _RUNNERS or (second == "run" and name not in _RUN_SCRIPTS)
    if anything and any(is_fed(Part(words[at:])) for at in range(2, len(words))):
        return ""
    if anything or acts(words, 2):
        return _exactly(words)
    return f"Bash({first} {second}:*)" if re.fullmatch(r"[a-z][a-z0-9:_-]*", second) else _exactly(words)


def _exactly(words: tuple[Word, ...]) -> str:
    """Return the rule for exactly this command; "" if a computed word or its input could make it do something else
    another time."""
    literal = all(word.kind == "literal" for word in words)
    return f"Bash({_raw(words)})" if literal and not is_fed(Part(words)) else ""


def _raw(words: Sequence[Word]) -> str:
    return " ".join(word.raw for word in words)


def _shown(words: Sequence[Word]) -> str:
    return cut(_raw(words), 200)
