"""Two sessions side by side as a self-contained page, with differences marked."""

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby, zip_longest

from sagent.lib.text import count
from sagent.plugins.exports.page import contents, escape, page, section, table
from sagent.plugins.exports.prose import Prose
from sagent.plugins.lab.actions import HOW
from sagent.plugins.lab.sessiondiff import COMPARED, Move, Row, SessionDiff, Side, figures, marks, outcome_text
from sagent.transcript.redaction import Redaction

MAX_TEXT_CHARS = 8_000  # of a text
CONTEXT_LINES = 2  # lines around what differs
_MAX_LINES = 1_500  # of two texts that are compared line by line
_MAX_WORDS = 400  # in two lines, to compare word by word
STYLE = """header, main, footer { max-width: 76rem; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 0 1.25rem; }
.pair > div { min-width: 0; }
.pair p.quiet { margin: .5rem 0 0; }
.step { border-top: 1px solid var(--line); padding-top: .8rem; }
.sides th:first-child { white-space: nowrap; } .sides td { text-align: left; overflow-wrap: anywhere; }
@media screen and (max-width: 50rem) { .pair { grid-template-columns: 1fr; } }
"""
"""Style of the two columns, in addition to that of an exported session's page."""

Part = tuple[str, str]


def write_diff(diff: SessionDiff, redaction: Redaction) -> bytes:
    """Return the page, in UTF-8. It has no script, and its policy only allows its own style."""
    return _Page(diff, Prose(redaction, MAX_TEXT_CHARS)).whole().encode()


class _Page:
    def __init__(self, diff: SessionDiff, prose: Prose) -> None:
        self._diff = diff
        self._prose = prose

    def whole(self) -> str:
        text, diff = self._prose.text, self._diff
        differing = sum(not _alike(row) for row in diff.rows)
        verdict = f"{count(differing, 'turn')} of {len(diff.rows)} differ in what was called or said."
        if not differing:
            verdict = "Every call and reply is the same, but requests differ."
        if diff.is_same:
            verdict = "Every request, call and reply is the same."
        notes = "".join(f'<p class="note">{text(note)}</p>\n' for note in diff.notes)
        rows = [tuple(map(text, row)) for row in figures(diff)]
        turns = self.turns() if diff.rows else ("<p>Neither has a turn.</p>\n",)
        main = (
            section("answers", "Answers", self.answers())
            + section("turns", "Turns", *turns)
            + section("figures", "Figures", table(("what", "A", "B"), rows, "Results", kind="sides"))
        )
        title = f"{text(diff.left.session)} and {text(diff.right.session)}"
        footer = f"<p>Written by sagent from the sessions' own logs. {HOW.capitalize()}.</p>"
        return page(title, f"<p>{verdict}</p>\n{notes}{contents(main)}", main, footer, "turns", style=STYLE)

    def answers(self) -> str:
        one, other = self._diff.left, self._diff.right
        return f'<div class="pair">{self._answer("A", one)}{self._answer("B", other)}</div>\n'

    def _answer(self, name: str, side: Side) -> str:
        outcome = side.outcome
        details = ""
        if outcome is not None:
            what = f"{outcome.command}: {outcome_text(outcome)}"
            details = f"<details open><summary>{self._prose.text(what)}</summary>{self._pre(outcome.said)}</details>"
        said = self._prose.markdown(side.final) if side.final else '<p class="quiet">No answer.</p>'
        return f"<div><h3>{name}: {self._prose.text(side.session)}</h3>\n{said}{details}</div>\n"

    def turns(self) -> Iterator[str]:
        for (agent, prompt), rows in groupby(self._diff.rows, lambda row: (row.agent, row.prompt)):
            asked = self._prose.asked(prompt)
            yield f'<article class="said"><h3>{self._prose.text(agent)}</h3>{asked}</article>\n'
            for alike, some in groupby(rows, _alike):
                for row in some:
                    yield self._same(row) if alike else self._differing(row)

    def _same(self, row: Row) -> str:
        """Return a turn that both share, folded."""
        assert row.left is not None
        other = ", after another request" if row.same_request is False else ""
        inside = "".join(
            f'<p class="quiet">{self._prose.text(name)}</p>{self._pre(text)}' for name, text in row.left.parts
        )
        return f'<details class="same"><summary>{_number(row)}: the same{other}</summary>{inside}</details>\n'

    def _differing(self, row: Row) -> str:
        words = [name for name, mark in zip(COMPARED, marks(row), strict=True) if mark == "different"]
        if row.left is None or row.right is None:
            words = ["only in A" if row.right is None else "only in B"]
        else:
            words = [f"{', '.join(words)} different"]
        ends = "".join(f"<div>{self._end(name, move)}</div>" for name, move in (("A", row.left), ("B", row.right)))
        parts = "".join(self._part(one, other) for one, other in _paired(row))
        return (
            f'<article class="step"><h4>{_number(row)}: <span class="bad">{words[0]}</span></h4>\n'
            f'<div class="pair quiet">{ends}</div>{parts}</article>\n'
        )

    def _end(self, name: str, move: Move | None) -> str:
        if move is None:
            return f"{name}: no turn"
        return self._prose.text(f"{name}: turn {move.turn}, {move.model}, {move.failed or move.stop or 'nothing said'}")

    def _part(self, left: Part | None, right: Part | None) -> str:
        if left is not None and left == right:
            name, text = map(self._prose.text, left)
            return f'<details class="same"><summary>{name}: the same</summary><pre>{text}</pre></details>\n'
        sides = _marked(*(self._lines(part) for part in (left, right)))
        cells = "".join(
            f'<div><p class="quiet">{side} · {self._prose.text(part[0])}</p><pre>{shown}</pre></div>'
            if part is not None
            else f'<div><p class="quiet">{side} · nothing</p></div>'
            for side, part, shown in zip("AB", (left, right), sides, strict=True)
        )
        return f'<div class="pair">{cells}</div>\n'

    def _lines(self, part: Part | None) -> Sequence[str]:
        return self._prose.clean(part[1]).split("\n") if part is not None else ()

    def _pre(self, text: str) -> str:
        return f"<pre>{self._prose.text(text)}</pre>"


def _alike(row: Row) -> bool:
    return bool(row.same_calls and row.same_reply)


def _number(row: Row) -> str:
    numbers = dict.fromkeys(str(move.turn) for move in (row.left, row.right) if move is not None)
    return f"Turn {' and '.join(numbers)}"


def _paired(row: Row) -> Iterator[tuple[Part | None, Part | None]]:
    """Pair the parts of both sides by name and place."""
    one = row.left.parts if row.left is not None else ()
    other = row.right.parts if row.right is not None else ()
    matcher = SequenceMatcher(None, [name for name, _ in one], [name for name, _ in other], autojunk=False)
    for _, from_one, to_one, from_other, to_other in matcher.get_opcodes():
        yield from zip_longest(one[from_one:to_one], other[from_other:to_other])


def _marked(left: Sequence[str], right: Sequence[str]) -> tuple[str, str]:
    """Mark the lines that differ on either side, and within matching lines the words."""
    shown_left: list[str] = []
    shown_right: list[str] = []
    if len(left) + len(right) > _MAX_LINES:
        return _changed("del", "-", map(escape, left)), _changed("ins", "+", map(escape, right))
    for kind, a, b, c, d in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if kind == "equal":
            same = _shortened(left[a:b])
            shown_left.append(same)
            shown_right.append(same)
            continue
        pairs = [_words(*pair) for pair in zip(left[a:b], right[c:d], strict=False)]
        before = [*(pair[0] for pair in pairs), *map(escape, left[a + len(pairs) : b])]
        after = [*(pair[1] for pair in pairs), *map(escape, right[c + len(pairs) : d])]
        shown_left.append(_changed("del", "-", before))
        shown_right.append(_changed("ins", "+", after))
    return "".join(shown_left), "".join(shown_right)


def _changed(tag: str, sign: str, lines: Iterable[str]) -> str:
    return "".join(f"<{tag}>{sign} {line}</{tag}>" for line in lines)


def _shortened(lines: Sequence[str]) -> str:
    shown = [f"  {escape(line)}\n" for line in lines]
    if len(shown) > 2 * CONTEXT_LINES + 2:
        left = len(shown) - 2 * CONTEXT_LINES
        shown[CONTEXT_LINES:-CONTEXT_LINES] = [f'<span class="at">  … {left} lines are the same</span>\n']
    return "".join(shown)


def _words(left: str, right: str) -> tuple[str, str]:
    """Two lines, what differs in each marked, unless they have little in common."""
    mine, theirs = re.findall(r"\w+|\W", left), re.findall(r"\w+|\W", right)
    matcher = SequenceMatcher(None, mine, theirs, autojunk=False)
    if len(mine) + len(theirs) > _MAX_WORDS or matcher.ratio() < 0.5:
        return escape(left), escape(right)
    shown = ["", ""]
    for kind, a, b, c, d in matcher.get_opcodes():
        for side, words in enumerate((mine[a:b], theirs[c:d])):
            text = escape("".join(words))
            shown[side] += f"<mark>{text}</mark>" if text.strip() and kind != "equal" else text
    return shown[0], shown[1]
