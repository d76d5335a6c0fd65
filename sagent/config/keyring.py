"""Keys in the operating system's keyring, through the library `keyring` (the extra of that name)."""

from importlib import import_module
from typing import Protocol, cast

IN_KEYRING = "in the keyring"
"""`api_key` of `[providers.NAME]` for a key in the keyring."""
SERVICE = "sagent"  # under which keys are kept


class _Backend(Protocol):
    priority: float  # at most 0: there is none


class Keyring(Protocol):
    """The members of the library that are used."""

    def get_keyring(self) -> _Backend: ...
    def get_password(self, service_name: str, username: str) -> str | None: ...
    def set_password(self, service_name: str, username: str, password: str) -> None: ...


def kept_key(provider: str) -> str:
    """Return a provider's key, "" if it or the keyring is missing: the environment may have one."""
    keyring = keyring_module()
    try:
        return (keyring.get_password(SERVICE, provider) or "") if keyring is not None else ""
    except Exception:
        return ""


def keyring_module() -> Keyring | None:
    """Return the library, None if it is not installed."""
    try:
        return cast("Keyring", import_module("keyring"))
    except ImportError:
        return None
