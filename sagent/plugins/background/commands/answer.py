"""`sagent answer`: the open questions of a background session, and an answer to the oldest."""

import asyncio
import sys
from collections.abc import Sequence

from sagent.cli.flags import Parser
from sagent.cli.render import binary_safe
from sagent.errors import UsageError
from sagent.lib.text import printable
from sagent.plugins.background.asked import open_questions, read_answer_line, settle, words_of
from sagent.plugins.background.commands.listing import SESSION, state_directory
from sagent.plugins.background.connection import Connection
from sagent.plugins.background.records import Record, find


def run_answer(argv: Sequence[str]) -> int:
    """Show or answer a question. Raises UsageError, SessionNotFound, and errors of the connection."""
    parser = Parser("answer", "Answer the oldest open question of a background session; without words, show it.")
    parser.add_argument("session", metavar="SESSION", help=SESSION.partition(" (")[0])
    parser.add_argument("words", nargs="*", metavar="ANSWER", help="y, n and why, a number, or words")
    given = parser.parse_args(argv)
    record = find(state_directory(), given.session)
    if not record.is_open:
        raise UsageError(f"Session {record.id} does not run: {record.condition}.")
    return asyncio.run(_answer(record, " ".join(given.words).strip()))


async def _answer(record: Record, line: str) -> int:
    async with Connection.to(record) as connection:
        questions = await open_questions(connection)
        if not questions:
            raise UsageError(f"Session {record.id} asks nothing now.")
        question, out = questions[0], binary_safe(sys.stdout)
        text, how = words_of(question)
        if not line:
            more = f"\n({len(questions) - 1} more)" if questions[1:] else ""
            out.write(printable(f"{text}{more}\nTo answer: sagent answer {record.id} ANSWER  ({how.rstrip(': ')})\n"))
            return 0
        await settle(connection, question, read_answer_line(question, line))
    return 0
