"""Events come out the same however the bytes are cut and whatever ends the lines."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.providers.wire.sse import EventReader


def read(*chunks: bytes) -> list[tuple[str, str]]:
    reader = EventReader()
    return [event for chunk in chunks for event in reader.feed(chunk)] + reader.end()


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_any_cut_and_any_line_end(newline: str, size: int) -> None:
    lines = [
        ": hello",
        "event: a",
        "id: 7",
        "data: {}",
        "",
        "data:x",
        "data:  y",
        "retry: 3",
        "",
        "event: b",
        "",
        "data: ü🌍",
        "",
    ]
    whole = ("\ufeff" + newline.join(lines) + newline).encode()
    chunks = [whole[at : at + size] for at in range(0, len(whole), size)]
    assert read(*chunks) == [("a", "{}"), ("", "x\n y"), ("", "ü🌍")]


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=("Cs",)), min_size=1)), st.data())
def test_written_events_are_read(payloads: list[str], data: st.DataObject) -> None:
    whole = b"".join(
        b"data: " + json.dumps(text).encode() + data.draw(st.sampled_from([b"\n\n", b"\r\n\r\n", b"\r\r"]))
        for text in payloads
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    chunks = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert [json.loads(text) for _, text in read(*chunks)] == payloads


def test_last_event_needs_no_blank_line() -> None:
    assert read(b"data: 1\n\ndata: 2") == [("", "1"), ("", "2")]


def test_bare_json_line_is_an_event() -> None:
    assert read(b'data: 1\n\n{"error":{"message":"no"}}\n') == [("", "1"), ("", '{"error":{"message":"no"}}')]


def test_field_error_line_is_an_error() -> None:
    assert read(b'data: 1\n\nerror: {"code":500}\n\ndata: [DONE]\n\n') == [
        ("", "1"),
        ("error", ' {"code":500}'),
        ("", "[DONE]"),
    ]


def test_comments_are_life_but_no_event() -> None:
    reader = EventReader()
    assert reader.feed(b": ping\n") == []
    assert reader.alive
    reader.alive = False
    assert reader.feed(b"data: half") == []
    assert not reader.alive


def test_invalid_utf8_does_not_stop_reading() -> None:
    assert read(b"data: a\xffb\n\n") == [("", "a\ufffdb")]
