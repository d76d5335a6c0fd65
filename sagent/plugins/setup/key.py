"""`/login`: enter and test a provider's key, and save it; or use a login that a provider has, or a server nearby."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

from sagent.app.models import LOCAL
from sagent.config import load
from sagent.config.plugins import named_errors
from sagent.config.servers import own_address
from sagent.context.instructions import repository_root
from sagent.errors import ModelError, UsageError
from sagent.plugin import resolve
from sagent.plugins.setup.proof import prove_key
from sagent.providers.registry import provider_named
from sagent.providers.rows import built_in
from sagent.repl.commands.command import CommandContext, command
from sagent.repl.opening import SessionChoices
from sagent.repl.terminal.picker import Option

if TYPE_CHECKING:
    from sagent.config import Settings
    from sagent.config.settings import CustomProvider
    from sagent.peer import Switch

KEY_CHECK_SECONDS = 15.0

_MakeKey: TypeAlias = Callable[[CommandContext, str], Awaitable[str | None]]
_LogIn: TypeAlias = Callable[[CommandContext, str], Awaitable[None]]


def _key_variables(context: CommandContext) -> list[tuple[str, str]]:
    """Return the providers with a login, and its requirements."""
    rows = {**built_in(), **context.settings.rows}
    keyed = ((name, row.key) for name, row in rows.items() if row.default and not row.login)
    return [*keyed, *((name, rows[name].about) for name in _devices(context))]


def _devices(context: CommandContext) -> Sequence[str]:
    """Return the providers with a login made elsewhere, without a key."""
    return [name for name, row in {**built_in(), **context.settings.rows}.items() if row.login]


@command(complete=_key_variables, here=True)
async def login(context: CommandContext, provider: str = "", host: str = "") -> None:
    """Enter and test a provider's API key, and save it.

    The key is sent only to the provider's address, which its BASE_URL variable may change. It is saved where only you
    can read it, and used from now on. For a provider with a browser login, give your company's host if it has one, such
    as company.ghe.com.
    """
    from sagent.config.keyring import IN_KEYRING
    from sagent.plugins.setup.stored import has_keyring, keep_key, store_key

    if host and provider not in (devices := _devices(context)):
        hint = f": /login {devices[0]} {host!r}" if devices else ""
        raise UsageError(f"Only {' and '.join(devices) or 'a plugin'} has a host to log in to{hint}")
    if provider == LOCAL and LOCAL not in context.settings.rows:
        _use_local(context)
        return
    if not provider:
        options = [Option(name, name, key) for name, key in _key_variables(context)]
        provider = await context.pick("Which provider is the key for?", options) or ""
    if not provider:
        return
    row = context.settings.row(provider)
    if row.login:
        context.require_person(f"sagent login {row.name}")
        with named_errors(f"The login of {row.name}", row.plugin):
            await cast("_LogIn", resolve(row.login))(context, host)
        try:
            _ = context.opened  # finds the login when needed
        except UsageError:
            context.reopen(context.settings)
        return
    own = context.settings.providers
    address = await asyncio.to_thread(own_address, row.name, own, os.environ)
    if not (key := await _new_key(context, row.name, address.base_url)):
        return
    context.say(f"Testing the key with {row.name} …")
    proved = await test_key(row.name, key, address.base_url, own)
    works = "The key works" if proved else f"{row.name} answers any key, so the key could not be tested"
    path, kept = context.settings.user_file, key
    if await asyncio.to_thread(has_keyring):
        in_file = Option(key, f"in {path}, which only you can read")
        options = [Option(IN_KEYRING, "in the keyring of this computer"), in_file]
        kept = await context.pick(f"{works}. Where should it be saved?", options)
        if kept is None:
            return
    if kept == IN_KEYRING:
        await asyncio.to_thread(keep_key, row.name, key)
    custom = own.get(row.name)
    known = ("", row.base_url, custom.base_url if custom else "")
    base_url = "" if address.base_url in known else address.base_url
    await asyncio.to_thread(store_key, path, row.name, kept, base_url)
    where, only = f"in {path}" if kept != IN_KEYRING else IN_KEYRING, f", for {base_url} only" if base_url else ""
    context.say(f"{works}; it was saved {where}{only}")
    if kept != IN_KEYRING and repository_root(path.resolve().parent) is not None:
        context.say(f"{path} lies in a git repository: make sure that it is not committed")
    fresh = await asyncio.to_thread(load, {}, None, context.settings.cwd, file=path)
    _reopen(context, replace(context.settings, providers=fresh.providers))


async def _new_key(context: CommandContext, provider: str, base_url: str) -> str:
    """Return the key that the person types, or makes at the provider if a plugin can have them do so; "" for none."""
    for owner, extra in context.settings.plugins.extras(f"key {provider}") if context.has_person else ():
        with named_errors(f"The login of {provider}", owner):
            made = await cast("_MakeKey", resolve(extra.add))(context, base_url)
        if made != "":  # they do not want to type it
            return made or ""
    return (await context.line(f"Key for {provider} (not shown): ", secret=True) or "").strip()


def _use_local(context: CommandContext) -> None:
    """Continue with a server on this machine, as `--provider local` does."""
    origins = {**context.settings.origins, "provider": "/model"}
    _reopen(context, replace(context.settings, model=None, provider=LOCAL, base_url=None, origins=origins), switches=())


def _reopen(context: CommandContext, settings: "Settings", *, switches: "Sequence[Switch] | None" = None) -> None:
    """Reopen the open session, if any, with these settings, and with other `switches` if given."""
    try:
        opened = context.opened
    except UsageError:
        context.reopen(settings)
        return
    if path := opened.agent.log.path:
        settings = replace(settings, session=Path(path), continue_session=False, fork=None)
    choices = SessionChoices.of(opened)
    choices = choices if switches is None else replace(choices, switches=switches)
    context.reopen(settings, choices, "The session continues.")


async def test_key(provider: str, key: str, base_url: str, custom: Mapping[str, "CustomProvider"]) -> bool:
    """Test a key with the provider at an address ("" for the default one); return False if it accepts any key.

    Raises UsageError with the provider's answer.
    """
    rows = {name: one.row for name, one in custom.items()}
    opened = provider_named(provider, key=key, base_url=base_url or None, rows=rows)
    try:
        async with asyncio.timeout(KEY_CHECK_SECONDS):
            return await prove_key(provider, opened, rows)
    except ModelError as error:
        raise UsageError(f"The key was not saved: {error}") from error
    except TimeoutError:
        raise UsageError(f"The key was not saved: {provider} did not answer within {KEY_CHECK_SECONDS:.0f} s") from None
    finally:
        await opened.aclose()
