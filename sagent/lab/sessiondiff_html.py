"""Two sessions side by side as one page that needs nothing but itself; the look is that of an exported session."""

import html
from collections.abc import Iterator

from sagent.lab.sessiondiff import Row, SessionDiff, Side, figures, marks, move_text
from sagent.lib.json import valid_text
from sagent.transcript.export_html import UNSAFE, part_of_page, source_of

OWN = """.sides th:first-child { white-space: nowrap; overflow-wrap: normal; }
.moves td, .moves th { text-align: left; }
"""
"""What two columns need in addition to the look of a session's page."""
MOST = 4_000  # characters of a text


def write_diff(diff: SessionDiff) -> bytes:
    """The page, in UTF-8. It has no script; its policy lets nothing load but its own style."""
    style = part_of_page("css") + OWN
    policy = f"default-src 'none'; style-src '{source_of(style)}'; base-uri 'none'; form-action 'none'"
    title = f"{_text(diff.left.session)} and {_text(diff.right.session)}"
    parts = (*_figures(diff), *_turns(diff), *_answers(diff))
    page = "".join(
        (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            '<meta name="referrer" content="no-referrer">\n',
            f"<title>{title} · sagent</title>\n<style>{style}</style>\n</head>\n<body>\n",
            '<a class="skip" href="#turns">Skip to the turns</a>\n',
            f"<header>\n<h1>{title}</h1>\n{_head(diff)}</header>\n<main>\n",
            *parts,
            "</main>\n<footer><p>Written by sagent from the sessions' own logs.</p></footer>\n</body>\n</html>\n",
        )
    )
    return page.encode()


def _text(text: str) -> str:
    """A text of theirs as text of a page."""
    cut = text if len(text) <= MOST else f"{text[:MOST]}\n[... cut: {len(text)} characters in all ...]"
    return html.escape(valid_text(cut).translate(UNSAFE))


def _head(diff: SessionDiff) -> str:
    verdict = "Every request, call and reply is the same." if diff.is_same else "They differ."
    notes = "".join(f'<p class="note">{_text(note)}</p>\n' for note in diff.notes)
    return f"<p>{verdict}</p>\n{notes}"


def _figures(diff: SessionDiff) -> Iterator[str]:
    yield '<section aria-labelledby="figures">\n<h2 id="figures">Figures</h2>\n'
    yield '<div class="wide" tabindex="0" role="region" aria-label="Figures"><table class="sides"><thead><tr>'
    yield '<th scope="col">what</th><th scope="col">A</th><th scope="col">B</th></tr></thead><tbody>\n'
    for name, mine, theirs in figures(diff):
        yield f'<tr><th scope="row">{_text(name)}</th><td>{_text(mine)}</td><td>{_text(theirs)}</td></tr>\n'
    yield "</tbody></table></div>\n</section>\n"


def _turns(diff: SessionDiff) -> Iterator[str]:
    yield '<section aria-labelledby="turns">\n<h2 id="turns" tabindex="-1">Turns</h2>\n'
    group: tuple[str, str] | None = None
    for row in diff.rows:
        if (row.agent, row.prompt) != group:
            yield "</tbody></table></div>\n" if group is not None else ""
            group = (row.agent, row.prompt)
            yield from _group(row)
        cells = "".join(_mark(mark) for mark in marks(row))
        yield f"<tr><td>{_text(move_text(row.left))}</td><td>{_text(move_text(row.right))}</td>{cells}</tr>\n"
    yield "</tbody></table></div>\n" if group is not None else "<p>Neither has a turn.</p>\n"
    yield "</section>\n"


def _group(row: Row) -> Iterator[str]:
    agent = _text(row.agent)
    yield f'<h3>{agent}</h3>\n<div class="prose">{_text(row.prompt)}</div>\n'
    yield f'<div class="wide" tabindex="0" role="region" aria-label="Turns of {agent}"><table class="moves"><thead><tr>'
    yield "".join(f'<th scope="col">{name}</th>' for name in ("A", "B", "request", "calls", "reply"))
    yield "</tr></thead><tbody>\n"


def _mark(mark: str) -> str:
    return f'<td class="bad">{mark}</td>' if mark == "different" else f"<td>{mark}</td>"


def _answers(diff: SessionDiff) -> Iterator[str]:
    yield '<section aria-labelledby="answers">\n<h2 id="answers">Answers and outcomes</h2>\n'
    for name, side in (("A", diff.left), ("B", diff.right)):
        yield from _answer(name, side)
    yield "</section>\n"


def _answer(name: str, side: Side) -> Iterator[str]:
    yield f'<article><h3>{name}: {_text(side.session)}</h3>\n<div class="prose">{_text(side.final)}</div>\n'
    if side.outcome is not None:
        yield f"<details open><summary>{_text(side.outcome.command)}</summary><pre>{_text(side.outcome.said)}</pre>"
        yield "</details>\n"
    yield "</article>\n"
