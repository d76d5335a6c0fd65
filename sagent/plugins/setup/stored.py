"""Keys and single values that are kept in the person's config.toml."""

import json
import re
from pathlib import Path

from sagent.config.keyring import SERVICE, keyring_module
from sagent.lib.json import as_object
from sagent.lib.toml import toml_value
from sagent.repl.settings_file import checked, find_table, one_by_one, read_file, with_table


@one_by_one
def store_key(path: Path, provider: str, key: str, base_url: str = "") -> bytes:
    """Set `api_key` of `[providers.NAME]`, and `base_url` if given. Raises as `add_rule`."""
    text, before = read_file(path)
    given = {"base_url": base_url, "api_key": key} if base_url else {"api_key": key}
    lines = {name: f"{name} = {json.dumps(value)}" for name, value in given.items()}
    place = find_table(text, rf'providers[ \t]*\.[ \t]*"?{re.escape(provider)}"?')
    if place is None:
        changed = with_table(text, f"providers.{provider}", "\n".join(lines.values()))
    else:
        table = text[slice(*place)]
        for name, line in lines.items():
            old = re.compile(rf"^[ \t]*{name}[ \t]*=.*$", re.MULTILINE)
            table = old.sub(line.replace("\\", r"\\"), table, count=1) if old.search(table) else f"\n{line}{table}"
        changed = text[: place[0]] + table + text[place[1] :]
    providers = as_object(before.get("providers"))
    wanted = {**before, "providers": {**providers, provider: {**as_object(providers.get(provider)), **given}}}
    return checked(path, changed, wanted, f"set api_key of providers.{provider}")


@one_by_one
def store_value(path: Path, name: str, value: object) -> bytes:
    """Set a value outside of tables. Raises as `add_rule`."""
    text, before = read_file(path)
    line, top = f"{name} = {toml_value(value)}", re.search(r"^[ \t]*\[", text, re.MULTILINE)
    end = top.start() if top else len(text)
    old = re.compile(rf"^[ \t]*{re.escape(name)}[ \t]*=.*$", re.MULTILINE)
    head, found = old.subn(line.replace("\\", r"\\"), text[:end], count=1)
    changed = head if found else f"{line}\n{head}"
    return checked(path, changed + text[end:], {**before, name: value}, f"set {name}")


def has_keyring() -> bool:
    """Return True if the system has a keyring to keep keys in. May take a moment."""
    keyring = keyring_module()
    try:
        return keyring is not None and keyring.get_keyring().priority > 0
    except Exception:
        return False


def keep_key(provider: str, key: str) -> None:
    """Store a provider's key. Raises OSError if the keyring refuses."""
    if (keyring := keyring_module()) is None:
        from sagent.lib.installed import install_command

        raise OSError(f"there is no keyring: {install_command('keyring', 'keyring')}")
    try:
        keyring.set_password(SERVICE, provider, key)
    except Exception as error:  # each backend has its own errors
        raise OSError(f"the keyring reports an error: {error}") from error
