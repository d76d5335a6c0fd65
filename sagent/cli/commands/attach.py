"""`sagent attach`: a session that runs on a bus, followed from here, written to, its questions answered."""

import asyncio
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from sagent.cli.commands.node import bus_url
from sagent.cli.flags import Parser
from sagent.cli.headless import exit_code
from sagent.cli.render import Transcript, binary_safe
from sagent.cli.tables import write
from sagent.lib.text import printable
from sagent.policy.asking import wants_text

if TYPE_CHECKING:
    from sagent.mesh.control import Question
    from sagent.mesh.remote import RemotePeer

DESCRIPTION = """Follow a session that runs on a bus. A line that you type is a message to it; /stop interrupts it,
/quit or the end of input leaves it to itself. It asks everybody who is attached; the first answer counts. Without a
terminal it is followed until it rests, and the exit code is that of its result."""


def run_attach(argv: Sequence[str]) -> int:
    """Follow a session. Raises UsageError, SessionNotFound and MeshError."""
    parser = Parser("attach", DESCRIPTION)
    parser.add_argument("session", metavar="SESSION", help="its id, or the beginning of one")
    parser.add_argument("--bus", metavar="URL", help="the bus (or SAGENT_BUS)")
    parser.add_argument("--watch", action="store_true", help="answer no questions")
    given = parser.parse_args(argv)
    return asyncio.run(_attach(bus_url(given.bus), given.session, watch=given.watch))


async def _attach(url: str, session: str, *, watch: bool) -> int:
    from sagent.mesh.remote import Mesh

    talk, out = sys.stdin.isatty(), binary_safe(sys.stdout)
    lines = Lines()
    async with (
        Mesh.connect(url) as mesh,
        mesh.agent(session, lines.answer if talk and not watch else None) as peer,
    ):
        record = peer.record
        out.write(
            printable(f"{record.id}  {record.title}  ({record.state}{f', on {record.node}' * bool(record.node)})\n")
        )
        out.flush()
        peer.listen(Transcript(out).on_event)
        if talk:
            await lines.talk(peer)
            return 0
        result = await peer.wait()
    if not peer.status().turns:  # else it has been said as it came
        write(out, [result.content])
    if result.error is not None:
        sys.stderr.write(printable(f"sagent: {result.error.message}\n"))
    return exit_code(result)


class Lines:
    """What a person types: messages, or the answer to the question that was put last."""

    def __init__(self) -> None:
        self._typed: asyncio.Queue[str | None] = asyncio.Queue()
        self._asking = asyncio.Lock()
        self._answers: asyncio.Future[str] | None = None

    async def answer(self, question: "Question") -> str | None:
        """Put a question, and wait for y or n; words after the n are the reason."""
        async with self._asking:
            head = f"{question.agent} wants to call {question.tool}:"
            lines = filter(None, (head, question.what, wants_text(question.wants), question.reason))
            sys.stdout.write(printable("\n? {}\n".format("\n".join(lines))) + "  y, or n and why: ")
            sys.stdout.flush()
            try:
                return await self._typed_answer()
            except asyncio.CancelledError:
                sys.stdout.write("\n  (no answer is waited for any more)\n")
                sys.stdout.flush()
                raise

    async def _typed_answer(self) -> str | None:
        while True:
            self._answers = asyncio.get_running_loop().create_future()
            word, _, rest = (await self._answers).partition(" ")
            if word.lower() in ("y", "yes"):
                return None
            if word.lower() in ("n", "no"):
                return rest.strip() or "The person said no."
            sys.stdout.write("  y, or n and why: ")
            sys.stdout.flush()

    async def talk(self, peer: "RemotePeer") -> None:
        """Send what is typed until the end of input."""
        loop = asyncio.get_running_loop()
        # a daemon thread, for a blocking read cannot be cancelled and must not keep the process from ending
        threading.Thread(target=_read, args=(loop, self._typed), daemon=True).start()
        while (line := await self._typed.get()) is not None:
            if line.strip() == "/quit":
                return
            if line.strip() == "/stop":
                peer.interrupt()
            elif self._answers is not None and not self._answers.done():
                self._answers.set_result(line.strip())
            elif line.strip():
                peer.send(line)


def _read(loop: asyncio.AbstractEventLoop, typed: "asyncio.Queue[str | None]") -> None:
    with suppress(RuntimeError):  # the loop has ended
        with os.fdopen(os.dup(sys.stdin.fileno()), encoding="utf-8", errors="replace") as stream:
            for line in stream:
                loop.call_soon_threadsafe(typed.put_nowait, line.rstrip("\n"))
        loop.call_soon_threadsafe(typed.put_nowait, None)
