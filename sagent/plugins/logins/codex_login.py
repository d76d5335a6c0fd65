"""The ChatGPT login stored by the `codex` program: read, renewed when it expires, and written back for both."""

import base64
import contextlib
import json
import time
from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path

from sagent.errors import ModelError, UsageError
from sagent.lib.atomic import atomic_write
from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, as_object, as_str, wire_bytes
from sagent.lib.names import path_of
from sagent.lib.regular import read_given
from sagent.plugins.logins.renewal import RENEWAL_TIMEOUT_SECONDS, one_at_a_time
from sagent.providers.wire.exchange import read_answer
from sagent.providers.wire.faults import ExchangeFailed, Origin
from sagent.providers.wire.transport import Transport

# The program's own (seen with codex 0.150.0): its client id, and the variable for another address.
_CLIENT = "app_EMoamEEZ73f0CkXaXp7hrann"
_TOKEN_URL = "https://auth.openai.com/oauth/token"  # noqa: S105 -- an address
_TOKEN_URL_VARIABLE = "CODEX_REFRESH_TOKEN_URL_OVERRIDE"  # noqa: S105 -- a name
_CLAIMS = "https://api.openai.com/auth"

_RENEWAL_LEAD_SECONDS = 300.0  # seconds before its end that a token is renewed
_MAX_TOKEN_AGE_SECONDS = 8 * 86_400.0  # seconds after which a token without an expiry is renewed, as in the program
_MAX_ANSWER_BYTES = 1_048_576

LOGIN = "Run `codex login`, then try again."


@dataclass(frozen=True, slots=True)
class Login:
    """Tokens of a ChatGPT account. `expires` is seconds since the epoch."""

    access: str = field(repr=False)
    refresh: str = field(repr=False)
    account: str
    expires: float

    @property
    def is_fresh(self) -> bool:
        """True if the token is still valid for a call made now."""
        return time.time() < self.expires - _RENEWAL_LEAD_SECONDS


class LoginFile:
    """auth.json, which both the program and sagent read and write."""

    def __init__(self, path: Path, token_url: str = _TOKEN_URL) -> None:
        self.path = path
        self._token_url = token_url

    @classmethod
    def find(cls, environ: Mapping[str, str]) -> "LoginFile":
        """Find the login in CODEX_HOME, or ~/.codex. Raises UsageError with advice if there is no ChatGPT login."""
        named = environ.get("CODEX_HOME")
        home = path_of(named) if named else Path(environ.get("HOME") or Path.home(), ".codex")
        file = cls(home / "auth.json", environ.get(_TOKEN_URL_VARIABLE) or _TOKEN_URL)
        if not file.path.is_file():
            raise UsageError(_where_else(home, file.path))
        file.read()
        return file

    def read(self) -> Login:
        """Return the present login. Raises UsageError if there is none for ChatGPT."""
        fields = self._fields()
        tokens = as_object(fields.get("tokens"))
        access, refresh = as_str(tokens.get("access_token")), as_str(tokens.get("refresh_token"))
        if not access:
            raise UsageError(
                f"{self.path} has an API key and no ChatGPT login. Use the provider openai with that key in"
                " OPENAI_API_KEY; or run `codex login` and sign in with ChatGPT."
                if as_str(fields.get("OPENAI_API_KEY")) or fields.get("auth_mode") == "apikey"
                else f"{self.path} has no ChatGPT login. {LOGIN}"
            )
        claims = _claims(access)
        expiry = claims.get("exp")
        expires = (
            float(expiry)
            if isinstance(expiry, int | float)
            else _since(fields.get("last_refresh")) + _MAX_TOKEN_AGE_SECONDS
        )
        account = (
            as_str(tokens.get("account_id")) or _account(claims) or _account(_claims(as_str(tokens.get("id_token"))))
        )
        return Login(access, refresh, account, expires)

    async def renew(self, stale: Login, transport: Transport, origin: Origin) -> Login:
        """Return a login with another access token than the stale one, written back. Raises ModelError.

        A refresh token can be used once: one process at a time does it, and later ones find its result.
        """
        async with one_at_a_time(self.path, origin):
            current = self._current(origin)
            if current.access != stale.access and current.is_fresh:
                return current
            if not current.refresh:
                raise origin.error("auth", f"the login in {self.path} has expired and cannot be renewed. {LOGIN}")
            try:
                with atomic_write(self.path) as file:  # a token that cannot be written back must not be used
                    tokens = await self._spend(current, transport, origin)
                    file.write(self._renewed(tokens))
            except ModelError:  # perhaps the program was quicker
                current = self._current(origin)
                if current.access == stale.access or not current.is_fresh:
                    raise
            except OSError as error:
                raise origin.error(
                    "auth",
                    f"the login has expired, and a new one could not be saved ({error}): make "
                    f"{self.path.resolve().parent} writable.",
                ) from error
            return self._current(origin)

    def _current(self, origin: Origin) -> Login:
        try:
            return self.read()
        except UsageError as error:
            raise origin.error("auth", str(error)) from error

    def _fields(self) -> Mapping[str, object]:
        try:
            data: object = json.loads(read_given(self.path))
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(f"{self.path} cannot be read as a login ({error}). {LOGIN}") from error
        return as_object(data)

    async def _spend(self, login: Login, transport: Transport, origin: Origin) -> Mapping[str, object]:
        """Exchange the refresh token for new tokens."""
        asked = {"client_id": _CLIENT, "grant_type": "refresh_token", "refresh_token": login.refresh}
        headers, sent = {"content-type": "application/json", "accept": "application/json"}, (wire_bytes(asked),)
        try:
            answer, body = await read_answer(
                transport, self._token_url, headers, sent, timeout=RENEWAL_TIMEOUT_SECONDS, max_bytes=_MAX_ANSWER_BYTES
            )
        except ExchangeFailed as error:
            raise origin.error(error.kind, f"the login could not be renewed: {error.reason}") from error
        with contextlib.suppress(ValueError, RecursionError):
            data: object = json.loads(body)
            if answer.status == 200 and as_str(as_object(data).get("access_token")):
                return as_object(data)
        words = " ".join(body.decode("utf-8", "replace").split())[:200]
        if answer.status in (400, 401, 403):
            said = f"the login in {self.path} could not be renewed ({words}). {LOGIN}"
            raise origin.error("auth", said, status=answer.status)
        raise origin.error("server", f"the login could not be renewed: {words}", status=answer.status)

    def _renewed(self, tokens: Mapping[str, object]) -> bytes:
        """Return the file with new tokens; its other contents stay."""
        fields = self._fields()
        fresh = {
            name: tokens[name] for name in ("id_token", "access_token", "refresh_token") if as_str(tokens.get(name))
        }
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        data = {**fields, "tokens": {**as_object(fields.get("tokens")), **fresh}, "last_refresh": now}
        return json.dumps(data, indent=2).encode()


def _where_else(home: Path, path: Path) -> str:
    """Explain why there is no login file, with a remedy."""
    import tomllib

    store: object = None
    with contextlib.suppress(OSError, ValueError):
        store = tomllib.loads(read_given(home / "config.toml").decode()).get("cli_auth_credentials_store")
    if store in ("keyring", "auto"):
        return (
            f"The login of codex is in the system's keyring (cli_auth_credentials_store = {store!r} in"
            f' {home / "config.toml"}), where it cannot be read from here. Set it to "file" and run `codex login`.'
        )
    return (
        f"There is no ChatGPT login: {path} is missing. Install codex (npm install -g @openai/codex), run `codex login`"
        " and sign in with ChatGPT; or use the provider openai with a key in OPENAI_API_KEY."
    )


def _claims(token: str) -> Mapping[str, object]:
    """Decode the claims of a JSON web token without verifying it; {} for any other token."""
    parts = token.split(".")
    try:
        data: object = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (IndexError, ValueError, RecursionError):
        return EMPTY
    return as_object(data)


def _account(claims: Mapping[str, object]) -> str:
    return as_str(as_object(claims.get(_CLAIMS)).get("chatgpt_account_id"))


def _since(when: object) -> float:
    """Return seconds since the epoch for an ISO date; 0 without one."""
    try:
        return datetime.fromisoformat(as_str(when)).timestamp()
    except ValueError:
        return 0.0
