"""Which results give way, to what, and that the whole stays readable."""

import string
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from sagent.context.compaction import MIN_BYTES, can_shrink, shrink
from sagent.lib.json import json_freeze_object
from sagent.messages import Image, Message, Text, ToolCall, ToolResult, assistant, user
from sagent.session.blobs import BlobDirectory


def round_of(number: int, *texts: str) -> list[Message]:
    calls = [ToolCall(f"{number}-{place}", "Read") for place in range(len(texts))]
    results = (ToolResult(call.id, (Text(text),)) for call, text in zip(calls, texts, strict=True))
    return [assistant("", *calls, stop="tool_use"), Message("user", tuple(results))]


def history_of(*rounds: tuple[str, ...], end: str = "done") -> list[Message]:
    found = [user("go")]
    for number, texts in enumerate(rounds):
        found += round_of(number, *texts)
    return [*found, assistant(end)] if end else found


def test_largest_then_oldest_become_stubs() -> None:
    history = history_of(*[("x" * size,) for size in (5_000, 9_000, 5_000, 9_000, 10, 10, 10)])
    blobs = BlobDirectory()
    assert [stub.call for stub in shrink(history, 10_000, blobs)] == ["1-0", "3-0"]
    assert [stub.call for stub in shrink(history, 20_000, blobs)] == ["1-0", "3-0", "0-0"]
    assert [stub.message for stub in shrink(history, 1, blobs)] == [4]
    assert shrink(history, 0, blobs) == ()
    blobs.close()


def test_last_rounds_are_stubbed_last() -> None:
    history = history_of(("a" * 3_000,), ("b" * 9_000,), ("c" * 9_000,), ("d" * 9_000,))
    blobs = BlobDirectory()
    assert [stub.call for stub in shrink(history, 2_000, blobs)] == ["0-0"]
    assert [stub.call for stub in shrink(history, 10_000, blobs)] == ["0-0", "1-0"]
    blobs.close()


def test_unread_results_go_last_with_both_ends() -> None:
    history = history_of(("a" * 3_000,), ("begin" + "b" * 50_000 + "end",), end="")
    blobs = BlobDirectory()
    first, second = shrink(history, 40_000, blobs)
    assert first.call == "0-0" and second.text.startswith("begin") and second.text.endswith("end")
    assert len(second.text) < 5_000
    blobs.close()


def test_only_last_reading_of_file_stays() -> None:
    def read(number: int, path: str, *, fails: bool = False) -> list[Message]:
        call = ToolCall(f"{number}", "Read", json_freeze_object({"file_path": path}))
        result = ToolResult(call.id, (Text(path * 500),), is_error=fails)
        return [assistant("", call, stop="tool_use"), Message("user", (result,))]

    names = ["aa", "bbbb", "aa", "cccc", "dd", "dd", "eee", "eee", "eee"]
    history = [user("go")]
    for number, name in enumerate(names):
        history += read(number, name, fails=number == 5)
    history.append(assistant("done"))
    blobs = BlobDirectory()
    assert [stub.call for stub in shrink(history, 1, blobs)] == ["0"]  # 6 and 7 are of the last rounds
    assert [stub.call for stub in shrink(history, 1_500, blobs)] == ["0", "1"]
    every = [stub.call for stub in shrink(history, 100_000, blobs)]
    assert every == ["0", "1", "3", "2", "4", "5", "6", "7", "8"]  # the failed reading told nothing: 4 is no duplicate
    blobs.close()


def test_media_are_kept_too_and_named() -> None:
    result = ToolResult("c", (Text("x" * 100), Image("image/png", b"picture")), is_error=True)
    history = [user("go"), assistant("", ToolCall("c", "Read"), stop="tool_use"), Message("user", (result,))]
    history.append(assistant("seen"))
    blobs = BlobDirectory()
    (stub,) = shrink(history, 1, blobs)
    paths = stub.text.split("kept in ")[1].split(";")[0].split(" and ")
    assert [Path(path).read_bytes() for path in paths] == [b"x" * 100, b"picture"]
    blobs.close()


def test_nothing_to_shrink() -> None:
    assert not can_shrink([user("x" * 100_000)])
    assert not can_shrink(history_of(("x" * (MIN_BYTES - 1),)))
    assert can_shrink(history_of(("x" * MIN_BYTES,)))


texts = st.text(string.ascii_letters + "é\n", max_size=3_000).map(lambda text: text * 5)


@given(st.lists(st.lists(texts, min_size=1, max_size=3).map(tuple), max_size=8), st.integers(0, 60_000), st.booleans())
def test_shrinking_saves_enough_or_all(rounds: list[tuple[str, ...]], need: int, answered: bool) -> None:
    history = history_of(*rounds, end="done" if answered else "")
    blobs = BlobDirectory()
    stubs = shrink(history, need, blobs)
    saved = 0
    for stub in stubs:
        (result,) = (result for result in history[stub.message].results if result.call_id == stub.call)
        saved += len(result.text.encode()) - len(stub.text.encode())
    everything = shrink(history, 10**9, blobs)
    assert saved >= need or len(stubs) == len(everything)
    assert len({(stub.message, stub.call) for stub in stubs}) == len(stubs)
    blobs.close()
