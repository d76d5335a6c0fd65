"""`sagent why` and `/why`: one session, and the sessions of a week."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from sagent.cost.prices import PriceBook
from sagent.errors import UsageError
from sagent.lib.text import Table
from sagent.messages import user
from sagent.plugins.why.account import Account, Day, Row, account_of, project_of, read_courses
from sagent.plugins.why.blocks import Block, session_blocks
from sagent.plugins.why.course import Subject
from sagent.plugins.why.kept import NAME
from sagent.plugins.why.pages import as_lines, as_markdown, as_page
from sagent.plugins.why.rates import RateBook
from sagent.plugins.why.week import Period, read_period
from sagent.session.contents import ChargeEntry, MessageEntry, StoredMessage
from sagent.session.store import Session, copy
from sagent.usage import Charge, Usage
from tests.cli.program import Shell
from tests.plugins.why.test_why_account import NOW
from tests.plugins.why.wasteful import tell
from tests.repl.recorded import RecordingContext

CHARGE = Charge("m", Usage(input=1000, output=10), usd=Decimal("0.25"), role="executor", provider="p", agent="root")
NASTY = "a|b <script>\x1b[31m *c*"


def spend(state: Path, cwd: Path, *charges: Charge) -> Path:
    cwd.mkdir(exist_ok=True)
    with Session.create(state, cwd) as session:
        session.begin(cwd)
        log = session.log()
        log.append(MessageEntry(StoredMessage.of(user("Go."), None)))
        for charge in charges:
            log.append(ChargeEntry(charge))
        return session.path


def period(state: Path) -> Period:
    return read_period(state, NOW.replace(year=2000), RateBook(PriceBook().price), "")


async def test_session_told_as_text_and_json(tmp_path: Path, shell: Shell) -> None:
    session = await tell(tmp_path / "told")
    told = shell.run("why", str(session), model="")
    assert told.code == 0 and "3 results" not in told.err
    for word in ("Money and tokens", "repeated results: Read", "in all", "Time", "1. $", "Checked: "):
        assert word in told.out
    found = shell.run("why", str(session), "--output-format", "json", model="").json
    assert sum(Decimal(str(part["usd"])) for part in found["parts"]) == Decimal(str(found["usd"]))  # type: ignore[attr-defined]
    assert sum(part["tokens"] for part in found["parts"]) == found["tokens"]  # type: ignore[attr-defined]
    assert {each["kind"] for each in found["proposals"]} == {"repeated results", "long results"}  # type: ignore[attr-defined]
    page = shell.cwd / "why.html"
    assert shell.run("why", str(session), "--output-format", "html", "--out", str(page), model="").code == 0
    assert "What would have made it cheaper" in page.read_text()
    assert "## Time" in shell.run("why", str(session), "--output-format", "md", model="").out


async def test_damaged_log_is_one_sentence(tmp_path: Path, shell: Shell) -> None:
    session = await tell(tmp_path / "told")
    file = session / "root.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:10], b"no entry\n", *lines[10:]]))
    told = shell.run("why", str(session), model="")
    assert told.code == 1 and "line 11" in told.out and "Traceback" not in told.err
    assert "Money and tokens" in told.out


@pytest.mark.parametrize(
    "words", [("no-such-session",), ("--since", "someday"), ("x", "--week"), ("--week", "--out", "a.txt")]
)
def test_wrong_words_are_told(words: tuple[str, ...], shell: Shell) -> None:
    done = shell.run("why", *words, model="")
    assert done.code == 2 and done.err and "Traceback" not in done.err


async def test_lines_fit_narrow_terminals(tmp_path: Path) -> None:
    session = await tell(tmp_path)
    courses = read_courses(session, RateBook(PriceBook().price))
    account = account_of(session.name, project_of(session), courses)
    for width in (40, 80):
        for block in as_lines(session_blocks(account, (), narrow=width < 60), width):
            if isinstance(block, Table):
                rows = [block.titles, *block.rows]
                widths = [max(len(row[number]) for row in rows) for number in range(len(block.titles))]
                assert sum(widths) + 2 * len(widths) <= width
            else:
                assert len(block) <= width


def nasty_account() -> Account:
    row = Row(Decimal(1), 10, 1)
    day = Day(row, {Subject("result", NASTY): row}, {NASTY: row, "b": row}, {"root": row}, {NASTY})
    return Account("s", days={"2026-11-20": day}, problems=(NASTY,))


def test_names_stay_texts() -> None:
    blocks: Callable[[], list[Block]] = lambda: [*session_blocks(nasty_account(), ())]  # noqa: E731 -- drawn thrice
    page, markdown = as_page("t", blocks()).decode(), "\n".join(as_markdown("t", blocks()))
    assert "<script>" not in page and "\x1b" not in page
    assert "<script>" not in markdown.replace("\\<script\\>", "") and "a\\|b" in markdown
    assert not any("\x1b" in line for line in as_lines(blocks(), 80) if isinstance(line, str))


def test_models_without_price_make_minima() -> None:
    (first, *_) = session_blocks(nasty_account(), ())
    assert isinstance(first, str) and "≥$1" in first


def test_week_adds_up_and_is_kept(tmp_path: Path) -> None:
    state = tmp_path / "state"
    spend(state, tmp_path / "one", CHARGE, replace(CHARGE, usd=Decimal(2), model="dear"))
    other = spend(state, tmp_path / "two", CHARGE)
    found = period(state)
    assert found.whole.whole.usd == Decimal("2.5") == sum(row.usd for row in found.whole.subjects.values())
    assert {name: row.usd for name, row in found.projects.items()} == {
        str(tmp_path / "one"): Decimal("2.25"),
        str(tmp_path / "two"): Decimal("0.25"),
    }
    assert {name: row.usd for name, row in found.whole.models.items()} == {"p/m": Decimal("0.5"), "p/dear": Decimal(2)}
    kept = (state / NAME).read_bytes()
    assert period(state) == found and (state / NAME).read_bytes() == kept
    with Session.open(other) as session:
        session.log().append(ChargeEntry(CHARGE))
    assert period(state).whole.whole.usd == Decimal("2.75")


@pytest.mark.parametrize("damage", [b"", b"{}", b"[1]", b'{"mark": 1}', b"\xff"])
def test_damaged_cache_is_ignored(tmp_path: Path, damage: bytes) -> None:
    spend(tmp_path, tmp_path / "one", CHARGE)
    found = period(tmp_path)
    (tmp_path / NAME).write_bytes(damage)
    assert period(tmp_path) == found
    whole = json.loads((tmp_path / NAME).read_text())
    for row in whole["sessions"].values():
        row["days"] = {"2026-11-20": {}}
    (tmp_path / NAME).write_text(json.dumps(whole))
    assert period(tmp_path) == found


def test_copied_session_counts_once_in_week(tmp_path: Path) -> None:
    state = tmp_path / "state"
    path = spend(state, tmp_path / "one", CHARGE)
    made = copy(path, state, tmp_path / "one")
    with Session.open(made) as session:
        session.log().append(ChargeEntry(CHARGE))
    for _ in range(2):
        found = period(state)
        assert found.whole.whole.usd == Decimal("0.50")
        assert found.sessions.keys() <= {path.name, made.name}


def test_days_before_are_left_out(tmp_path: Path) -> None:
    path = spend(tmp_path, tmp_path / "one", CHARGE)
    assert read_period(tmp_path, NOW.replace(year=2100), RateBook(PriceBook().price), "").sessions == {}
    os.utime(path / "root.jsonl", (1, 1))
    assert read_period(tmp_path, NOW, RateBook(PriceBook().price), "").sessions == {}


async def test_unreadable_session_leaves_the_others(tmp_path: Path) -> None:
    spend(tmp_path, tmp_path / "one", CHARGE)
    (spend(tmp_path, tmp_path / "two", CHARGE) / "root.jsonl").write_bytes(b"\xff{}\n")
    found = period(tmp_path)
    assert found.whole.whole.usd == Decimal("0.25") and len(found.problems) == 1


async def test_slash_command(context: RecordingContext) -> None:
    settings = context.settings
    path = spend(settings.state_dir, settings.cwd, CHARGE)
    with pytest.raises(UsageError, match="not saved"):
        await context.do("/why")
    context.opened.agent.log.path = str(path)  # type: ignore[misc]
    shown = await context.do("/why")
    assert "$0.2500" in shown and "Money and tokens" in shown
