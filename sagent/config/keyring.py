"""Keys in the operating system's keyring, through the library `keyring` (the extra of that name)."""

from importlib import import_module
from typing import Protocol, cast

IN_KEYRING = "in the keyring"
"""`api_key` of `[providers.NAME]` for a key in the keyring."""
_SERVICE = "sagent"


class _Backend(Protocol):
    priority: float  # at most 0: there is none


class _Keyring(Protocol):
    def get_keyring(self) -> _Backend: ...
    def get_password(self, service_name: str, username: str) -> str | None: ...
    def set_password(self, service_name: str, username: str, password: str) -> None: ...


def has_keyring() -> bool:
    """Return True if the system has a keyring to keep keys in. May take a moment."""
    keyring = _keyring()
    try:
        return keyring is not None and keyring.get_keyring().priority > 0
    except Exception:
        return False


def keep_key(provider: str, key: str) -> None:
    """Store a provider's key. Raises OSError if the keyring refuses."""
    if (keyring := _keyring()) is None:
        from sagent.lib.installed import install_command

        raise OSError(f"there is no keyring: {install_command('keyring', 'keyring')}")
    try:
        keyring.set_password(_SERVICE, provider, key)
    except Exception as error:  # each backend has its own errors
        raise OSError(f"the keyring reports an error: {error}") from error


def kept_key(provider: str) -> str:
    """Return a provider's key, "" if it or the keyring is missing: the environment may have one."""
    keyring = _keyring()
    try:
        return (keyring.get_password(_SERVICE, provider) or "") if keyring is not None else ""
    except Exception:
        return ""


def _keyring() -> _Keyring | None:
    try:
        return cast("_Keyring", import_module("keyring"))
    except ImportError:
        return None
