"""Access and variables of commands: what they may touch, and what earlier ones of the same agent exported."""

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from sagent.errors import UsageError
from sagent.tool import Workspace

if TYPE_CHECKING:
    from sagent.sandbox.profile import Profile

_DIRECTORIES = ("PWD", "OLDPWD")  # which a shell sets by itself


def profile_of(workspace: Workspace) -> "Profile":
    """Return what commands may touch: if no policy says so, what the program's own says in mode edit."""
    if workspace.profile is not None:
        return workspace.profile(workspace)
    from sagent.policy.permissions import PermissionPolicy

    return PermissionPolicy("edit").profile(workspace)


def names_given(argument: str, given: Collection[str]) -> frozenset[str]:
    """Names of variables. Raises UsageError for one text, which type checkers take for a collection of its letters."""
    if isinstance(given, str):
        raise UsageError(f"{argument}={given!r:.40}: give a list of names")
    return frozenset(given)


def _changed(variables: Mapping[str, str], start: Mapping[str, str], kept: Mapping[str, str]) -> dict[str, str]:
    """Return variables with what a command has made of `start`."""
    changed = {name: value for name, value in kept.items() if start.get(name) != value}
    gone = start.keys() - kept.keys()
    return {name: value for name, value in variables.items() if name not in gone} | changed


class Exports:
    """Carries variables from command to command, and none from the sandbox to what runs outside of it: a PATH or
    BASH_ENV that was exported there would choose what is run here.

    `Workspace.environment` is what commands in the sandbox start with. Until the first of them it is for all.
    """

    def __init__(self) -> None:
        self._was_held = False  # whether any command was, of any agent: children begin with what those above exported
        self._given: Mapping[str, str] | None = None  # before that
        self._outside: dict[str, Mapping[str, str] | None] = {}

    def before(self, workspace: Workspace, agent: str, *, held: bool) -> Mapping[str, str] | None:
        """Return the environment that a command of an agent starts with; None for this process's own."""
        if held and not self._was_held:
            self._was_held, self._given = True, workspace.environment
        return workspace.environment if held or not self._was_held else self._outside.get(agent, self._given)

    def after(
        self, workspace: Workspace, agent: str, start: Mapping[str, str], kept: dict[str, str], *, held: bool
    ) -> None:
        """Keep what a command has changed of the variables that it started with; others may have ended meanwhile."""
        if not held and self._was_held:
            before = self._outside.get(agent)
            self._outside[agent] = kept if before is None else _changed(before, start, kept)
            inside = start if workspace.environment is None else workspace.environment
        else:
            inside = kept if workspace.environment is None else workspace.environment
        workspace.environment = _changed(inside, start, kept)

    def left_out(self, workspace: Workspace, start: Mapping[str, str], *, held: bool) -> Iterator[str]:
        """Yield the variables that commands in the sandbox have set, and one outside does not get."""
        if not held and self._was_held:
            inside = workspace.environment or {}
            changed = (name for name, value in inside.items() if start.get(name) != value and name.isidentifier())
            yield from (name for name in changed if name not in _DIRECTORIES)
