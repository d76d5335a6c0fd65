"""Where a provider is and who we are there: from the variables people already set, or given."""

import os
from collections.abc import Mapping
from dataclasses import field
from urllib.parse import urlsplit

from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass

NO_KEY = "none"  # what is sent where there is no key


@dataclass(frozen=True, slots=True)
class Access:
    """An endpoint and a key. `variable` is where the key comes from, for messages. The key is never shown.

    A `delegated` access is the SDK's own affair: it finds the login and, where `base_url` is empty, the address. The
    key is then only one it may use (`given` by the caller) or find by itself.
    """

    name: str
    base_url: str
    key: str = field(default="", repr=False)
    variable: str = ""
    bearer: bool = True
    delegated: bool = False
    given: bool = False


@dataclass(frozen=True, slots=True)
class Variables:
    """The environment variables of one provider; `token` holds a key that is sent as a bearer token.

    Several names, with spaces between them, are alternatives: the first one set counts.
    """

    key: str
    base_url: str
    token: str = ""


def access_from_env(
    name: str,
    variables: Variables,
    default_url: str,
    *,
    base_url: str | None = None,
    auth: str | None = None,
    environ: Mapping[str, str] | None = None,
    open_door: bool = False,
) -> Access:
    """The access the environment describes. Raises UsageError naming the variable that is missing or wrong.

    `auth` is "key" or "bearer". A server on this machine needs no key, nor does one with an `open_door`.
    """
    environ = os.environ if environ is None else environ
    (key_name, key), (_, token) = first_set(variables.key, environ), first_set(variables.token, environ)
    bearer = auth == "bearer" if auth else not key and bool(token)
    secret = (token or key) if bearer else (key or token)
    url = base_url or first_set(variables.base_url, environ)[1] or default_url
    if not url:
        raise UsageError(f"{name} has no address of its own: set {either(variables.base_url)}, or give --base-url.")
    variable = variables.token if secret and secret == token != key else key_name
    if not secret and not open_door and not loopback(check_url(name, url)):
        raise UsageError(no_key(name, variables))
    return access_from_key(name, secret, url, variable=variable, bearer=bearer)


def no_key(name: str, variables: Variables) -> str:
    """What to do where a key is missing."""
    anything = " (to any word, where the server wants none)" if name == "openai-compatible" else ""
    return f"No key for {name}: set {either(variables.key, variables.token)}{anything}."


def first_set(names: str, environ: Mapping[str, str] | None = None) -> tuple[str, str]:
    """The first of some variables that is set, and its value; the first of them and "" where none is."""
    environ = os.environ if environ is None else environ
    alternatives = names.split()
    found = ((name, value) for name in alternatives if (value := environ.get(name, "").strip()))
    return next(found, (next(iter(alternatives), ""), ""))


def either(*names: str) -> str:
    """The names of variables as a sentence has them: "A or B"."""
    return " or ".join(" ".join(names).split())


def access_from_key(name: str, key: str, base_url: str, *, variable: str = "", bearer: bool = True) -> Access:
    """An access with a key given. Raises UsageError for a key or an address that cannot be used."""
    key, base_url = key.strip(), check_url(name, base_url)
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(f"{variable or 'The key'} for {name} holds characters that no key has; set it again.")
    return Access(name, base_url, key, variable, bearer)


def check_url(name: str, base_url: str) -> str:
    """A base URL without slashes at its end. Raises UsageError for one below which there can be no path."""
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
    """Whether a URL points to this machine."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return host in ("localhost", "::1", "0.0.0.0") or host.startswith("127.") or host.endswith(".localhost")  # noqa: S104 -- compared, not bound
