"""Judges paths: by their real targets, the files there, the mode and the rules."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import product
from typing import NamedTuple, TypeAlias

from sagent.lib.names import quote_path
from sagent.policy.places import Places, env_files, spellings
from sagent.policy.rules import EDITS, PATH_TOOLS, Rule, Rules, escape, is_inside
from sagent.tool import Workspace

Mode: TypeAlias = str
"""One of MODES, or a plugin's: a policy around this one then answers some of the questions that mode ask asks."""
MODES: tuple[Mode, ...] = ("plan", "ask", "edit", "full")  # from the strictest to the freest


class Obstacle(NamedTuple):
    """A reason why a request is not simply allowed; `rule` would allow it, "" if none does. `wants` are requests beyond
    a sandbox."""

    reason: str
    remedy: str = ""
    wants: tuple[str, ...] = ()
    rule: str = ""


class PathJudge:
    def __init__(self, mode: Mode, rules: Rules, places: Places, workspace: Workspace) -> None:
        self.mode: Mode = mode if mode in MODES else "ask"
        self.rules = rules
        self.places = places
        self.cwd = str(workspace.cwd)
        self._spelled_roots = workspace.roots
        self._temporary = tuple(map(os.path.realpath, workspace.temporary.values()))
        self._denied: dict[tuple[Rule, ...], Callable[[str], bool]] = {}

    @cached_property
    def roots(self) -> tuple[str, ...]:
        """The roots, with symlinks resolved."""
        return tuple(os.path.realpath(root) for root in self._spelled_roots)

    def in_roots(self, path: str) -> bool:
        """Return True if a path really leads into one of the roots, or to the temporary files of commands."""
        real = os.path.realpath(path)
        return any(is_inside(real, root) for root in (*self.roots, *self._temporary))

    def denying(self, path: str, tools: Sequence[str]) -> Rule | None:
        """Return the deny rule for any of these tools that matches a path, as spelled or resolved."""
        pairs = product(self.path_rules(tools), spellings(path))
        return next((rule for rule, place in pairs if self.denied_by(rule)(place)), None)

    def denied_by(self, *rules: Rule) -> Callable[[str], bool]:
        """Return True if one of some rules denies an absolute path, in any of its readings."""
        if rules not in self._denied:
            from sagent.policy.denial import Denial

            roots, home = self._all_roots, self.places.home
            each = (reading for rule in rules for reading in rule.readings)
            regexes = (regex for rule in each for regex in rule.regexes(roots, home, anywhere=True))
            self._denied[rules] = Denial(regexes).covers
        return self._denied[rules]

    def denying_below(self, directory: str, tools: Sequence[str]) -> Rule | None:
        """Return the deny rule for any of these tools that may match a directory or a path below it."""
        pairs = product(self.path_rules(tools), spellings(directory))
        roots, home = self._all_roots, self.places.home
        found = next((rule for rule, place in pairs if rule.reaches_below(place, roots, home)), None)
        return found or self.denying(directory, tools)

    def path_rules(self, tools: Sequence[str]) -> Iterator[Rule]:
        """Return the deny rules about paths for any of these tools."""
        return (rule for rule in self.rules.deny if rule.pattern and rule.tool in tools and rule.tool in PATH_TOOLS)

    @cached_property
    def _all_roots(self) -> tuple[str, ...]:
        """The roots as spelled, and resolved."""
        return tuple(dict.fromkeys((*map(os.path.normpath, self._spelled_roots), *self.roots)))

    def hides(self, directory: str, tool: str) -> Callable[[str], bool]:
        """Return a predicate for the files below a directory, by relative path, that a search must not show. Symlinks
        are not followed. The directory itself was judged before: if it holds keys, reading them was allowed."""
        tools = ("Read", tool)
        starts = tuple(dict.fromkeys(spellings(directory)))
        denied = self.denied_by(*self.path_rules(tools))
        judged = self.mode == "full" or self.places.is_secret(directory)
        keys = [] if judged else [self.places.keys_below(start) for start in starts]

        def hides(relative: str) -> bool:
            paths = [f"{start.rstrip('/')}/{relative}" for start in starts]
            if any(map(denied, paths)):
                return True
            if not any(has_keys(path) for has_keys, path in zip(keys, paths, strict=False)):
                return False
            return not self._allowed(paths[-1], tools, self.places.is_secret)

        return hides

    def search_obstacle(self, directory: str, tool: str) -> Obstacle | None:
        """Searching a directory shows everything below it, unless files are hidden from the search."""
        shown = quote_path(directory)
        if rule := self.denying_below(directory, ("Read", tool)):
            return Obstacle(f"{tool} in {shown} may show what the rule {rule} denies.", "Search a narrower path.")
        if self.mode == "full":
            return None
        env = next(env_files(directory), None)
        if env is None and not self.places.holds_secrets(directory):
            return None
        where = quote_path(env) if env else f"places below {shown}"
        return Obstacle(
            f"{tool} in {shown} may show {where}, which may hold {self.places.what_lies_at(directory)}.",
            "Search a narrower path, or run with --permission-mode full.",
        )

    def read_obstacle(self, path: str, tool: str = "Read") -> Obstacle | None:
        """Return the obstacle to reading: only places of keys have one."""
        real = os.path.realpath(path)
        if not self.places.is_secret(path) or self._allowed(real, ("Read", tool), self.places.is_secret):
            return None
        return self.obstacle(f"{quote_path(path)} may hold {self.places.what_lies_at(path)}.", f"Read({escape(real)})")

    def write_obstacle(self, path: str, tool: str = "Write") -> Obstacle | None:
        """Return the obstacle to writing, by the mode, the real target and the files there."""
        if self.mode == "plan":
            return Obstacle(f"{tool} would write {quote_path(path)}.")
        real = os.path.realpath(path)
        guarded = self.places.is_guarded(path)
        if self._allowed(real, EDITS, self.places.is_guarded if guarded else None):
            return None
        rule = f"Edit({escape(real)})"
        if guarded:
            what = "may run by itself, holds keys, or is the record of this session"
            return self.obstacle(f"What is written to {quote_path(path)} {what}.", rule)
        if self.mode == "ask":
            return self.obstacle(f"Writing {quote_path(path)} needs permission.", rule, "--permission-mode edit")
        if self.in_roots(real):
            return None
        leads = "" if real == os.path.normpath(path) else f" (it leads to {quote_path(real)})"
        flag = f"--add-dir {quoted(real.rpartition('/')[0] or '/')}"
        return self.obstacle(f"{quote_path(path)}{leads} is outside the working tree.", rule, flag)

    def file_obstacle(self, path: str, tool: str, *, writes: bool) -> Obstacle | None:
        """Judge a file tool's access to a path, as `write_obstacle` and `read_obstacle` do; it may also use the
        notes of the memory."""
        found = self.write_obstacle(path, tool) if writes else self.read_obstacle(path, tool)
        if found is None or (writes and self.mode == "plan") or not self.places.is_note(path, writes=False):
            return found
        if writes and not self.places.is_note(path, writes=True):
            return found._replace(reason=f"{quote_path(path)} is not a file NAME.md directly in a memory folder.")
        asks = writes and self.mode == "ask"
        return found._replace(reason=f"Writing {quote_path(path)} needs permission.") if asks else None

    def obstacle(self, reason: str, rule: str, flag: str = "--permission-mode full") -> Obstacle:
        """Return an obstacle that a rule or a flag removes."""
        return Obstacle(reason, self.remedy(rule, flag=flag), rule=rule)

    def remedy(self, *rules: str, flag: str = "--permission-mode full") -> str:
        """Return a sentence that tells a person how to allow a call: by a flag, or by all of these rules."""
        allow = " ".join(f"--allow {quoted(rule)}" for rule in rules)
        return f"Allowed with {allow}." if self.mode == "plan" else f"Allowed with {flag}, or with {allow}."

    def _allowed(self, real: str, tools: Sequence[str], special: Callable[[str], bool] | None) -> bool:
        """Return True if an allow rule covers a path; a special place must be named literally by the rule."""
        for rule in self.rules.allow:
            if rule.tool in tools and rule.matches_path(real, self.roots, self.places.home, anywhere=False):
                named = rule.literal_places(self.roots, self.places.home) if rule.pattern else ()
                if special is None or any(special(place) for place in named):
                    return True
        return False


def quoted(text: str) -> str:
    return text if re.fullmatch(r"[\w./+-]+", text) else "'" + text.replace("'", "'\\''") + "'"
