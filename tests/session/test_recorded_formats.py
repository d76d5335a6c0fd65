"""The same story as the program of each format wrote it: two runs of a tree with thinking, pictures, parallel calls, a
denial, bad arguments, advice, children, a job, a file written, switches, a summary, interruptions, a team, and an
earlier entry that was taken up again. It is read and taken up alike."""

import shutil
from pathlib import Path

import pytest

from sagent.codec import VERSION
from sagent.session.contents import (
    ConsultationEntry,
    Handoff,
    JobEntry,
    Label,
    PromptEntry,
    ResultEntry,
    Spawned,
    SwitchedEntry,
    Unknown,
)
from sagent.session.folds import contents, history, origin, points, spend, title
from sagent.session.log import read_log
from sagent.session.store import Session, log_files
from sagent.session.touches import Touched
from sagent.session.view import branch
from tests.intact import faults

HERE = Path(__file__).parent
HEADS = {
    1: "6c11f82bb8735465550fbf10341b905a4cc4da4322f91dd1af470e4a2846876e",
    2: "cc47a6061655d0aa129710a6f5299097a1242a2d39067868c594430ee743754c",
}


@pytest.fixture(params=sorted(HEADS))
def version(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture
def session(version: int, tmp_path: Path) -> Path:
    return Path(shutil.copytree(HERE / f"recorded_{version}", tmp_path / "session"))


def test_there_is_one_of_every_version() -> None:
    assert max(HEADS) == VERSION


def test_recorded_format_verifies(session: Path, version: int) -> None:
    assert faults(session, HEADS[version]) == []


def test_every_entry_is_understood(session: Path, version: int) -> None:
    entries = [entry for file in log_files(session) for entry in read_log(file)]
    assert not [entry.kind for entry in entries if isinstance(entry.content, Unknown)]
    assert origin(entries).version == version
    results = contents(entries, ResultEntry)
    assert [each.result.text for each in results if each.result.denied] == ["Permission denied: deleting is not wanted"]
    assert sum(each.result.is_error for each in results) == {1: 4, 2: 5}[version]  # one more was interrupted
    assert [switched.model for switched in contents(entries, SwitchedEntry)] == [
        "openai/gpt-5.6-terra",
        "anthropic/claude-sonnet-4-6",
    ]
    assert [each.advice.verdict for each in contents(entries, ConsultationEntry)] == ["proceed"]
    assert [each.agent for each in contents(entries, Spawned)] == ["root/review", "root/one", "root/two"]
    assert [each.state for each in contents(entries, JobEntry)] == ["running", "done"]
    assert [(each.giver, each.taker) for each in contents(entries, Handoff)] == [
        ("", "one"), ("one", "two"), ("two", ""),
    ]  # fmt: skip
    assert {Path(touch.path).name for each in contents(entries, Touched) for touch in each.files} == {"b.txt"}
    tools = [tool for prompt in contents(entries, PromptEntry) for tool in prompt.tools]
    assert {tool.ordered for tool in tools} == {version > 1}
    assert spend(entries).cost().unpriced == ()


def test_recorded_conversation_is_the_same(session: Path) -> None:
    with Session.open(session) as opened:
        log = opened.log()
        said = history(log.contents(), log.blobs.get)
        assert [message.content for message in said if message.role == "user" and not message.sender][
            -1
        ] == "Another way."
        assert len(points(log.contents())) == 10
        log.append(Label("named since"))
        assert title(log.entries()) == "named since"
    assert len(branch(read_log(session / "root.jsonl"))) > 60
    assert faults(session) == []
