"""`sagent answer`: the open questions of a background session, and an answer to the oldest."""

import asyncio
import sys
from collections.abc import Sequence

from sagent.cli.flags import Parser
from sagent.cli.render import binary_safe
from sagent.errors import UsageError
from sagent.lib.json import as_array, as_object, json_dump, json_load
from sagent.lib.text import printable
from sagent.plugins.background.commands.listing import SESSION, state_directory
from sagent.plugins.background.connection import Connection
from sagent.plugins.background.records import Record, find
from sagent.plugins.hosting.attach_command import read_decision, read_verdict_line, text_of, text_of_inquiry
from sagent.plugins.hosting.questions import Question, encode_answer, read_question


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
        told = as_array((await connection.ask(op="questions")).get("questions"))
        questions = [read_question(json_dump(each).encode("utf-8", "replace")) for each in told]
        if not questions:
            raise UsageError(f"Session {record.id} asks nothing now.")
        question, out = questions[0], binary_safe(sys.stdout)
        text, how = text_of(question) if question.inquiry is None else text_of_inquiry(question.inquiry)
        if not line:
            more = f"\n({len(questions) - 1} more)" if questions[1:] else ""
            out.write(printable(f"{text}{more}\nTo answer: sagent answer {record.id} ANSWER  ({how.rstrip(': ')})\n"))
            return 0
        answer = as_object(json_load(_read(question, line, how)))
        await connection.ask(op="answer", question=question.id, **{key: answer[key] for key in answer if key != "id"})
    return 0


def _read(question: Question, line: str, how: str) -> bytes:
    """Encode an answer. Raises UsageError for one that the question does not have."""
    try:
        if question.inquiry is None:
            said = read_verdict_line(line)
        else:
            said = read_decision(line) if question.inquiry.plan else question.inquiry.read(line)
    except ValueError:
        raise UsageError(f"{line!r} does not answer this question: give {how.rstrip(': ')}.") from None
    return encode_answer(question, said)
