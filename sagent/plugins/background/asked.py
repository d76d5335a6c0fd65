"""The open questions of a background session, for somebody who answers without following it."""

from sagent.errors import UsageError
from sagent.lib.json import as_array, as_object, json_dump, json_load
from sagent.plugins.background.connection import Connection
from sagent.plugins.hosting.attach_command import read_decision, read_verdict_line, text_of, text_of_inquiry
from sagent.plugins.hosting.questions import Question, encode_answer, read_question
from sagent.tools.plan import PlanDecision


async def open_questions(connection: Connection) -> list[Question]:
    """Return what a session asks now, the oldest first. Raises SagentError."""
    told = as_array((await connection.ask(op="questions")).get("questions"))
    return [read_question(json_dump(each).encode("utf-8", "replace")) for each in told]


def words_of(question: Question) -> tuple[str, str]:
    """Return a question as text, and which answers there are."""
    return text_of(question) if question.inquiry is None else text_of_inquiry(question.inquiry)


def read_answer_line(question: Question, line: str) -> str | PlanDecision | None:
    """Parse an answer as it is typed. Raises UsageError for one that the question does not have."""
    try:
        if question.inquiry is None:
            return read_verdict_line(line)
        return read_decision(line) if question.inquiry.plan else question.inquiry.read(line)
    except ValueError:
        how = words_of(question)[1].rstrip(": ")
        raise UsageError(f"{line!r} does not answer this question: give {how}.") from None


async def settle(connection: Connection, question: Question, answer: str | PlanDecision | None) -> None:
    """Answer a question. Raises SagentError, also if somebody else was faster."""
    encoded = as_object(json_load(encode_answer(question, answer)))
    await connection.ask(op="answer", question=question.id, **{key: encoded[key] for key in encoded if key != "id"})
