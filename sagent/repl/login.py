"""A provider's key: tried once, then kept in the person's settings, readable by them alone."""

import asyncio
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.errors import ModelError, UsageError
from sagent.lib.atomic import atomic_write

if TYPE_CHECKING:
    from sagent.config.settings import CustomProvider

PATIENCE = 15.0  # seconds


async def test_key(provider: str, key: str, base_url: str, own: Mapping[str, "CustomProvider"]) -> None:
    """Ask the provider at that address, "" for its usual one, for its models with the key.

    Raises UsageError saying what it answered.
    """
    from sagent.providers.registry import provider_named

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


def store_key(config_dir: Path, provider: str, key: str, base_url: str = "") -> Path:
    """Write `api_key` of `[providers.NAME]` into the person's settings, mode 0600, everything else left as it is.

    With an address that goes beside it, for a key is only ever sent where it was tested. Raises OSError, and
    UsageError where the file cannot be changed safely.
    """
    import json

    path = config_dir / "config.toml"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        text = ""
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not valid TOML, so the key was not put in: {error}") from error
    line = f"api_key = {json.dumps(key)}"
    added = f"base_url = {json.dumps(base_url)}\n{line}" if base_url else line
    header = re.compile(rf'^[ \t]*\[[ \t]*providers[ \t]*\.[ \t]*"?{re.escape(provider)}"?[ \t]*\].*$', re.MULTILINE)
    found = header.search(text)
    if found is None:
        end = "" if not text or text.endswith("\n") else "\n"
        changed = f"{text}{end}\n[providers.{provider}]\n{added}\n".lstrip("\n")
    else:
        rest = text[found.end() :]
        following = re.search(r"^[ \t]*\[", rest, re.MULTILINE)
        table = rest[: following.start()] if following else rest
        kept, count = re.subn(r"^[ \t]*api_key[ \t]*=.*$", lambda _: line, table, count=1, flags=re.MULTILINE)
        place = f"\nbase_url = {json.dumps(base_url)}" if base_url else ""
        table = place + (kept if count else f"\n{line}{table}")
        changed = text[: found.end()] + table + (rest[following.start() :] if following else "")
    providers, given = before.get("providers", {}), {"api_key": key, **({"base_url": base_url} if base_url else {})}
    wanted = {**before, "providers": {**providers, provider: {**providers.get(provider, {}), **given}}}
    if tomllib.loads(changed) != wanted:
        raise UsageError(f"{path} is written in a way that is not changed by itself: set {provider}'s api_key there")
    write_private(path, changed)
    return path


def write_private(path: Path, text: str | bytes) -> None:
    """Replace a file in one step, readable by its owner alone. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with atomic_write(path) as file:
        file.write(text.encode() if isinstance(text, str) else text)
