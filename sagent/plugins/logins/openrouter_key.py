"""A key of OpenRouter, made in a browser: OAuth with PKCE, whose code is exchanged for a key of the account's.

(openrouter.ai/docs, OAuth PKCE: callbacks on localhost are allowed on any port; RFC 7636)
"""

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from secrets import token_urlsafe
from urllib.parse import urlencode, urlsplit

from sagent.errors import UsageError
from sagent.lib.json import as_object, as_str, wire_bytes
from sagent.plugins.hosting.browser_return import (
    LOGIN_TIMEOUT_SECONDS,
    browser_return,
    open_browser,
    query_of,
    refusal_in,
)
from sagent.providers.wire.exchange import Timeouts, fetch
from sagent.providers.wire.faults import Origin
from sagent.providers.wire.transport import DirectTransport
from sagent.repl.commands.command import CommandContext
from sagent.repl.terminal.picker import Option

_BASE_URL = "https://openrouter.ai/api/v1"
_USUAL, _ELSEWHERE, _TYPED = "here", "elsewhere", "typed"


async def new_key(context: CommandContext, base_url: str) -> str | None:
    """Let the person make a key in a browser; "" if they want to type one, None if they want neither. Raises UsageError
    and ModelError."""
    ways = [
        Option(_USUAL, "in a browser on this machine"),
        Option(_ELSEWHERE, "in a browser elsewhere", "you paste the address that it ends at"),
        Option(_TYPED, "type a key"),
    ]
    match await context.pick("How do you log in to OpenRouter?", ways):
        case "typed":
            return ""
        case None:
            return None
        case way:
            return await _made_key(context, base_url or _BASE_URL, elsewhere=way == _ELSEWHERE)


async def _made_key(context: CommandContext, base_url: str, *, elsewhere: bool) -> str | None:
    parts, verifier = urlsplit(base_url), token_urlsafe(48)
    challenge = urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    async with browser_return(host="localhost") as back:
        asked = {"callback_url": back.address, "code_challenge": challenge, "code_challenge_method": "S256"}
        page = f"{parts.scheme}://{parts.netloc}/auth?{urlencode(asked)}"
        context.say(f"Open this address and allow access: {page}")
        if elsewhere:
            said = await context.line("The address at which the browser ends, which it need not reach: ")
            if not said:
                return None
            code = _code_in(query_of(said.strip()))
        else:
            await asyncio.to_thread(open_browser, page)
            try:
                code = _code_in(await back.wait())
            except TimeoutError:
                raise UsageError(
                    f"No browser came back within {LOGIN_TIMEOUT_SECONDS / 60:.0f} minutes. On a machine without one, "
                    "choose the browser elsewhere."
                ) from None
    transport = DirectTransport()
    try:
        body = wire_bytes({"code": code, "code_verifier": verifier, "code_challenge_method": "S256"})
        headers = {"accept": "application/json", "content-type": "application/json"}
        url = f"{base_url.rstrip('/')}/auth/keys"
        answer = as_object(await fetch(transport, url, headers, Origin("openrouter", secret=code), Timeouts(), (body,)))
    finally:
        await transport.aclose()
    if not (key := as_str(answer.get("key"))):
        raise UsageError("OpenRouter gave no key for the login. Log in again, or type a key.")
    return key


def _code_in(query: Mapping[str, str]) -> str:
    """Return the code in the query of the address at which a browser ended. Raises UsageError."""
    if "code" not in query:
        why = refusal_in(query)
        raise UsageError(f"The login was refused: {why}" if why else "That address has no code (?code=...).")
    return query["code"]
