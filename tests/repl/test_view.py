"""The reducer: what events make visible. No terminal."""

import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import CALL, DIFF, EDIT, answer

from sagent.config.plugins import Installed
from sagent.events import (
    Advice,
    AdviceDelta,
    Advised,
    Denial,
    Denied,
    Event,
    Failure,
    Finished,
    Notice,
    Received,
    ReplyFinished,
    Result,
    Retrying,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from sagent.lib.json import JsonObject
from sagent.messages import ToolCall, assistant, user
from sagent.repl.status import find_segments
from sagent.repl.view.blocks import (
    Block,
    Page,
    expand,
    expandable,
    past_blocks,
    render_block,
    separated,
    without_middle,
)
from sagent.repl.view.lines import Line, plain, table
from sagent.repl.view.markdown import Piece
from sagent.repl.view.panel import Figures, PanelContext, Queued, render_panel, render_status
from sagent.repl.view.view import View, reduce
from sagent.usage import Cost, Usage


def tell(*events: Event, view: View | None = None) -> tuple[View, list[Block]]:
    """Events one second apart."""
    view, blocks = view or View(), list[Block]()
    for at, event in enumerate(events):
        view, new = reduce(view, event, float(at))
        blocks += new
    return view, blocks


def written(blocks: Sequence[Block], width: int = 60) -> str:
    """The transcript."""
    rows, last = list[Line](), None
    for block in blocks:
        rows += [()] if separated(last, block) else []
        rows += render_block(block, width)
        last = block
    return plain(rows)


def panel(view: View, at: float = 10.0, width: int = 60, queue: Sequence[Queued] = ()) -> str:
    """What is in progress."""
    return plain(render_panel(view, queue, at, width, 20))


def test_turn_is_rendered() -> None:
    view, blocks = tell(
        Received("root", user("fix it")),
        ThinkingDelta("root", "Let me see what "),
        ThinkingDelta("root", "there is."),
        TextDelta("root", "I run the **tests**.\n\nNow"),
        ReplyFinished("root", assistant("", CALL), Usage(), None),
        ToolStarted("root", CALL),
        ToolFinished("root", CALL, answer(CALL, "1 failed", failed=True), 3.2, "exit 1"),
        ToolStarted("root", EDIT),
        ToolFinished("root", EDIT, answer(EDIT), 0.1, "Edited a.py", DIFF),
        TextDelta("root", "Done."),
        ReplyFinished("root", assistant("Done."), Usage(), None),
        Finished("root", Result("Done.", (), "end")),
    )
    assert view.since is None
    assert view.said
    assert (
        written(blocks)
        == """
› fix it

✻ Thought for 2.0 s, 6 words

I run the tests.

Now

✗ Bash make test · exit 1 (3.2 s)
  │ 1 failed
● Edit a.py · +1 -1
    9   one
   10 - x = 1
   10 + x = 2
   11   three

Done."""
    )


def test_running_work_is_shown() -> None:
    view, _ = tell(
        Received("root", user("go")),
        ReplyFinished("root", assistant("", CALL), Usage(), None),
        ToolStarted("root", CALL),
        ToolProgress("root", "c1", "one\ntwo\nthree\n"),
        ToolStarted("root/review", CALL),
        ReplyFinished("root/review", assistant("x", CALL), Usage(input=12_000, output=345), Decimal("0.0123")),
        TextDelta("root/review/deep", "x"),
        AdviceDelta("root", "opus", "asked", ""),
        AdviceDelta("root", "opus", "asked", "Look at the cache."),
        Retrying("root", "overloaded", "overloaded", 1, 12.0),
    )
    assert (
        panel(view)
        == """\
  ◌ review  working  12.3k tok  $0.0123  6 s  Bash make test
    ◌ deep  working                      4 s  writing
◌ Bash make test 8 s
  │ one
  │ two
  │ three
… Overloaded, again in 11 s · Esc stops · attempt 2: overlo…
◆ opus, asked 3 s
  │ Look at the cache.
◌ Waiting for the provider 10 s · Esc interrupts all"""
    )


def test_message_without_turn_is_not_work() -> None:
    stopped = Result("", (), "interrupted", Failure("interrupted", "the run was interrupted"))
    cleared = Received("root", user("The conversation was cleared.", sender="sagent"))
    view, _ = tell(Received("root", user("go")), Finished("root", stopped), cleared)
    assert panel(view) == ""


@pytest.mark.parametrize("order", [("root", "root/one"), ("root/one", "root")])
def test_agents_ended_after_turn_leave_nothing(order: tuple[str, str]) -> None:
    stopped = Result("", (), "interrupted", Failure("interrupted", "the run was interrupted"))
    begun = (Received("root", user("go")), Received("root/one", user("wait", sender="root")))
    view, blocks = tell(*begun, *(Finished(agent, stopped) for agent in order))
    assert panel(view) == ""
    assert "root/one" in written(blocks)


def test_errors_seen_on_narrow_terminal() -> None:
    error = "anthropic/claude-sonnet-4-6 (HTTP 529): Overloaded"
    view, _ = tell(Received("root", user("go")), Retrying("root", error, "overloaded", 1, 12.0))
    for width in (90, 50, 40):
        shown = plain(render_panel(view, (), 10.0, width, 20))
        assert "Overloaded (529), again in 3 s" in shown
        assert width < 50 or "Esc stops" in shown


def agents() -> View:
    """A tree of four: one asks, one works, one is done and one was stopped."""
    stopped = Result("", (), "interrupted", Failure("interrupted", "the run was interrupted"))
    view, _ = tell(
        Received("root", user("go")),
        ToolStarted("root/asks", CALL),
        ToolStarted("root/works", CALL),
        ReplyFinished("root/works", assistant("", CALL), Usage(input=2_000), Decimal("0.01")),
        Finished("root/done", Result("All is **well**.", (), "end")),
        Finished("root/stopped", stopped),
    )
    return view


def test_tree_shows_asking_and_stopped_agents() -> None:
    around = PanelContext({"root/stopped": Decimal("0.01")}, asking=["root/asks"], near="root/works")
    rows = plain(render_panel(agents(), (), 10.0, 60, 20, around)).split("\n")
    assert rows == [
        "  ? asks     asks                      9 s  Bash make test",
        "  ● done     done",
        "  ✗ stopped  stopped          $0.0100",
        "  ◌ works    working  2k tok  $0.0100  8 s  Bash make test",
        "◌ Working 10 s · Esc interrupts works · ↓ agents",
    ]
    taken = plain(render_panel(agents(), (), 10.0, 60, 20, replace(around, taken=True)))
    assert taken.endswith("◌ Working 10 s")


def test_local_server_progress_is_shown() -> None:
    view = View(since=0.0, waits_for={"root": "Reading the prompt: 18 % (512 of 2,724 tokens)"})
    assert plain(render_panel(view, (), 10.0, 80, 20)).startswith(
        "◌ Reading the prompt: 18 % (512 of 2,724 tokens) 10 s"
    )
    assert len(plain(render_panel(view, (), 10.0, 40, 20))) <= 40
    loading = plain(render_panel(replace(view, waits_for={"": "Loading tiny… 3 s"}), (), 10.0, 80, 20))
    assert loading.startswith("◌ Loading tiny… 3 s ·"), "one clock is enough"
    assert "Reading" not in plain(render_panel(replace(view, thinking="Hm"), (), 10.0, 80, 20))


def test_tree_shows_local_server_progress() -> None:
    lines = {"root/works": "Reading the prompt: 18 %", "root/done": "Reading the prompt: 9 %", "root": "Waiting… 3 s"}
    rows = plain(render_panel(replace(agents(), waits_for=lines), (), 10.0, 90, 20, PanelContext())).split("\n")
    assert any("works" in row and "18 %" in row for row in rows)
    assert not any("9 %" in row for row in rows), "it has ended"
    assert rows[-1].startswith("◌ Waiting… 3 s")


def test_turn_that_waits_for_the_person_says_so() -> None:
    said = plain(render_panel(agents(), (), 10.0, 90, 20, PanelContext(asking=["root"]))).split("\n")[-1]
    assert said.startswith("◌ Waiting for you")
    others = plain(render_panel(agents(), (), 10.0, 90, 20, PanelContext(asking=["root/asks"]))).split("\n")[-1]
    assert "for you" not in others


def test_tree_shows_who_waits_for_money() -> None:
    around = PanelContext(short=["root/works", "root/done"])
    rows = plain(render_panel(agents(), (), 10.0, 60, 20, around)).split("\n")
    assert any("works" in row and "waits for money" in row for row in rows)
    assert not any("done" in row and "waits for money" in row for row in rows), "it has ended"


def test_ended_agent_shows_no_retry() -> None:
    failed = Result("", (), "error", Failure("budget", "no money"))
    view, _ = tell(Received("root", user("go")), Retrying("root/a", "silent", "stalled", 1, 0.0))
    assert "trying again" in panel(view)
    view, _ = tell(Finished("root/a", failed), view=view)
    assert "trying again" not in panel(view)


def test_narrow_panel_leaves_parts_out_whole() -> None:
    call = ToolCall("c", "AskUser", JsonObject({"question": "Which colour?"}))
    view, _ = tell(Received("root", user("go")), ToolStarted("root", call))
    rows = panel(view, 3.0, 19, [Queued("steer now", sent=True)]).split("\n")
    assert rows == ["◌ AskUser 2 s", "◌ Running 3 s", "▸ steer now"]


@pytest.mark.parametrize("width", [20, 30, 40, 80])
@pytest.mark.parametrize("height", range(1, 8))
def test_full_tree_counts_the_rest(width: int, height: int) -> None:
    rows = plain(render_panel(agents(), (), 10.0, width, height, PanelContext(asking=["root/asks"]))).split("\n")
    assert len(rows) <= height and all(len(row) <= width for row in rows)
    shown = [
        name
        for name in ("asks", "works", "done", "stopped")
        if any(f"{mark} {name}" in row for row in rows for mark in "◌?●✗")
    ]
    if height > 1:
        counted = sum(int(row.split()[1]) for row in rows if row.startswith("  … "))
        assert len(shown) + counted == 4
    if height > 3:
        assert shown[:2] == ["asks", "works"]
    assert height == 1 or "$0.01" in "".join(rows) or "works" not in shown


def test_agent_end_is_shown_once_expandable() -> None:
    call = ToolCall("1", "AgentSpawn", JsonObject({"name": "a", "prompt": "look"}))
    begun, _ = tell(ToolStarted("root", call), TextDelta("root/a", "x"))
    assert "AgentSpawn" not in panel(begun)  # the tree shows it
    ended, blocks = tell(Finished("root/a", Result("First **line**.\n\nSecond.", (), "end", turns=2)), view=begun)
    assert written(blocks) == "● root/a 2 turns, 0.0 s · First line."
    assert plain(expand(blocks[0], 60)).endswith("\n  First line.\n\n  Second.")
    _, again = tell(ToolFinished("root", call, answer(call, "First"), 2.0, "root/a: 2 turns"), view=ended)
    assert not again
    refused = answer(call, "no more than 8 may be alive", failed=True)
    _, blocks = tell(ToolFinished("root", call, refused, 0.0, "no more than 8 may be alive"))
    assert "no more than 8" in written(blocks)


def test_background_call_shown_until_job_ends() -> None:
    goes_on = ToolFinished("root", CALL, answer(CALL), 0.0, "goes on as job:1", job="job:1")
    view, blocks = tell(ToolStarted("root", CALL), goes_on)
    assert view.jobs == {"root c1": "job:1"}
    assert "job:1 Bash" in panel(view)
    view, ended = tell(ToolFinished("root", CALL, answer(CALL), 12.0, "exit 0"), view=view)
    assert not view.running
    assert "● Bash make test · goes on as job:1" in written(blocks)
    assert "● job:1 Bash make test · exit 0 (12 s)" in written(ended)
    view, again = tell(
        Received("root", user("job:1, the call of Bash (make test), has ended", sender="job:1")), view=view
    )
    assert not again  # its end was shown
    _, later = tell(Received("root", user("job:1 says more", sender="job:1")), view=view)
    assert "↳ job:1: job:1 says more" in written(later)


def test_shown_file_is_one_line_with_path() -> None:
    message = user("a.py\n```\nx = 1\n```", sender="sagent:\x1b[31ma.py")
    _, blocks = tell(Received("root", message))
    for said in (written(blocks), written(past_blocks([message], "root"))):
        assert said.count("\n") <= 1 and "a.py" in said and "x = 1" not in said and "\x1b" not in said


def test_broken_reply_restarts_view() -> None:
    view, blocks = tell(
        TextDelta("root", "First half"),
        Retrying("root", "the stream was cut", "cut", 0, 0.5, "First half"),
        TextDelta("root", "Whole"),
        ReplyFinished("root", assistant("Whole"), Usage(), None),
    )
    assert [block.text for block in blocks if isinstance(block, Piece)] == ["Whole"]
    assert "is discarded" in written(blocks)
    assert not view.waiting


def test_interruption_keeps_shown_text() -> None:
    interrupted = Result("", (), "interrupted", Failure("interrupted", "the run was interrupted"))
    view, blocks = tell(Received("root", user("x")), TextDelta("root", "half a"), Finished("root", interrupted))
    assert written(blocks).endswith("half a\n\n! Interrupted.")
    assert view.since is None


def test_child_ends_with_its_last_words() -> None:
    done = Result("All is well.", (), "end", turns=3, duration=42.0)
    view, _ = tell(Received("root", user("go")))
    view, blocks = tell(TextDelta("root/a", "x"), Finished("root/a", done), view=view)
    assert written(blocks) == "● root/a 3 turns, 42 s · All is well."
    assert view.children["root/a"].state == "done"
    view, blocks = tell(Received("root", user("has ended: All is well.", sender="root/a")), view=view)
    assert not blocks  # it was told
    _, blocks = tell(Received("root", user("one more thing", sender="root/a")), view=view)
    assert written(blocks) == "↳ root/a: one more thing"
    view, _ = tell(Finished("root", Result("", (), "end")), view=view)
    assert not view.children


def test_advice_has_a_frame() -> None:
    advice = Advice(
        "opus", "anthropic/o", "asked", "answered", "Do **this**.", "adjust", usd=Decimal("0.0421"), seconds=3.4
    )
    _, blocks = tell(AdviceDelta("root", "opus", "asked", ""), Advised("root", advice))
    assert (
        written(blocks)
        == """\
╭─ opus · asked · adjust ──────────────── $0.0421 · 3.4 s ─╮
│ Do this.                                                 │
╰──────────────────────────────────────────────────────────╯"""
    )


def test_denials_and_news_are_told() -> None:
    denial, notice = Denied("root/a", Denial("Bash", "c", "no")), Notice("root", "warning", "careful")
    _, blocks = tell(denial, notice)
    assert written(blocks) == "! root/a: Bash was denied: no\n! careful"
    denied = Denied("root", Denial("Bash", CALL.id, "Not now."))
    view, blocks = tell(denied, ToolFinished("root", CALL, answer(CALL, "No: Not now.", failed=True), 0.0, "No"))
    assert written(blocks) == "✗ Bash make test · was denied\n  │ Not now."
    assert not view.denied


@pytest.mark.parametrize("width", [40, 60, 80, 160])
@pytest.mark.parametrize("reason", ["old_string is not in the file: it reads otherwise there", "no", "one two\nthree"])
def test_failure_reason_is_said_once(width: int, reason: str) -> None:
    edit = ToolCall("1", "Edit", JsonObject({"file_path": "src/a.py", "old_string": "a", "new_string": "b"}))
    done = ToolFinished("root", edit, answer(edit, reason, failed=True), 0.0, reason.split("\n", maxsplit=1)[0])
    shown = " ".join(written(tell(done)[1], width).replace("│", " ").split())
    assert [shown.count(line) for line in reason.split("\n")] == [1] * len(reason.split("\n"))
    assert "src/a.py" in shown


@pytest.mark.parametrize("agent", ["root", "root/漢字"])
def test_job_time_seen_after_long_command(agent: str) -> None:
    long = ToolCall("1", "Bash", JsonObject({"command": "word " * 40}))
    done = ToolFinished(agent, long, answer(long), 12.0, "exit 0", "", "job:1")
    head = written([done]).split("\n")[0]
    assert head.endswith("… · exit 0 (12 s)")
    assert "job:1 Bash word word" in head


@pytest.mark.parametrize(
    ("output", "below"),
    [
        ("one\ntwo\nthree", ["  … 1 more line · Ctrl-O", "two", "three"]),
        ("one\n" * 9, ["  … 7 more lines · Ctrl-O", "one", "one"]),
        ("words " * 100, ["words words words words words words", "words words words words words words…"]),
        ("漢" * 1000, ["漢" * 18, "漢" * 17 + "…"]),
        ("a" * 50 + "\nlast", ["a" * 35 + "…", "last"]),
    ],
)
def test_output_end_says_where_it_is_cut(output: str, below: list[str]) -> None:
    done = ToolFinished("root", CALL, answer(CALL, output), 0.0, "exit 0")
    assert [row.removeprefix("  │ ") for row in written(tell(done)[1], 40).split("\n")][1:] == below


def test_model_text_drives_no_terminal() -> None:
    evil = ToolCall("c", "Bash", JsonObject({"command": "echo \x1b[2J\x07"}))
    _, blocks = tell(
        TextDelta("root", "a\x1b[31mb\n\n"),
        ToolFinished("root", evil, answer(evil, "\x1b]0;x\x07"), 0.0, "\x1b[2J", "@@ -1 +1 @@\n+\x1b[2J"),
        Notice("root", "info", "\x1b[2J"),
        Received("root", user("\x1b[2J", sender="job:1\x1b")),
    )
    whole = written(blocks) + plain(line for block in blocks for line in expand(block, 60))
    assert "\x1b" not in whole
    assert "\x07" not in whole


def test_expandable_blocks_are_expanded() -> None:
    _, blocks = tell(ToolFinished("root", CALL, answer(CALL, "line\n" * 1000), 0.0, "exit 0"))
    assert expandable(blocks[0])
    rows = expand(blocks[0], 60)
    assert plain(rows).startswith("● Bash make test · exit 0\n  command: make test\n  │ line")
    assert len(rows) > 1_000 > 500 > len(without_middle(rows))
    asked = ToolCall("2", "AskUser", JsonObject({"question": "Which?", "options": ("a", "b")}))
    _, blocks = tell(ToolFinished("root", asked, answer(asked, "a"), 0.0, "a"))
    assert '  options: ["a","b"]' in plain(expand(blocks[0], 60))


def test_waiting_messages_are_shown() -> None:
    view, _ = tell(Received("root", user("x")))
    text = panel(view, 1.0, 60, [Queued("stop\nthat", sent=True), Queued("and then this", sent=False)])
    assert (
        text
        == """\
◌ Working 1 s · Esc interrupts
▸ stop that  sent, not read yet
▸ and then this  when idle · Up edits"""
    )


SEGMENTS = find_segments(Installed())


def test_status_line_drops_least_important() -> None:
    cost = Cost(
        Decimal("1.5"), Decimal("1.0"), Decimal("0.5"), by_agent={"root": Decimal("1.3"), "root/a": Decimal("0.2")}
    )
    figures = Figures("anthropic/sonnet", "high", "opus", 50_000, 200_000, cost, 2, "edit", "main")
    wide = plain([render_status(figures, 130, SEGMENTS)])
    assert wide == (
        "sonnet high │ ◆ opus │ ▰▰▱▱▱▱▱▱ 25% │ $1.50 │ executor $1.00 + advisor $0.50, of it agents $0.20 "
        "│ 2 jobs │ edit │ ⎇ main"
    )
    assert plain([render_status(figures, 75, SEGMENTS)]) == (
        "sonnet high │ ◆ opus │ ▰▰▱▱▱▱▱▱ 25% │ $1.50 │ 2 jobs │ edit"
    )
    unsure = replace(figures, model="anthropic/claude-sonnet-4-6", cost=Cost(Decimal(2), unbilled=Decimal("0.25")))
    shown = plain([render_status(replace(unsure, effort="", sandboxed=True), 40, SEGMENTS)])
    assert shown == "claude-sonnet-… │ $2.00 +$0.2500? │ edit"
    held = replace(figures, sandboxed=False)
    assert plain([render_status(held, 40, SEGMENTS)]) == "sonnet high │ $1.50 │ edit · no sandbox"
    long = replace(held, model="anthropic/claude-opus-4-5-20251101")
    assert plain([render_status(long, 40, SEGMENTS)]) == "claude-opus… │ $1.50 │ edit · no sandbox"
    assert plain([render_status(long, 30, SEGMENTS)]) == "claude-op… │ edit · no sandbox"
    assert plain([render_status(long, 20, SEGMENTS)]) == "edit · no sandbox"
    for width in range(1, 120):
        line = plain([render_status(long, width, SEGMENTS)])
        assert len(line) <= width
        assert line.endswith("edit · no sandbox") or "edit · no sandbox" in line or width < 17


@given(*[st.decimals(0, 3, places=5)] * 3)
def test_spend_shares_add_up_as_shown(one: Decimal, other: Decimal, third: Decimal) -> None:
    cost = Cost(one + other + third, one, other, third)
    line = plain([render_status(Figures(cost=cost), 200, SEGMENTS)])
    whole, _, shares = line.partition(" │ ")
    assert not shares or sum(map(Decimal, re.findall(r"\$([\d.]+)", shares))) == Decimal(whole.removeprefix("$"))


def test_status_line_has_named_parts_in_order() -> None:
    figures = Figures("x/sonnet", cost=Cost(Decimal(2)), mode="edit", branch="main", changed=3, vi="insert")
    parts = ("branch", "mode", "cost")
    assert plain([render_status(figures, 80, SEGMENTS, parts)]) == "INSERT │ ⎇ main ±3 │ edit │ $2.00"
    assert plain([render_status(figures, 30, SEGMENTS, parts)]) == "INSERT │ ⎇ main ±3 │ edit"
    assert all(len(plain([render_status(figures, width, SEGMENTS, parts)])) <= width for width in range(1, 40))


def test_blocks_fit_forty_columns() -> None:
    _, blocks = tell(
        Received("root", user("a long message " * 20)),
        TextDelta("root", "word " * 50 + "\n\n"),
        ToolFinished("root", EDIT, answer(EDIT), 0.0, "Edited " + "x" * 100, DIFF),
        Notice("root", "error", "something " * 20),
        Advised("root", Advice("opus", "m", "asked", "answered", "advice " * 30)),
        Finished("root/child", Result("said " * 40, (), "end")),
    )
    assert all(len(row) <= 40 for row in written(blocks, 40).split("\n"))


def test_wide_page_wraps_below_second_column() -> None:
    page = Page(((("class:tool", "  Enter   "), ("class:dim", " sends what was typed")), (("", "word " * 8),)))
    assert plain(render_block(page, 24)) == (
        "  Enter    sends what\n           was typed\nword word word word word\nword word word"
    )


def test_table_aligns_and_long_row_wraps() -> None:
    rows = [[("", "name"), ("", "read"), ("", "USD")], (), [("", "anthropic/claude"), ("", "7"), ("", "$0.1")]]
    lines = table(rows, right=(1, 2))
    assert plain(lines) == "  name              read   USD\n\n  anthropic/claude     7  $0.1"
    assert plain(render_block(Page(tuple(lines)), 24)) == (
        "  name\n    read   USD\n\n  anthropic/claude\n       7  $0.1"
    )
    status = table([[("", "model"), ("", "anthropic/claude-sonnet")]])
    assert plain(render_block(Page(tuple(status)), 24)) == "  model  anthropic/claud\n         e-sonnet"
    keys = table([[("", "Shift-Enter, Alt-Enter"), ("", "insert a new line")], [("", "Ctrl-D"), ("", "quit")]])
    for width in (30, 24):  # all of them in the same way
        assert plain(render_block(Page(tuple(keys)), width)) == (
            "  Shift-Enter, Alt-Enter\n    insert a new line\n  Ctrl-D\n    quit"
        )
    note = Page(((("", "  a sentence that is indented"),),))
    assert plain(render_block(note, 18)) == "  a sentence that\n  is indented"
