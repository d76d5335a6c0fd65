"""AskUser: what reaches the person, and what the model is told."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from sagent.errors import ToolError
from sagent.lib.json import json_freeze_object
from sagent.testing.tool_suite import ToolSuite
from sagent.tool import Effect, RunContext, Tool, Workspace, foresee
from sagent.tools.ask import AskUser, Question


class TestAskUser(ToolSuite):
    @pytest.fixture
    def tool(self) -> Tool:
        async def answer(question: Question) -> str:
            return f"{question.agent} asked: {question.text}"

        return AskUser(answer)

    @pytest.fixture
    def good_arguments(self, workspace: Workspace) -> Mapping[str, object]:
        return {"question": "why?", "options": ["because", "who knows"]}


def context(tmp_path: Path) -> RunContext:
    """One in which nothing is kept."""
    return RunContext("root/a", "c1", Workspace(tmp_path), None, lambda text: None)  # pyright: ignore[reportArgumentType]


async def test_person_sees_who_asks_model_reads_reply(tmp_path: Path) -> None:
    asked: list[Question] = []

    async def answer(question: Question) -> str | None:
        asked.append(question)
        return "the second" if len(asked) == 1 else None

    tool = AskUser(answer)
    given = json_freeze_object({"question": " Which? ", "options": ["a", "b", "a", ""], "multiple": True})
    assert foresee(tool, given, Workspace(tmp_path)) == Effect("none")
    assert (await tool(given, context(tmp_path))).summary == "the second"
    assert asked == [Question("root/a", "Which?", ("a", "b"), multiple=True)]
    assert (await tool(given, context(tmp_path))).summary == "left unanswered"
    with pytest.raises(ToolError, match="is empty"):
        await tool(json_freeze_object({"question": " "}), context(tmp_path))


async def test_without_person_model_decides(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="There is nobody to ask"):
        await AskUser()(json_freeze_object({"question": "Which?"}), context(tmp_path))


@pytest.mark.parametrize(
    ("multiple", "said", "answer"),
    [
        (False, "2", "b"),
        (False, "1 2", "1 2"),
        (False, "9", "9"),
        (False, "1" * 5000, "1" * 5000),
        (True, "2, 1 2", "b\na"),
        (True, "1 and 2", "1 and 2"),
        (True, "  ", None),
    ],
)
def test_typed_line_is_numbers_or_words(*, multiple: bool, said: str, answer: str | None) -> None:
    assert Question("root", "Which?", ("a", "b"), multiple=multiple).read(said) == answer
