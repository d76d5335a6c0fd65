"""`sagent agents`: who can be sent messages on a bus."""

import asyncio
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sagent.cli.flags import Parser
from sagent.cli.render import binary_safe
from sagent.cli.tables import show
from sagent.lib.json import json_dump
from sagent.lib.text import Table, one_line
from sagent.plugins.mesh.commands.kept import bus_url

if TYPE_CHECKING:
    from sagent.plugins.mesh.bus import Bus
    from sagent.plugins.mesh.buses.nats import NatsBus
    from sagent.plugins.mesh.cards import Card, Query


def run_agents(argv: Sequence[str]) -> int:
    """List cards, or watch them come and go. Raises UsageError and MeshError."""
    parser = Parser("agents", "List the agents, nodes and sessions on a bus, with their descriptions.")
    parser.add_argument(
        "namespace",
        nargs="?",
        default="",
        metavar="NAMESPACE",
        help="only these names: team matches team, team.a, team.a.b",
    )
    parser.add_argument("--bus", metavar="URL", help="the bus (or SAGENT_BUS)")
    parser.add_argument(
        "--label", metavar="L", action="append", default=[], help="only those with this label (repeatable)"
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="keep running, and print a line of JSON for each that comes, changes or goes",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, with the schemas of their messages")
    given = vars(parser.parse_intermixed_args(argv))
    return asyncio.run(_carry_out(bus_url(given["bus"]), given))


async def _carry_out(url: str, options: dict[str, object]) -> int:
    from sagent.lib.json import as_array
    from sagent.plugins.mesh.buses.nats import nats_bus
    from sagent.plugins.mesh.cards import Query, check_name, encode_card
    from sagent.plugins.mesh.discovery import find

    namespace = str(options["namespace"])
    query = Query(check_name(namespace) if namespace else "", labels=tuple(map(str, as_array(options["label"]))))
    async with nats_bus(url) as bus:
        if options["watch"]:
            await _watch(bus, query)
            return 0
        (cards,) = await find(bus, query)
        cards += await _sessions(bus, query)
    rows = tuple(
        (card.address, card.kind, f"{card.load:.0%}", " ".join(card.labels), one_line(card.description, 80))
        for card in cards
    )
    table = Table(rows, ("address", "kind", "load", "labels", "description"), (2,))
    nobody = f"No agents, nodes or sessions{f' in {namespace}' if namespace else ' on this bus'}."
    show([encode_card(card) for card in cards], [table] if cards else [nobody], as_json=bool(options["json"]))
    return 0


async def _sessions(bus: "NatsBus", query: "Query") -> "list[Card]":
    """Return the bus's sessions that a query selects, as agents."""
    from sagent.lib.json import JsonObject
    from sagent.plugins.mesh.cards import Card, matches
    from sagent.plugins.mesh.records import Records

    first, _, session = query.namespace.partition(".")
    if first not in ("", "session"):  # read none: there may be very many
        return []
    found = [
        Card(
            f"session.{record.id}",
            record.title,
            load=float(record.state != "idle"),
            labels=(record.label,) if record.label else (),
            details=JsonObject({"state": record.state, "node": record.node}),
        )
        for record in await Records(bus.jetstream).all(session)
    ]
    return [card for card in found if matches(query, card)]


async def _watch(bus: "Bus", query: "Query") -> None:
    from sagent.plugins.mesh.cards import encode_card
    from sagent.plugins.mesh.discovery import watching

    out = binary_safe(sys.stdout)
    async with watching(bus, query) as changes:
        async for change in changes:
            if change is not None:
                card = None if change.card is None else encode_card(change.card)
                out.write(json_dump({"address": change.address, "card": card}) + "\n")
                out.flush()
