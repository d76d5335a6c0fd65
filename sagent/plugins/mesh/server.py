"""The bus's own server: finds `nats-server`, writes its configuration, and runs it as a child process that ends with
us.

It listens on loopback by default, admits nobody without a key, syncs acknowledged data to its disk, and takes messages
of up to 8 MB. Needs sagent[mesh], or a nats-server from 2.11 on the PATH.
"""

import asyncio
import json
import os
import re
import shutil
import sysconfig
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote, urlencode

from sagent.errors import UsageError
from sagent.lib import flock
from sagent.lib.atomic import put
from sagent.lib.dataclass import dataclass
from sagent.lib.process import Process, ProcessGroup, system_path
from sagent.plugins.mesh import names
from sagent.plugins.mesh.errors import Unavailable
from sagent.plugins.mesh.room import Room
from sagent.session.log import make_directory

MAX_PAYLOAD_BYTES = 8 << 20
PORT = 4222
START_TIMEOUT_SECONDS = 60.0  # for a server to read its data and listen
_POLL_INTERVAL_SECONDS = 0.05  # seconds between checks that it does
_LOG, _PORTS = "server.log", "ports"
_ROOM, _OWN_PORT = "SAGENT_BUS_ROOM", "SAGENT_BUS_PORT"
"""Variables that the configuration refers to."""
_REFUSED = re.compile(rb"\] (\S+) - rid:\d+ - Route Error 'Authorization Violation'")  # in the server's log
_MIN_KEY_CHARS = 32  # of the key of a cluster
_NOTHING = 1  # maximum bytes of a store that must not grow; 0 would mean unlimited
_STOPS = "the bus stores nothing, and sessions stop, until space is freed there; nothing needs to be restarted"
_GOES_ON = "the bus continues"


@dataclass(frozen=True, slots=True)
class Tls:
    """Files of a certificate and its key, in PEM; with `ca`, clients must show a certificate that it has signed."""

    cert: Path
    key: Path
    ca: Path | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """The servers that form one bus, each with a copy of everything: the address of this one for its `peers` (the
    others, HOST:PORT), and the file of their shared secret, created if missing."""

    address: str
    peers: tuple[str, ...]
    key: Path


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The options of a server. `port` 0 is any free one. `users` is a file of accounts, as `sagent nodes permissions`
    writes it; without one there is a single user, with a key made at the first start."""

    directory: Path
    host: str = "127.0.0.1"
    port: int = PORT
    tls: Tls | None = None
    users: Path | None = None
    cluster: Cluster | None = None


class Server:
    """A listening server. `url` is all a client needs; it names the key's file and holds no secret."""

    def __init__(self, options: ServerOptions, group: ProcessGroup) -> None:
        self._options, self._group = options, group
        self._store, self._changing = options.directory / "store", asyncio.Lock()
        make_directory(self._store)
        room = Room.of(self._store)
        self._limit = _NOTHING if room.is_full else room.limit
        self.process = _start(options, group, self._limit)
        self.port, self.url = 0, ""

    async def listens(self) -> None:
        """Return when it is reachable. Raises UsageError, Unavailable."""
        self.port = await _listening(self.process, self._options.directory)
        self.url = _url(self._options, self.port)

    async def ended(self) -> str:
        """Wait until the server has ended by itself, and return a sentence about that."""
        while True:
            process = self.process
            await process.ended()
            async with self._changing:
                if process is self.process:
                    return f"nats-server ended with code {process.code}"

    async def keep_room(self, report: Callable[[str], None], every: float = 5.0) -> None:
        """Check the space on its disk at intervals, until cancelled. When it is used up, the server rejects new data
        with a clear message until there is space again. Raises UsageError and Unavailable if the server cannot be
        restarted."""
        is_full = False
        while True:
            room = await asyncio.to_thread(Room.of, self._store)
            if is_full != room.is_full and (room.is_full or room.is_enough):
                is_full = room.is_full
                await self._allow(_NOTHING if is_full else room.limit)
                report(
                    f"{room.free >> 20:,} MB are free on the disk of {self._store}: {_STOPS if is_full else _GOES_ON}"
                )
            elif not is_full and room.used + room.reserve > self._limit and room.limit > self._limit + room.reserve:
                await self._allow(room.limit)  # the disk has more room than it had
            await asyncio.sleep(every)

    async def watch_routes(self, report: Callable[[str], None], every: float = 1.0) -> None:
        """Report each other server of the cluster that refuses this one, once, until cancelled."""
        if (cluster := self._options.cluster) is None:
            return
        told, rest = set[str](), b""
        with (self._options.directory / _LOG).open("rb") as log:
            while True:
                *lines, rest = (rest + await asyncio.to_thread(log.read)).split(b"\n")
                for refused in filter(None, map(_REFUSED.search, lines)):
                    if (place := refused[1].decode()) not in told:
                        told.add(place)
                        report(
                            f"The server at {place} refuses this one: their cluster keys differ. Give every server a "
                            f"copy of the same --cluster-key FILE (here {cluster.key}), and start it again."
                        )
                await asyncio.sleep(every)

    async def _allow(self, limit: int) -> None:
        """Set the store's maximum size by restarting the server. That also clears its memory of a full disk, after
        which it would not answer any more."""
        if limit == self._limit:
            return
        async with self._changing:
            await self.process.kill_tree()
            self.process.close()
            self._limit = limit
            self.process = _start(self._options, self._group, limit, self.port)
            await _answering(self.process, self._options, self.port)


@asynccontextmanager
async def serving(options: ServerOptions) -> AsyncGenerator[Server]:
    """Start a server that ends with the block, or with this process, however that ends.

    Raises UsageError without a nats-server, if the directory is in use, or if the port is taken; Unavailable if it does
    not listen in time.
    """
    group = ProcessGroup()
    server = Server(options, group)
    try:
        await server.listens()
        yield server
    finally:
        await server.process.kill_tree()
        server.process.close()
        await group.aclose()


def _start(options: ServerOptions, group: ProcessGroup, limit: int, port: int | None = None) -> Process:
    """Start it with a directory of its own. With its earlier `port` it reads the existing configuration, because the
    disk may be too full to write it again."""
    binary, folder = _binary(), options.directory
    config, ports = folder / "server.conf", folder / _PORTS
    log = os.open(folder / _LOG, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        try:  # the lock is on the server's output file: it is held while the server lives
            flock.lock(log)
        except OSError:
            raise UsageError(f"{folder} is in use by another bus. Give this one a directory with --dir.") from None
        if port is None:
            os.ftruncate(log, 0)
            shutil.rmtree(ports, ignore_errors=True)
            ports.mkdir()
            put(config, _configuration(options, ports).encode())
        env = {"HOME": str(folder), _ROOM: str(limit), _OWN_PORT: str(port or options.port or -1)}
        return group.start([binary, "-c", str(config)], env=env, output=log)
    finally:
        os.close(log)


def _binary() -> str:
    own = Path(sysconfig.get_path("scripts"), "nats-server")
    found = str(own) if own.is_file() else shutil.which("nats-server", path=system_path())
    if found is None:
        from sagent.lib.installed import install_command
        from sagent.plugins.mesh import PACKAGES

        raise UsageError(
            f"There is no nats-server on this machine. To install it: {install_command('mesh', PACKAGES)}. "
            "Or use a server elsewhere: --bus nats://HOST:PORT."
        )
    return found


def _configuration(options: ServerOptions, ports: Path) -> str:
    """Return the server's configuration (docs.nats.io, "Configuration")."""
    store = _quoted(str(options.directory / "store"))
    lines = [
        f"host: {_quoted(options.host)}",
        f"port: ${_OWN_PORT}",
        f"server_name: {_own_name(options)}",
        f"max_payload: {MAX_PAYLOAD_BYTES}",
        f"ports_file_dir: {_quoted(str(ports))}",
        "ping_interval: 5s",  # a client with a dead host is noticed after 15 s
        "ping_max: 2",
        f"jetstream {{ store_dir: {store}, sync_interval: always, max_file_store: ${_ROOM} }}",
    ]
    tls = _tls(options.tls) if options.tls else ""
    lines.append(tls)
    if options.cluster is not None:
        lines.append(_cluster(options.cluster, tls))
    if options.users is not None:
        lines.append(f"include {_quoted(os.path.relpath(options.users, options.directory))}")
    else:
        user = f"{{ nkey: {_own_key(options.directory)} }}"
        lines.append(f"accounts {{ SAGENT {{ jetstream: enabled, users: [ {user} ] }} }}")
    return "\n".join(lines) + "\n"


def _tls(tls: Tls) -> str:
    files = f"cert_file: {_quoted(str(tls.cert))}, key_file: {_quoted(str(tls.key))}"
    verify = f", ca_file: {_quoted(str(tls.ca))}, verify: true" if tls.ca else ""
    return f"tls {{ {files}{verify}, timeout: 5 }}"


def _cluster(cluster: Cluster, tls: str) -> str:
    secret = _secret(cluster.key)
    routes = ", ".join(_quoted(f"nats://sagent:{secret}@{peer}") for peer in cluster.peers)
    known = f"authorization {{ user: sagent, password: {_quoted(secret)}, timeout: 5 }}"
    return (
        f"cluster {{\n  name: {names.CLUSTER}\n  listen: {_quoted(cluster.address)}\n  routes: [ {routes} ]\n"
        f"  {known}\n  {tls}\n}}"
    )


def _quoted(text: str) -> str:
    """Return a text as the server reads it. Raises UsageError for a path that cannot be quoted."""
    if not text.isprintable():
        raise UsageError(f"{text!r}: the path of a bus may not have line breaks or control characters.")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _kept(path: Path, make: Callable[[], str]) -> str:
    """Return the text of a file. If it is missing, the first of several processes creates it, whole."""
    if not path.exists():
        draft = path.with_name(f".{path.name}.{os.urandom(6).hex()}.tmp")
        try:
            put(draft, f"{make()}\n".encode())
            with suppress(FileExistsError):  # another was first: its text holds
                _name(draft, path)
        finally:
            draft.unlink(missing_ok=True)
    return path.read_text(errors="replace").strip()


def _name(draft: Path, path: Path) -> None:
    """Give a complete file its name. Raises FileExistsError if another file has it."""
    try:
        os.link(draft, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(draft.read_bytes())


def _own_name(options: ServerOptions) -> str:
    """Return this server's lasting name in its cluster, by which a server that lost its disk gets all data again."""
    place = options.cluster.address.encode() if options.cluster else os.urandom(8)
    return _kept(options.directory / "name", lambda: f"{names.SYNCED}-{sha256(place).hexdigest()[:8]}")


def _secret(path: Path) -> str:
    """Return the shared secret of a cluster's servers. Raises UsageError."""
    if len(secret := _kept(path, lambda: os.urandom(32).hex())) < _MIN_KEY_CHARS or not secret.isalnum():
        raise UsageError(
            f"{path} is not the key of a cluster: it must have at least {_MIN_KEY_CHARS} letters and digits."
        )
    return secret


def _own_key(folder: Path) -> str:
    """Return the public key of the only user; its seed is created if missing."""
    from sagent.plugins.mesh.security import new_seed, public_key

    return public_key(_kept(folder / "bus.nk", new_seed))


def _url(options: ServerOptions, port: int) -> str:
    known = {} if options.users else {"key": str(options.directory / "bus.nk")}
    if options.tls and options.tls.ca:
        known["ca"] = str(options.tls.ca)
    query = f"?{urlencode(known, quote_via=quote, safe='/')}" if known else ""
    host = _reached(options.host)
    return f"{'tls' if options.tls else 'nats'}://{f'[{host}]' if ':' in host else host}:{port}{query}"


def _reached(host: str) -> str:
    """Return the local address of a server that listens on a host."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 -- what was listened on


async def _listening(process: Process, folder: Path) -> int:
    """Return the port once the server is ready: it then writes a file with it."""
    async for _ in _while_it_starts(process, folder):
        for path in (folder / _PORTS).glob("*.ports"):
            if text := path.read_text():
                urls: list[str] = json.loads(text)["nats"]
                return int(urls[0].rpartition(":")[2])
    raise AssertionError


async def _answering(process: Process, options: ServerOptions, port: int) -> None:
    """Return when a restarted server is reachable."""
    async for _ in _while_it_starts(process, options.directory):
        with suppress(OSError):
            _, writer = await asyncio.open_connection(_reached(options.host), port)
            writer.close()
            return


async def _while_it_starts(process: Process, folder: Path) -> AsyncIterator[None]:
    """Yield repeatedly while a server may still begin to listen. Raises UsageError, Unavailable."""
    try:
        async with asyncio.timeout(START_TIMEOUT_SECONDS):
            while True:
                yield
                if not process.alive:
                    raise UsageError(f"The bus did not start: {_reason(folder / _LOG)}")
                await asyncio.sleep(_POLL_INTERVAL_SECONDS)
    except TimeoutError:
        raise Unavailable(f"The bus does not listen after {START_TIMEOUT_SECONDS:g} s; see {folder / _LOG}.") from None


def _reason(log: Path) -> str:
    """Return the last line that the server wrote, without its time and number."""
    lines = log.read_text(errors="replace").splitlines() or ["it wrote nothing"]
    return lines[-1].rpartition("[FTL] ")[2].removeprefix("nats-server: ")
