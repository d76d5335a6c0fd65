"""What travels: addresses, envelopes, frames and cards come back as they were, and answers come together again."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.errors import UsageError
from sagent.lib.json import Json, JsonObject, json_freeze
from sagent.plugins.mesh import names
from sagent.plugins.mesh.answers import MAX_UNREAD_FRAMES, Answer
from sagent.plugins.mesh.bus import (
    Address,
    Envelope,
    Frame,
    FrameKind,
    answer_of,
    decode,
    decode_frame,
    encode,
    encode_frame,
    failure,
)
from sagent.plugins.mesh.cards import Card, Query, decode_card, encode_card, matches, patterns, select
from sagent.plugins.mesh.errors import DeadlineExceeded, Failed, WrongVersion

PARTS = st.text("abcXYZ019_-", min_size=1, max_size=8)
NAMES = st.lists(PARTS, min_size=1, max_size=4).map(".".join)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
BODIES: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
).map(json_freeze)
TIMES = st.none() | st.floats(1e9, 2e9)


@given(NAMES, TEXTS, BODIES, PARTS, TIMES, TIMES)
def test_envelope_round_trips(
    name: str, path: str, body: Json, own: str, deadline: float | None, kept: float | None
) -> None:
    address = Address(name, path)
    sent = Envelope(address, body, "kind", own, "me", deadline, kept, "client")
    assert decode(encode(sent)) == (sent, "")
    assert decode(encode(sent, "parcel"))[1] == "parcel"
    assert Address.of(str(address)) == address


@given(st.sampled_from(["frame", "reply", "failed"]), BODIES, st.integers(1, 10**6), st.integers(1, 9))
def test_frame_round_trips(kind: FrameKind, body: Json, number: int, attempt: int) -> None:
    sent = Frame(kind, body, number, attempt)
    assert decode_frame(encode_frame(sent)) == (sent, "")


@pytest.mark.parametrize("text", ["", ".", "a.", "a..b", "a b", "*", ">", "a.>", "é", "a\nb", "a" * 101, "/root"])
def test_invalid_address_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not an address"):
        Address.of(text)


@given(st.text(), st.text())
def test_any_text_is_one_token_of_its_own(one: str, other: str) -> None:
    token = names.token(one)
    assert not set(token) & set(". *>\t\r\n") and token.isascii() and token
    assert (token == names.token(other)) is (one == other)


@pytest.mark.parametrize(
    "data",
    [
        *(b"{}", b"[]", b'{"version":1}', b'{"version":1,"id":"x","to":"a b"}', b"\xff", b"[" * 100_000),
        *(b'{"version":1,"id":"x","to":"a","kept_until":%s}' % time for time in (b'"soon"', b"true", b"[]", b"1e999")),
    ],
)
def test_invalid_message_refused(data: bytes) -> None:
    with pytest.raises((ValueError, WrongVersion)):
        decode(data)


def test_another_version_is_named() -> None:
    data = json.dumps({"version": 7, "id": "x", "to": "a", "body": None}).encode()
    with pytest.raises(WrongVersion, match="version 7; this sagent knows 1"):
        decode(data)
    frame, _ = decode_frame(data)
    assert frame.is_last
    with pytest.raises(WrongVersion):
        answer_of(frame, Envelope(Address("a"), None))


def test_failure_keeps_its_type() -> None:
    asked = Envelope(Address("a"), None)
    for kind, error in (("deadline_exceeded", DeadlineExceeded), ("not_found", Failed), ("", Failed)):
        with pytest.raises(error, match="why"):
            answer_of(Frame("failed", failure("why", kind)), asked)


# Answers


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_answer_whole_over_lossy_transport(lengths: list[int], chance: random.Random) -> None:
    """Frames are lost, come twice, late or too early; all that were sent are kept and can be read again. The last
    attempt is read whole, each of its frames once and in order, after a "restart" if anything was read before."""
    kept = [
        Frame("reply" if last and number == length else "frame", f"{attempt}.{number}", number + 1, attempt)
        for attempt, length in enumerate(lengths, 1)
        for last in (attempt == len(lengths),)
        for number in range(length + last)
    ]
    live = [frame for frame in kept for _ in range(chance.choice((0, 1, 1, 2)))]
    if chance.random() < 0.5:
        chance.shuffle(live)
    answer, read = Answer(), list[Frame]()

    def take() -> None:
        while (frame := answer.take()) is not None:
            read.append(frame)

    for frame in live:
        answer.put(frame)
        if chance.random() < 0.5:
            take()
    for frame in kept:  # as after a reconnect
        answer.put(frame)
    take()
    begun = max((place for place, frame in enumerate(read) if frame.kind == "restart"), default=-1)
    final = [frame for frame in kept if frame.attempt == len(lengths)]
    assert read[begun + 1 :] == final
    for frame in kept:
        answer.put(frame)
    assert answer.take() is None


def test_unread_answer_bounded() -> None:
    answer = Answer()
    for number in range(3 * MAX_UNREAD_FRAMES):
        answer.put(Frame("frame", number, number + 1))
    assert answer.is_incomplete
    assert len(answer) <= MAX_UNREAD_FRAMES + 1


# Cards


@given(NAMES, NAMES | st.just(""), st.booleans())
def test_namespace_ends_at_dot(address: str, namespace: str, recursive: bool) -> None:
    found = matches(Query(namespace, recursive), Card(address))
    if not namespace:
        assert found is (recursive or "." not in address)
    elif address == namespace:
        assert found
    else:
        rest = address.removeprefix(f"{namespace}.")
        assert found is (rest != address and (recursive or "." not in rest))


LEVELS = st.lists(st.sampled_from(["a", "ab", "b"]), min_size=1, max_size=3).map(".".join)
SPACES = st.builds(Query, LEVELS | st.just("") | st.sampled_from(["a.*", "a b", ">"]), st.booleans())


@given(st.lists(SPACES, max_size=5), LEVELS)
def test_only_valid_queries_have_pattern(queries: list[Query], address: str) -> None:
    found = [pattern for pattern in patterns(queries) if _has(pattern.split("."), address.split("."))]
    assert len(found) == any(matches(query, Card(address)) for query in queries)


def _has(pattern: list[str], address: list[str]) -> bool:
    """Whether a subject is one of a pattern, as NATS reads it."""
    if pattern[-1] == ">":
        return len(address) >= len(pattern) and address[: len(pattern) - 1] == pattern[:-1]
    last = address[-1] if pattern[-1] == "*" else pattern[-1]  # elsewhere is none
    return [*pattern[:-1], last] == address


def test_query_by_namespace_label_and_kind() -> None:
    cards = [
        Card("ab.x"), Card("a"), Card("a.c", labels=("gpu", "big")), Card("a.b.c"), Card("n1", kind="node")
    ]  # fmt: skip
    queries = (Query("a"), Query("a", recursive=False), Query(labels=("gpu",)), Query(kind="node"), Query("z"))
    found = [[card.address for card in each] for each in select(queries, cards)]
    assert found == [["a", "a.b.c", "a.c"], ["a", "a.c"], ["a.c"], ["n1"], []]


def test_card_round_trips() -> None:
    schema = JsonObject({"type": "object"})
    card = Card("a.b", "é", "node", schema, schema, ("l",), 0.25, ("m/x",), ("Read",), JsonObject({"pid": 1}))
    assert decode_card(encode_card(card)) == card
    assert decode_card(encode_card(Card("a"))) == Card("a")
    for wrong in ({"version": 1}, {"version": 1, "address": "a b"}):
        with pytest.raises(ValueError, match="address"):
            decode_card(wrong)
    with pytest.raises(WrongVersion):
        decode_card({"address": "a"})
    assert decode_card({"version": 1, "address": "a", "load": "much", "labels": "x", "takes": 3}) == Card("a")
    assert decode_card({"version": 1, "address": "a", "load": 10**400}) == Card("a")  # no float holds it
