"""`sagent attach`: a session that runs on a bus, followed from here, written to, its questions answered."""

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from sagent.cli.flags import Parser
from sagent.cli.headless import exit_code
from sagent.cli.render import Transcript, binary_safe, report
from sagent.cli.tables import write
from sagent.lib.text import printable
from sagent.plugins.hosting.asking import wants_text
from sagent.plugins.mesh.commands.kept import bus_url
from sagent.plugins.mesh.commands.remote_files import bring_files

if TYPE_CHECKING:
    from sagent.plugins.mesh.control import Question
    from sagent.plugins.mesh.remote import RemotePeer
    from sagent.tools.ask import Question as Inquiry
    from sagent.tools.plan import PlanDecision

T = TypeVar("T")

DESCRIPTION = """Talk to a session that runs on a bus, as if it ran here. Its questions go to everybody who is attached;
the first answer counts. After you leave (/quit, Ctrl-D), it works on. On a terminal that can only print, a line is a
message or an answer, and /stop interrupts. Without a terminal, the session is followed until it is idle, and the exit
code is that of its result."""


def run_attach(argv: Sequence[str]) -> int:
    """Follow a session. Raises UsageError, SessionNotFound and MeshError."""
    parser = Parser("attach", DESCRIPTION)
    parser.add_argument("session", metavar="SESSION", help="its id, or the beginning of its id")
    parser.add_argument("--bus", metavar="URL", help="the bus (or SAGENT_BUS)")
    parser.add_argument("--watch", action="store_true", help="only watch: answer no questions")
    given = parser.parse_args(argv)
    url = bus_url(given.bus)
    if sys.stdin.isatty() and sys.stdout.isatty():
        from sagent.cli.interactive import plain_lines
        from sagent.plugins.mesh.commands.attached import load, run_attached

        talk = plain_lines({}, load)
        if talk or os.environ.get("TERM", "") not in ("", "dumb", "unknown"):
            return asyncio.run(run_attached(url, given.session, talk, watch=given.watch))
    return asyncio.run(_attach(url, given.session, watch=given.watch))


async def _attach(url: str, session: str, *, watch: bool) -> int:
    from sagent.plugins.mesh.remote import Mesh

    talk, out = sys.stdin.isatty(), binary_safe(sys.stdout)
    lines = Lines()
    reply, answer = (lines.approve, lines.answer) if talk and not watch else (None, None)
    async with Mesh.connect(url) as mesh, mesh.agent(session, reply, answer) as peer:
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
        if not peer.status().turns:  # otherwise it was printed as it streamed
            write(out, [result.content])
        if result.error is not None:
            report(result.error.message)
        await bring_files(mesh.bus, peer.record, Path.cwd())
    return exit_code(result)


class Lines:
    """The lines that a person types: messages, or the answer to the question that was put last."""

    def __init__(self) -> None:
        self._asking = asyncio.Lock()
        self._take: Callable[[str], None] | None = None  # a line that answers the question

    async def approve(self, question: "Question") -> str | None:
        """Show a call, and wait for y or n; words after the n are the reason."""
        head = f"{question.agent} wants to call {question.tool}:"
        lines = filter(None, (head, question.what, wants_text(question.wants), question.reason))
        return await self._put("\n".join(lines), "y, or n and why: ", _read_verdict)

    async def answer(self, inquiry: "Inquiry") -> "str | PlanDecision | None":
        """Show an agent's question, and wait for an answer; an empty line leaves it unanswered."""
        if inquiry.plan:
            how = "y to carry it out and approve each change, e to let it edit freely, or n and why: "
            return await self._put(f"{inquiry.text}\n\n{inquiry.plan}\n", how, _settle)
        options = (f"{number:3} {option}" for number, option in enumerate(inquiry.options, 1))
        choose = "numbers, or words: " if inquiry.multiple else "a number, or words: "
        text = "\n".join((f"{inquiry.agent} asks:", inquiry.text, *options))
        return await self._put(text, choose if inquiry.options else "your answer: ", inquiry.read)

    async def _put(self, text: str, prompt: str, read: Callable[[str], T]) -> T:
        """Show a question after earlier ones, and wait for an answer. `read` raises ValueError for an invalid line."""
        async with self._asking:
            said: asyncio.Future[T] = asyncio.get_running_loop().create_future()

            def take(line: str) -> None:
                try:
                    said.set_result(read(line))
                except ValueError:
                    _show(f"  {prompt}")
                else:
                    self._take = None  # the next line, perhaps already read, is a message

            _show(f"\n? {text}\n  {prompt}")
            self._take = take
            try:
                return await said
            except asyncio.CancelledError:
                _show("\n  (the question is no longer open)\n")
                raise
            finally:
                self._take = None

    async def talk(self, peer: "RemotePeer") -> None:
        """Send typed lines until the end of input."""
        from sagent.lib.input import lines_of

        async for data in lines_of(sys.stdin.fileno()):
            line = (data or b"").decode("utf-8", "replace").rstrip("\r")
            if line.strip() == "/quit":
                return
            if line.strip() == "/stop":
                peer.interrupt()
            elif self._take is not None:
                self._take(line.strip())
            elif line.strip():
                peer.send(line)


def _show(text: str) -> None:
    sys.stdout.write(printable(text))
    sys.stdout.flush()


def _read_verdict(line: str) -> str | None:
    word, _, rest = line.partition(" ")
    match word.lower():
        case "y" | "yes":
            return None
        case "n" | "no":
            return rest.strip() or "The person said no."
        case _:
            raise ValueError(line)


def _settle(line: str) -> "PlanDecision | None":
    """Parse a line about a plan; an empty one leaves it open."""
    from sagent.tools.plan import PlanDecision

    word, _, rest = line.partition(" ")
    match word.lower():
        case "":
            return None
        case "y" | "yes":
            return PlanDecision("ask")
        case "e" | "edit":
            return PlanDecision("edit")
        case "n" | "no":
            return PlanDecision(None, reason=rest.strip())
        case _:
            raise ValueError(line)
