"""Mermaid diagrams: drawn whole within the width, or not at all; and as they stream."""

import random
import re
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sagent.plugins.diagrams.mermaid import draw
from sagent.repl.view.lines import plain, width_of
from sagent.repl.view.markdown import Flow, feed, finish, pieces_of, render_piece
from tests.repl.test_streamed_markdown import CUTS, SIZES, printed

LABELS = st.text("ab cé日-.,?", min_size=1, max_size=12).map(lambda text: " ".join(text.split()) or "x")
ARROWS = st.sampled_from(["-->", "---", "-.->", "==>", "<-->", "-->|q{}q|", "-- q{}q -->"])
SHAPES = st.sampled_from(["[{}]", '["{}"]', "({})", "{{{}}}", "([{}])", "(({}))"])


@st.composite
def flowcharts(given_by: st.DrawFn) -> tuple[str, list[str]]:
    """A flowchart and its labels, no two of them alike."""
    count = given_by(st.integers(1, 8))
    names = [f"<{number}>{given_by(LABELS)}" for number in range(count)]
    lines = [f"n{number}{given_by(SHAPES).format(name)}" for number, name in enumerate(names)]
    labels = list(names)
    for number in range(given_by(st.integers(0, 10))):
        start, end = given_by(st.integers(0, count - 1)), given_by(st.integers(0, count - 1))
        arrow = given_by(ARROWS)
        labels += [f"q{number}q"] if "{}" in arrow else []
        lines.append(f"n{start} {arrow.format(number)} n{end}")
    return "\n".join((f"graph {given_by(st.sampled_from(['TD', 'LR']))}", *lines)), labels


@given(flowcharts(), st.integers(10, 110))
def test_flowchart_is_whole_or_not_drawn(chart: tuple[str, list[str]], width: int) -> None:
    source, labels = chart
    if (rows := draw(source, width)) is not None:
        text = "\n".join(rows)
        assert all(text.count(label) == 1 for label in labels)
        assert max(map(width_of, rows)) <= width


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), LABELS, st.sampled_from(["->>", "-->>", "->", "-x"]))),
    st.integers(10, 110),
)
def test_sequence_is_whole_or_not_drawn(said: list[tuple[int, int, str, str]], width: int) -> None:
    texts = [f"<{number}>{text}" for number, (*_, text, _) in enumerate(said)]
    lines = (f"n{a}{arrow}n{b}: {text}" for (a, b, _, arrow), text in zip(said, texts, strict=True))
    if (rows := draw("\n".join(("sequenceDiagram", *lines)), width)) is not None:
        text = "\n".join(rows)
        assert all(text.count(each) == 1 for each in texts)
        assert all(text.count(f"n{each}") == 1 for each in {person for one in said for person in one[:2]})
        assert max(map(width_of, rows)) <= width


@given(
    st.text('AB-->|<[](){}"&;:.=~%\n xgraphTDequnDi', max_size=80),
    st.sampled_from(["", "graph TD\n", "graph LR;", "sequenceDiagram\n"]),
)
@example("A" * 3_000 + "[", "graph TD\n")
@example("A -- " + "- " * 1_500, "graph TD\n")
def test_no_source_breaks_it(source: str, head: str) -> None:
    rows = draw(head + source, 80)
    assert rows is None or max(map(width_of, rows)) <= 80
    for piece in pieces_of(f"```mermaid\n{head}{source}\n```\n"):
        assert render_piece(piece, 40)


def test_ordinary_diagrams_are_drawn() -> None:
    loop = "graph TD\nA[Start] --> B{ok?}\nB -->|yes| C(Ship)\nB -->|no| D[Fix]\nD --> B\nstyle A fill:#fff %% red"
    across = "flowchart LR\nA --> B & C\nB --> D[(Store)]\nC -.-> D"
    talk = "sequenceDiagram\nparticipant A as Alice\nA->>+Bob: Hi\nBob-->>-A: Well\nA->>A: thinks"
    for source, words in (
        (loop, "Start ok? Ship Fix yes no"),
        (across, "A B C Store"),
        (talk, "Alice Bob Hi Well thinks"),
    ):
        assert all(word in "\n".join(draw(source, 80) or ()) for word in words.split())
        assert draw(source, 12) is None
    for source in ("pie\na: 1", "graph TD\nsubgraph x\nA\nend", "graph TD\nA-->A", "graph TD", "", "sequenceDiagram"):
        assert draw(source, 80) is None


def calls(nonsense: str) -> int:
    """Return the number of calls that a text takes, to draw it and as it streams."""
    number = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal number
        number += 1

    sys.setprofile(note)
    try:
        draw(nonsense, 80)
        flow = Flow()
        for at in range(0, len(nonsense), 50):
            flow, _ = feed(flow, nonsense[at : at + 50])
    finally:
        sys.setprofile(None)
    return number


@pytest.mark.parametrize("head", ["graph TD\n", "sequenceDiagram\n", ""])
def test_nonsense_takes_linear_work(head: str) -> None:
    pieces = ["A-->B", "-- a", "|", "[", "((", "&", ";", "\n", "x" * 50, "A->>B: c", "<br>", '"', "==", "-.-", " "]
    nonsense = "".join(random.Random(1).choices(pieces, k=18_000))
    calls(nonsense[:100])  # loads what it needs
    half, whole = (calls(f"```mermaid\n{head}{nonsense[:size]}") for size in (50_000, 100_000))
    assert whole < 2.5 * half


def test_languages_are_looked_up_once() -> None:
    same, others = ("".join(f"```{letter}{number}\nx\n```\n" for number in range(100)) for letter in ("a", "b"))
    calls(same)  # loads what it needs
    assert calls(others) < 1.1 * calls(same)


def test_block_is_drawn_when_its_fence_closes() -> None:
    source = "graph LR\nA[One of two] --> B[Two]\n"
    flow, pieces = feed(Flow(), f"Look:\n\n```mermaid\n{source}")
    assert [piece.kind for piece in pieces] == ["paragraph"]
    [waiting] = finish(flow, live=True)
    assert "2 lines" in plain(render_piece(waiting, 60, live=True))
    flow, [whole] = feed(flow, "```\n")
    assert "│ One of two ├─▶│ Two │" in plain(render_piece(whole, 60))
    shown = plain(render_piece(whole, 22))
    assert source.replace("\n", "") in shown.replace("\n", "")
    assert "not drawn" in shown


def test_long_or_unclosed_block_is_code() -> None:
    lines = [f"A{number} --> B" for number in range(200)]
    shown = "\n".join(
        plain(render_piece(piece, 60)) for piece in pieces_of("```mermaid\n" + "\n".join(lines) + "\n```\n")
    )
    assert [line for line in shown.split("\n") if line] == lines
    [piece] = pieces_of("```mermaid\ngraph LR\nA --> B")
    assert "├─▶│" in plain(render_piece(piece, 60))


@given(SIZES, CUTS, st.sampled_from(["graph TD", "graph LR", "pie"]))
def test_streamed_diagram_is_shown_once(size: tuple[int, int], cuts: list[int], kind: str) -> None:
    text = f"Before w1.\n\n```mermaid\n{kind}\nw2 --> w3\nw2 -->|w4| w5\n```\n\n- After w6."
    shown = plain(printed(text, *size, cuts))
    words = re.findall(r"w\d", shown)
    assert sorted(set(words)) == ["w1", "w2", "w3", "w4", "w5", "w6"]
    assert len(words) == 6 + ("w2 -->|w4|" in shown)
    assert "lines" not in shown
