"""A call that the policy refused, and a tool that fails with the same words: only the one is a denial, everywhere."""

from pathlib import Path

from sagent.agent import Agent, Resources
from sagent.events import Event, Result, ToolFinished
from sagent.lib.json import JsonObject
from sagent.messages import ToolCall, assistant
from sagent.plugins.exports.entries import SessionReader
from sagent.plugins.exports.steps import Answered, Refused
from sagent.plugins.exports.timeline import read_timeline
from sagent.session.store import Session, log_files
from sagent.testing import ScriptedModel
from sagent.tool import ToolError
from sagent.tools import tool
from sagent.transcript.event_json import encode_event


@tool
def connect(host: str) -> str:
    """Connect.

    host: where to
    """
    raise ToolError("Permission denied: publickey")


async def refused(place: Path) -> tuple[Path, Result, list[Event]]:
    """Have a tool fail with the words of a denial; return the session, the result and the events."""
    events: list[Event] = []
    with Session.create_at(place) as session:
        model = ScriptedModel(
            assistant("", ToolCall("c1", "connect", JsonObject({"host": "a"})), stop="tool_use"), "No."
        )
        agent = Agent(model, tools=[connect], resources=Resources(log=session.log()))
        agent.listen(events.append)
        result = await agent.run("Go.")
        await agent.aclose()
    return session.path, result, events


async def test_denial_from_tool_is_failure(tmp_path: Path) -> None:
    path, result, events = await refused(tmp_path / "s")
    assert result.denials == ()
    (finished,) = [event for event in events if isinstance(event, ToolFinished)]
    assert (finished.result.is_error, "denied" in encode_event(finished)) == (True, False)
    steps = list(SessionReader(path, log_files(path)).steps())
    assert [step.failed for step in steps if isinstance(step, Answered)] == [True]
    assert not [step for step in steps if isinstance(step, Refused)]
    assert dict(read_timeline(path, log_files(path)).tools["connect"]) == {"calls": 1, "denied": 0, "failed": 1}
