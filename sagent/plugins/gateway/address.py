"""The address of a page: it is parsed strictly, and refused if it would carry a secret away."""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Literal, TypeAlias
from urllib.parse import quote, unquote, urljoin

from sagent.errors import ToolError
from sagent.lib.dataclass import dataclass
from sagent.sandbox.hosts import Endpoint
from sagent.sandbox.profile import Need

Scheme: TypeAlias = Literal["http", "https"]

_DEFAULT: Mapping[Scheme, int] = {"http": 80, "https": 443}
_URL = re.compile(r"(?i:(https?)):/{2}([^/?#]+)([^#]*)(?:#.*)?", re.DOTALL)
_KEPT = "%/:?@!$&'()*+,;=~-._|[]"  # characters that a path and a query may contain unescaped
_MIN_SECRET_CHARS = 8  # of a secret


@dataclass(frozen=True, slots=True)
class WebAddress:
    """The address of a page: `target` is the path and the query as they are sent."""

    scheme: Scheme
    endpoint: Endpoint
    target: str

    def __str__(self) -> str:
        host = str(self.endpoint).rpartition(":")[0] if self.endpoint.port == _DEFAULT[self.scheme] else self.endpoint
        return f"{self.scheme}://{host}{self.target}"

    @property
    def host(self) -> str:
        """The host as a `Host` header names it."""
        return str(self).split("/", 3)[2]

    @property
    def need(self) -> Need:
        """The need that the policy judges: the host, with its port unless that is 80 or 443."""
        return Need("network", self.endpoint.wanted)


def parse_address(text: str) -> WebAddress:
    """Read a URL. Raises ToolError that says which part is wrong."""
    text = text.strip()
    if any(ord(letter) < 32 or letter in "\\\x7f" for letter in text):
        raise ToolError(f"{text!r} is not a URL: it holds a control character or a backslash.")
    match = _URL.fullmatch(text)
    if match is None:
        raise ToolError(f"{text[:200]!r} is not the URL of a page. Give one that begins with https:// or http://.")
    scheme: Scheme = "https" if match[1].lower() == "https" else "http"
    if "@" in match[2]:
        raise ToolError(f"{text[:200]!r} has a user name before its host. Give the URL without it.")
    try:
        endpoint = Endpoint.parse(match[2], _DEFAULT[scheme])
    except ValueError as error:
        raise ToolError(f"{text[:200]!r} cannot be fetched: {error}. Addresses are written as 192.0.2.1.") from None
    target = quote(match[3], safe=_KEPT)
    return WebAddress(scheme, endpoint, target if target.startswith("/") else f"/{target}")


def follow(start: WebAddress, location: str) -> WebAddress:
    """Return the address of a redirect. Raises ToolError if it is no address of a page."""
    with suppress(UnicodeError):  # browsers read non-ASCII bytes in it as UTF-8
        location = location.encode("latin-1").decode()
    try:
        return parse_address(urljoin(str(start), location.strip()))
    except ValueError:
        raise ToolError(f"{start} redirects to {location[:200]!r}, which is not a URL.") from None


def check_secrets(*texts: str) -> None:
    """Raise ToolError if a text to be sent holds a secret: one of the environment, or a text that looks like one.

    A page may ask a model to fetch an address that carries a key to the page's author.
    """
    from sagent.lib.secrets import is_key, redact

    for text in texts:
        spellings = {text, unquote(text), unquote(unquote(text))}
        known = (
            name
            for name, value in os.environ.items()
            if len(value) >= _MIN_SECRET_CHARS and any(value in each for each in spellings) and is_key(name, value)
        )
        if (name := next(known, None)) is not None:
            raise ToolError(f"Not sent: it holds the value of the environment variable {name}. Leave it out.")
        if any(redact(spelling)[1] for spelling in spellings):
            raise ToolError("Not sent: it holds what looks like a key or a password. Leave that out.")
