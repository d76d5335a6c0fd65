"""Proposals: they promise what the same requests would have cost less, and nothing that saves nothing."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from sagent.cost.prices import PriceBook
from sagent.events import Advice
from sagent.lib.json import JsonObject
from sagent.lib.money import total
from sagent.messages import Message, Text, ToolCall, ToolResult, user
from sagent.plugins.why.account import read_courses
from sagent.plugins.why.command import explain
from sagent.plugins.why.course import Course
from sagent.plugins.why.proposals import Proposal, propose
from sagent.plugins.why.rates import RateBook
from sagent.plugins.why.reading import read_entries
from sagent.plugins.why.rebuilding import check
from sagent.session.contents import (
    AdviceOutcome,
    ChargeEntry,
    ConsultationEntry,
    Content,
    MessageEntry,
    PromptEntry,
    RequestSent,
    StoredMessage,
    StoredTool,
)
from sagent.testing.script import Turn
from sagent.usage import Charge, Usage
from tests.plugins.why.test_why_account import log_of
from tests.plugins.why.wasteful import MODEL, tell, turn

RATE = {bucket: Decimal(usd).scaleb(-6) for bucket, usd in
        {"input": "3", "cache_read": "0.3", "cache_write": "3.75", "output": "15"}.items()}  # fmt: skip


def charge(usage: Usage, model: str = MODEL) -> ChargeEntry:
    usd = PriceBook().price("anthropic", model, usage)
    return ChargeEntry(Charge(model, usage, usd=usd, role="executor", provider="anthropic", agent="root"))


def course_of(contents: Sequence[Content]) -> Course:
    return read_entries("root", log_of(contents), RateBook(PriceBook().price))


def proposals_of(contents: Sequence[Content], *models: str) -> dict[str, Proposal]:
    found = propose([course_of(contents)], RateBook(PriceBook().price), models)
    return {proposal.kind: proposal for proposal in found}


SAID = MessageEntry(StoredMessage.of(user("Go on."), None))
REPLY = MessageEntry(StoredMessage.of(Message("assistant", (Text("Yes."),), model=f"anthropic/{MODEL}"), None))
SENT = RequestSent("0" * 64, 100, MODEL, {})


async def test_repeated_results_are_priced_by_rebuilt_requests(tmp_path: Path) -> None:
    session = await tell(tmp_path)
    book = PriceBook()
    account, proposals = explain(session, book)
    again = next(each for each in proposals if each.kind == "repeated results")
    assert again.check.startswith("4 of 4 requests rebuilt")
    assert again.usd is not None and Decimal(0) < again.usd < account.whole.whole.usd
    # the fake provider counts four bytes a token: two results of these lines, in two and three requests less one
    (course,) = read_courses(session, RateBook(book.price))
    sizes = [piece.tokens for piece in course.pieces if piece.subject.what == "again"]
    carried = [
        sum(span.stop - span.first for span in piece.spans) for piece in course.pieces if piece.subject.what == "again"
    ]
    assert carried == [4, 2]
    tokens = sum(size * times for size, times in zip(sizes, carried, strict=True))
    assert 0.8 * tokens < again.tokens < tokens
    assert again.usd == pytest.approx(again.tokens * RATE["input"], rel=Decimal("0.01"))


async def test_what_rebuilt_requests_do_not_bear_out_is_lowered(tmp_path: Path) -> None:
    session = await tell(tmp_path)
    (course,) = read_courses(session, RateBook(PriceBook().price))
    for piece in course.pieces:
        piece.tokens *= 3  # a wrong measure
    rates = RateBook(PriceBook().price)
    proposals = propose([course], rates)
    again = next(each for each in proposals if each.kind == "repeated results")
    before, (_, honest) = again.usd, explain(session, PriceBook())
    check(session, proposals)
    (told,) = (each.usd for each in honest if each.kind == "repeated results")
    assert before is not None and again.usd is not None and told is not None
    assert again.usd < told * Decimal("1.1") < before
    assert again.usd == total(row.usd for row in again.days.values())


async def test_changed_log_is_not_said_to_be_rebuilt(tmp_path: Path) -> None:
    session = await tell(tmp_path)
    rates = RateBook(PriceBook().price)
    (course,) = read_courses(session, rates)
    for request in course.requests:
        assert request.sent is not None
        request.sent = replace(request.sent, sha256="1" * 64)
    proposals = propose([course], rates)
    check(session, proposals)
    again = next(each for each in proposals if each.kind == "repeated results")
    assert again.basis == "estimated" and "not rebuilt" in again.check


async def test_long_result_is_cut(tmp_path: Path) -> None:
    session = await tell(tmp_path)
    _, proposals = explain(session, PriceBook())
    long = next(each for each in proposals if each.kind == "long results")
    assert "Read long.py" in long.what and long.check.startswith("5 of 5 requests rebuilt")


async def test_thrifty_session_has_no_proposals(tmp_path: Path) -> None:
    session = await tell(tmp_path, [turn("app.py"), Turn(text="Done."), Turn(text="Done.")])
    _, proposals = explain(session, PriceBook())
    assert proposals == []


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (PromptEntry("Be brief.", (StoredTool("Read", "reads", "{}"),)), "tools"),
        (PromptEntry("Be long.", ()), "system prompt"),
        (SAID, "unknown"),
    ],
)
def test_broken_cache_is_priced_by_its_cause(change: Content, cause: str) -> None:
    whole = [
        PromptEntry("Be brief.", ()),
        SAID,
        SENT,
        REPLY,
        charge(Usage(10, 0, 50_000, output=10)),
        SAID,
        SENT,
        REPLY,
    ]
    hit, missed = Usage(10, 50_000, 1_000, output=10), Usage(10, 0, 51_000, output=10)
    kept = course_of([*whole, charge(hit), change, SENT, REPLY, charge(hit)])
    assert [request.cause for request in kept.requests] == ["", "", ""]
    contents = [*whole, change, SENT, REPLY, charge(missed)]
    assert course_of(contents).requests[-1].cause == cause
    cache = proposals_of(contents)["cache"]
    assert cache.basis == "counted" and cache.requests == 1
    assert cache.usd == 50_000 * (RATE["cache_write"] - RATE["cache_read"])


def test_cheaper_model_counts_only_if_it_fits() -> None:
    contents = [SAID, SENT, REPLY, charge(Usage(100_000, output=1_000))]
    model = proposals_of(contents, "anthropic/claude-haiku-4-5")["model"]
    price = PriceBook().price("anthropic", "claude-haiku-4-5", Usage(100_000, output=1_000))
    assert price is not None and model.basis == "estimated"
    assert model.usd == 100_000 * RATE["input"] + 1_000 * RATE["output"] - price
    found = propose(
        [course_of(contents)], RateBook(PriceBook().price), ["anthropic/claude-haiku-4-5"], lambda _, size: size < 9
    )
    assert found == []
    assert "model" not in proposals_of(contents, "anthropic/claude-opus-4-1", "nobody/unheard-of")


def test_advice_that_was_not_followed_is_counted() -> None:
    usage = Usage(20_000, output=500)

    def advised(trigger: str) -> ConsultationEntry:
        return ConsultationEntry(Advice("critic", "a/b", trigger, "answered", usage=usage, usd=Decimal("0.5")))

    entries = log_of([SAID, advised("failures"), advised("failures"), advised("asked")])
    outcomes = [
        AdviceOutcome("critic", entries[number].id, said)
        for number, said in ((1, "rejected"), (2, "followed"), (3, "rejected"))
    ]
    for outcome in outcomes:
        entries += log_of([outcome])
    found = propose([read_entries("root", entries, RateBook(PriceBook().price))], RateBook(PriceBook().price))
    (advice,) = (each for each in found if each.kind == "advice")
    assert (advice.usd, advice.tokens) == (Decimal("0.5"), 20_500)


def test_pause_pays_for_a_longer_cache_only_where_it_does() -> None:
    contents = [PromptEntry("Be brief.", ()), SAID, SENT, REPLY, charge(Usage(10, 0, 100_000, output=10))]
    course = course_of([*contents, SAID, SENT, REPLY, charge(Usage(10, 0, 101_000, output=10))])
    course.requests[-1].cause = "pause"
    course.requests[-1].since = 1_000.0
    (longer,) = propose([course], RateBook(PriceBook().price))
    # written for an hour once, at 6 USD a million tokens, then read, and little is written; it was written twice
    hour = Decimal(6).scaleb(-6)
    assert longer.kind == "longer cache"
    assert longer.usd == 201_000 * RATE["cache_write"] - (101_000 * hour + 100_000 * RATE["cache_read"])
    course.requests[-1].since = 5_000.0
    assert propose([course], RateBook(PriceBook().price)) == []


def test_model_without_a_price_saves_tokens_only() -> None:
    calls = tuple(ToolCall(f"c{number}", "Read", JsonObject({"file_path": "a"})) for number in range(2))
    unknown = ChargeEntry(Charge("m", Usage(2_000), role="executor", provider="nobody", agent="root"))
    contents: list[Content] = [SAID, SENT]
    for call in calls:
        result = ToolResult(call.id, (Text("x" * 4_000),))
        contents += [
            MessageEntry(StoredMessage.of(Message("assistant", (call,), model="nobody/m"), None)),
            unknown,
            MessageEntry(StoredMessage.of(Message("user", (result,)), None)),
            SENT,
        ]
    again = proposals_of([*contents, REPLY, unknown])["repeated results"]
    assert again.usd is None and again.tokens > 0
