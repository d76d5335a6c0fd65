"""Proxies from the environment: HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY, in upper or lower case."""

import os
from contextlib import suppress
from importlib.util import find_spec
from ipaddress import ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

from sagent.providers.wire.faults import ExchangeFailed

_PORTS = {"http": "80", "https": "443"}
_INSTEAD = "or except the host with NO_PROXY"
_SOCKS = "name an http proxy, or go through the SDK with --transport sdk (pip install 'httpx2[socks]')"


def proxy_named(url: SplitResult, *, socks: bool = False) -> tuple[str, str]:
    """Return the proxy for a URL, and the variable that names it; "" for none. The SDKs can use `socks` proxies.

    Raises ExchangeFailed for an unusable value without showing it, because it may contain a password.
    """
    own = _variable(f"{url.scheme.upper()}_PROXY")
    name, proxy = own if own[1] else _variable("ALL_PROXY")
    if not proxy or _is_excepted(url):
        return "", ""
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    scheme = proxy.partition("://")[0].lower()
    if scheme.startswith("socks"):
        if socks and find_spec("socksio"):
            return proxy, name
        reason = f"{name} names a {scheme} proxy, which is not supported here: {_SOCKS}, {_INSTEAD}"
        raise ExchangeFailed("invalid_request", reason)
    try:
        parts = urlsplit(proxy)
        sound = scheme in _PORTS and bool(parts.hostname) and parts.path in ("", "/") and parts.port != 0
    except ValueError:
        sound = False
    if not sound:
        raise ExchangeFailed("invalid_request", f"{name} is not a proxy address: give http://HOST:PORT, {_INSTEAD}")
    return proxy, name


def _variable(name: str) -> tuple[str, str]:
    """Return a variable's name and value; lower case wins. To a program of a web server's HTTP_PROXY is a header."""
    for each in (name.lower(), name):
        if each in os.environ and not (each == "HTTP_PROXY" and "REQUEST_METHOD" in os.environ):
            return each, os.environ[each].strip()
    return name, ""


def _is_excepted(url: SplitResult) -> bool:
    """Return True if NO_PROXY lists the host: by name or suffix, with or without port, or by its network."""
    host, port = (url.hostname or "").rstrip("."), str(url.port or _PORTS.get(url.scheme, ""))
    for entry in _variable("NO_PROXY")[1].lower().replace(",", " ").split():
        if "/" in entry:
            with suppress(ValueError):
                if ip_address(host) in ip_network(entry, strict=False):
                    return True
            continue
        named, colon, only = entry.rpartition(":") if entry.count(":") == 1 or "]:" in entry else (entry, "", "")
        named = named.strip("[]").removeprefix("*").removeprefix(".")
        if (not colon or only == port) and (not named or host == named or host.endswith(f".{named}")):
            return True
    return False
