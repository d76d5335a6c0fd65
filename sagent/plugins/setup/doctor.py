"""Checks keys, providers, terminal, programs and directories."""

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from inspect import iscoroutinefunction
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from sagent.config.keyring import IN_KEYRING
from sagent.errors import SagentError
from sagent.lib.raised import reason
from sagent.plugin import Check, Finding, resolve

if TYPE_CHECKING:
    from sagent.config import Settings
    from sagent.config.settings import CustomProvider

MAX_ANSWER_SECONDS = 10.0
MAX_CHECK_SECONDS = 30.0
STATES = ("good", "poor", "bad")


async def examine(settings: "Settings", login: str = "/login") -> list[Finding]:
    """Make all checks at the same time. `login` is the command for entering a key. Never raises."""
    made = [_make(plugin, check, settings, login) for plugin, check in settings.plugins.owned(Check)]
    return [finding for found in await asyncio.gather(*made) for finding in found]


async def _make(plugin: str, check: Check, settings: "Settings", login: str) -> Sequence[Finding]:
    """Make a check. A failed check is a finding too."""
    limit = asyncio.timeout(MAX_CHECK_SECONDS)
    try:
        run = cast("Callable[[Settings, str], object]", resolve(check.run))
        async with limit:
            made = run(settings, login) if iscoroutinefunction(run) else _in_thread(lambda: run(settings, login))
            found = list(cast("Iterable[object]", await cast("Awaitable[object]", made)))
        for each in found:
            if not isinstance(each, Finding) or each.state not in STATES or {type(part) for part in each} != {str}:
                raise TypeError(f"it returned {each!r:.100}, which is not a Finding")
        return cast("Sequence[Finding]", found)
    except (Exception, SystemExit, asyncio.CancelledError) as error:  # plugins' checks may raise anything
        if isinstance(error, asyncio.CancelledError) and (task := asyncio.current_task()) and task.cancelling():
            raise
        why = f"did not end within {MAX_CHECK_SECONDS:.0f} s" if limit.expired() else f"failed: {reason(error)}"
        return [Finding("bad", check.name, f"the check of {plugin} {why}")]


async def _in_thread(run: Callable[[], object]) -> Sequence[object]:
    """Return the values that a function yields in a daemon thread. The program does not wait for a thread that
    hangs."""
    returned = Future[Sequence[object]]()

    def work() -> None:
        try:
            returned.set_result(list(cast("Iterable[object]", run())))
        except BaseException as error:  # raised again for the caller
            returned.set_exception(error)

    returned.set_running_or_notify_cancel()
    Thread(target=work, daemon=True).start()
    return await asyncio.wrap_future(returned)


def check_keys(settings: "Settings", login: str) -> Iterator[Finding]:
    """Yield the providers that have a key, and the logins on this machine that can be used instead."""
    from sagent.plugins.setup.first import find_offers

    found, offers = [f"{name} ({source})" for name, source in _sources(settings)], find_offers(settings)
    how = "good" if found else "poor" if offers else "bad"
    yield Finding(how, "keys", ", ".join(found) or f"none is set: use {login}")
    for name, provider in settings.providers.items():
        if not provider.api_key and _written_key(settings, name) == IN_KEYRING:
            yield Finding("bad", name, f"its key is in the keyring, which has none or is not readable: {login} {name}")
    for offer in offers:
        yield Finding("good", "login", f"{offer.hint}: used with --provider {offer.provider}, or /setup")


def _sources(settings: "Settings") -> Iterator[tuple[str, str]]:
    """Yield the providers that have a key, and where it is."""
    from sagent.providers.access import first_set
    from sagent.providers.rows import built_in

    rows = {**built_in(), **settings.rows}
    for name, own in _usable(settings):
        if own and own.api_key:
            yield name, "keyring" if _written_key(settings, name) == IN_KEYRING else settings.user_file.name
        else:
            yield name, first_set(f"{rows[name].key} {rows[name].token}")[0]


def _written_key(settings: "Settings", provider: str) -> str:
    """Return the `api_key` that the person's settings file has for a provider, as it is written there."""
    from sagent.config.files import find_file, read_file
    from sagent.lib.json import as_object

    with suppress(SagentError, OSError, ValueError, TypeError):
        if file := read_file(find_file(settings.config_dir)[0]):
            return str(as_object(as_object(file.data.get("providers") or {}).get(provider) or {}).get("api_key", ""))
    return ""


def check_programs(_: "Settings", __: str) -> Iterator[Finding]:
    """Yield the optional programs, and whether they are installed."""
    for name, use in (("git", "branch, @files"), ("rg", "without it, searches are slower"), ("bash", "the Bash tool")):
        path = shutil.which(name)
        yield Finding("good" if path else "poor", name, path or f"not installed: {use}")


async def check_providers(settings: "Settings", login: str) -> Sequence[Finding]:
    """Return which providers accept their keys. All are asked at the same time."""
    found = await asyncio.gather(*(_test(name, own, login, settings) for name, own in _usable(settings)))
    return [*filter(None, found)]


def _usable(settings: "Settings") -> "Iterable[tuple[str, CustomProvider | None]]":
    """Yield the providers that have a key, each with its settings."""
    from sagent.providers.registry import has_key
    from sagent.providers.rows import built_in

    for name, row in {**built_in(), **settings.rows}.items():
        own = settings.providers.get(name)
        if has_key(row) or (own and own.api_key):
            yield name, own


async def _test(name: str, custom: "CustomProvider | None", login: str, settings: "Settings") -> Finding | None:
    """Ask a provider for its list of models with its keys, which costs nothing. Returns None for a provider without an
    address."""
    from sagent.app.models import split_model
    from sagent.errors import ModelError, UsageError
    from sagent.plugins.setup.proof import prove_key
    from sagent.providers.families.endpoint import Endpoint
    from sagent.providers.registry import provider_named

    rows, key = settings.rows, (custom.api_key if custom else "") or None
    chosen, _ = split_model(settings.model or "", settings.provider, rows, settings.base_url or "")
    base_url = (settings.base_url if chosen == name else "") or (custom.base_url if custom else "") or None
    source = f"api_key in [providers.{name}]" if key else ""
    try:
        provider = provider_named(name, key=key, base_url=base_url, rows=rows, source=source)
    except UsageError as error:
        return Finding("bad", name, f"{error} ({login} {name})")
    if not isinstance(provider, Endpoint) or not provider.access.base_url:
        await provider.aclose()
        return None
    endpoint: Endpoint = provider
    address = endpoint.access.base_url
    parts, started = urlsplit(address), time.monotonic()
    at = f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
    try:
        async with asyncio.timeout(MAX_ANSWER_SECONDS):
            proved = await prove_key(name, endpoint, rows)
            took = f"{at} answers in {1000 * (time.monotonic() - started):.0f} ms"
            if not proved:
                return Finding(
                    "poor", name, f"{took}; perhaps its list of models needs no key, so the key could not be tested"
                )
            return Finding("good", name, f"{took}, and takes the key")
    except ModelError as error:
        match error.kind:
            case "auth" | "permission":
                return Finding("bad", name, f"{at} refuses the key: {error} Enter another with {login} {name}.")
            case "not_found" | "invalid_request" | "protocol":
                return Finding(
                    "poor", name, f"{at} answers, but lists no models, so the key could not be tested: {error}"
                )
            case "network" | "stalled":
                return Finding("bad", name, f"{at} cannot be reached: {error}")
            case _:
                return Finding("bad", name, f"{at} could not test the key: {error}")
    except TimeoutError:
        return Finding("bad", name, f"{at} cannot be reached: no answer within {MAX_ANSWER_SECONDS:.0f} s")
    finally:
        await provider.aclose()


def check_sandbox(settings: "Settings", _: str) -> Sequence[Finding]:
    """Return how commands are confined, tested again: an earlier result may be the trouble."""
    return [_sandbox(settings)]


def _sandbox(settings: "Settings") -> Finding:
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


def check_terminal(_: "Settings", __: str) -> Iterator[Finding]:
    """Yield the size and the encoding of the terminal."""
    size = shutil.get_terminal_size()
    term = os.environ.get("TERM", "")
    plain = "; a session talks in plain lines there" if term == "dumb" else ""
    detail = f"{term or 'TERM is not set'}, {size.columns}x{size.lines}{plain}"
    yield Finding("poor" if term in ("", "dumb") else "good", "terminal", detail)
    encoding = (sys.stdout.encoding or "").lower()
    yield Finding("good" if "utf" in encoding else "poor", "encoding", encoding or "unknown")


def check_places(settings: "Settings", _: str) -> Iterator[Finding]:
    """Yield whether directories can be written, and the free space."""
    for what, path in (("state directory", settings.state_dir), ("settings", settings.config_dir)):
        there, why = _existing(path), ""
        try:
            if not (there / "").is_dir():
                why = f"{there} is not a directory"
            elif not os.access(there, os.W_OK):
                why = f"{there} is not writable"
            path.lstat()
        except OSError as error:
            why = why or ("" if isinstance(error, FileNotFoundError) else f"{path}: {error.strerror}")
        yield Finding("bad" if why else "good", what, why or str(path))
    try:
        free = shutil.disk_usage(_existing(settings.state_dir)).free
    except OSError as error:
        yield Finding("bad", "disk", str(error))
        return
    yield Finding("good" if free > 500_000_000 else "poor", "disk", f"{free / 1e9:.1f} GB free")


def _existing(path: Path) -> Path:
    """Return the existing part of a path: the path, or a directory above it, which may be a broken link."""
    return next((place for place in (path, *path.parents) if os.path.lexists(place)), Path("/"))
