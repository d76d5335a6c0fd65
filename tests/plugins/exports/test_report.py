"""A run told again, from its trace and from its session: the same turns, denials, consultations and costs."""

import json
import re
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.events import Advice, Advised, Finished, ReplyFinished, Result, SessionOpened
from sagent.lib.json import JsonObject
from sagent.messages import ToolCall, assistant
from sagent.plugins.exports.entries import SessionReader
from sagent.plugins.exports.events import read_events
from sagent.plugins.exports.report import Report
from sagent.plugins.exports.steps import Charged, Consulted, Damaged, Refused, Remark, Turn
from sagent.session.contents import (
    AdviceOutcome,
    AdviceRated,
    ChargeEntry,
    ConsultationEntry,
    Released,
    Reserved,
    Unknown,
)
from sagent.session.store import Session, log_files
from sagent.transcript.event_json import encode_event
from sagent.usage import Charge, Cost, Usage


def as_lines(*events) -> list[bytes]:
    """Events as lines of a trace."""
    return [json.dumps(encode_event(event)).encode() + b"\n" for event in events]


def of_session(recorded) -> list:
    """The steps of the session."""
    return list(SessionReader(recorded.session, log_files(recorded.session)).steps())


def of_trace(recorded) -> list:
    """The steps of the trace."""
    with recorded.trace.open("rb") as lines:
        return list(read_events(lines))


@pytest.mark.costly
@pytest.mark.parametrize("source", [of_trace, of_session])
def test_run_reported_turn_by_turn(source, recorded, told):
    text = told(source(recorded))
    order = (
        "session ", "> Remove the sky.", "turn 1 · anthropic/claude-sonnet-4-6", "  I look first.",
        '  ● look {"path":"sky"}', '  ● delete {"path":"sky"}', "turn 2", "  The sky stays.", "> Are you sure?",
        "turn 3", "  Yes.", "policy  1 call denied", "executor  3 calls", "cost  ",
    )  # fmt: skip
    places = [text.index(words) for words in order]
    assert places == sorted(places), text
    assert "⊘ delete denied: deleting is not wanted" in text
    assert re.search(r"│ look: .*sky is blue", text)
    assert "✗" not in text  # a denial is told once


def test_trace_and_session_agree_exactly(recorded):
    def charges(steps):
        found = [step.charge for step in steps if isinstance(step, Charged)]
        return [(charge.role, charge.usage.total_input, charge.usage.output) for charge in found]

    def turns(steps):
        return [(step.text, step.calls, step.model) for step in steps if isinstance(step, Turn)]

    def denials(steps):
        return [(step.call, step.name, step.reason) for step in steps if isinstance(step, Refused)]

    trace, session = of_trace(recorded), of_session(recorded)
    assert charges(trace) == charges(session) != []
    assert turns(trace) == turns(session) != []
    assert denials(trace) == denials(session) != []
    last = [line for line in Report().show(trace) if line.startswith("cost")]
    assert last == [line for line in Report().show(session) if line.startswith("cost")]
    assert any(isinstance(step, Remark) and step.kind == "tried again" for step in trace)


ADVICE = Advice(
    "critic", "openai/gpt-5.5", "failures", "answered", text="Run the tests.\nThen stop.", verdict="adjust",
    question="What now?", usage=Usage(input=400, cache_read=20, output=80), usd=Decimal("0.0012"), seconds=3.14,
)  # fmt: skip
WITHHELD = Advice("critic", "openai/gpt-5.5", "stagnation", "withheld", reason="5 calls of this task are used up")
REPLY = ReplyFinished("root", assistant("Hm.", model="a/b"), Usage(input=10, output=2), Decimal("0.001"))


def test_consultations_show_reason_and_price(told):
    cost = Cost(Decimal("0.0022"), Decimal("0.001"), Decimal("0.0012"))
    done = Finished("root", Result("Hm.", (), "end", cost=cost, turns=1))
    text = told(read_events(as_lines(REPLY, Advised("root", ADVICE), Advised("root", WITHHELD), done)))
    assert "◆ critic (openai/gpt-5.5) · failures · adjust · 3.1 s" in text
    assert "? What now?" in text
    assert "│ Run the tests.\n    │ Then stop." in text
    assert "advisor:critic: 420 tokens in, 80 out, $0.001200" in text
    assert "◇ critic (openai/gpt-5.5) · stagnation · withheld · 5 calls of this task are used up" in text
    assert "policy  1 consultation withheld" in text
    assert "executor  1 call, 10 tokens in, 2 out, $0.001000" in text
    assert "advisor:critic  1 call, 420 tokens in, 80 out, $0.001200" in text
    assert "cost  $0.002200 (executor $0.001000, advisor $0.001200)" in text


def test_session_consultations_alike(tmp_path, told):
    session = Session.create_at(tmp_path / "s")
    log = session.log()
    log.append(Unknown("opened", {"session": "s", "cwd": "/w", "version": 1}))
    log.append(
        Unknown("advice", {key: value for key, value in encode_event(Advised("root", ADVICE)).items() if key != "type"})
    )
    bill = Charge(
        "gpt-5.5", ADVICE.usage, usd=Decimal("0.0012"), role="advisor:critic", provider="openai", agent="root"
    )
    log.append(ChargeEntry(bill))
    log.append(ChargeEntry(replace(bill, role="executor", usd=None)))
    session.close()
    text = told(SessionReader(session.path, log_files(session.path)).steps())
    assert "◆ critic (openai/gpt-5.5) · failures · adjust · 3.1 s" in text
    assert "advisor:critic  1 call, 420 tokens in, 80 out, $0.001200" in text
    assert "cost  $0.001200 and 1 call of unknown price" in text


def test_advice_outcome_shown_with_reason(tmp_path, told):
    session = Session.create_at(tmp_path / "s")
    log = session.log()
    advice = log.append(ConsultationEntry(ADVICE))
    log.append(AdviceOutcome("critic", advice.id, "rejected", "the tests pass already"))
    log.append(AdviceRated("critic", -1))
    session.close()
    text = told(SessionReader(session.path, log_files(session.path)).steps())
    assert "◆ critic · rejected · the tests pass already" in text
    assert "◆ critic · rated" in text


def test_unknown_price_not_zero(told):
    unpriced = ReplyFinished("root", assistant("Hm.", model="a/b"), Usage(input=10, output=2), None)
    done = Finished("root", Result("Hm.", (), "end", cost=Cost(unpriced=("a/b",)), turns=1))
    text = told(read_events(as_lines(unpriced, done)))
    assert "executor  1 call, 10 tokens in, 2 out, $0.000000 and 1 call of unknown price" in text
    assert "cost  at least $0.000000; no known price: a/b" in text
    later = Finished("root", Result("Hm.", (), "end", cost=Cost(Decimal("0.5"), Decimal("0.5")), turns=1))
    text = told(read_events(as_lines(unpriced, later)))  # its price came after the event
    assert "executor  1 call, 10 tokens in, 2 out\n" in text
    assert "cost  $0.500000" in text


def test_unbilled_cost_in_both_reports(tmp_path, told):
    more = "      $0.200000 more count towards a budget (lost, cut or interrupted"
    done = Result("Hm.", (), "end", cost=Cost(Decimal("0.1"), unbilled=Decimal("0.2")), turns=1)
    assert more in told(read_events(as_lines(REPLY, Finished("root", done))))
    session = Session.create_at(tmp_path / "s")
    lost = Charge("b", Usage(input=10), usd=Decimal("0.1"), role="executor", agent="root", at_most=Decimal("0.3"))
    log = session.log()
    log.append(ChargeEntry(lost, log.append(Reserved(lost)).id))
    log.append(Released(log.append(Reserved(lost)).id))
    session.close()
    assert more in told(SessionReader(session.path, log_files(session.path)).steps())
    with Session.open(session.path) as killed:
        killed.log().append(Reserved(replace(lost, usd=Decimal(0))))
    assert more.replace("0.2", "0.5") in told(SessionReader(session.path, log_files(session.path)).steps())


def test_trace_of_two_sessions_adds_cost(told):
    events = []
    for session in ("one", "two"):
        done = Result("Yes.", (), "end", cost=Cost(Decimal("0.5"), Decimal("0.5")), turns=1)
        said = ReplyFinished("root", assistant("Yes.", model="a/b"), Usage(input=9), Decimal("0.5"))
        events += [SessionOpened("root", session, "", "a/b"), said, Finished("root", done)]
    assert "cost  $1.000000" in told(read_events(as_lines(*events)))


def test_other_agents_named(told):
    child = ReplyFinished("root/review", assistant("Fine.", model="a/b"), Usage(), Decimal(0))
    text = told(read_events(as_lines(REPLY, child, Advised("root/review", ADVICE))))
    assert "\nroot/review turn 1 · a/b" in text
    assert "◆ root/review critic" in text


def test_tree_logs_merged_in_order(tmp_path, told):
    session = Session.create_at(tmp_path / "s")
    root, child = session.log(), session.log("root/review")
    for log, words in ((root, "first"), (child, "second"), (root, "third"), (child, "fourth")):
        log.append(
            Unknown("message", {"role": "assistant", "parts": [{"type": "text", "text": words}], "model": "a/b"})
        )
    session.close()
    text = told(SessionReader(session.path, log_files(session.path)).steps())
    assert re.findall(r"first|second|third|fourth", text) == ["first", "second", "third", "fourth"]
    assert "root/review turn 2" in text


def test_damaged_lines_numbered(told):
    good = as_lines(REPLY)[0]
    lines = [good, b"\xff\xfe\n", b"{}\n", b"\n", b'{"type":"nonsense"}\n', b"[1]\n", good, good[:30]]
    report = Report()
    text = "\n".join(report.show(read_events(lines)))
    assert report.damaged == ["line 2", "line 3", "line 5", "line 6", "line 8"]
    assert "turn 2" in text
    assert "line 8 is left out: not JSON" in text
    assert "it has no end" in text
    assert "unknown type 'nonsense'" in text


def test_damaged_log_told_around_damage(recorded):
    file = recorded.session / "root.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    place = next(number for number, line in enumerate(lines) if b'"role":"assistant"' in line)
    lines[place] = lines[place].replace(b"look", b"LOOK", 1)
    file.write_bytes(b"".join(lines) + b'{"id":"half')
    steps = of_session(recorded)
    damaged = [step for step in steps if isinstance(step, Damaged)]
    assert [step.line for step in damaged] == [place + 1, len(lines) + 1]
    assert "does not match its id" in damaged[0].reason
    assert sum(isinstance(step, Turn) for step in steps) == 2


def test_secrets_hidden_and_counted():
    key = "ghp_k3Jd9Qm2Xr7Lw0Zt5Vb8Ny1Hc4Sf6Ga3Ue9P"
    said = assistant(f"It is\n{key} ", ToolCall("c", "look", JsonObject({"password": "hunter2"})))
    report = Report(None)
    text = "\n".join(report.show(read_events(as_lines(ReplyFinished("root", said, Usage(), None)))))
    assert (key in text, "hunter2" in text) == (False, False)
    assert report.redaction.kinds == "1 token, 1 value"


def test_long_texts_cut_with_note():
    long = ReplyFinished("root", assistant("\n".join(map(str, range(100))), model="a/b"), Usage(), None)
    brief, full = Report(), Report(None)
    assert "  … 88 more lines (--full)" in list(brief.show(read_events(as_lines(long))))
    assert "  99" in list(full.show(read_events(as_lines(long))))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KINDS = st.sampled_from(
    ["session", "received", "reply_finished", "tool_finished", "denied", "advice", "retrying", "result", "notice"]
)
MEMBERS = st.sampled_from(["message", "usage", "usd", "parts", "cost_usd", "error", "seconds", "text", "at", "agent"])


@given(
    st.lists(st.builds(lambda kind, rest: {**rest, "type": kind}, KINDS, st.dictionaries(MEMBERS, JSON)), max_size=5)
)
def test_any_event_reported(events):
    lines = [json.dumps(event).encode() + b"\n" for event in events]
    report = Report()
    assert all(isinstance(line, str) for line in report.show(read_events(lines)))
    assert report.damaged == []


@given(st.binary(max_size=200))
def test_any_bytes_tolerated(data):
    found = list(read_events(data.splitlines(keepends=True)))
    assert all(not isinstance(step, Consulted) for step in found)


@pytest.mark.parametrize("figure", ["1e999", "-1e999", "NaN", "1" * 400])
def test_odd_figures_reported(figure):
    called = {"type": "tool_call", "name": "look", "arguments": {"n": "figure"}}
    events = [
        {"type": "reply_finished", "message": {"parts": [called]}, "usage": {"input": "figure"}, "usd": "figure"},
        {"type": "tool_finished", "name": "look", "seconds": "figure"},
        {"type": "result", "num_turns": "figure", "duration_ms": "figure", "stop_reason": "end"},
    ]
    lines = [json.dumps(event).replace('"figure"', figure).encode() + b"\n" for event in events]
    report = Report()
    text = "\n".join(report.show(read_events(lines)))
    assert report.damaged == []
    assert "● look" in text
    assert "ended: end" in text
