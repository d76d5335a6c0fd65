"""Events from a log: those that were heard, from whatever place on."""

import json
from pathlib import Path

import pytest

from sagent.lib.json import as_object
from sagent.messages import user
from sagent.plugins.serve.replayed import replay
from sagent.session.blobs import BlobDirectory
from sagent.session.contents import MessageEntry, StoredMessage
from sagent.session.store import Session, log_files
from sagent.transcript.event_json import encode_event
from tests.plugins.exports.export_story import tell
from tests.recorded_run import Recorded

KINDS = {"received", "reply_finished", "tool_finished", "denied"}


def events(session: Path, after: str = "", cut: int = 0) -> list[tuple[str, dict]]:
    """What is replayed, as JSON; of the root's log all but the last so many bytes."""
    sizes = {file: file.stat().st_size for file in log_files(session)}
    sizes[session / "root.jsonl"] -= cut
    blobs = BlobDirectory(session / "blobs")
    return [(name, encode_event(event)) for name, event in replay(session, sizes, after, blobs.get)]


@pytest.fixture
def story(tmp_path: Path) -> Path:
    return tell(tmp_path / "story")


def test_replay_equals_live_events(recorded: Recorded) -> None:

    heard = [json.loads(line) for line in recorded.trace.read_text().splitlines()]
    heard = [{**each, "at": "", "summary": "", "seconds": 0} for each in heard if each["type"] in KINDS]
    again = [
        {**each, "at": "", "summary": "", "seconds": 0} for _, each in events(recorded.session) if each["type"] in KINDS
    ]
    assert json.loads(json.dumps(again)) == heard


def test_replay_resumes_after_event(story: Path) -> None:
    whole = events(story)
    assert {each["agent"] for _, each in whole} > {"root"}
    for place, (name, _) in enumerate(whole):
        last = max(index for index, (each, _) in enumerate(whole) if each == name)
        if place == last:
            assert events(story, name[:16]) == whole[last + 1 :]


def test_cut_log_replays_prefix(story: Path) -> None:
    whole = events(story)
    size = (story / "root.jsonl").stat().st_size
    known = [each for _, each in whole]
    for cut in range(0, size, max(1, size // 40)):
        for _, each in events(story, cut=cut):
            assert each in known or each["type"] == "reply_finished"  # whose charges are cut off


def test_left_branch_only_for_its_follower(tmp_path: Path) -> None:
    with Session.create(tmp_path, tmp_path) as session:
        log = session.log()
        session.begin(tmp_path)
        first = log.append(MessageEntry(StoredMessage.of(user("first"), None)))
        log.append(MessageEntry(StoredMessage.of(user("left"), None)))
        log.fork(first.id)
        log.append(MessageEntry(StoredMessage.of(user("again"), None)))

        def texts(after: str = "") -> list[str]:
            found = (each.get("message") for _, each in events(session.path, after))
            return [str(as_object(each["parts"][0])["text"]) for each in found if each]

        assert texts() == ["first", "again"]
        assert texts(first.id) == ["left", "again"]
        assert texts("0" * 16) == ["first", "again"]
