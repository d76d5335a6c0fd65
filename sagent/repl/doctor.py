"""Checks keys, providers, terminal, programs and directories."""

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from sagent.config import Settings
    from sagent.config.settings import CustomProvider

PATIENCE = 3.0  # seconds for a provider to accept a connection


class Finding(NamedTuple):
    """The state of one thing that was checked."""

    state: Literal["good", "poor", "bad"]
    what: str
    detail: str


async def examine(settings: "Settings") -> list[Finding]:
    """Check everything, the providers at the same time. Never raises."""
    network = await asyncio.gather(*(_reach(name, url) for name, url in _addresses(settings)))
    return [*await asyncio.to_thread(lambda: list(_look(settings))), *network]


def _look(settings: "Settings") -> Iterator[Finding]:
    found = [name for name, _ in _usable(settings)]
    yield Finding("good" if found else "bad", "keys", ", ".join(found) or "none is set: use /login")
    for name, use in (("git", "branch, @files"), ("rg", "without it, searches are slower"), ("bash", "the Bash tool")):
        path = shutil.which(name)
        yield Finding("good" if path else "poor", name, path or f"not installed: {use}")
    yield from (_sandbox(settings), _servers(settings), *_terminal(), *_places(settings))


def _usable(settings: "Settings") -> "Iterable[tuple[str, CustomProvider | None]]":
    """The providers there is a key for, each with what the settings say of it."""
    from sagent.providers.registry import has_key
    from sagent.providers.rows import built_in

    for name, row in built_in().items():
        own = settings.providers.get(name)
        if has_key(row) or (own and own.api_key):
            yield name, own


def _addresses(settings: "Settings") -> list[tuple[str, str]]:
    """The providers there is a key for, and where they are reached."""
    from sagent.errors import UsageError
    from sagent.providers.families.endpoint import Endpoint
    from sagent.providers.registry import provider_named

    found: list[tuple[str, str]] = []
    for name, own in _usable(settings):
        key = (own.api_key if own else "") or None
        try:
            provider = provider_named(name, key=key, base_url=(own.base_url if own else "") or None)
        except UsageError:
            continue
        if isinstance(provider, Endpoint) and provider.access.base_url:
            found.append((name, provider.access.base_url))
    return found


async def _reach(name: str, url: str) -> Finding:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    started = time.monotonic()
    try:
        async with asyncio.timeout(PATIENCE):
            _, writer = await asyncio.open_connection(parts.hostname, port)
    except (OSError, TimeoutError, ValueError) as error:
        return Finding("bad", name, f"{parts.hostname}:{port} cannot be reached: {error or 'no answer'}")
    writer.close()
    return Finding("good", name, f"{parts.hostname}:{port} answers in {1000 * (time.monotonic() - started):.0f} ms")


def _sandbox(settings: "Settings") -> Finding:
    """What holds commands, tried anew: what was found out earlier may be the trouble."""
    from sagent.sandbox import Sandbox
    from sagent.sandbox.probe import forget
    from sagent.sandbox.report import advice

    if settings.sandbox == "off":
        return Finding("poor", "sandbox", "off: the model's commands run without a sandbox")
    forget(settings.state_dir)
    means = Sandbox("auto", cache=settings.state_dir).means
    if means.name == "none":
        needed = settings.sandbox == "required"
        return Finding("bad" if needed else "poor", "sandbox", f"none: {means.why}. {advice(means)}".rstrip())
    why = f", as {means.why}. {advice(means)}".rstrip() if means.why else ""
    return Finding("poor" if why else "good", "sandbox", f"commands run in {means.name}{why}")


def _servers(settings: "Settings") -> Finding:
    """The language servers that there are for the working directory."""
    from sagent.tools.code.lsp.rows import every_row, find_program

    if settings.diagnostics == "off":
        return Finding("good", "language servers", "not used: diagnostics is off")
    root, roots = settings.cwd, (settings.cwd, *settings.add_dirs)
    rows = [row for row in every_row(settings.language_servers) if not row.off]
    found = [row.name for row in rows if find_program(row, root, roots, own=True)]
    detail = ", ".join(found) or "none is installed: errors are not reported after edits (docs/code.md)"
    return Finding("good" if found else "poor", "language servers", detail)


def _terminal() -> Iterable[Finding]:
    size = shutil.get_terminal_size()
    term = os.environ.get("TERM", "")
    detail = f"{term or 'TERM is not set'}, {size.columns}x{size.lines}"
    yield Finding("poor" if term in ("", "dumb") else "good", "terminal", detail)
    encoding = (sys.stdout.encoding or "").lower()
    yield Finding("good" if "utf" in encoding else "poor", "encoding", encoding or "unknown")


def _places(settings: "Settings") -> Iterable[Finding]:
    for what, path in (("state directory", settings.state_dir), ("settings", settings.config_dir)):
        there = _existing(path)
        good = os.access(there, os.W_OK)
        yield Finding("good" if good else "bad", what, str(path) if good else f"{there} is not writable")
    try:
        free = shutil.disk_usage(_existing(settings.state_dir)).free
    except OSError as error:
        yield Finding("bad", "disk", str(error))
        return
    yield Finding("good" if free > 500_000_000 else "poor", "disk", f"{free / 1e9:.1f} GB free")


def _existing(path: Path) -> Path:
    return next((place for place in (path, *path.parents) if os.path.exists(place)), Path("/"))  # noqa: PTH110 -- False where nobody may look
