"""A node: one process with room for some sessions. It takes work from a queue, and holds each session by a lease."""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress

from sagent.events import Notice
from sagent.lib.json import JsonObject, json_freeze_object, wire_bytes
from sagent.plugins.mesh import names
from sagent.plugins.mesh.broadcast import Broadcast
from sagent.plugins.mesh.cards import Card, encode_card
from sagent.plugins.mesh.errors import MeshError, Missing, NoRoom, Refused, Unavailable
from sagent.plugins.mesh.jetstream import JetStream
from sagent.plugins.mesh.journal import Act, Journal
from sagent.plugins.mesh.lease import Lease, Pace, spread
from sagent.plugins.mesh.session_worker import NodeOptions, OpenAgent, SessionWorker
from sagent.plugins.mesh.streams import LeasedMessage
from sagent.plugins.mesh.tasks import end, keep_running

ACK_TIMEOUT_SECONDS = 4.0  # after which the work of a vanished node goes to another
_WORK_REQUEST_SECONDS = (
    3.0  # seconds of one request for work; below ACK_TIMEOUT_SECONDS, so that a stopped process gets none
)
_HEARTBEAT_SECONDS = 1.0  # seconds between two signs of life
_MAX_OFFLINE_SECONDS = 3.0  # seconds without the bus, after which a drained node ends anyway
_RECHECK_DELAY_SECONDS = 2.0  # seconds until work that another node holds is checked again
_MAX_RETRY_DELAY_SECONDS = 60.0  # seconds until a session whose work failed in an unknown way is tried again
_MANY = 100_000  # pieces of work that may be in progress at a time, on all nodes


class Node:
    """Works until it is drained or cancelled. `open_agent` opens the agent of a session; `warn` receives local
    problems."""

    def __init__(
        self, bus: JetStream, options: NodeOptions, open_agent: OpenAgent, warn: Callable[[str], None]
    ) -> None:
        self._bus, self.options, self._open, self._warn = bus, options, open_agent, warn
        self._slots = asyncio.Semaphore(options.slots)
        self._holds: dict[str, SessionWorker] = {}
        self.journal = Journal(lambda note: warn(note.text) if note.level == "warning" else None)
        self._pace, self._mark = Pace(), os.urandom(4).hex()
        self._stopped = set[str]()  # sessions paused while the bus has no room
        self._draining = asyncio.Event()
        self._changed = asyncio.Event()  # its card is another
        self._cards, self._key = bus.bucket(names.CARDS), f"node.{names.token(options.name)}"

    async def run(self, begun: Callable[[], None] = lambda: None) -> None:
        """Take work, and return when the node is drained and others have its sessions. `begun` is called once it has
        its name. Raises Refused, also if another node has the name, Unavailable."""
        self._lease = await self._named()
        begun()
        naming = asyncio.create_task(self._keep_name())
        background = [
            asyncio.create_task(keep_running(work)) for work in (self._announce, self._listen, self._pace.measure)
        ]
        taking, cut_off = asyncio.create_task(self._take_all()), asyncio.create_task(self._cut_off())
        try:
            await asyncio.wait([taking, cut_off], return_when=asyncio.FIRST_COMPLETED)
            if taking.done():
                taking.result()
        except ExceptionGroup as several:
            raise several.exceptions[0] from None
        finally:
            await end(*background, taking, cut_off)
            if naming.done():
                naming.result()
            await end(naming)
            with suppress(MeshError):
                await self._cards.delete(self._key, timeout=_HEARTBEAT_SECONDS)
            await self._lease.release()

    async def _named(self) -> Lease:
        """Return the node's unique name. Raises Refused if another node has it."""
        name = self.options.name
        holder = f"process {os.getpid()} on {os.uname().nodename} ({self._mark})"
        found = await Lease.claim(self._bus, self._key, holder, self._pace)
        if isinstance(found, str):
            raise Refused(f"A node {name} is on this bus already: {found}. Give this one another --name.")
        return found

    async def _keep_name(self) -> None:
        """Renew the name until another node has it, for example after an outage of this one; then this one leaves."""
        while True:
            await self._lease.keep()
            try:
                self._lease = await self._named()
            except Refused:
                self.drain()
                raise
            except Unavailable:
                await asyncio.sleep(_HEARTBEAT_SECONDS)

    async def _take_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            for label in ("", *self.options.labels):
                group.create_task(self._take(label, group))

    async def _cut_off(self) -> None:
        """Return when the node has to leave without a bus to return its work to."""
        await self._draining.wait()
        with suppress(MeshError, TimeoutError):
            while True:
                async with asyncio.timeout(_MAX_OFFLINE_SECONDS):
                    await self._cards.get(self._key)
                await asyncio.sleep(_HEARTBEAT_SECONDS)
        self._warn("the bus cannot be reached: the sessions of this node are left to other nodes")

    def drain(self) -> None:
        """Take no more, and let go of each session between two model calls."""
        self._draining.set()
        self._changed.set()
        for hold in self._holds.values():
            hold.move()

    async def _take(self, label: str, group: asyncio.TaskGroup) -> None:
        subject, name = names.work_subject(label), f"work-{label}"
        async with self._bus.taking(names.WORK, subject, name, ack_wait=ACK_TIMEOUT_SECONDS, limit=_MANY) as intake:
            while not self._draining.is_set():
                async with self._slots:
                    pass  # some slot is free; none is held while this label has no work, because others may have some
                try:
                    taken = None if self._draining.is_set() else await intake.next(_WORK_REQUEST_SECONDS)
                except Missing:
                    taken, _ = None, await self._bus.ensure()
                if taken is not None and self._slots.locked():  # another label has filled it meanwhile
                    await taken.again()
                elif taken is not None:
                    await self._slots.acquire()
                    group.create_task(self._work(taken)).add_done_callback(lambda _: self._slots.release())

    async def _work(self, leased: LeasedMessage) -> None:
        """Work on one session, unless another node does."""
        session = leased.message.data.decode("utf-8", "replace")
        if self._draining.is_set():
            await leased.again()
            return
        if not names.NAME.fullmatch(session):  # external names must not become paths
            await leased.ack()
            return
        signs = asyncio.create_task(_give_signs(leased))
        done, lease, delay = False, None, _RECHECK_DELAY_SECONDS
        try:
            if session not in self._holds:  # it has lost the lease, and is about to end
                lease = await Lease.take(self._bus, session, f"{self.options.name} {self._mark}", self._pace)
            if lease is not None:
                done = await self._hold(session, lease)
        except NoRoom as error:
            await self._say_full(session, error)
        except MeshError as error:
            self._note("left", session, str(error))
        except OSError as error:
            self._note("failed", session, f"cannot be saved here: {error.strerror or error} ({error.filename or ''})")
        except Exception as error:  # an error in one session must not end the others, nor be its end
            delay = min(_RECHECK_DELAY_SECONDS * 2 ** min(leased.deliveries, 10), _MAX_RETRY_DELAY_SECONDS)
            self._note("failed", session, f"is tried again in {delay:g} s: {type(error).__name__}: {error}")
        else:
            self._stopped.discard(session)
        finally:
            await end(signs)
        await (leased.ack() if done else leased.again(0.0 if self._draining.is_set() else spread(delay)))

    async def _say_full(self, session: str, error: NoRoom) -> None:
        """Report once, here and to clients, why a session is paused: nobody can store that."""
        if session not in self._stopped:
            self._stopped.add(session)
            text = self._note("stopped", session, str(error))
            broadcast = Broadcast(self._bus, session)
            broadcast.on_event(Notice("root", "error", f"{text[:1].upper()}{text[1:]}"))
            await broadcast.flush()

    def _note(self, act: Act, session: str, why: str = "") -> str:
        """Note what was done with a session; return that as a text."""
        return self.journal.note(act, session, why, len(self._holds)).text

    async def figures(self) -> dict[str, float]:
        """Return the figures of this node, and of the queue."""
        figures = {
            "sagent_node_slots": float(self.options.slots),
            "sagent_node_sessions": float(len(self._holds)),
            "sagent_node_pause_seconds": self._pace.longest,
            "sagent_node_lease_seconds": self._pace.ttl,
            "sagent_bus_up": float(self._bus.is_up),
        }
        with suppress(MeshError):
            figures["sagent_queue_sessions"] = float(await self._bus.count(names.WORK))
        return {**figures, **self.journal.figures()}

    async def _hold(self, session: str, lease: Lease) -> bool:
        hold = SessionWorker(self._bus, self.options, session, lease, self.journal.on_event)
        self._holds[session] = hold
        self._note("taken", session)
        self._changed.set()
        if self._draining.is_set():
            hold.move()
        try:
            done = await hold.work(self._open)
        finally:
            del self._holds[session]
            self._changed.set()
            await lease.release()
        self._note("lost" if lease.why else "finished" if done else "released", session, lease.why)
        return done

    async def _announce(self) -> None:
        while True:
            self._changed.clear()
            with suppress(MeshError):
                await self._cards.put(self._key, wire_bytes(self._card()))
            await asyncio.sleep(_HEARTBEAT_SECONDS)  # however many sessions come and go
            with suppress(TimeoutError):
                async with asyncio.timeout(names.CARD_TTL / 3 - _HEARTBEAT_SECONDS):
                    await self._changed.wait()

    def _card(self) -> JsonObject:
        details = {
            "name": self.options.name,
            "host": os.uname().nodename,
            "pid": os.getpid(),
            "slots": self.options.slots,
            "labels": list(self.options.labels),
            "sessions": sorted(self._holds),
            "draining": self._draining.is_set(),
            "pause": round(self._pace.longest, 1),
        }
        load = 1.0 if self._draining.is_set() else len(self._holds) / self.options.slots
        card = Card(self._key, "", "node", labels=self.options.labels, load=load, details=json_freeze_object(details))
        return encode_card(card)

    async def _listen(self) -> None:
        async with self._bus.listening(names.control_subject(f"node-{self.options.name}")) as requests:
            async for request in requests:
                if request.message.data == b"drain":
                    self.drain()
                with suppress(MeshError):
                    await request.respond(wire_bytes(self._card()))


async def _give_signs(leased: LeasedMessage) -> None:
    while True:
        await asyncio.sleep(_HEARTBEAT_SECONDS)
        await leased.working()
