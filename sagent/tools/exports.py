"""Sandbox profile of commands, and the variables that earlier commands of the same agent exported."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.errors import UsageError
from sagent.tool import Workspace

if TYPE_CHECKING:
    from sagent.policy.commands import CommandJudge
    from sagent.sandbox.profile import Profile

_DIRECTORIES = ("PWD", "OLDPWD")  # set by every shell


def profile_of(workspace: Workspace) -> "Profile":
    """Return the sandbox profile of commands: by the policy, else the program's own for mode edit."""
    if workspace.profile is not None:
        return workspace.profile(workspace)
    from sagent.policy.permissions import PermissionPolicy

    return PermissionPolicy("edit").profile(workspace)


def outside_judge(command: str, workspace: Workspace) -> "CommandJudge":
    """Return the judge of a command outside of the sandbox, which finds the files that it obeys."""
    from sagent.policy.commands import CommandJudge
    from sagent.policy.paths import PathJudge
    from sagent.policy.places import Places
    from sagent.policy.rules import Rules

    judge = PathJudge("edit", Rules(), Places(Path("~").expanduser()), workspace)
    return CommandJudge(judge, command)


def names_given(argument: str, variables: Collection[str]) -> frozenset[str]:
    """Check names of variables. Raises UsageError for a single string, which type checkers accept, too."""
    if isinstance(variables, str):
        raise UsageError(f"{argument}={variables!r:.40}: give a list of names")
    return frozenset(variables)


def _changed(variables: Mapping[str, str], start: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """Return variables with a command's changes of `start`."""
    changed = {name: value for name, value in before.items() if start.get(name) != value}
    gone = start.keys() - before.keys()
    return {name: value for name, value in variables.items() if name not in gone} | changed


class Exports:
    """Carries variables from command to command, but not from sandboxed ones to others: an exported PATH or BASH_ENV
    would choose the programs run there.

    `Workspace.environment` is the environment of sandboxed commands; before the first of them, of all.
    """

    def __init__(self) -> None:
        self._was_held = False  # whether any agent's command was: children inherit exports of the agents above
        self._given: Mapping[str, str] | None = None  # before that
        self._outside: dict[str, Mapping[str, str] | None] = {}

    def before(self, workspace: Workspace, agent: str, *, sandboxed: bool) -> Mapping[str, str] | None:
        """Return the environment in which a command of an agent starts; None for this process's own."""
        if sandboxed and not self._was_held:
            self._was_held, self._given = True, workspace.environment
        return workspace.environment if sandboxed or not self._was_held else self._outside.get(agent, self._given)

    def after(
        self, workspace: Workspace, agent: str, start: Mapping[str, str], kept: dict[str, str], *, sandboxed: bool
    ) -> None:
        """Save a command's changes to its initial variables; others may have ended meanwhile."""
        if not sandboxed and self._was_held:
            before = self._outside.get(agent)
            self._outside[agent] = kept if before is None else _changed(before, start, kept)
            inside = start if workspace.environment is None else workspace.environment
        else:
            inside = kept if workspace.environment is None else workspace.environment
        workspace.environment = _changed(inside, start, kept)

    def left_out(self, workspace: Workspace, start: Mapping[str, str], *, sandboxed: bool) -> Iterator[str]:
        """Yield the variables that sandboxed commands have set, and that an unsandboxed one does not get."""
        if not sandboxed and self._was_held:
            inside = workspace.environment or {}
            changed = (name for name, value in inside.items() if start.get(name) != value and name.isidentifier())
            yield from (name for name in changed if name not in _DIRECTORIES)
