"""The hooks of a session, put together from its settings."""

import os
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from sagent.config import Settings
from sagent.context.instructions import repository_root
from sagent.events import Event, Notice
from sagent.hooks.hook import Hook
from sagent.hooks.runner import HookRunner
from sagent.hooks.session import SessionHooks, transcript_of
from sagent.policy.permissions import PermissionPolicy
from sagent.sandbox import Sandbox
from sagent.session.log import Log
from sagent.tool import Workspace


@asynccontextmanager
async def open_hooks(
    settings: Settings,
    listener: Callable[[Event], None],
    policy: PermissionPolicy,
    workspace: Workspace,
    sandbox: Sandbox,
    log: Log,
    withheld: Collection[str],
) -> AsyncGenerator[SessionHooks]:
    """The hooks of a session, which learn of its end when it is closed. Commands get no variables that look like keys,
    nor those `withheld`."""

    def notify(level: str, text: str) -> None:
        listener(Notice("root", "info" if level == "info" else "warning", text))

    root = repository_root(settings.cwd) or settings.cwd
    runner = HookRunner(
        sandbox,
        lambda: policy.profile(workspace),
        root,
        lambda: _environment(settings.env_pass, withheld),
        lambda text: notify("warning", text),
    )
    chosen = list(_reachable(settings.hooks, settings.hook_hosts, notify))
    hooks = SessionHooks(chosen, runner, lambda: policy.mode, notify, transcript_of(log.path), log.session_id)
    try:
        yield hooks
    finally:
        await hooks.end()


def _environment(keep: Collection[str], withheld: Collection[str]) -> Mapping[str, str]:
    from sagent.lib.secrets import without_keys

    return without_keys(os.environ, keep, withheld)


def _reachable(hooks: Sequence[Hook], hosts: Sequence[str], notify: Callable[[str, str], None]) -> Iterator[Hook]:
    """Those whose URL the person has written down, or whose host they have."""
    from sagent.sandbox.hosts import Endpoint, Entry

    allowed = [Entry.parse(host) for host in hosts]
    for hook in hooks:
        if hook.url and hook.source != "person":
            parts = urlsplit(hook.url)
            try:
                asked = Endpoint.parse(parts.netloc.rpartition("@")[2], 443 if parts.scheme == "https" else 80)
                known = any(entry.covers(asked) for entry in allowed)
            except ValueError:
                known = False
            if not known:
                notify("warning", f"Hook {hook} is not asked: hook_hosts in your config does not name its host.")
                continue
        yield hook
