"""A login at GitHub by its device flow: a person enters a displayed code in any browser, which yields a token.

(docs.github.com, authorizing OAuth apps, device flow; RFC 8628)
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from urllib.parse import urlencode, urlsplit

from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, as_int, as_object, as_str
from sagent.providers.access import check_url, loopback
from sagent.providers.wire.exchange import MAX_ERROR_BYTES, read_answer, read_json
from sagent.providers.wire.faults import ExchangeFailed, Origin
from sagent.providers.wire.transport import Transport

GITHUB = "https://github.com"

# GitHub's Copilot only answers its own apps: this is the id of its editor plugin, which is no secret.
_CLIENT = "Iv1.b507a08c87ecfe98"
_SCOPE = "read:user"
_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_DEFAULT_POLL_SECONDS = 5  # between two polls, by default
_MIN_POLL_SECONDS = 1  # whatever the server names
_DEFAULT_CODE_LIFE_SECONDS = 900  # seconds that a code is valid
_TIMEOUT_SECONDS = 30.0  # for an answer
_HEADERS = {"accept": "application/json", "content-type": "application/x-www-form-urlencoded"}
_AGAIN = "Log in again"


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """Code for a person to enter, and the page for it. `until` is in the time of `time.monotonic()`."""

    user_code: str
    page: str
    code: str = field(repr=False)
    wait: int
    until: float


def host_url(host: str) -> str:
    """Return the URL of a GitHub, from "github.com", "company.ghe.com" or an address. Raises UsageError."""
    url = check_url("a GitHub", host if "://" in host else f"https://{host}")
    if not url.isascii() or len(url.split()) > 1:
        raise UsageError(f"{host!r} is not a host name.")
    if urlsplit(url).scheme != "https" and not loopback(url):
        raise UsageError(f"{host} would be sent the login unencrypted: give its name alone, or https://.")
    return url


async def begin(host: str, transport: Transport, origin: Origin) -> DeviceCode:
    """Request a code. Raises ModelError."""
    try:
        answer = await _post(transport, f"{host}/login/device/code", {"client_id": _CLIENT, "scope": _SCOPE})
    except ExchangeFailed as error:
        raise origin.disrupted(error) from error
    page, code, shown = (as_str(answer.get(name)) for name in ("verification_uri", "device_code", "user_code"))
    if not (page and code and shown):
        raise origin.error("server", f"{host} gives no code to log in with: {_reason(answer)}")
    life = as_int(answer.get("expires_in")) or _DEFAULT_CODE_LIFE_SECONDS
    wait = max(_MIN_POLL_SECONDS, as_int(answer.get("interval"), _DEFAULT_POLL_SECONDS))
    return DeviceCode(shown, page, code, wait, time.monotonic() + life)


async def finish(
    host: str,
    code: DeviceCode,
    transport: Transport,
    origin: Origin,
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> str:
    """Wait for the code to be entered; return the account's token. Raises ModelError if it is refused or expired.

    A temporary network failure or a busy server does not end the wait.
    """
    wait, asked = code.wait, {"client_id": _CLIENT, "device_code": code.code, "grant_type": _GRANT}
    while time.monotonic() < code.until:
        await pause(wait)
        try:
            answer = await _post(transport, f"{host}/login/oauth/access_token", asked)
        except ExchangeFailed as error:
            if error.final:
                raise origin.disrupted(error) from error
            continue
        if token := as_str(answer.get("access_token")):
            return token
        match as_str(answer.get("error")):
            case "authorization_pending" | "":
                continue
            case "slow_down":
                wait = max(as_int(answer.get("interval")), wait + _DEFAULT_POLL_SECONDS)
            case "access_denied":
                raise origin.error("auth", f"the login was refused at {host}. {_AGAIN} to allow it.")
            case "expired_token":
                break
            case _:
                raise origin.error("auth", f"{host} refuses the login: {_reason(answer)}")
    raise origin.error("auth", f"the code {code.user_code} was not entered in time. {_AGAIN} for a new one.")


async def _post(transport: Transport, url: str, fields: Mapping[str, str]) -> Mapping[str, object]:
    """Return the object that comes back, whatever its status: refusals come under 200. Raises ExchangeFailed."""
    try:
        body = (urlencode(fields).encode(),)
        _, found = await read_answer(
            transport, url, _HEADERS, body, timeout=_TIMEOUT_SECONDS, max_bytes=MAX_ERROR_BYTES
        )
        return as_object(read_json(found))
    except ExchangeFailed as error:
        if error.kind == "stalled":
            error.reason = f"{url}: {error.reason}"
        raise
    except (ValueError, RecursionError):
        return EMPTY


def _reason(answer: Mapping[str, object]) -> str:
    return as_str(answer.get("error_description")) or as_str(answer.get("error")) or "it does not say why"
