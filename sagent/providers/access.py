"""Addresses and credentials of providers, from the usual environment variables or as given."""

import os
from collections.abc import Mapping
from dataclasses import field
from urllib.parse import urlsplit

from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass

NO_KEY = "none"  # sent if there is no key


@dataclass(frozen=True, slots=True)
class Access:
    """An endpoint and a key. `variable` is the source of the key, for messages. The key is never shown.

    For a `delegated` access the SDK finds the login and, if `base_url` is empty, the address. The key is then only one
    that it may use (`given` by the caller) or find itself. `others` replace a key that has reached its limit.
    """

    name: str
    base_url: str
    key: str = field(default="", repr=False)
    variable: str = field(default="", compare=False)
    bearer: bool = True
    delegated: bool = False
    given: bool = field(default=False, compare=False)
    others: tuple[str, ...] = field(default=(), repr=False)


def first_set(names: str, environ: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Return the first variable that is set, and its value; the first name and "" if none is."""
    environ = os.environ if environ is None else environ
    alternatives = names.split()
    found = ((name, value) for name in alternatives if (value := environ.get(name, "").strip()))
    return next(found, (next(iter(alternatives), ""), ""))


def either(*names: str) -> str:
    """Return the names of variables as a sentence has them: "A or B"."""
    return " or ".join(" ".join(names).split())


def access_from_key(name: str, key: str, base_url: str, *, variable: str = "", bearer: bool = True) -> Access:
    """Return an access with one or several comma-separated keys. Raises UsageError for an unusable key or address."""
    check_text("key", key)
    base_url = check_url(name, base_url)
    found = [each.strip() for each in key.split(",") if each.strip()]
    first, *others = list(dict.fromkeys(found)) or [""]
    if (key.strip() and not found) or any(
        not each.isascii() or not each.isprintable() or " " in each for each in (first, *others)
    ):
        raise UsageError(f"{variable or 'The key'} for {name} has characters that a key cannot have; set it again.")
    return Access(name, base_url, first, variable, bearer, others=tuple(others))


def check_text(name: str, value: object) -> None:
    """Raise UsageError for an argument that is no text, without showing it: it may be a key."""
    if not isinstance(value, str):
        raise UsageError(f"{name} is {type(value).__name__}: give a string")


def check_url(name: str, base_url: str) -> str:
    """Return a base URL without trailing slashes. Raises UsageError for one that cannot have paths below it."""
    check_text("base_url", base_url)
    base_url = base_url.strip().rstrip("/")
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable or "?" in base_url or "#" in base_url:
        raise UsageError(
            f"{base_url!r} is not a base URL for {name}: it must look like https://host or http://host:port/path, "
            "without ? and #."
        )
    return base_url


def loopback(url: str) -> bool:
    """Return True if a URL points to this machine."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    if host.startswith("127."):  # a name may begin so too
        return host.replace(".", "").isdecimal()
    return host in ("localhost", "::1", "0.0.0.0") or host.endswith(".localhost")  # noqa: S104 -- compared, not bound
