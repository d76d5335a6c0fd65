"""The command that takes a provider's key: tried once, then kept where only the person can read it."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from sagent.config import load
from sagent.config.keyring import IN_KEYRING, has_keyring, keep_key
from sagent.config.servers import own_address
from sagent.context.instructions import repository_root
from sagent.errors import ModelError, UsageError
from sagent.providers.registry import provider_named, row_named
from sagent.providers.rows import built_in
from sagent.repl.commands.command import CommandContext, command
from sagent.repl.settings_file import store_key
from sagent.repl.terminal.picker import Option

if TYPE_CHECKING:
    from sagent.config.settings import CustomProvider

PATIENCE = 15.0  # seconds


def _providers(context: CommandContext) -> list[tuple[str, str]]:
    del context
    return [(name, row.key) for name, row in built_in().items() if row.default]


@command(complete=_providers)
async def login(context: CommandContext, provider: str = "") -> None:
    """Enter, test and keep a provider's key.

    The key is tested where the provider is reached, which its BASE_URL variable may change, and is only ever sent
    there. It is kept where only you can read it, and used from now on.
    """
    if provider == "local":
        context.reopen(context.settings)
        return
    if not provider:
        options = [Option(name, name, key) for name, key in _providers(context)]
        provider = await context.pick("A key for which provider?", options) or ""
    if not provider:
        return
    row = row_named(provider, {name: one.row for name, one in context.settings.providers.items()})
    key = await context.line(f"Key for {row.name} (not shown): ", secret=True)
    if not key or not key.strip():
        return
    key = key.strip()
    context.say(f"Testing the key with {row.name} …")
    own = context.settings.providers
    address = await asyncio.to_thread(own_address, row.name, own, os.environ)
    await test_key(row.name, key, address.base_url, own)
    path, kept = context.settings.config_dir / "config.toml", key
    if await asyncio.to_thread(has_keyring):
        options = [
            Option(IN_KEYRING, "in the keyring of this computer"),
            Option(key, f"in {path}, which only you can read"),
        ]
        kept = await context.pick("The key works. Where should it be kept?", options)
        if kept is None:
            return
    if kept == IN_KEYRING:
        await asyncio.to_thread(keep_key, row.name, key)
    custom = own.get(row.name)
    known = ("", row.base_url, custom.base_url if custom else "")
    base_url = "" if address.base_url in known else address.base_url
    await asyncio.to_thread(store_key, path, row.name, kept, base_url)
    where, only = f"in {path}" if kept != IN_KEYRING else IN_KEYRING, f", for {base_url} only" if base_url else ""
    context.say(f"The key works; it is kept {where}{only}")
    if kept != IN_KEYRING and repository_root(path.resolve().parent) is not None:
        context.say(f"{path} lies in a git repository: make sure that it is not committed")
    fresh = await asyncio.to_thread(load, {}, None, context.settings.cwd)
    context.reopen(replace(context.settings, providers=fresh.providers))


async def test_key(provider: str, key: str, base_url: str, own: Mapping[str, "CustomProvider"]) -> None:
    """Ask the provider for its models with the key, at that address ("" for the default one).

    Raises UsageError with its answer.
    """
    rows = {name: one.row for name, one in own.items()}
    opened = provider_named(provider, key=key, base_url=base_url or None, rows=rows)
    try:
        async with asyncio.timeout(PATIENCE):
            await opened.models()
    except ModelError as error:
        raise UsageError(f"The key was not kept: {error}") from error
    except TimeoutError:
        raise UsageError(f"The key was not kept: {provider} did not answer within {PATIENCE:.0f} s") from None
    finally:
        await opened.aclose()
