"""The language servers of a session, by its settings: in the sandbox, with read-only access."""

import asyncio
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.app.builder import AgentBuilder, withheld
from sagent.config import Settings
from sagent.plugins.code import DIAGNOSTICS
from sagent.plugins.code.lsp.access import CodeAccess
from sagent.plugins.code.lsp.policy import CodePolicy
from sagent.sandbox import Confined, Sandbox

if TYPE_CHECKING:
    from sagent.plugins.code.lsp.checks import Checks
    from sagent.plugins.code.lsp.servers import Allowed
    from sagent.plugins.code.lsp.tool import Code
    from sagent.sandbox.profile import Profile


async def add(builder: AgentBuilder) -> None:
    """Add checks of changes, if wanted, and planned renames, if their tool is offered. Servers get no variables that
    look like keys."""
    settings, policy, sandbox = builder.settings, builder.policy, builder.sandbox
    checks = is_checked(builder)
    code = _code_of(builder)
    if not checks and code is None:
        return
    launcher = SandboxLauncher(settings, lambda: policy.profile(builder.workspace), sandbox, withheld(settings))

    def make() -> "Checks":
        from sagent.plugins.code.lsp.checks import Checks
        from sagent.plugins.code.lsp.rows import every_row
        from sagent.plugins.code.lsp.servers import Servers
        from sagent.plugins.code.settings import servers_of

        return Checks(Servers(every_row(servers_of(settings)), launcher, sandbox.warn))

    access = CodeAccess(make)
    builder.stack.push_async_callback(access.aclose)
    if code is not None:
        code.access = access
    if checks:
        from sagent.plugins.code.lsp.checked import with_checks

        builder.tools = with_checks(builder.tools, access)
    builder.judge = CodePolicy(builder.judge, access if checks else None, code)


def _code_of(builder: AgentBuilder) -> "Code | None":
    """Return the tool Code, if it was chosen. Its module is loaded by then."""
    if not builder.knows("tool Code"):
        return None
    from sagent.plugins.code.lsp.tool import Code

    return next((tool for tool in builder.offered if isinstance(tool, Code)), None)


def is_checked(builder: AgentBuilder) -> bool:
    """Return True if changes are checked: by default if a person is present, and not on a node, whose person is far
    away."""
    wish = builder.settings.of(DIAGNOSTICS)
    return wish == "on" or (wish == "auto" and builder.answer is not None and builder.surface.where != "node")


class SandboxLauncher:
    """Runs servers in the sandbox, where they write only caches and reach no host. Without a sandbox they run only on a
    person's request: with `diagnostics = "on"`, or by their tool."""

    def __init__(
        self, settings: Settings, profile: "Callable[[], Profile]", sandbox: Sandbox, withheld: Collection[str]
    ) -> None:
        self._settings, self._profile, self._sandbox, self._withheld = settings, profile, sandbox, withheld

    async def allowed(self) -> "Allowed":
        if await asyncio.to_thread(lambda: self._sandbox.stands):
            return "all"
        wanted = self._settings.of(DIAGNOSTICS) == "on" or "code" in map(str.lower, self._settings.tools or ())
        return "outside" if wanted else "none"

    async def launch(self, argv: Sequence[str], root: Path) -> Confined:
        if not self._sandbox.stands:
            return Confined(argv)
        return await self._sandbox.confine(argv, _looking(self._profile()), root, lasting=True)

    def environment(self) -> Mapping[str, str]:
        from sagent.lib.secrets import without_keys

        return without_keys(os.environ, self._settings.env_pass, self._withheld)


def _looking(profile: "Profile") -> "Profile":
    """Return a profile in which only the permitted caches can be written, and no host reached."""
    from dataclasses import replace

    from sagent.sandbox.places import known_places, really_below

    home = os.path.realpath(Path("~").expanduser())
    caches = really_below(home, known_places().caches)
    return replace(profile, writable=tuple(path for path in profile.writable if path in caches), domains=())
