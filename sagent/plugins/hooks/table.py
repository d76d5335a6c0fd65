"""`[hooks]`: for each event a list of hooks, in a form that other programs use too."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast
from warnings import catch_warnings, simplefilter

from sagent.config import Settings
from sagent.config.files import File, GivenTable, Line, expand
from sagent.config.values import decimal, url
from sagent.lib.text import nearest
from sagent.plugin import HookEvent, PathBase, RefusedError
from sagent.plugins.hooks import HOOKS
from sagent.plugins.hooks.hook import DEFAULT_SECONDS, MAX_SECONDS, Hook, names_of
from sagent.plugins.programs.needs import list_of_texts, read_need, table_of_texts

_HANDLER = ("type", "command", "url", "headers", "timeout", "needs")
_TYPES = ("command", "http")
_MAX_HOOKS = 64
_ELSEWHERE = frozenset(("MultiEdit", "NotebookEdit", "NotebookRead", "BashOutput", "KillShell", "TodoRead"))
"""Tools of other programs, which shared lists may name."""
_MAX_COMMAND_CHARS = 2_000  # of a command: the person is shown all of it


def read_hooks(table: GivenTable) -> tuple[Hook, ...]:
    """Parse the table of a file, and warn of hooks that match nothing. Raises ConfigError."""
    file, environ = table.file, table.environ
    whole = file.data if table.folder is not None and table.name not in file.data else table.values
    values = {event: groups for event, groups in whole.items() if not _is_gone(event, table)}
    if table.folder is not None:
        base = PathBase(table.folder, table.base.home)
        found = hooks_of(file, values, base, None, table.hook_events)
        return tuple(replace(hook, source="plugin", root=str(table.folder)) for hook in found)
    found = hooks_of(file, values, table.base, environ, table.hook_events)
    for hook in found:
        _check_matcher(hook, table)
    return found


def _is_gone(event: str, table: GivenTable) -> bool:
    """Return True for an event of a plugin that is not there, with a warning: nothing fires it."""
    owner = "" if event in table.hook_events else table.gone(HookEvent).get(event, "")
    if owner:
        table.warn(
            f"{table.file.where('hooks', event)}: hooks.{event} is ignored: it belongs to the plugin {owner}, which is "
            "not loaded."
        )
    return bool(owner)


def hooks_in(settings: Settings) -> tuple[Hook, ...]:
    """Return the effective hooks."""
    return cast("tuple[Hook, ...]", settings.of(HOOKS) or ())


def show_hooks(hooks: Sequence[Hook]) -> Iterator[tuple[str, str, str]]:
    """Yield the number, description and source of each hook."""
    yield from ((str(number), str(hook), f"{hook.source}: {hook.place}") for number, hook in enumerate(hooks, 1))


def _check_matcher(hook: Hook, table: GivenTable) -> None:
    """Warn of a hook that matches nothing: its guard would have no effect."""
    event, where = table.hook_events[hook.event], table.file.where("hooks", hook.event)
    if hook.matcher and not (event.matcher or event.of_tools):
        table.warn(f"{where}: {hook.event} is about nothing that matcher {hook.matcher!r} could name: leave it out.")
        return
    known = table.tools if event.of_tools else event.values
    names = [name for each in known for name in names_of(each)]
    parts = hook.matcher.split("|") if re.fullmatch(r"[\w| ]+", hook.matcher) else [hook.matcher]
    served = ("__", *(name.partition("_")[0].lower() for name in known if name.endswith("*")))
    for part in parts if known else ():
        one = replace(hook, matcher=part.strip())
        elsewhere = len(parts) > 1 and one.matcher in _ELSEWHERE
        if not (elsewhere or one.is_about(names) or (event.of_tools and any(word in part.lower() for word in served))):
            hint = nearest(part, known) or f"; give {', '.join(known)}."
            table.warn(f"{where}: matcher {part!r} of {hook.event} is about nothing there is{hint}")


def hooks_of(
    file: File,
    table: Mapping[str, object],
    base: PathBase,
    environ: Mapping[str, str] | None,
    events: Mapping[str, HookEvent],
) -> tuple[Hook, ...]:
    """Parse the hooks of a settings file, of these `events`: the person's, whose URLs and headers may use variables of
    `environ`, or without it a project's. Raises ConfigError with file and line."""
    found: list[Hook] = []
    for event, groups in table.items():
        keys: Line = ("hooks", event)
        if event not in events:
            raise file.unknown(keys, tuple(events), "hook")
        for number, group in enumerate(_list(file, keys, groups)):
            at = (*keys, str(number))
            found += _group(file, at, event, file.table(at, group), base, environ)
    if len(found) > _MAX_HOOKS:
        raise file.error(("hooks",), f"there are {len(found)} hooks, more than the limit of {_MAX_HOOKS}")
    source = "person" if environ is not None else "project"
    return tuple(replace(hook, source=source, place=str(file.path)) for hook in found)


def _group(
    file: File,
    keys: Line,
    event: str,
    group: Mapping[str, object],
    base: PathBase,
    environ: Mapping[str, str] | None,
) -> Iterator[Hook]:
    """Yield the hooks of `{matcher, hooks = [...]}`, or of a matcher and a hook in one table."""
    matcher = group.get("matcher", "")
    if not isinstance(matcher, str):
        raise file.error((*keys, "matcher"), "matcher: give a tool's name, or a pattern of names")
    try:
        with catch_warnings():  # for `[[:alpha:]]`, which is no class here
            simplefilter("error")
            re.compile(matcher if matcher != "*" else "")
    except (re.error, FutureWarning) as error:
        raise file.error((*keys, "matcher"), f"matcher {matcher!r} is not a valid pattern: {error}") from None
    if "hooks" in group:
        if strangers := [name for name in group if name not in ("matcher", "hooks")]:
            raise file.unknown((*keys, strangers[0]), ("matcher", "hooks"))
        handlers = [
            ((*keys, "hooks", str(number)), file.table((*keys, "hooks", str(number)), each))
            for number, each in enumerate(_list(file, (*keys, "hooks"), group["hooks"]))
        ]
    else:
        handlers = [(keys, {name: value for name, value in group.items() if name != "matcher"})]
    for at, handler in handlers:
        if strangers := [name for name in handler if name not in _HANDLER]:
            raise file.unknown((*at, strangers[0]), _HANDLER)
        try:
            yield _hook(event, matcher, handler, base, environ)
        except RefusedError as error:
            raise file.error(at, f"hooks.{event}: {error}") from None


def _hook(
    event: str, matcher: str, handler: Mapping[str, object], base: PathBase, environ: Mapping[str, str] | None
) -> Hook:
    command, address, kind = handler.get("command", ""), handler.get("url", ""), handler.get("type")
    if kind is not None and kind not in _TYPES:
        raise RefusedError(f"type = {kind!r}: hooks are of type {' or '.join(_TYPES)}")
    if not (isinstance(command, str) and isinstance(address, str) and bool(command.strip()) != bool(address)):
        raise RefusedError("give a command or a url, and not both")
    if kind is not None and (kind == "http") != bool(address):
        raise RefusedError(f"a hook of type {kind!r} must have a {'url' if kind == 'http' else 'command'}")
    if len(command) > _MAX_COMMAND_CHARS:
        raise RefusedError(f"the command has more than {_MAX_COMMAND_CHARS:,} characters: put it into a script")
    timeout = float(decimal(handler.get("timeout", DEFAULT_SECONDS), "timeout: give seconds as a number above 0"))
    if not 0 < timeout <= MAX_SECONDS:
        raise RefusedError(f"timeout: give seconds above 0, at most {MAX_SECONDS:g}")
    needs, pairs = handler.get("needs", []), table_of_texts(handler.get("headers", {}), "headers")
    if environ is None and needs:
        raise RefusedError("a project's hook stays in the sandbox: needs is for your own file")
    if pairs and not address:
        raise RefusedError("headers are only for a url, not a command")
    try:
        address, pairs = (expand(each, environ or {}) for each in (address, pairs))
    except ValueError as error:
        raise RefusedError(str(error) if environ is not None else "a project may not read the environment") from None
    return Hook(
        event,
        command.strip(),
        url(address) if address else "",
        matcher if matcher != "*" else "",
        timeout,
        cast("Mapping[str, str]", pairs),
        tuple(read_need(each, base) for each in list_of_texts(needs, "needs")),
    )


def _list(file: File, keys: Line, value: object) -> list[object]:
    if isinstance(value, list):
        return cast("list[object]", value)
    raise file.error(keys, f"{'.'.join(keys)} must be a list of tables, [[{'.'.join(keys)}]]")
