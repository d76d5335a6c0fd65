"""The list of what is to be done: read from the conversation, and the same word for word however often that is cut."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from sagent import tools
from sagent.agent import Agent, Resources, RunLimits
from sagent.context.compaction import HEADINGS
from sagent.context.todo import STATES, Task, list_note, tasks_in
from sagent.messages import Message, Text, ToolResult, assistant, user
from sagent.model import ModelLimits, Request
from sagent.peer import Compact
from sagent.session.folds import history
from sagent.session.log import MemoryLog
from sagent.testing import ScriptedModel
from sagent.tool import Workspace
from tests.depth import later
from tests.messages import call

TASKS = (Task("Read the [x] code", "completed"), Task("- [ ] Écrire", "in_progress"), Task("Test it", "pending"))


def wrote(tasks: tuple[Task, ...], number: int = 0) -> Message:
    todos = [{"content": task.text, "status": task.state} for task in tasks]
    return Message("assistant", (call(f"todo{number}", "TodoWrite", todos=todos),))


def answered(number: int = 0, *, is_error: bool = False) -> Message:
    return Message("user", (ToolResult(f"todo{number}", (Text("done"),), is_error),))


def test_last_list_counts_failed_does_not() -> None:
    other = (Task("Another", "pending"),)
    said = (wrote(other), answered(), wrote(TASKS, 1), answered(1), wrote(other, 2), answered(2, is_error=True))
    assert tasks_in(said) == TASKS
    assert tasks_in((*said, wrote((), 3), answered(3))) == ()
    assert tasks_in((user("- [ ] no list"),)) == ()


@later
@given(st.lists(st.builds(Task, st.text(min_size=1).map(lambda text: " ".join(text.split())), st.sampled_from(STATES))))
def test_cut_list_stays_word_for_word(drawn: list[Task]) -> None:
    tasks = tuple(task for task in drawn if task.text)
    said = [wrote(tasks), answered()]
    for _ in range(3):
        said = [user(text, sender=sender) for sender, text in list_note(said, said)]
        assert tasks_in(said) == tasks
        assert len(said) == bool(tasks)


def test_present_list_is_not_repeated() -> None:
    old, new = wrote((Task("Old", "pending"),)), wrote(TASKS, 1)
    assert list_note([old, answered(), new, answered(1)], [old, answered()]) == ()


async def test_list_survives_compactions_and_resume(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x" * 3_000)
    summary = "\n".join(f"## {heading}\nsomething that matters here" for heading in HEADINGS)
    rounds = iter(range(1_000))

    def play(request: Request) -> Message | str:
        if "(This is from sagent, not from the person.)" in request.messages[-1].content:
            return summary
        number = next(rounds)
        if number == 0:
            return Message("assistant", wrote(TASKS).parts, stop="tool_use")
        if number % 6 == 0:
            return "the end"
        return assistant("looking " * 60, call(f"c{number}", "Read", file_path="a.txt"), stop="tool_use")

    log = MemoryLog()
    model = ScriptedModel(*[play] * 200, limits=ModelLimits(60_000, 1_000))
    workspace = Workspace(tmp_path)
    agent = Agent(
        model, tools=(tools.Read(), tools.TodoWrite()), resources=Resources(log=log, workspace=workspace),
        limits=RunLimits(),
    )  # fmt: skip
    for number in range(3):
        await agent.run(f"go on {number}")
        before = len(agent.messages)
        agent.apply(Compact())
        await agent.run("and on")
        assert len(agent.messages) < before + 12
        assert tasks_in(agent.messages) == TASKS
    kept = [message for message in agent.messages if message.sender == "todo"]
    assert len(kept) == 1
    assert all(task.text in kept[0].content for task in TASKS)
    assert not any(each.name == "TodoWrite" for message in agent.messages for each in message.calls)
    assert tasks_in(history(log.entries(), log.blobs.get)) == TASKS
    await agent.aclose()
