"""Test suite for every Log. Needs pytest.

class TestMyLog(LogSuite):
    @pytest.fixture
    def log(self) -> Log:
        return MyLog()
"""

import hashlib
import re
from collections.abc import Mapping

import pytest

from sagent.errors import SessionCorrupt
from sagent.lib.json import canonical_bytes
from sagent.session.contents import Unknown
from sagent.session.entries import read_body
from sagent.session.log import Log
from sagent.session.view import branch


class LogSuite:
    """Inherit from it and override `log` with a fixture that gives an empty log of agent "root"."""

    @pytest.fixture
    def log(self) -> Log:
        raise NotImplementedError("override the fixture `log`")

    def test_an_empty_log_has_no_head(self, log: Log) -> None:
        assert log.head == ""
        assert list(log.entries()) == []
        assert log.agent == "root"
        assert log.session_id

    def test_entries_come_back_in_order_and_chained(self, log: Log) -> None:
        first = log.append(Unknown("message", {"n": 1}))
        second = log.append(Unknown("notice", {"n": 2}))
        assert list(log.entries()) == [first, second]
        assert [read_body(entry) for entry in log.entries()] == [{"n": 1}, {"n": 2}]
        assert (first.parent, second.parent, log.head) == ("", first.id, second.id)

    def test_an_id_is_the_sha256_of_the_canonical_json(self, log: Log) -> None:
        log.append(Unknown("message", {"b": [1, {"z": None, "a": "\u00e9\u2028\n"}], "a": 0.5}))
        entry = log.append(Unknown("message", {}))
        for found in log.entries():
            members = {"parent": found.parent, "at": found.at, "kind": found.kind, "body": read_body(found)}
            assert found.id == hashlib.sha256(canonical_bytes(members)).hexdigest()
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", entry.at)

    @pytest.mark.parametrize(
        "body",
        [
            {"text": "line\nline\r\n\u2028\x00\x7f \U0001f600"},
            {"": {"": []}},
            {"parent": "", "kind": "x", "id": "0" * 64, "at": "never"},
            {"text": '"},"kind":"message","parent":""}\n'},
            {"n": [10**40, -0.0, 1e-300, True, None]},
        ],
    )
    def test_any_json_survives(self, log: Log, body: Mapping[str, object]) -> None:
        log.append(Unknown("message", body))
        log.append(Unknown("message", {}))
        assert read_body(next(log.entries())) == body

    def test_text_that_is_not_unicode_is_mended(self, log: Log) -> None:
        log.append(Unknown("message", {"text": "a\ud800b", "split": "\ud83d\ude00"}))
        assert read_body(next(log.entries())) == {"text": "a\ufffdb", "split": "\U0001f600"}

    def test_a_kind_nobody_knows_is_kept(self, log: Log) -> None:
        log.append(Unknown("invented_later", {"n": 1}))
        assert [entry.kind for entry in log.entries()] == ["invented_later"]

    @pytest.mark.parametrize("body", [{"n": float("nan")}, {"n": float("inf")}, {"n": {1, 2}}])
    def test_what_is_not_json_is_refused_and_the_log_goes_on(self, log: Log, body: Mapping[str, object]) -> None:
        first = log.append(Unknown("message", {"n": 1}))
        with pytest.raises((ValueError, TypeError)):
            log.append(Unknown("message", body))
        assert log.head == first.id
        assert log.append(Unknown("message", {})).parent == first.id
        assert len(list(log.entries())) == 2

    def test_what_is_nested_beyond_reading_is_refused(self, log: Log) -> None:
        deep: object = 1
        for _ in range(100_000):
            deep = [deep]
        with pytest.raises(ValueError, match="nested"):
            log.append(Unknown("message", {"deep": deep}))
        assert log.head == ""

    @pytest.mark.parametrize("kind", ["", "two words", 'quo"te', "l\n", "ärger"])
    def test_a_kind_is_one_plain_word(self, log: Log, kind: str) -> None:
        with pytest.raises(ValueError, match="kind"):
            log.append(Unknown(kind, {}))

    def test_a_fork_goes_on_from_an_earlier_entry(self, log: Log) -> None:
        first, left = log.append(Unknown("message", {"n": 1})), log.append(Unknown("message", {"n": 2}))
        fork = log.fork(first.id)
        last = log.append(Unknown("message", {"n": 3}))
        assert fork.parent == first.id
        assert [entry.id for entry in branch(log.entries())] == [first.id, fork.id, last.id]
        assert [entry.id for entry in branch([*log.entries()][:2])] == [first.id, left.id]
        assert len(list(log.entries())) == 4

    def test_a_fork_needs_an_entry_to_go_on_from(self, log: Log) -> None:
        log.append(Unknown("message", {}))
        with pytest.raises(ValueError, match="no entry"):
            log.fork("0" * 64)
        assert len(list(log.entries())) == 1

    def test_a_child_has_its_own_entries_and_the_same_session(self, log: Log) -> None:
        child = log.child("root/review/2")
        child.append(Unknown("message", {"n": 1}))
        assert log.head == ""
        assert child.agent == "root/review/2"
        assert child.session_id == log.session_id
        assert child.blobs is log.blobs
        assert log.child("root/review/2").head == child.head
        assert log.child("root/review").head == ""

    @pytest.mark.parametrize(
        "agent", ["", "/", "root/", "root/../..", "root/a.b", "blobs", "other/a", "root/a b", "root//a"]
    )
    def test_a_child_has_a_path_in_the_tree(self, log: Log, agent: str) -> None:
        with pytest.raises(ValueError, match="path"):
            log.child(agent)

    def test_blobs_are_named_by_their_content(self, log: Log) -> None:
        path = log.blobs.put(b"content")
        assert path.name == hashlib.sha256(b"content").hexdigest()
        assert path.read_bytes() == log.blobs.get(path.name) == b"content"
        assert log.blobs.put(b"content") == path

    def test_a_finished_file_is_adopted(self, log: Log) -> None:
        scratch = log.blobs.scratch()
        assert not scratch.exists()
        scratch.write_bytes(b"written by somebody")
        path = log.blobs.adopt(scratch)
        assert path == log.blobs.put(b"written by somebody")
        assert path.read_bytes() == b"written by somebody"
        assert not scratch.exists()

    def test_a_blob_that_is_not_there_is_said_to_be_missing(self, log: Log) -> None:
        with pytest.raises(SessionCorrupt, match="missing"):
            log.blobs.get("0" * 64)
        with pytest.raises(SessionCorrupt, match="not the name"):
            log.blobs.get("../root.jsonl")

    def test_syncing_and_closing_leave_what_was_written(self, log: Log) -> None:
        log.blobs.put(b"content")
        entry = log.append(Unknown("message", {}))
        log.sync()
        log.sync()
        log.close()
        log.close()
        assert list(log.entries()) == [entry]
