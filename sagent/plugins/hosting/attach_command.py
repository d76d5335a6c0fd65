"""`sagent attach`: a session in another process, followed from here, written to, its questions answered."""

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from sagent.cli.flags import Parser, plugins_of
from sagent.cli.headless import exit_code
from sagent.cli.render import Transcript, binary_safe, report
from sagent.cli.tables import write
from sagent.errors import SessionNotFound
from sagent.events import ReplyFinished
from sagent.lib.text import printable
from sagent.plugin import resolve
from sagent.plugins.hosting.asking import wants_text

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from sagent.cli.interactive import Talk
    from sagent.config import Settings
    from sagent.plugins.hosting.followed import Followed
    from sagent.plugins.hosting.questions import Answer, Question, Reply
    from sagent.tools.ask import Question as Inquiry
    from sagent.tools.plan import PlanDecision

T = TypeVar("T")
Place: TypeAlias = Callable[[str, Mapping[str, object]], "int | None"]
"""Attaches to a session by its id or the beginning of its id, with the flags of the command; returns the exit code,
None if the session is not there. Raises SagentError."""

Attached: TypeAlias = "Callable[[Reply | None, Answer | None], AbstractAsyncContextManager[Followed]]"
"""Attaches to a session while the block lasts; its questions are answered by these two."""

DESCRIPTION = """Talk to a session that runs in the background, or on a bus, as if it ran here. Its questions go to
everybody who is attached; the first answer counts. After you leave (/bg, Ctrl-D), it works on. On a terminal that
can only print, a line is a message or an answer, and /stop interrupts. Without a terminal, the session is followed
until it is idle, and the exit code is that of its result."""


def run_attach(argv: Sequence[str]) -> int:
    """Follow a session. Raises UsageError, SessionNotFound, and errors of the place that has it."""
    parser = Parser("attach", DESCRIPTION)
    about = "its id, or the beginning of its id (default: the only one that runs in the background)"
    parser.add_argument("session", nargs="?", default="", metavar="SESSION", help=about)
    parser.add_argument("--watch", action="store_true", help="only watch: answer no questions")
    parser.add_flags_of("attach")
    given = vars(parser.parse_args(argv))
    session = str(given.pop("session"))
    for _, extra in plugins_of(argv).extras("attach"):
        if (code := cast("Place", resolve(extra.add))(session, given)) is not None:
            return code
    what = f"There is no session {session!r} to attach to" if session else "No session runs in the background"
    raise SessionNotFound(f"{what}: `sagent ps` lists them, and `sagent sessions list` those to --resume.")


def talk_of(load: "Callable[[], Settings]") -> "Talk | None":
    """Return the REPL for the terminal, with the person's settings; None for one that can only print, if nothing is
    there for that, and where there is none."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    from sagent.cli.interactive import plain_lines

    if (talk := plain_lines({}, load)) is not None:
        return talk
    if os.environ.get("TERM", "") in ("", "dumb", "unknown"):
        return None
    from sagent.repl.front import run_repl

    return run_repl


async def follow(
    attached: "Callable[[Reply | None, Answer | None], AbstractAsyncContextManager[Followed]]",
    head: str,
    *,
    watch: bool,
) -> int:
    """Talk to a session in lines, or without a terminal, show it until it rests; return the exit code. Raises errors of
    the connection."""
    talk, out = sys.stdin.isatty(), binary_safe(sys.stdout)
    lines = Lines()
    reply, answer = (lines.approve, lines.answer) if talk and not watch else (None, None)
    async with attached(reply, answer) as peer:
        out.write(printable(head))
        out.flush()
        shown = list[object]()
        peer.listen(Transcript(out).on_event)
        peer.listen(lambda event: shown.append(1) if isinstance(event, ReplyFinished) else None)
        if talk:
            await lines.forward(peer)
            return 0
        result = await peer.wait()
        if not shown:  # otherwise it was printed as it streamed
            write(out, [result.content])
        if result.error is not None:
            report(result.error.message)
    return exit_code(result)


class Lines:
    """The lines that a person types: messages, or the answer to the question that was put last."""

    def __init__(self) -> None:
        self._asking = asyncio.Lock()
        self._take: Callable[[str], None] | None = None  # a line that answers the question

    async def approve(self, question: "Question") -> str | None:
        """Show a call, and wait for y or n; words after the n are the reason."""
        return await self._put(*text_of(question), read_verdict_line)

    async def answer(self, inquiry: "Inquiry") -> "str | PlanDecision | None":
        """Show an agent's question, and wait for an answer; an empty line leaves it unanswered."""
        return await self._put(*text_of_inquiry(inquiry), read_decision if inquiry.plan else inquiry.read)

    async def _put(self, text: str, prompt: str, read: Callable[[str], T]) -> T:
        """Show a question after earlier ones, and wait for an answer. `read` raises ValueError for an invalid line."""
        async with self._asking:
            reply: asyncio.Future[T] = asyncio.get_running_loop().create_future()

            def take(line: str) -> None:
                try:
                    reply.set_result(read(line))
                except ValueError:
                    _show(f"  {prompt}")
                else:
                    self._take = None  # the next line, perhaps already read, is a message

            _show(f"\n? {text}\n  {prompt}")
            self._take = take
            try:
                return await reply
            except asyncio.CancelledError:
                _show("\n  (the question is no longer open)\n")
                raise
            finally:
                self._take = None

    async def forward(self, peer: "Followed") -> None:
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


def text_of(question: "Question") -> tuple[str, str]:
    """Return a question about a call as text, and which answers there are."""
    head = f"{question.agent} wants to call {question.tool}:"
    lines = filter(None, (head, question.what, wants_text(question.wants), question.reason))
    return "\n".join(lines), "y, or n and why: "


def text_of_inquiry(inquiry: "Inquiry") -> tuple[str, str]:
    """Return an agent's question as text, and which answers there are."""
    if inquiry.plan:
        how = "y to carry it out and approve each change, e to let it edit freely, or n and why: "
        return f"{inquiry.text}\n\n{inquiry.plan}\n", how
    options = (f"{number:3} {option}" for number, option in enumerate(inquiry.options, 1))
    choose = "numbers, or words: " if inquiry.multiple else "a number, or words: "
    text = "\n".join((f"{inquiry.agent} asks:", inquiry.text, *options))
    return text, choose if inquiry.options else "your answer: "


def _show(text: str) -> None:
    sys.stdout.write(printable(text))
    sys.stdout.flush()


def read_verdict_line(line: str) -> str | None:
    """Parse a line about a call: None allows it, a text says why not. Raises ValueError."""
    word, _, rest = line.partition(" ")
    match word.lower():
        case "y" | "yes":
            return None
        case "n" | "no":
            return rest.strip() or "The person said no."
        case _:
            raise ValueError(line)


def read_decision(line: str) -> "PlanDecision | None":
    """Parse a line about a plan; an empty one leaves it open. Raises ValueError."""
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
