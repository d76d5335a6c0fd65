"""What entries say of files, and what winding back makes of it: no file is touched here."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.errors import UsageError
from sagent.lib.json import as_object, canonical_bytes, json_load
from sagent.rewind.plan import BETWEEN, ELSE, REWIND, Plan, cut_off, plan, settle, since
from sagent.session import entries as entries_module
from sagent.session.blobs import BlobDirectory
from sagent.session.contents import Spawned, Unknown
from sagent.session.log import FileLog, MemoryLog
from sagent.session.touches import (
    ABSENT,
    DIRECTORY,
    NOT_SEEN,
    Omission,
    Snapshot,
    Touch,
    Touched,
    decode_touched,
    encode_touched,
    unknown,
)

PATHS = (
    st.binary(min_size=1, max_size=12).filter(lambda path: b"\0" not in path).map(lambda path: "/" + os.fsdecode(path))
)
SNAPSHOTS = st.one_of(
    st.just(ABSENT),
    st.just(DIRECTORY),
    st.builds(lambda blob, mode: Snapshot("file", blob, mode), st.just("a" * 64), st.integers(0, 0o7777)),
    PATHS.map(lambda target: Snapshot("link", target=target)),
    st.sampled_from(("too large", "odd")).map(unknown),
)


def file(content: str) -> Snapshot:
    return Snapshot("file", content * 64, 0o644)


def ended(call: str, path: str, before: Snapshot, after: Snapshot, **more: object) -> Touched:
    return Touched(call, "Edit", True, (Touch(path, before, after),), **more)  # pyright: ignore[reportArgumentType]


@given(
    st.builds(
        Touched,
        call=st.text("abc", max_size=3),
        tool=st.just("Bash"),
        ended=st.just(True),
        files=st.lists(st.builds(Touch, PATHS, SNAPSHOTS, SNAPSHOTS), max_size=3).map(tuple),
        made=st.lists(PATHS, max_size=2).map(tuple),
        gone=st.lists(PATHS, max_size=2).map(tuple),
        omitted=st.lists(st.builds(Omission, PATHS, st.just("why")), max_size=2).map(tuple),
        trees=st.lists(PATHS, max_size=2).map(tuple),
        beside=st.lists(st.text("abc", max_size=3), max_size=2).map(tuple),
    )
)
def test_plan_body_tells_what_was_put_in(what: Touched) -> None:
    body = as_object(json_load(canonical_bytes(encode_touched(what))))
    assert decode_touched(body) == what
    assert len(list(what.blobs)) == sum(
        side.kind == "file" for touch in what.files for side in (touch.before, touch.after)
    )


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=4),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(("files", "path", "before", "after", "blob", "mode", "omitted")), inner)
        ),
    )
)
def test_unknown_states_are_never_rewound(body: object) -> None:
    what = decode_touched(as_object(body))
    found = plan([what])
    now = {item.path: item.expected[0] if item.expected else ABSENT for item in found.items}
    for step in settle(found, now)[0]:
        assert step.after.kind != "unknown"
        assert step.before.kind != "unknown"


def test_first_before_and_last_after_count() -> None:
    found = plan([ended("1", "/a", ABSENT, file("1")), ended("2", "/a", file("1"), file("2"))])
    assert settle(found, {"/a": file("2")}) == ([Touch("/a", file("2"), ABSENT)], [])
    assert settle(found, {"/a": ABSENT}) == ([], [])
    assert settle(found, {"/a": file("1")}) == ([], [Omission("/a", ELSE)])
    assert settle(found, {"/a": unknown("odd")}) == ([], [Omission("/a", "odd")])


def test_foreign_change_between_is_noticed() -> None:
    found = plan([ended("1", "/a", ABSENT, file("1")), ended("2", "/a", file("9"), file("2"))])
    assert settle(found, {"/a": file("2")}) == ([], [Omission("/a", BETWEEN)])


def test_mode_is_part_of_a_file() -> None:
    found = plan([ended("1", "/a", file("1"), Snapshot("file", "1" * 64, 0o755))])
    assert settle(found, {"/a": file("1")}) == ([], [])
    assert len(settle(found, {"/a": Snapshot("file", "1" * 64, 0o755)})[0]) == 1


def test_unfinished_steps_in_plan() -> None:
    begun = Touched("1", "Edit", False, (Touch("/a", file("1"), unknown(NOT_SEEN)),))
    assert settle(plan([begun]), {"/a": file("1")}) == ([], [])
    assert settle(plan([begun]), {"/a": file("2")}) == ([], [Omission("/a", ELSE)])
    planned = Touched("1", REWIND, False, (Touch("/a", file("1"), file("0")),))
    assert len(settle(plan([planned]), {"/a": file("0")})[0]) == 1
    command = Touched("2", "Bash", False, trees=("/work",))
    assert plan([command]) == Plan(omitted=(Omission("/work", NOT_SEEN),), commands=True)


def test_directories_in_possible_order() -> None:
    first = Touched("1", "Bash", True, made=("/w/a", "/w/a/b"), gone=("/w/old", "/w/old/er"))
    found = plan([first, Touched("2", "Bash", True, made=("/w/old",), gone=("/w/a/b",))])
    assert (found.made, found.gone) == (("/w/a/b", "/w/a"), ("/w/old", "/w/old/er"))


def test_only_later_entries_of_branch_count() -> None:
    log = MemoryLog()
    first = log.append(Unknown("opened", {})).id
    log.append(ended("1", "/a", ABSENT, file("1")))
    middle = log.append(Unknown("label", {})).id
    log.append(ended("2", "/b", ABSENT, file("1")))
    log.fork(first)
    log.append(ended("3", "/c", ABSENT, file("1")))

    def calls(entry: str) -> list[str]:
        return [what.call for what in since(lambda _: log.entries(), "root", entry)]

    assert (calls(first), calls(middle), calls(log.head), calls("")) == (
        ["1", "2", "3"],
        ["2", "3"],
        [],
        ["1", "2", "3"],
    )
    with pytest.raises(UsageError, match="no entry"):
        calls("f" * 64)


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("hours", [1, 0, -1])
def test_child_entries_count_by_spawn_or_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int, kept: bool
) -> None:
    class Clock(datetime):
        moment = datetime(2026, 11, 21, 3, tzinfo=UTC)

        @classmethod
        def now(cls, tz: object = None) -> datetime:
            cls.moment += timedelta(hours=hours)
            return cls.moment

    monkeypatch.setattr(entries_module, "datetime", Clock)
    log = FileLog(tmp_path, blobs=BlobDirectory()) if kept else MemoryLog()
    log.append(Unknown("opened", {}))
    old, new = log.child("root/old"), log.child("root/new")
    log.append(Spawned("root/old", old.append(Unknown("opened", {})).id))
    old.append(ended("before", "/a", ABSENT, file("1")))
    point = log.append(Unknown("label", {})).id
    log.append(ended("own", "/b", ABSENT, file("1")))
    old.append(ended("after", "/a", file("1"), file("2")))
    below = log.child("root/new/deep")
    log.append(Spawned("root/new", new.append(Unknown("opened", {})).id))
    new.append(Spawned("root/new/deep", below.append(Unknown("opened", {})).id))
    below.append(ended("deep", "/c", ABSENT, file("1")))
    if isinstance(log, FileLog):  # another process goes on
        for each in (log, old, new, below):
            each.close()
        log = FileLog(tmp_path, blobs=BlobDirectory())
        old, new, below = log.child("root/old"), log.child("root/new"), log.child("root/new/deep")
    old.append(ended("later", "/a", file("2"), file("3")))
    found = since(lambda agent: log.child(agent).entries(), "root", point)
    assert [what.call for what in found] == ["own", "after", "deep", "later"]


def test_killed_rewind_shows_what_it_did() -> None:
    log, one, two = MemoryLog(), file("1"), file("2")
    steps = (Touch("/a", one, two), Touch("/b", one, two), Touch("/c", one, two))
    log.append(Touched("1", REWIND, False, files=steps))
    now = {"/a": one, "/b": two, "/c": ABSENT}
    (left,) = cut_off(log.entries(), lambda path: now[path])
    assert (left.files, left.omitted) == (steps[1:], (Omission("/c", NOT_SEEN),))


def test_open_call_of_killed_process_is_closed() -> None:
    log = MemoryLog()
    log.append(Touched("1", "Bash", False, trees=("/work",)))
    log.append(Touched("2", "Bash", False, trees=("/work",)))
    log.append(Touched("2", "Bash", True))
    (left,) = cut_off(log.entries(), lambda _: ABSENT)
    assert (left.call, left.ended, left.omitted) == ("1", True, (Omission("/work", NOT_SEEN),))
    log.append(left)
    assert list(cut_off(log.entries(), lambda _: ABSENT)) == []
    assert since(lambda _: log.entries(), "root", log.head) == ()
