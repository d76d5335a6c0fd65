"""The hooks of a session, put together from its settings."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from sagent.app.builder import AgentBuilder, HookAnswer, withheld
from sagent.context.instructions import repository_root
from sagent.events import Notice
from sagent.lib.secrets import without_keys
from sagent.plugin import HookEvent
from sagent.plugins.hooks import EVENTS, HOOK_HOSTS
from sagent.plugins.hooks.hook import Hook
from sagent.plugins.hooks.policy import HookPolicy
from sagent.plugins.hooks.runner import HookRunner
from sagent.plugins.hooks.session import SessionHooks
from sagent.plugins.hooks.table import hooks_in
from sagent.plugins.hooks.tool import with_hooks


async def add_events(builder: AgentBuilder) -> None:
    """Run hooks at events of other plugins."""

    async def fire(event: str, about: str, data: Mapping[str, object], agent: str) -> HookAnswer:
        if any(event == own.name for own in EVENTS):
            raise ValueError(f"The event {event} is fired by sagent itself")
        return await builder.once(session_hooks).fire(event, agent, about, data)

    builder.run_event_hooks = fire


async def add(builder: AgentBuilder) -> None:
    """Run hooks at the agent's runs, its calls and their results, and its end."""
    hooks = builder.once(session_hooks)
    builder.surface.asks_first = bool(hooks.of("UserPromptSubmit"))
    builder.stack.push_async_callback(hooks.end)
    builder.wrap(lambda tools: with_hooks(tools, hooks))
    builder.ask = hooks.asker(builder.ask)
    builder.judge = HookPolicy(hooks, builder.judge)
    builder.resources = replace(builder.resources, admit=hooks.admit, before_compaction=hooks.before_compaction)


def session_hooks(builder: AgentBuilder) -> SessionHooks:
    """Return the hooks of the settings. Commands get no variables that look like keys."""
    settings, policy, log = builder.settings, builder.policy, builder.log

    def notify(level: str, text: str) -> None:
        builder.listener(Notice("root", "info" if level == "info" else "warning", text))

    secret_names = withheld(settings)
    runner = HookRunner(
        builder.sandbox,
        lambda: policy.profile(builder.workspace),
        repository_root(settings.cwd) or settings.cwd,
        lambda: without_keys(os.environ, settings.env_pass, secret_names),
        builder.warn,
    )
    hosts = cast("Sequence[str]", settings.of(HOOK_HOSTS))
    allowed = list(_allowed_hooks(hooks_in(settings), hosts, notify))
    transcript = str(Path(log.path) / "root.jsonl") if log.path else ""
    events = settings.plugins.named(HookEvent)
    return SessionHooks(allowed, events, runner, lambda: policy.mode, notify, transcript, log.session_id)


def _allowed_hooks(hooks: Sequence[Hook], hosts: Sequence[str], notify: Callable[[str, str], None]) -> Iterator[Hook]:
    """Yield the hooks whose URL the person wrote, or whose host they allowed."""
    from sagent.sandbox.hosts import Endpoint, Entry

    allowed = [Entry.parse(host) for host in hosts]
    for hook in hooks:
        if hook.url and hook.source != "person":
            parts = urlsplit(hook.url)
            try:
                endpoint = Endpoint.parse(parts.netloc.rpartition("@")[2], 443 if parts.scheme == "https" else 80)
                is_allowed = any(entry.covers(endpoint) for entry in allowed)
            except ValueError:
                is_allowed = False
            if not is_allowed:
                notify("warning", f"Hook {hook} is not used: its host is not in hook_hosts in your config.")
                continue
        yield hook
