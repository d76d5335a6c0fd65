"""Records in the log that a person has allowed a call."""

from contextlib import suppress

from sagent.agent import Asker
from sagent.app.builder import AgentBuilder
from sagent.messages import ToolCall
from sagent.plugins.blame import APPROVED
from sagent.policy import Allow, Ask
from sagent.session.contents import Unknown
from sagent.session.log import Log


async def add(builder: AgentBuilder) -> None:
    """Record the answers of the person, if there is one."""
    if builder.ask is not None:
        builder.ask = recording(builder.ask, builder.log)


def recording(ask: Asker, log: Log) -> Asker:
    """Return an asker that logs each yes before the call is made. A log that cannot be written does not hinder it."""

    async def asked(call: ToolCall, question: Ask) -> str | Allow | None:
        answer = await ask(call, question)
        if not isinstance(answer, str):
            by = "a person, who changed it" if answer is not None and answer.arguments is not None else "a person"
            with suppress(OSError, ValueError, TypeError):
                own = log if question.agent in ("", log.agent) else log.child(question.agent)
                own.append(Unknown(APPROVED, {"call": call.id, "by": by}))
        return answer

    return asked
