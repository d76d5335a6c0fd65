"""The policy of the command line: a mode and rules.

It guards against mistakes and manipulation of a model. It cannot see the effects of an allowed program; a sandbox, if
there is one, limits these.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.errors import UsageError
from sagent.messages import ToolCall
from sagent.policy import Allow, Ask, Deny, Policy, Verdict
from sagent.policy.paths import MODES, Mode, Obstacle, PathJudge
from sagent.policy.places import Places, spellings
from sagent.policy.rules import EDITS, Rules
from sagent.tool import Effect, PathFilter, Workspace

if TYPE_CHECKING:
    from sagent.sandbox.profile import Profile

__all__ = ["MODES", "Mode", "PermissionPolicy"]

_FLAT = frozenset({"Read", "List"})  # tools that show only one file, or the names in one directory


class PermissionPolicy(Policy):
    """Judges calls by mode and rules.

    plan: only reading, and commands known to only look. ask: a question before writing or running. edit: writing inside
    the workspace's roots is free. full: no questions. Deny rules take precedence over everything, allow rules over
    questions, but not over plan. In every mode but full, a question comes before keys are read and before files that
    run by themselves are written (`.git`, shell start-up files), unless a rule names the place.

    `private` are directories with keys or conversations, in addition to the well-known ones in `home`; `obeyed` are
    more files that set sagent's permissions; `domains` are the hosts that sandboxed commands and web tools may reach.
    Raises UsageError for another mode.
    """

    def __init__(
        self,
        mode: Mode,
        rules: Rules | None = None,
        *,
        home: Path | None = None,
        private: Sequence[Path] = (),
        obeyed: Sequence[Path] = (),
        domains: Sequence[str] = (),
    ) -> None:
        if mode not in MODES:
            raise UsageError(f"there is no permission mode {mode!r}: give {', '.join(MODES[:-1])} or {MODES[-1]}")
        self.mode: Mode = mode
        self.rules = rules or Rules()
        self._domains = domains
        self._places = Places(home or Path("~").expanduser(), private, obeyed)

    def expose(self, *paths: Path, session: Sequence[Path] = (), notes: Sequence[Path] = ()) -> None:
        """Allow reading these paths although they are in private directories, and the session's own files in the
        directory `session`. Replaces earlier calls.

        In the directories `notes`, file tools may read everything and write the Markdown files; commands do not see
        them."""
        self._places.session = frozenset(spelled for path in session for spelled in spellings(str(path)))
        self._places.exposed = tuple({spelled for path in (*paths, *session) for spelled in spellings(str(path))})
        self._places.notes = frozenset(spelled for path in notes for spelled in spellings(str(path)))

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        """Judge whether a call may be made. Symlinks are followed first."""
        names = (call.name, "Bash") if effect.command else (call.name,)  # by whatever tool a command is run
        for rule in self.rules.deny:
            if any(rule.denies_tool(name, effect) for name in names):
                return Deny(f"The rule {rule} denies {call.name}.")
        if any(not _is_name(text) for text in (effect.command, *map(str, effect.paths))):
            return Deny(f"{call.name} names what no system can: a NUL, or half of a surrogate pair.")
        judge = PathJudge(self.mode, self.rules, self._places, workspace)
        if effect.needs and not effect.command:
            from sagent.policy.web import judge_hosts

            return judge_hosts(call.name, effect, judge, self._domains)
        match effect.kind:
            case "none":
                return Allow()
            case "read" | "write":
                hides = effect.hides and workspace.hidden is not None
                return self._paths(call, effect, judge, searches=effect.kind == "read" and not hides)
            case "execute":
                return self._command(call, effect, judge)

    def hidden(self, workspace: Workspace) -> PathFilter:
        """Return a filter for `Workspace.hidden`: the files that a search of an allowed directory has to skip.

        Without it, a search needs a question if the directory holds denied files or possible keys.
        """
        return lambda tool, root: PathJudge(self.mode, self.rules, self._places, workspace).hides(str(root), tool)

    def profile(self, workspace: Workspace) -> "Profile":
        """Return for `Workspace.profile` the files and hosts of sandboxed commands, by the current mode and rules."""
        from sagent.policy.confinement import profile_of

        return profile_of(PathJudge(self.mode, self.rules, self._places, workspace), self._domains)

    def _paths(self, call: ToolCall, effect: Effect, judge: PathJudge, *, searches: bool) -> Verdict:
        """Judge a call that reads or writes files; if it `searches`, it may show everything in a directory."""
        writes = effect.kind == "write"
        tools = EDITS if writes else ("Read", call.name)
        places = dict.fromkeys(map(str, (*effect.paths, *([effect.real] if effect.real else ()))))
        for path in places:
            if rule := judge.denying(path, tools):
                return Deny(f"The rule {rule} denies {call.name} on {path}.")
        if searches and call.name not in _FLAT:
            below = (judge.search_obstacle(path, call.name) for path in places if os.path.isdir(path))  # noqa: PTH112
            if obstacle := next(filter(None, below), None):
                return self._verdict(effect, obstacle)
        if writes and any(self._places.is_note(path, writes=True) for path in places) and _has_secret(call):
            return Deny("What would be written looks like it holds a secret. Leave it out: later sessions read notes.")
        if self.mode == "full":
            return Allow()
        found = (judge.file_obstacle(path, call.name, writes=writes) for path in places)
        return self._verdict(effect, next(filter(None, found), None))

    def _command(self, call: ToolCall, effect: Effect, judge: PathJudge) -> Verdict:
        """Judge a call that runs a command line or code."""
        allowed = any(not rule.pattern and rule.covers(call.name, effect) for rule in self.rules.allow)
        free = self.mode == "full" or (self.mode != "plan" and allowed)
        if not effect.command:
            reason = f"{call.name} does not say what it would do, so it needs permission."
            return self._verdict(effect, None if free else judge.obstacle(reason, call.name))
        from sagent.policy.commands import CommandJudge

        commands = CommandJudge(judge, effect.command, effect.obeyed)
        if (denied := commands.denied(confined=effect.confined)) is not None:
            return denied
        if effect.needs:
            from sagent.policy.needs import denied_need, need_obstacle

            if (refused := denied_need(effect, judge)) is not None:
                return refused
            wanted = None if self.mode == "full" else need_obstacle(effect, judge, commands)
            if wanted is not None or any(need.kind == "all" for need in effect.needs):
                return self._verdict(effect, wanted)
        if effect.confined and self.mode in ("plan", "edit"):
            return Allow()
        return self._verdict(effect, None if free else _spelled_out(call, effect, commands.obstacle()))

    def _verdict(self, effect: Effect, obstacle: Obstacle | None) -> Verdict:
        """Return the verdict on an obstacle. In plan mode, nothing is asked about effects that the mode excludes."""
        if obstacle is None:
            return Allow()
        if self.mode == "plan" and effect.kind != "read":
            return Deny(f"{obstacle.reason} In plan mode nothing is written, and only read-only commands run.")
        return Ask(obstacle.reason, obstacle.remedy, wants=obstacle.wants)


def _spelled_out(call: ToolCall, effect: Effect, obstacle: Obstacle | None) -> Obstacle | None:
    """Add code that a call runs but its arguments do not show, such as the cell of a notebook."""
    if obstacle is None or call.name == "Bash" or "code" in call.arguments:
        return obstacle
    return obstacle._replace(reason=f"{obstacle.reason} It runs:\n{effect.command}")


def _has_secret(call: ToolCall) -> bool:
    """Return True if a call would write a likely secret; text that it replaces does not count."""
    from sagent.lib.json import json_dump
    from sagent.lib.secrets import redact

    new = {name: value for name, value in call.arguments.items() if not name.startswith("old")}
    return any(redact(value if isinstance(value, str) else json_dump(value))[1] for value in new.values())


def _is_name(text: str) -> bool:
    """Return True if the system can represent it as a name."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False
