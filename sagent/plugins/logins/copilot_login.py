"""The login of GitHub Copilot: an account's token, stored in a file, and the short-lived tokens it is exchanged for.

Each of these comes with the list of the plan's models, with the API of each.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from sagent.context.places import directory
from sagent.errors import ModelError, UsageError
from sagent.lib.atomic import put
from sagent.lib.dataclass import dataclass
from sagent.lib.json import JsonObject, as_array, as_int, as_object, as_str, json_freeze_object, wire_bytes
from sagent.lib.regular import MAX_BYTES, read_regular
from sagent.plugins.logins.github_device import GITHUB, begin, finish, host_url
from sagent.plugins.logins.renewal import one_at_a_time
from sagent.providers.access import check_url, loopback
from sagent.providers.wire.exchange import Timeouts, fetch
from sagent.providers.wire.faults import Origin
from sagent.providers.wire.transport import DirectTransport, Transport
from sagent.version import __version__

NAME = "copilot"
VARIABLE = "COPILOT_GITHUB_TOKEN"
"""A GitHub token, also read by GitHub's own Copilot program."""
LOG_IN = "Run `sagent login copilot`."
HEADERS: Mapping[str, str] = {
    "Editor-Version": f"sagent/{__version__}",
    "Editor-Plugin-Version": f"sagent/{__version__}",
    "Copilot-Integration-Id": "vscode-chat",  # others are refused
    "Openai-Intent": "conversation-agent",
    "X-GitHub-Api-Version": "2026-06-01",
}

_GITHUB_API = "2025-04-01"  # the requested version of the exchange
_USUAL_API = "https://api.githubcopilot.com"
_MAX_LIST_BYTES = MAX_BYTES // 2  # of a list of models to keep, so that the file stays readable
_RENEWAL_LEAD_SECONDS = 60.0  # seconds before its expiry to renew a token, if it names no time
_UNCHANGED = {"refresh_in": 3_600}  # seconds until the next check whether there is an exchange
_KEPT = ("id", "name", "supported_endpoints", "capabilities", "billing", "policy", "model_picker_enabled")


@dataclass(frozen=True, slots=True)
class CopilotLogin:
    """An account's login. `access` is good until `until`, seconds since the epoch, at the address `api`. `models` is
    the list of the plan's, as it came."""

    github: str = field(repr=False)
    host: str = GITHUB
    access: str = field(default="", repr=False)
    until: float = 0.0
    api: str = _USUAL_API
    models: tuple[JsonObject, ...] = ()

    @property
    def is_fresh(self) -> bool:
        """True if the token is still valid for a call made now."""
        return time.time() < self.until


class Account:
    """GitHub account, from the file at a path, or from a given token, which is not stored."""

    def __init__(self, login: CopilotLogin, path: Path | None = None) -> None:
        self.login = login
        self.path = path

    @classmethod
    def find(cls, environ: Mapping[str, str]) -> "Account":
        """Find the account by the variable, else by the file. Raises UsageError with advice if there is neither."""
        if token := environ.get(VARIABLE, "").strip():
            return cls(CopilotLogin(token))
        path = login_file(environ)
        return cls(_read(path), path)

    async def renew(self, stale: CopilotLogin, transport: Transport, origin: Origin) -> CopilotLogin:
        """Return a login with another access token than the stale one, saved for other processes too. Raises
        ModelError."""
        if self.path is None or not os.access(self.path.parent, os.W_OK):  # it cannot be saved, but is valid
            return await exchange(stale, transport, origin)
        async with one_at_a_time(self.path, origin):
            try:
                current = _read(self.path)
            except UsageError as error:
                raise origin.error("auth", str(error)) from error
            if current.access != stale.access and current.is_fresh:
                return current
            fresh = await exchange(current, transport, origin)
            with suppress(OSError):  # as above
                _write(self.path, fresh)
            return fresh


async def exchange(login: CopilotLogin, transport: Transport, origin: Origin) -> CopilotLogin:
    """Return a new access token for an account's, with the models that it opens. Raises ModelError."""
    own = replace(origin, secret=login.github)
    try:
        answer = await _ask(login, "/copilot_internal/v2/token", transport, own)
    except ModelError as error:
        if error.status != 404:
            raise
        # some hosts have no exchange: then the account's own token is used (opencode and litellm use it alone)
        answer = {**await _ask(login, "/copilot_internal/user", transport, own), **_UNCHANGED, "token": login.github}
    access, lasts = as_str(answer.get("token")), as_int(answer.get("refresh_in"))
    if not access:
        raise own.error("auth", f"{urlsplit(login.host).netloc} gives no token for Copilot. {LOG_IN}")
    # by our own clock, if it names a duration: clocks may differ
    until = time.time() + lasts if lasts > 0 else as_int(answer.get("expires_at")) - _RENEWAL_LEAD_SECONDS
    named = as_str(as_object(answer.get("endpoints")).get("api"))
    fresh = replace(login, access=access, until=until, api=_usable(named, login.host))
    with suppress(ModelError):  # the known ones are good enough
        fresh = replace(fresh, models=await list_models(fresh, transport, replace(origin, secret=access)))
    return fresh


async def list_models(login: CopilotLogin, transport: Transport, origin: Origin) -> tuple[JsonObject, ...]:
    """Return the plan's models, as they are listed now. Raises ModelError."""
    headers = {**HEADERS, "authorization": f"Bearer {login.access}", "accept": "application/json"}
    data = as_object(await fetch(transport, f"{login.api}/models", headers, origin, Timeouts()))
    rows = [as_object(row) for row in as_array(data.get("data"))]
    kept = tuple([json_freeze_object({name: row[name] for name in _KEPT if name in row}) for row in rows])
    if len(wire_bytes(kept)) > _MAX_LIST_BYTES:
        raise origin.error("protocol", f"its list of models is longer than {_MAX_LIST_BYTES:,} bytes")
    return kept


async def describe_account(login: CopilotLogin, transport: Transport, origin: Origin) -> str:
    """Describe the login's owner, plan and remaining allowance; "" if GitHub does not report them."""
    try:
        answer = await _ask(login, "/copilot_internal/user", transport, replace(origin, secret=login.github))
    except ModelError:
        return ""
    words = [f"{as_str(answer.get('login'))}".strip(), as_str(answer.get("copilot_plan"))]
    quota = as_object(as_object(answer.get("quota_snapshots")).get("premium_interactions"))
    if most := as_int(quota.get("entitlement")):
        left, until = quota.get("remaining"), as_str(answer.get("quota_reset_date"))
        words.append(f"{left:g} of {most:,} credits left" if isinstance(left, int | float) else f"{most:,} credits")
        words[-1] += f" until {until}" if until else ""
    elif quota.get("unlimited") is True:
        words.append("unlimited")
    return ", ".join(filter(None, words))


class _Surface(Protocol):
    def say(self, text: str) -> None: ...


async def log_in_here(surface: _Surface, host: str) -> None:
    """Log in for `sagent login copilot`: at a company's host, or at GitHub's own."""
    await log_in(host_url(host or "github.com"), login_file(os.environ), surface.say)


async def log_in(host: str, path: Path, say: Callable[[str], None]) -> None:
    """Log a person in in a browser, and save that in a file. Raises ModelError, and OSError if that fails."""
    origin, transport = Origin(NAME), DirectTransport()
    try:
        code = await begin(host, transport, origin)
        say(f"Open {code.page} in any browser, and enter this code there: {code.user_code}")
        login = CopilotLogin(await finish(host, code, transport, origin), host)
        login = await exchange(login, transport, origin)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write(path, login)
        about = await describe_account(login, transport, origin)
    finally:
        await transport.aclose()
    say(f"Logged in at {urlsplit(host).netloc}{about and f' ({about})'}; kept in {path}, which only you can read.")
    models = [name for row in login.models if row.get("model_picker_enabled") and (name := as_str(row.get("id")))]
    say(f"The plan's models: {', '.join(models) or 'none'}. Use one with --model copilot/NAME.")


def login_file(environ: Mapping[str, str]) -> Path:
    """Return the path of the login file."""
    return directory("config", environ, Path(environ.get("HOME") or Path.home())) / "copilot.json"


async def _ask(login: CopilotLogin, path: str, transport: Transport, origin: Origin) -> Mapping[str, object]:
    """Send an authenticated request to GitHub. Raises ModelError with advice."""
    own = {"authorization": f"token {login.github}", "accept": "application/json"}
    headers = {**HEADERS, **own, "X-GitHub-Api-Version": _GITHUB_API}
    parts = urlsplit(login.host)
    address = login.host if loopback(login.host) else f"{parts.scheme}://api.{parts.netloc}"
    try:
        return as_object(await fetch(transport, address + path, headers, origin, Timeouts()))
    except ModelError as error:
        if error.status in (401, 404):
            error.advise(LOG_IN)
        elif error.status == 403:
            error.advise("See whether the account has Copilot: https://github.com/settings/copilot.")
        raise


def _usable(api: str, host: str) -> str:
    """Return the address in a token, if the token may be sent there."""
    usual = _USUAL_API if host == GITHUB else f"https://copilot-api.{urlsplit(host).netloc}"
    try:
        api = check_url(NAME, api)
    except UsageError:
        return usual
    return api if api.startswith("https://") or (loopback(api) and loopback(host)) else usual


def _read(path: Path) -> CopilotLogin:
    try:
        data = as_object(json.loads(read_regular(path)))
    except FileNotFoundError:
        raise UsageError(f"There is no login for Copilot: {path} is missing. {LOG_IN}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read as a login ({error}). {LOG_IN}") from error
    token, until = as_str(data.get("github_token")), data.get("until")
    if not token:
        raise UsageError(f"{path} has no login for Copilot. {LOG_IN}")
    return CopilotLogin(
        token,
        as_str(data.get("host"), GITHUB),
        as_str(data.get("access_token")),
        float(until) if isinstance(until, int | float) else 0.0,
        as_str(data.get("api"), _USUAL_API),
        tuple([json_freeze_object(as_object(row)) for row in as_array(data.get("models"))]),
    )


def _write(path: Path, login: CopilotLogin) -> None:
    own = {"host": login.host, "github_token": login.github, "access_token": login.access}
    put(path, wire_bytes({**own, "until": login.until, "api": login.api, "models": login.models}))
