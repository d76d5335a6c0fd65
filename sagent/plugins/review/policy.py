"""A policy for changes by unknown authors: files outside the repository are not even read."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from sagent.config import Settings
from sagent.messages import ToolCall
from sagent.policy import Deny, Verdict
from sagent.policy.permissions import PermissionPolicy
from sagent.policy.rules import Rules
from sagent.tool import Effect, Workspace


class RepositoryPolicy(PermissionPolicy):
    """The settings' own policy, limited to the workspace. The session's files with long results may be read too."""

    @classmethod
    def of(cls, settings: Settings, allow: Sequence[str] = ()) -> Self:
        """Return the policy of these settings, with no rules that allow anything but those given."""
        private = (settings.config_dir, settings.state_dir)
        return cls(settings.permission_mode, Rules.parse(allow, settings.deny), private=private)

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        roots = [Path(os.path.realpath(each)) for each in (*workspace.roots, workspace.blob_dir) if each is not None]
        places = [Path(os.path.realpath(each)) for each in (*effect.paths, effect.real) if each]
        if any(not any(place.is_relative_to(root) for root in roots) for place in places):
            return Deny("A review can read only files of its repository.")
        below = [place.relative_to(root) for place in places for root in roots if root in place.parents]
        if any(part.lower() == ".git" for place in below for part in place.parts):
            return Deny("A review cannot read .git, because a token may be in it.")
        return await super().before_tool(call, effect, workspace)
