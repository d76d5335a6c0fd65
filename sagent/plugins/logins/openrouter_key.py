"""A key of OpenRouter, made in a browser: OAuth with PKCE, whose code is exchanged for a key of the account's.

(openrouter.ai/docs, OAuth PKCE: callbacks on localhost are allowed on any port; RFC 7636)
"""

import asyncio
import os
import sys
from base64 import urlsafe_b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from secrets import token_urlsafe
from urllib.parse import parse_qs, urlencode, urlsplit

from sagent.errors import UsageError
from sagent.lib.http1 import problem_of
from sagent.lib.json import as_object, as_str, wire_bytes
from sagent.lib.text import one_line, printable
from sagent.providers.wire.exchange import Timeouts, fetch
from sagent.providers.wire.faults import Origin
from sagent.providers.wire.transport import DirectTransport
from sagent.repl.commands.command import CommandContext
from sagent.repl.terminal.picker import Option

LOGIN_TIMEOUT_SECONDS = 300.0
_HEAD_TIMEOUT_SECONDS = 10.0  # of a browser's request
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
    async with _listening() as (callback, arrived):
        asked = {"callback_url": callback, "code_challenge": challenge, "code_challenge_method": "S256"}
        page = f"{parts.scheme}://{parts.netloc}/auth?{urlencode(asked)}"
        context.say(f"Open this address and allow access: {page}")
        if elsewhere:
            said = await context.line("The address at which the browser ends, which it need not reach: ")
            if not said:
                return None
            code = code_in(said.strip())
        else:
            await asyncio.to_thread(_open_browser, page)
            try:
                async with asyncio.timeout(LOGIN_TIMEOUT_SECONDS):
                    code = await arrived
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


def code_in(address: str) -> str:
    """Return the code in the address at which a browser ended. Raises UsageError."""
    given = parse_qs(urlsplit(address).query)
    if "code" not in given:
        why = one_line(printable(given.get("error_description", given.get("error", [""]))[0]), 200)
        raise UsageError(f"The login was refused: {why}" if why else "That address has no code (?code=...).")
    return given["code"][0]


@asynccontextmanager
async def _listening() -> AsyncGenerator[tuple[str, "asyncio.Future[str]"]]:
    """Yield an address on this machine for a browser's return, and its code. The address cannot be guessed, because any
    page can send a browser here."""
    arrived: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    path = f"/callback/{token_urlsafe(16)}"

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _HEAD_TIMEOUT_SECONDS)
            words = head.split(b" ", 2)
            target = words[1].decode("latin-1") if len(words) == 3 and not problem_of(head) else ""
            status, said = "404 Not Found", "This address is only for returning from a login that sagent started."
            if urlsplit(target).path == path:
                status, said = "200 OK", "You are logged in. You can close this page and return to sagent."
                try:
                    code = code_in(target)
                except UsageError as error:
                    said = "The login was refused. You can close this page."
                    if not arrived.done():
                        arrived.set_exception(error)
                else:
                    if not arrived.done():
                        arrived.set_result(code)
            body = f"<!doctype html><meta charset=utf-8><title>sagent</title><p>{said}".encode()
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n"
                "Content-Security-Policy: default-src 'none'\r\nConnection: close\r\n\r\n".encode()
                + body
            )
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(receive, "127.0.0.1", 0) as server:
        try:
            yield f"http://localhost:{server.sockets[0].getsockname()[1]}{path}", arrived
        finally:
            if arrived.done() and not arrived.cancelled():
                arrived.exception()  # it was told, or the person has left
            arrived.cancel()


def _open_browser(url: str) -> None:
    """Open a browser that has a window; one in this terminal would write over the session."""
    if sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        import webbrowser

        webbrowser.open(url)
