"""The list of background sessions in the REPL, renewed while it is open: to attach to one, answer it, or stop it."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from sagent.errors import SagentError
from sagent.lib.figures import duration
from sagent.lib.text import one_line, spelled
from sagent.plugins.background.asked import open_questions, read_answer_line, settle, words_of
from sagent.plugins.background.commands.ending import again, end_session
from sagent.plugins.background.connection import Connection
from sagent.plugins.background.records import Record, folder, read
from sagent.plugins.hosting.questions import Question
from sagent.repl.commands.command import CommandContext
from sagent.repl.terminal.picker import Lookup, Option, Stop
from sagent.repl.view.lines import Line, wrap

_REFUSED = "The person said no."


class Watch:
    """The sessions that run in the background, and those that have ended since this began. A record is only read again
    if its file has changed."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._read: dict[str, tuple[tuple[int, int], Record]] = {}
        self._seen: set[str] = set()

    def sessions(self) -> list[Record]:
        """Return them, the latest first. Blocks: for a thread."""
        found: list[Record] = []
        for path in folder(self._state_dir).glob("*.json"):
            with suppress(OSError, ValueError, TypeError):
                status = path.stat()
                stamp = status.st_mtime_ns, status.st_ino
                if self._read.get(path.name, ((0, 0), None))[0] != stamp:
                    self._read[path.name] = stamp, read(path)
                record = self._read[path.name][1]
                if record.is_open or record.id in self._seen:
                    found.append(record)
        self._seen.update(one.id for one in found)
        return sorted(found, key=lambda one: (one.started, one.id), reverse=True)

    def options(self) -> list[Option[str]]:
        """Return them as a list to choose from. Blocks: for a thread."""
        return [
            Option(one.id, one.title or one.id, f"{one_line(one.condition, 100)} {one.bill}", also=one.id)
            for one in self.sessions()
        ]

    def get(self, session: str) -> Record:
        """Return a session that was listed."""
        return again(self._state_dir, self._read[f"{session}.json"][1])

    async def pick(self, context: CommandContext) -> Record | None:
        """Let the person choose one from the list; None for none, and if there are none."""
        options = await asyncio.to_thread(self.options)
        if not options:
            return None
        lookup = Lookup(self._search, self._facts, self.options)
        chosen = await context.pick("Which session?", options, lookup)
        return None if chosen is None else await asyncio.to_thread(self.get, chosen)

    def _search(self, words: str, stop: Stop) -> Mapping[str, str]:
        del stop
        known = (record for _, record in self._read.values())
        return {one.id: one.cwd for one in known if words.strip() and words in f"{one.cwd} {one.condition}"}

    def _facts(self, session: str, stop: Stop) -> Sequence[tuple[str, str]]:
        del stop
        now = self.get(session)
        asks = (("asks", ask) for ask in now.asks)
        since = duration(max((now.ended or time.time()) - now.started, 0))
        rows = (*asks, ("state", now.condition), ("cost", now.bill), ("since", since), ("in", now.cwd))
        return [row for row in (*rows, ("model", now.model), ("id", now.id)) if row[1]]


async def watch(context: CommandContext) -> Record | None:
    """Show the sessions that run in the background until the person leaves the list. Return the one to attach to, if
    they choose that."""
    watched = Watch(context.settings.state_dir)
    while (record := await watched.pick(context)) is not None:
        try:
            if await _act(context, record):
                return record
        except SagentError as error:
            context.say(f"{record.id}: {error}")
    return None


async def _act(context: CommandContext, record: Record) -> bool:
    """Have the person choose what becomes of a session; return True to attach to it. Raises SagentError."""
    if not record.is_open:
        context.say(f"{record.id} does not run: {record.condition}. To open it here: /resume {record.id}")
        return False
    async with Connection.to(record) as connection:
        questions = await open_questions(connection)
        text, answers = _question(questions[0]) if questions else (record.condition, [])
        more = f" ({len(questions)} questions)" if questions[1:] else ""
        options = [*answers, Option("attach", "attach", key="a"), Option("stop", "stop it", key="s")]
        match await context.pick(_shown(f"{record.title or record.id}{more}", text), options):
            case "attach":
                return True
            case "stop":
                await context.stoppable(end_session(record), f"ending {record.id}")
            case None:
                pass
            case way:
                await _answer(context, connection, questions[0], way)
    return False


def _shown(head: str, text: str) -> Callable[[int], Sequence[Line]]:
    def show(width: int) -> Iterator[Line]:
        yield from wrap([("class:ask", one_line(spelled(head), 200))], width, (("class:ask", "? "),))
        yield from wrap([("", spelled(text))], width, (("", "  "),))

    return lambda width: [*show(width)]


def _question(question: Question) -> tuple[str, list[Option[str]]]:
    """Return a question as text, and the ways to answer it."""
    if question.inquiry is None:
        return words_of(question)[0], [Option("yes", "yes, once", key="y"), Option("no", "no", key="n")]
    return words_of(question)[0], [Option("words", "answer it", key="w")]


async def _answer(context: CommandContext, connection: Connection, question: Question, choice: str) -> None:
    """Answer a question as the person chose. Raises SagentError, also if somebody else was faster."""
    match choice:
        case "yes":
            said = None
        case "no":
            said = (await context.line("why not? ") or "").strip() or _REFUSED
        case _:
            line = await context.line(words_of(question)[1])
            if line is None:
                return
            said = read_answer_line(question, line)
    await settle(connection, question, said)
