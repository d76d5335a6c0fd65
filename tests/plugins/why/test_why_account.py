"""The account of a session: its parts add up to the session, in money, tokens and time."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagent.cost.prices import PriceBook
from sagent.lib.json import JsonObject
from sagent.lib.money import total
from sagent.messages import Message, Text, ToolCall, ToolResult, user
from sagent.plugins.why.account import Account, account_of, read_courses
from sagent.plugins.why.context import as_read
from sagent.plugins.why.course import Interval, Subject, divide_time
from sagent.plugins.why.rates import RateBook
from sagent.plugins.why.reading import read_entries
from sagent.plugins.why.shares import share_tokens, share_usd
from sagent.session.contents import (
    ChargeEntry,
    Compacted,
    Content,
    Forked,
    MessageEntry,
    PromptEntry,
    Repaired,
    RequestSent,
    Reserved,
    ResultEntry,
    StoredMessage,
    StoredResult,
)
from sagent.session.entries import Entry, seal
from sagent.session.folds import spend
from sagent.session.log import read_log
from sagent.session.store import named_logs
from sagent.usage import Charge, Usage
from tests.depth import deep
from tests.plugins.lab.recorded_story import FAMILIES
from tests.plugins.lab.recorded_story import tell as tell_everything
from tests.plugins.why.wasteful import tell

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
TOKENS = st.integers(0, 300_000)
USAGES = st.builds(Usage, TOKENS, TOKENS, TOKENS, TOKENS, TOKENS)
USD = st.none() | st.decimals(0, 10, places=9)
CHARGES = st.builds(
    Charge,
    st.sampled_from(["claude-sonnet-4-6", "unheard-of"]),
    USAGES,
    usd=USD,
    role=st.sampled_from(["executor", "executor", "advisor:critic", "compactor", "title", ""]),
    provider=st.just("anthropic"),
    agent=st.just("root"),
    at_most=st.none() | st.just(Decimal(20)),
)


def result(call: str, text: str, *, fails: bool) -> ResultEntry:
    return ResultEntry(StoredResult.of(ToolResult(call, (Text(text),), fails), None), 0.5)


TEXTS = st.sampled_from(["a" * 300, "b" * 20_000, ""])
RESULTS = st.builds(result, st.sampled_from(["c1", "c2"]), TEXTS, fails=st.booleans())
CALLS = tuple(ToolCall(name, "Read", JsonObject({"file_path": "a.py"})) for name in ("c1", "c2"))
CONTENTS: st.SearchStrategy[Content] = st.one_of(
    CHARGES.map(ChargeEntry),
    CHARGES.map(Reserved),
    RESULTS,
    st.just(RequestSent("0" * 64, 100, "claude-sonnet-4-6", {})),
    st.sampled_from(["", "Be brief."]).map(PromptEntry),
    st.just(MessageEntry(StoredMessage.of(user("Go on."), None))),
    st.just(MessageEntry(StoredMessage.of(Message("assistant", (Text("Yes."), *CALLS), model="a/b"), None))),
    st.builds(Compacted, st.just(((0, "", "short"),)), st.just(9), st.just(5), st.just("full"), st.just((0, 1))),
    st.just(Repaired(1, 1, "aside", "damage", ("spent",))),
)


def log_of(contents: Sequence[Content]) -> list[Entry]:
    """Entries with these contents; a fork continues the first one."""
    found: list[Entry] = []
    for content in contents:
        parent = found[0].id if found and isinstance(content, Forked) else found[-1].id if found else ""
        found.append(seal(parent, content, found[-1].at if found else ""))
    return found


def check_sums(account: Account, entries: Sequence[Entry]) -> None:
    """The parts are the session's sums, to the last digit."""
    whole, spent = account.whole, spend(entries).whole
    tokens = spent.usage.total_input + spent.usage.output
    assert whole.whole.usd == spent.usd and whole.whole.tokens == tokens
    assert whole.whole.charges == spent.charges and whole.whole.unpriced == spent.unpriced
    assert whole.unbilled == spent.unbilled
    for rows in (whole.subjects, whole.models, whole.agents):
        assert total(row.usd for row in rows.values()) == spent.usd
        assert sum(row.tokens for row in rows.values()) == tokens
        assert all(row.usd >= 0 and row.tokens >= 0 for row in rows.values())


@settings(max_examples=deep(60, 500), deadline=None)
@given(st.lists(CONTENTS | st.just(Forked("")), max_size=40))
def test_parts_add_up(contents: list[Content]) -> None:
    entries = log_of(contents)
    account = account_of("s", "", [read_entries("root", entries, RateBook(PriceBook().price))])
    check_sums(account, entries)
    if entries:
        first, last = (datetime.fromisoformat(entries[place].at) for place in (0, -1))
        assert sum(account.time.values()) == round((last - first).total_seconds() * 1_000_000)


@pytest.mark.parametrize("family", ["anthropic", "chat"])
async def test_trees_add_up(tmp_path: Path, family: str) -> None:
    other = FAMILIES["google"]
    session = await tell_everything(tmp_path, tmp_path, FAMILIES[family], other)
    courses = read_courses(session, RateBook(PriceBook().price))
    account = account_of(session.name, "", courses)
    check_sums(account, [entry for file in named_logs(session) for entry in read_log(file)])
    assert len(courses) == 2 and set(account.whole.agents) == {"root", "root/review"}
    assert {subject.what for subject in account.whole.subjects} >= {"system", "written", "result", "advisor", "summary"}


async def test_repeated_results_are_told_apart(tmp_path: Path) -> None:
    session = await tell(tmp_path)
    (course,) = read_courses(session, RateBook(PriceBook().price))
    whats = [piece.subject for piece in course.pieces if piece.call]
    again, read = Subject("again", "Read"), Subject("result", "Read")
    assert whats == [read, read, again, Subject("failed", "Read"), again]
    assert [piece.counted for piece in course.pieces if piece.subject == again] == [True, True]
    account = account_of(session.name, "", [course])
    ((name, (times, row)),) = account.repeated.items()
    assert (name, times, row.usd) == ("Read app.py", 2, account.whole.subjects[again].usd)


def test_result_that_was_compacted_away_is_no_repeated_one() -> None:
    call = MessageEntry(StoredMessage.of(Message("assistant", CALLS[:1], model="a/b"), None))
    result = ResultEntry(StoredResult.of(ToolResult("c1", (Text("a" * 300),)), None))
    entries = log_of([call, result, Compacted(((1, "c1", "gone"),), 9, 5, "full"), call, result, call, result])
    course = read_entries("root", entries, RateBook(PriceBook().price))
    whats = [piece.subject.what for piece in course.pieces if piece.digest]
    assert whats == ["result", "result", "again"]


def test_branch_that_was_left_is_not_carried_on() -> None:
    charge = Charge("m", Usage(1_000), usd=Decimal(1), role="executor", provider="p")
    said = MessageEntry(StoredMessage.of(user("x" * 5_000), None))
    first = log_of([MessageEntry(StoredMessage.of(user("Go."), None)), said, ChargeEntry(charge)])
    fork = seal(first[0].id, Forked(first[-1].id), first[-1].at)
    last = seal(fork.id, ChargeEntry(charge), fork.at)
    course = read_entries("root", [*first, fork, last], RateBook(PriceBook().price))
    assert [(span.first, span.stop) for span in course.pieces[1].spans] == [(0, 1)]
    assert [(span.first, span.stop) for span in course.pieces[0].spans] == [(0, 1), (1, 2)]


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30), st.sampled_from(["model", "tools", "person", "idle"])))
)
def test_no_moment_counts_twice(rows: list[tuple[int, int, str]]) -> None:
    intervals = [Interval(start, start + length, state) for start, length, state in rows]  # pyright: ignore[reportArgumentType] -- these are states
    lasting = [each for each in intervals if each.end > each.start]
    found = divide_time(intervals)
    whole = max((each.end for each in lasting), default=0) - min((each.start for each in lasting), default=0)
    assert sum(found.values()) == whole
    busy = {moment for each in lasting if each.state == "model" for moment in range(each.start, each.end)}
    assert found["model"] == len(busy)


@given(st.decimals(0, 100, places=12), st.dictionaries(st.integers(), st.floats(0, 1e6), min_size=1))
def test_shares_have_no_rest(whole: Decimal, weights: dict[int, float]) -> None:
    shares = share_usd(whole, weights)
    tokens = share_tokens(int(whole * 1_000), weights)
    assert not shares or total(shares.values()) == whole
    assert not tokens or sum(tokens.values()) == int(whole * 1_000)
    assert bool(shares) == any(weights.values())


@settings(max_examples=deep(60, 500), deadline=None)
@given(
    USAGES,
    st.integers(0, 300_000),
    st.sampled_from(
        ["anthropic/claude-sonnet-4-6", "google/gemini-3.1-pro-preview", "openai/gpt-5.5", "deepseek/deepseek-chat"]
    ),
)
def test_rates_are_the_prices(usage: Usage, reasoning: int, name: str) -> None:
    usage = replace(usage, reasoning=min(reasoning, usage.output))
    provider, _, model = name.partition("/")
    book = PriceBook()
    rates = RateBook(book.price).rates(provider, (model,), usage.total_input, NOW, "")
    assert rates is not None and rates.of(usage) == book.price(provider, model, usage, NOW)


@given(USAGES, TOKENS)
def test_cached_tokens_stay_the_same_number(usage: Usage, tokens: int) -> None:
    read = as_read(usage, tokens)
    assert read.total_input == usage.total_input
    assert read.cache_read - usage.cache_read == min(tokens, usage.total_input - usage.cache_read)
