"""`sagent bus`: runs a bus for agents on several machines, on this one."""

import asyncio
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.cli.flags import Parser
from sagent.cli.render import report
from sagent.cli.settings import load_settings
from sagent.cli.tables import show
from sagent.errors import UsageError
from sagent.lib.json import as_array
from sagent.lib.names import path_of
from sagent.lib.signals import handled_signals

if TYPE_CHECKING:
    from sagent.plugins.mesh.server import Cluster, Server, ServerOptions

DESCRIPTION = """Start a bus (NATS JetStream) for agents on several machines, print its URL, and run until interrupted.
It listens on loopback, admits clients with its key, and writes to disk before it acknowledges."""


def run_bus(argv: Sequence[str]) -> int:
    """Serve until a signal, or the end of the server; 1 then. Raises UsageError."""
    from sagent.plugins.mesh.server import PORT

    parser = Parser("bus", DESCRIPTION)
    parser.add_argument("--port", metavar="N", type=int, default=PORT, help="%(default)s; 0 for any that is free")
    parser.add_argument("--host", metavar="ADDRESS", default="127.0.0.1", help="where to listen (%(default)s)")
    parser.add_argument("--dir", metavar="DIR", help="the directory for its data and its key")
    users = "accounts, users and their permissions, as written by `sagent nodes permissions`"
    parser.add_argument("--users", metavar="FILE", help=users)
    parser.add_argument(
        "--tls-cert", metavar="FILE", help="its certificate, PEM; needed to listen on other than loopback addresses"
    )
    parser.add_argument("--tls-key", metavar="FILE", help="the certificate's key, PEM")
    parser.add_argument("--tls-ca", metavar="FILE", help="require clients to have a certificate signed by this CA")
    cluster = "join a cluster, whose other servers reach this one at HOST:PORT; each keeps all data"
    parser.add_argument("--cluster", metavar="HOST:PORT", help=cluster)
    parser.add_argument(
        "--peer", metavar="HOST:PORT", action="append", help="another server of the cluster (repeatable)"
    )
    key = "the cluster's shared secret; created if missing"
    parser.add_argument("--cluster-key", metavar="FILE", help=key)
    parser.add_argument("--output-format", metavar="F", choices=("text", "json"), default="text", help="text or json")
    parser.add_config()
    given = vars(parser.parse_args(argv))
    options = _options(given)
    return asyncio.run(_serve(options, as_json=given["output_format"] == "json"))


def _options(flags: dict[str, object]) -> "ServerOptions":
    from sagent.plugins.mesh.server import ServerOptions, Tls

    def file(name: str) -> Path | None:
        if flags[name] is None:
            return None
        path = path_of(str(flags[name])).absolute()
        if not path.is_file():
            raise UsageError(f"--{name.replace('_', '-')} {path}: no such file.")
        return path

    cert, key, ca, port, host = file("tls_cert"), file("tls_key"), file("tls_ca"), flags["port"], str(flags["host"])
    if (cert is None) != (key is None) or (ca and not cert):
        raise UsageError("--tls-cert and --tls-key go together, and --tls-ca with them.")
    if not isinstance(port, int) or not 0 <= port < 1 << 16:
        raise UsageError(f"--port {port}: give a number from 0 to 65535.")
    if not _is_local(host) and cert is None:
        raise UsageError(f"--host {host} is open to other machines: give --tls-cert and --tls-key, or use a tunnel.")
    named = flags["dir"]
    folder = path_of(str(named)) if named else load_settings({"config": flags["config"]}).state_dir / "bus"
    tls = Tls(cert, key, ca) if cert and key else None
    options = ServerOptions(folder.absolute(), host, port, tls, file("users"))
    return replace(options, cluster=_cluster(flags, options))


def _cluster(flags: dict[str, object], options: "ServerOptions") -> "Cluster | None":
    from sagent.plugins.mesh.server import Cluster

    peers = tuple(map(str, as_array(flags["peer"])))
    if flags["cluster"] is None:
        if peers or flags["cluster_key"]:
            raise UsageError("--peer and --cluster-key need --cluster HOST:PORT.")
        return None
    if not flags["cluster_key"] or len(peers) not in (2, 4):
        raise UsageError("A cluster has 3 or 5 servers: give --peer for each of the others, and --cluster-key FILE.")
    for place in (address := str(flags["cluster"]), *peers):
        if not re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+):[0-9]{1,5}", place):
            raise UsageError(f"{place!r}: give the address of a cluster's server as HOST:PORT.")
    if options.users is None:
        raise UsageError("A cluster's servers must have the same users: give each a copy of the same --users FILE.")
    if not _is_local(address.rpartition(":")[0].strip("[]")) and (options.tls is None or options.tls.ca is None):
        raise UsageError(f"--cluster {address} is open to other machines: give --tls-cert, --tls-key and --tls-ca.")
    return Cluster(address, peers, path_of(str(flags["cluster_key"])).absolute())


def _is_local(host: str) -> bool:
    from ipaddress import ip_address

    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _serve(options: "ServerOptions", *, as_json: bool) -> int:
    from sagent.plugins.mesh.server import serving
    from sagent.plugins.mesh.tasks import end

    loop = asyncio.get_running_loop()
    received: asyncio.Future[int] = loop.create_future()
    for number in handled_signals():
        loop.add_signal_handler(number, lambda number=number: received.done() or received.set_result(number))
    async with serving(options) as server:
        _show(server, options, as_json=as_json)
        ended, keeping = asyncio.create_task(server.ended()), asyncio.create_task(server.keep_room(report))
        watching = asyncio.create_task(server.watch_routes(report))
        try:
            await asyncio.wait([ended, keeping, received], return_when=asyncio.FIRST_COMPLETED)
            if keeping.done():
                await keeping
            if not ended.done():
                return 128 + received.result()
        finally:
            await end(ended, keeping, watching)
        report(f"{ended.result()}; {options.directory / 'server.log'} has the details.")
        return 1


def _show(server: "Server", options: "ServerOptions", *, as_json: bool) -> None:
    shown = {"url": server.url, "port": server.port, "pid": os.getpid(), "directory": str(options.directory)}
    try:
        show(shown, [server.url], as_json=as_json)
    except OSError as error:  # the bus runs on without a reader of that
        from sagent.cli.main import output_failed

        output_failed(error)
    if not as_json and sys.stderr.isatty():
        report("set SAGENT_BUS to this URL, or pass it as --bus. Ctrl-C stops the bus.")
