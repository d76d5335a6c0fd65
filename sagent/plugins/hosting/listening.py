"""The listener of a server: its address, the tokens that open it, and how these are announced."""

import json
import os
import secrets
import socket
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from sagent.cli.render import binary_safe, report
from sagent.cli.tables import write
from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array
from sagent.lib.regular import read_given

if TYPE_CHECKING:
    from sagent.cli.flags import Parser

LOOPBACK = "127.0.0.1"
_MIN_TOKEN_CHARS = 16  # of a chosen token
Words: TypeAlias = Callable[[str, Mapping[str, str], Path], Sequence[str]]
"""The lines that announce a server, from its URL, the tokens by user, and the file with both."""


@dataclass(frozen=True, slots=True)
class Listener:
    """The address of a server, the token of each user, or one for "", and the text to announce these."""

    host: str
    port: int
    tokens: Mapping[str, str]
    form: str


def add_listener(parser: "Parser", user: str) -> None:
    """Add the flags of a listener; `user` is the help for --user."""
    parser.add_argument("--host", metavar="HOST", help=f"the address to listen on (default {LOOPBACK})")
    parser.add_argument("--port", metavar="PORT", help="the port to listen on (default 0: any free port)")
    parser.add_argument("--user", metavar="NAME", action="append", help=user)
    form = "text (default), or json to print the address as a line of JSON"
    parser.add_argument("--output-format", metavar="F", help=form)


def take_listener(options: dict[str, object], variable: str) -> Listener:
    """Remove these flags from the given ones; tokens are in the environment, or new. Raises UsageError."""
    port, form = str(options.pop("port", "0")), str(options.pop("output_format", "text"))
    if not port.isdecimal() or not 0 <= int(port) < 65536:
        raise UsageError(f"--port {port}: give a number from 0 to 65535.")
    if form not in ("text", "json"):
        raise UsageError(f"--output-format {form}: give text or json.")
    tokens = read_tokens(variable, [*map(str, as_array(options.pop("user", ())))])
    return Listener(str(options.pop("host", LOOPBACK)).strip("[]"), int(port), tokens, form)


def require(feature: str, extra: str, packages: str, *modules: str) -> None:
    """Raise UsageError with the command that installs the `packages` of an extra if one of these modules is missing."""
    if missing := [name for name in modules if find_spec(name) is None]:
        from sagent.lib.installed import install_command

        named = ", ".join(missing)
        raise UsageError(
            f"{feature} needs packages that are not installed ({named}): {install_command(extra, packages)}"
        )


def read_tokens(variable: str, users: Sequence[str]) -> Mapping[str, str]:
    """Return the token of each user, or one for "": from the environment, else new. Raises UsageError."""
    for name in users:
        if not name.isidentifier() or len(name) > 40 or users.count(name) > 1:
            raise UsageError(f"--user {name}: give each user a different name of up to 40 letters, digits and _.")
    variables = {name: f"{variable}_{name.upper()}" for name in users} or {"": variable}
    tokens = {name: _read_token(each) for name, each in variables.items()}
    if len(set(tokens.values())) < len(tokens):
        raise UsageError(f"Two users have the same token: set {' and '.join(variables.values())} to different ones.")
    return tokens


def _read_token(variable: str) -> str:
    token = os.environ.get(variable) or secrets.token_urlsafe(32)
    if len(token) < _MIN_TOKEN_CHARS or not token.isascii() or not token.isprintable():
        raise UsageError(
            f"{variable} is too short, or not printable ASCII: give at least {_MIN_TOKEN_CHARS} characters."
        )
    return token


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises UsageError."""
    try:
        bound = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise UsageError(f"--host {host} --port {port}: {error.strerror or error}") from error
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio needs an explicit protocol
    return bound


def url_of(bound: socket.socket, host: str) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{bound.getsockname()[1]}"


@contextmanager
def announced(folder: Path, listener: Listener, bound: socket.socket, words: Words) -> Generator[None]:
    """Announce address and tokens; also in a file of `folder`, for this user's other processes."""
    from ipaddress import ip_address

    from sagent.cli.main import output_failed
    from sagent.lib.atomic import put
    from sagent.session.log import make_directory

    tokens, url, file = listener.tokens, url_of(bound, listener.host), folder / f"{bound.getsockname()[1]}.json"
    opens: Mapping[str, object] = {"token": tokens[""]} if "" in tokens else {"tokens": dict(tokens)}
    shown = {"url": url, "pid": os.getpid(), **opens}
    make_directory(folder)
    _sweep(folder)
    put(file, json.dumps(shown).encode() + b"\n")
    try:
        try:
            if listener.form == "json":
                write(sys.stdout, [json.dumps({**shown, "file": str(file)})])
            else:
                write(binary_safe(sys.stdout), words(url, tokens, file))
            sys.stdout.flush()
        except OSError as error:  # the server runs on without a reader of that
            output_failed(error)
            report(f"{file} has the address of this server.")
        if not ip_address(bound.getsockname()[0]).is_loopback:
            report("this server is open to other machines, and its traffic is not encrypted.")
        yield
    finally:
        file.unlink(missing_ok=True)


def _sweep(folder: Path) -> None:
    """Remove what servers left that were killed."""
    for file in folder.glob("*.json"):
        try:
            os.kill(int(json.loads(read_given(file))["pid"]), 0)
        except ProcessLookupError:
            file.unlink(missing_ok=True)
        except (OSError, ValueError, KeyError, TypeError):
            continue
