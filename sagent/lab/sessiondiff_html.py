"""Two sessions side by side as one page that needs nothing but itself; the look is that of an exported session."""

from collections.abc import Iterator
from itertools import groupby

from sagent.lab.sessiondiff import SessionDiff, Side, figures, marks, move_text
from sagent.transcript.page import escape, page, section, table

STYLE = """.sides th:first-child { white-space: nowrap; overflow-wrap: normal; }
.moves td, .moves th { text-align: left; }
"""
"""What two columns need in addition to the look of a session's page."""
MOST = 4_000  # characters of a text


def write_diff(diff: SessionDiff) -> bytes:
    """The page, in UTF-8. It has no script; its policy lets nothing load but its own style."""
    title = f"{_text(diff.left.session)} and {_text(diff.right.session)}"
    verdict = "Every request, call and reply is the same." if diff.is_same else "They differ."
    notes = "".join(f'<p class="note">{_text(note)}</p>\n' for note in diff.notes)
    rows = [tuple(map(_text, row)) for row in figures(diff)]
    sides = (_answer("A", diff.left), _answer("B", diff.right))
    main = (
        section("figures", "Figures", table(("what", "A", "B"), rows, "Figures", kind="sides"))
        + section("turns", "Turns", *(_turns(diff) if diff.rows else ("<p>Neither has a turn.</p>\n",)))
        + section("answers", "Answers and outcomes", *sides)
    )
    footer = "<p>Written by sagent from the sessions' own logs.</p>"
    return page(title, f"<p>{verdict}</p>\n{notes}", main, footer, "turns", style=STYLE).encode()


def _text(text: str) -> str:
    """A text of theirs as text of a page."""
    return escape(text if len(text) <= MOST else f"{text[:MOST]}\n[... cut: {len(text)} characters in all ...]")


def _turns(diff: SessionDiff) -> Iterator[str]:
    for (agent, prompt), rows in groupby(diff.rows, lambda row: (row.agent, row.prompt)):
        yield f'<h3>{_text(agent)}</h3>\n<div class="prose">{_text(prompt)}</div>\n'
        cells = [
            (_text(move_text(row.left)), _text(move_text(row.right)), *(_mark(mark) for mark in marks(row)))
            for row in rows
        ]
        yield table(("A", "B", "request", "calls", "reply"), cells, f"Turns of {_text(agent)}", kind="moves")


def _mark(mark: str) -> str:
    return f'<span class="bad">{mark}</span>' if mark == "different" else mark


def _answer(name: str, side: Side) -> str:
    outcome = side.outcome
    shown = outcome and f"<summary>{_text(outcome.command)}</summary><pre>{_text(outcome.said)}</pre>"
    return (
        f'<article><h3>{name}: {_text(side.session)}</h3>\n<div class="prose">{_text(side.final)}</div>\n'
        f"{f'<details open>{shown}</details>' if shown else ''}</article>\n"
    )
