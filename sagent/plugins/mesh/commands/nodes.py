"""`sagent nodes`: the nodes of a bus."""

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sagent.cli.flags import Parser
from sagent.cli.render import report
from sagent.cli.tables import show, write
from sagent.errors import UsageError
from sagent.lib.json import as_array, as_object, as_str
from sagent.lib.text import Table
from sagent.plugins.mesh.commands.kept import bus_url
from sagent.plugins.mesh.commands.permissions import add_permissions, run_permissions

if TYPE_CHECKING:
    from sagent.plugins.mesh.jetstream import JetStream


def run_nodes(argv: Sequence[str]) -> int:
    """Carry out `sagent nodes ...`. Raises UsageError and MeshError."""
    parser = Parser("nodes", "List the nodes of a bus and the sessions they run.")
    parser.add_argument("--bus", metavar="URL", help="the bus (or SAGENT_BUS)")
    parser.add_argument(
        "--json", action="store_true", help="print JSON: name, host, pid, slots, labels, sessions, pause"
    )
    operations = parser.add_subparsers(dest="operation", metavar="OPERATION")
    draining = operations.add_parser(
        "drain", help="stop a node from taking sessions, and move its sessions to other nodes"
    )
    draining.add_argument("name", metavar="NODE")
    draining.add_argument("--bus", metavar="URL", default=argparse.SUPPRESS, help="the bus (or SAGENT_BUS)")
    add_permissions(operations.add_parser("permissions", help="set up who may connect to a bus, and what each may do"))
    given = vars(parser.parse_args(argv))
    if given["operation"] == "permissions":
        return run_permissions(given)
    return asyncio.run(_carry_out(bus_url(given["bus"]), given))


async def _carry_out(url: str, options: dict[str, object]) -> int:
    from sagent.plugins.mesh.jetstream import connected

    async with connected(url) as bus:
        await bus.ensure()
        if options["operation"] == "drain":
            return await _drain(bus, str(options["name"]))
        nodes = await _nodes(bus)
    rows = tuple(
        (
            as_str(node["name"]) + (" (drains)" if node["draining"] else ""),
            f"{node['host']} {node['pid']}",
            f"{len(as_array(node['sessions']))}/{node['slots']}",
            " ".join(map(str, as_array(node["labels"]))),
            " ".join(map(str, as_array(node["sessions"]))),
        )
        for node in nodes
    )
    table = Table(rows, ("name", "host, pid", "in use", "labels", "sessions"))
    none = "There are no nodes on this bus. To start one: sagent node"
    show(nodes, [table] if nodes else [none], as_json=bool(options["json"]))
    return 0


async def _nodes(bus: "JetStream") -> list[dict[str, object]]:
    from sagent.plugins.mesh import names

    members = ("name", "host", "pid", "slots", "labels", "sessions", "draining", "pause")
    entries = await bus.bucket(names.CARDS).entries("node.*")
    cards = [as_object(json.loads(entry.value)) for entry in entries if entry.value]
    found: list[Mapping[str, object]] = []
    for card in cards:
        if (version := card.get("version")) == names.VERSION:
            found.append(as_object(card.get("details")))
        else:
            known = f"and this sagent knows {names.VERSION}: it is not listed"
            report(f"{as_str(card.get('address'))} is of version {version}, {known}")
    return sorted(({name: node.get(name) for name in members} for node in found), key=lambda node: str(node["name"]))


async def _drain(bus: "JetStream", name: str) -> int:
    """Drain a node, and return when it is gone."""
    from sagent.plugins.mesh import names
    from sagent.plugins.mesh.errors import NobodyThere

    try:
        await bus.request(names.control_subject(f"node-{name}"), b"drain")
    except NobodyThere:
        known = ", ".join(str(node["name"]) for node in await _nodes(bus))
        raise UsageError(f"There is no node {name!r} on this bus. The nodes are: {known or 'none'}.") from None
    async with bus.bucket(names.CARDS).watching(f"node.{names.token(name)}") as changes:
        seen = False
        async for entry in changes:
            if (entry is None and not seen) or (entry is not None and entry.value is None):
                break
            seen = seen or entry is not None
    write(sys.stdout, [f"Node {name} was drained."])
    return 0
