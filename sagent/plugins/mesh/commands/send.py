"""`sagent send`: a message to an agent on a bus, and its answer."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

from sagent.cli.flags import Parser
from sagent.cli.render import binary_safe, report
from sagent.errors import UsageError
from sagent.lib.json import JsonObject, json_dump, json_load
from sagent.lib.text import nearest
from sagent.plugins.mesh.commands.kept import bus_url

if TYPE_CHECKING:
    from sagent.lib.json import Json
    from sagent.plugins.mesh.bus import Address, Bus, Envelope
    from sagent.plugins.mesh.jetstream import JetStream

DESCRIPTION = """Send a message to an agent, or to a session (session.ID), and print its answer. An answer that is text,
or that has a field `text`, is printed as text; any other as JSON."""
_PROBE_DELAY_SECONDS = 1.0  # without an answer, before checking whether anybody is there


def run_send(argv: Sequence[str]) -> int:
    """Send a message; return 1 if the agent failed. Raises UsageError and MeshError."""
    parser = Parser("send", DESCRIPTION)
    parser.add_argument("address", metavar="ADDRESS", help="an address, as listed by `sagent agents`")
    parser.add_argument("text", nargs="?", metavar="TEXT", help="the message (default: standard input)")
    parser.add_argument("--bus", metavar="URL", help="the bus (or SAGENT_BUS)")
    parser.add_argument("--data", metavar="JSON", help="the message's body, in place of TEXT")
    parser.add_argument("--kind", metavar="K", default="message", help="the kind of message (%(default)s)")
    parser.add_argument(
        "--timeout", metavar="S", type=float, default=600.0, help="wait at most S seconds (%(default)g)"
    )
    parser.add_argument("--stream", action="store_true", help="print each part of the answer as it arrives")
    parser.add_argument("--no-reply", action="store_true", help="return once the bus has the message")
    keep = "with --no-reply: keep the message for at most S seconds, until an agent receives it"
    parser.add_argument("--keep", metavar="S", type=float, help=keep)
    parser.add_argument("--json", action="store_true", help="always print the answer as JSON")
    given = vars(parser.parse_intermixed_args(argv))
    for name in ("timeout", "keep"):
        if (seconds := given[name]) is not None and not 0 < float(seconds) <= 7 * 86_400:
            raise UsageError(f"--{name} {seconds:g}: give a number of seconds above 0, at most a week.")
    if given["keep"] is not None and not given["no_reply"]:
        raise UsageError("--keep needs --no-reply. How long to wait for an answer is set with --timeout.")
    return asyncio.run(_carry_out(bus_url(given["bus"]), _body(given), given))


def _body(options: Mapping[str, object]) -> "Json":
    if (data := options["data"]) is not None:
        if options["text"] is not None:
            raise UsageError("Give a TEXT or --data, not both.")
        try:
            return json_load(str(data))
        except ValueError as error:
            raise UsageError(f"--data is not JSON: {error}") from None
    if options["text"] is not None:
        return str(options["text"])
    from sagent.cli.headless import read_text

    stdin: TextIO | None = sys.stdin  # None if it was closed
    piped = "" if stdin is None or stdin.isatty() else read_text(stdin, sys.stderr).strip()
    if not piped:
        raise UsageError("There is no message: give TEXT, --data or standard input.")
    return piped


async def _carry_out(url: str, body: "Json", options: Mapping[str, object]) -> int:
    from sagent.plugins.mesh.bus import Address, message
    from sagent.plugins.mesh.buses.nats import nats_bus
    from sagent.plugins.mesh.errors import Failed

    to = Address.of(str(options["address"]))
    keep = options["keep"]
    async with nats_bus(url) as bus:
        if to.name.startswith("session."):
            return await _say(bus.jetstream, to, body, options)
        envelope = message(
            to, body, kind=str(options["kind"]), sender="cli", keep=keep if isinstance(keep, float) else None
        )
        if options["no_reply"]:
            sent = await bus.send(envelope)
            if keep is not None:
                await sent.taken()
            return 0
        try:
            return await _ask(bus, envelope, options)
        except Failed as error:
            report(str(error))
            return 1


async def _ask(bus: "Bus", envelope: "Envelope", options: Mapping[str, object]) -> int:
    from sagent.plugins.mesh.bus import answer_of

    seconds = float(str(options["timeout"]))
    hint = asyncio.create_task(_name_the_present(bus, envelope.to, seconds))
    try:
        async with bus.asking(envelope, timeout=seconds) as frames:
            async for frame in frames:
                hint.cancel()
                if frame.kind == "restart":
                    report("the agent that was answering is gone; another starts over")
                elif frame.is_last:
                    _show(answer_of(frame, envelope), options)
                elif options["stream"]:
                    _show(frame.body, options)
    finally:
        hint.cancel()
    return 0


async def _name_the_present(bus: "Bus", to: "Address", seconds: float) -> None:
    """Report that nobody shows this address if there is no answer yet, so that a misspelt one is noticed."""
    from sagent.plugins.mesh.errors import MeshError

    await asyncio.sleep(_PROBE_DELAY_SECONDS)
    try:
        known = [card.address for card in await bus.cards()]
    except MeshError:  # the request itself will raise it, too
        return
    if to.name not in known:
        there = nearest(to.name, known) or f". There are: {', '.join(known) or 'none'}."
        report(f"there is no agent at {to.name} yet; waiting up to {seconds:g} s for one{there}")


async def _say(jetstream: "JetStream", to: "Address", body: "Json", options: Mapping[str, object]) -> int:
    """Return a message to a session; its result is handled like that of any prompt."""
    from sagent.cli.headless import exit_code
    from sagent.messages import user
    from sagent.plugins.mesh.records import InboxMessage, Records
    from sagent.plugins.mesh.remote import RemotePeer

    records = Records(jetstream)
    record = await records.find(to.name.removeprefix("session."))
    said = InboxMessage(user(body if isinstance(body, str) else json_dump(body)))
    if options["no_reply"]:
        await records.send(record, said)
        return 0
    async with RemotePeer.attached(jetstream, record) as peer:
        peer.expect(await records.send(record, said))
        try:
            async with asyncio.timeout(float(str(options["timeout"]))):
                result = await peer.wait()
        except TimeoutError:
            raise UsageError(f"session {record.id} has not answered in time; follow it with sagent attach.") from None
    if result.content or result.error is None:
        _show(result.content, options)
    if result.error is not None:
        report(result.error.message)
    return exit_code(result)


def _show(body: "Json", options: Mapping[str, object]) -> None:
    from sagent.cli.tables import write

    said = body.get("text") if isinstance(body, JsonObject) else body
    out = binary_safe(sys.stdout)
    if isinstance(said, str) and not options["json"]:
        write(out, [said])
    elif body is not None or options["json"]:
        out.write(json_dump(body) + "\n")
    out.flush()
