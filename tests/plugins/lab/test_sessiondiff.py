"""Two sessions side by side."""

import html
import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from sagent.codec import encode_result_part
from sagent.errors import UsageError
from sagent.messages import Message, assistant, user
from sagent.plugins.lab.actions import Action, Agreement, action_of, agree
from sagent.plugins.lab.diffpage import _marked, write_diff
from sagent.plugins.lab.sessiondiff import as_json, diff_sessions, show
from sagent.plugins.programs.check import CheckResult
from sagent.session.contents import ChargeEntry, MessageEntry, Opened, StoredMessage, Unknown
from sagent.session.folds import spend
from sagent.session.log import FileLog, read_log
from sagent.session.store import Session, log_files
from sagent.transcript.redaction import Redaction
from sagent.usage import Charge, Usage
from tests.messages import call, result

EVIL = "</td></table><script>alert(1)</script>\x1b[31m"


def session(
    path: Path,
    *runs: tuple[str, Sequence[tuple[str, ...]]],
    usd: Decimal | None = Decimal("0.00123456789"),
    cwd: str = "/work",
    model: str = "claude-sonnet-4-6",
) -> Path:
    """A session: prompts, each with turns; a turn is its text and what it calls."""
    with Session.create_at(path) as made:
        log = made.log()
        log.append(Opened(made.id, "root", cwd, {"sagent": "0.1.0"}))
        for prompt, turns in runs:
            log.append(MessageEntry(StoredMessage.of(user(prompt), None)))
            log.append(Unknown("prompt", {"system": "be", "tools": []}))
            for turn in turns:
                _turn(log, model, usd, *turn)
    return path


def _turn(log: FileLog, model: str, usd: Decimal | None, text: str, *called: str) -> None:
    calls = tuple(call(f"c{place}", "Bash", command=each) for place, each in enumerate(called))
    sha256 = text.encode().hex().ljust(64, "0")[:64]
    log.append(Unknown("request", {"sha256": sha256, "size": 9, "model": model, "parameters": {}}))
    said = assistant(text, *calls, model=f"anthropic/{model}", stop="tool_use" if calls else "end")
    log.append(MessageEntry(StoredMessage.of(said, None)))
    usage = Usage(input=10, output=3, cache_read=7)
    log.append(ChargeEntry(Charge(model, usage, usd=usd, role="executor", provider="anthropic", agent="root")))
    for made in calls:
        denied = made.arguments["command"] == "rm"
        came = result(made.id, "Permission denied: no" if denied else "fine", failed=denied)
        log.append(
            Unknown("result", {"result": encode_result_part(replace(came, denied=denied), None), "seconds": 0.1})
        )


TWO = (("Fix it.", [("I look.", "ls", "cat"), ("Done.",)]), ("Sure?", [("Yes.",)]))


def test_session_equals_itself(tmp_path: Path) -> None:
    one = session(tmp_path / "a", *TWO)
    diff = diff_sessions(one, one)
    assert diff.is_same
    assert [(row.same_request, row.same_calls, row.same_reply) for row in diff.rows] == [(True, True, True)] * 3
    assert diff.left == diff.right
    assert "every request, call and reply is the same" in drawn(show(diff))


def test_turns_aligned_by_prompt(tmp_path: Path) -> None:
    one = session(tmp_path / "a", *TWO)
    other = session(
        tmp_path / "b",
        ("Hello.", [("Hi.",)]),
        ("Fix it.", [("I look.", "ls"), ("I try.", "rm"), ("Done.",)]),
        ("Sure?", [("Yes.",)]),
    )
    rows = diff_sessions(one, other).rows
    shown = [(row.prompt, row.left and row.left.turn, row.right and row.right.turn, row.same_calls) for row in rows]
    assert shown == [
        ("Hello.", None, 1, None),
        ("Fix it.", 1, 2, False),
        ("Fix it.", 2, 3, False),
        ("Fix it.", None, 4, None),
        ("Sure?", 3, 5, True),
    ]


def test_actions_compare_tool_and_target(tmp_path: Path) -> None:
    one = session(tmp_path / "a", ("Fix it.", [("I look.", "ls", "cat  /work/a"), ("So.", "rm"), ("Done.",)]))
    other = session(
        tmp_path / "b",
        ("Fix it.", [("First", "ls"), ("then", "cat ./a"), ("and", "date"), ("Finished.",)]),
        cwd="/copy",
    )
    diff = diff_sessions(one, other)
    assert diff.actions == Agreement(3, 3, 2)
    assert [row.same_actions for row in diff.rows] == [False, False, False, None]
    assert as_json(diff)["actions"] == {"a": 3, "b": 3, "same": 2, "share": 0.6667}
    text = "\n".join(drawn(show(diff)))
    assert "67% of the actions agree" in text
    assert "same actions" in text and "2 of 3" in text
    again = session(tmp_path / "c", ("Fix it.", [("Look!", "ls", "cat ./a"), ("Hm.", "rm"), ("Done.",)]), cwd="/copy")
    alike = diff_sessions(one, again)
    assert [(row.same_actions, row.same_calls) for row in alike.rows] == [(True, False), (True, True), (True, True)]
    assert alike.actions.share == 1.0
    talk = session(tmp_path / "d", ("Hello.", [("Hi.",)]))
    assert diff_sessions(talk, talk).actions.share is None
    assert "agree" not in "\n".join(drawn(show(diff_sessions(talk, talk))))


@pytest.mark.parametrize(
    ("tool", "arguments", "target"),
    [
        ("Read", {"file_path": "/work/src/../a.py", "limit": 3}, "a.py"),
        ("Read", {"file_path": "a.py"}, "a.py"),
        ("Read", {"file_path": "/worked/a.py"}, "/worked/a.py"),
        ("List", {"path": "/work"}, "."),
        ("Edit", {"file_path": "a.py", "old_string": "x", "new_string": "y"}, "a.py"),
        ("Grep", {"pattern": "def  x", "path": "/work/src"}, "src def x"),
        ("own", {"b": 2, "a": "/work"}, '{"a":"/work","b":2}'),
    ],
)
def test_call_has_action_and_target(tool: str, arguments: dict[str, object], target: str) -> None:
    assert action_of(call("1", tool, **arguments), "/work") == Action(tool, target)


@given(st.lists(st.sampled_from("abc"), max_size=8), st.lists(st.sampled_from("abc"), max_size=8))
def test_agreement_is_longest_subsequence(one: list[str], other: list[str]) -> None:
    def longest(left: Sequence[str], right: Sequence[str]) -> int:
        if not left or not right:
            return 0
        if left[0] == right[0]:
            return 1 + longest(left[1:], right[1:])
        return max(longest(left[1:], right), longest(left, right[1:]))

    found = agree([Action("Bash", name) for name in one], [Action("Bash", name) for name in other])
    assert found == Agreement(len(one), len(other), longest(one, other))


def test_figures_match_bills_exactly(tmp_path: Path) -> None:
    one, other = session(tmp_path / "a", *TWO), session(tmp_path / "b", TWO[0], usd=Decimal("1E-28"))
    diff = diff_sessions(one, other)
    for side, path in ((diff.left, one), (diff.right, other)):
        told = spend(entry for file in log_files(path) for entry in read_log(file))
        assert side.cost.usd == told.cost().total
        assert (side.cost, side.cost_by_role) == (told.whole, told.by_role)
        assert {role: each.usd for role, each in side.cost_by_role.items()} == told.cost().by_role
    shown = as_json(diff)
    assert shown["a"]["cost"]["usd"] == "0.00370370367"  # pyright: ignore[reportArgumentType, reportCallIssue, reportIndexIssue, reportOptionalSubscript]
    assert shown["b"]["cost"]["usd"] == "0.0000000000000000000000000002"  # pyright: ignore[reportArgumentType, reportCallIssue, reportIndexIssue, reportOptionalSubscript]
    assert shown["b"]["cost"]["tokens"]["cache_read"] == 14  # pyright: ignore[reportArgumentType, reportCallIssue, reportIndexIssue, reportOptionalSubscript]


def test_unknown_price_makes_minimum(tmp_path: Path) -> None:
    one = session(tmp_path / "a", ("Fix it.", [("Done.",)]), usd=None)
    with Session.open(one) as made:
        made.log().append(
            ChargeEntry(
                Charge("gpt", Usage(input=1), usd=Decimal("0.5"), role="advisor:x", provider="openai", agent="root")
            )
        )
    diff = diff_sessions(one, one)
    lines = "\n".join(drawn(show(diff)))
    assert "≥ $0.5" in lines
    assert "price unknown" in lines
    assert any("at least" in note for note in diff.notes)


def test_errors_and_denials_separate(tmp_path: Path) -> None:
    one = session(tmp_path / "a", ("Fix it.", [("I look.", "ls", "rm"), ("Done.",)]))
    side = diff_sessions(one, one).left
    assert (side.tool_calls, side.errors, side.denials, side.turns) == (2, 0, 1, 2)


def test_check_result_shows_directory(tmp_path: Path) -> None:
    one = session(tmp_path / "a", *TWO)
    diff = diff_sessions(one, one).checked(
        CheckResult("make test", 0, "ok", "/a"),
        CheckResult("make test", None, "/b no longer exists", "/b"),
        "Take care.",
    )
    lines = "\n".join(drawn(show(diff)))
    assert "exit 0" in lines
    assert "not known: /b no longer exists" in lines
    assert "note: Take care." in lines
    assert as_json(diff)["b"]["outcome"] == {  # pyright: ignore[reportArgumentType, reportCallIssue, reportIndexIssue, reportOptionalSubscript]
        "command": "make test", "exit_code": None, "said": "/b no longer exists", "directory": "/b"
    }  # fmt: skip


class Page(HTMLParser):
    """What a page is made of."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_page_self_contained_and_ordered(tmp_path: Path) -> None:
    one = session(tmp_path / "a", (f"Fix it. {EVIL}", [(f"Done. {EVIL}",)]))
    other = session(tmp_path / "b", (f"Fix it. {EVIL}", [("No.",)]))
    page = write_diff(diff_sessions(one, other), Redaction()).decode()
    found = Page(page)
    assert not found.open
    assert "script" not in [tag for tag, _ in found.tags]
    assert not re.search(r"\s(src|href)=\"(?!#)", page)
    assert "\x1b" not in page
    levels = [int(tag[1]) for tag, _ in found.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert levels.count(1) == 1
    assert "color-scheme: light dark" in page
    scrolled = [attributes for _, attributes in found.tags if attributes.get("class") == "wide"]
    assert scrolled
    assert all(attributes.get("tabindex") == "0" and attributes.get("aria-label") for attributes in scrolled)
    assert "default-src 'none'" in page.replace("&#x27;", "'")


def test_page_shows_changes_folds_rest(tmp_path: Path) -> None:
    key = "sk-ant-" + "REDACTME0123456789abcdef"
    same, after = ("I look.", "ls"), ("I check.", "cat a.txt")
    one = session(tmp_path / "a", ("Fix it.", [same, ("Then I run it.", f"make fast KEY={key}"), after, ("Blue.",)]))
    other = session(tmp_path / "b", ("Fix it.", [same, ("Then I run it.", f"make slow KEY={key}"), after]))
    page = write_diff(diff_sessions(one, other), Redaction()).decode()
    assert re.findall(r'aria-labelledby="(\w+)"', page) == ["answers", "turns", "figures"]
    assert page.count("<summary>Turn 1: the same</summary>") == page.count("<summary>Turn 3: the same</summary>") == 1
    assert '<h4>Turn 2: <span class="bad">actions, calls different</span></h4>' in page
    assert "<del>- command: make <mark>fast</mark>" in page
    assert "<ins>+ command: make <mark>slow</mark>" in page
    assert "<summary>reply: the same</summary><pre>Then I run it.</pre>" in page
    assert '<h4>Turn 4: <span class="bad">only in A</span></h4>' in page
    assert "2 turns of 4 differ" in page
    assert "REDACTME" not in page


LINES = st.lists(st.sampled_from(["a", "b c", "b d", "", "<i>&", "x" * 5]), max_size=12)


@given(LINES, LINES)
def test_marked_lines_equal_lines(one: list[str], other: list[str]) -> None:
    for lines, shown, tag, sign in zip((one, other), _marked(one, other), ("del", "ins"), "-+", strict=True):
        seen = re.sub(rf"<{tag}>(.*?)</{tag}>", r"\1\n", shown.replace("<mark>", "").replace("</mark>", ""))
        if "lines are the same" not in seen:
            assert [html.unescape(line)[2:] for line in seen.split("\n")[:-1]] == lines
        assert (f"<{tag}>" in shown) <= (one != other)
        assert f"<{tag}>{sign} " in shown or f"<{tag}>" not in shown


def test_sessions_without_turns_compared(tmp_path: Path) -> None:
    one, other = session(tmp_path / "a"), session(tmp_path / "b")
    diff = diff_sessions(one, other)
    assert diff.rows == ()
    assert b"Neither has a turn" in write_diff(diff, Redaction())


def test_media_message_has_row(tmp_path: Path) -> None:
    one = session(tmp_path / "a", ("", [("Done.",)]))
    assert diff_sessions(one, one).rows[0].prompt == ""
    assert Message("user").content == ""


def test_newer_session_not_compared(tmp_path: Path) -> None:
    with Session.create_at(tmp_path / "newer") as made:
        made.log().append(Opened(made.id, "root", "/work", {}, version=99))
    with pytest.raises(UsageError, match=r"format 99.*update sagent to compare it"):
        diff_sessions(made.path, made.path)
