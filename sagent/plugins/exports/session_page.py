"""A session as one self-contained page: the answer, the conversation, and then the totals."""

import html
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path

from sagent.lib.dataclass import dataclass
from sagent.lib.figures import duration
from sagent.lib.json import json_dump, valid_text
from sagent.lib.text import count
from sagent.plugins.exports.cards import Cards, Fetch, agent_of, when
from sagent.plugins.exports.page import contents, page, section, table
from sagent.plugins.exports.prose import Prose
from sagent.plugins.exports.steps import Consulted, MessageStep, Remark
from sagent.plugins.exports.timeline import (
    Timeline,
    TurnShown,
    advisor_of,
    calls_of,
    texts_of,
    verdict_of,
    words_of,
)
from sagent.plugins.exports.times import seconds_between
from sagent.transcript.redaction import Redaction
from sagent.usage import Sum

MAX_PAGE_BYTES = 9_500_000  # maximum bytes of a page, reached by cutting long texts
CAPS_CHARS = (50_000, 20_000, 8_000, 4_000, 2_000, 1_000, 500, 250, 120)  # characters that a text may be cut to
MANY = 200  # cards from which on a browser only lays out visible ones
_FRAME_BYTES = 700  # bytes around a text, about


@dataclass(frozen=True, slots=True)
class VerificationSummary:
    """Result of `sagent verify` for the session that is shown."""

    summary: str
    problems: Sequence[str] = ()


def write_page(timeline: Timeline, redaction: Redaction, checked: VerificationSummary, fetch: Fetch) -> bytes:
    """Return the page, in UTF-8. `fetch` returns a blob, None if it is lost."""
    found = redaction.count
    page = b""
    for cap in _caps(timeline):
        redaction.count = found
        page = _Page(timeline, redaction, fetch, cap).whole(checked).encode()
        if len(page) <= MAX_PAGE_BYTES:
            break
    return page


class _Page:
    def __init__(self, timeline: Timeline, redaction: Redaction, fetch: Fetch, cap: int) -> None:
        self._timeline = timeline
        self._redaction = redaction
        self._prose = Prose(redaction, cap)
        self._cards = Cards(timeline, redaction, self._prose, fetch)

    def whole(self, checked: VerificationSummary) -> str:
        many = ' class="many"' if len(self._timeline.shown) > MANY else ""
        cards = f"<div{many}>{''.join(self._cards.all())}</div>\n"
        conversation = section("conversation", "Conversation", self.tools(), cards)
        after = (self.costs(), self.tool_calls(), self.consultations(), self.audit(checked), self.facts(checked))
        before = self._redaction.count  # repetitions were counted already
        named = self._timeline.heading(self._redaction) or self._timeline.session
        title = self._prose.text(named) or "A session"
        main = "".join((self.answer(), conversation, *after))
        self._redaction.count = before
        header = f"{self.summary()}{self._warnings(checked)}{contents(main)}"
        script = Path(__file__).with_name("page.js").read_text("utf-8")
        return page(title, header, main, _KEYS, "conversation", script=script)

    def answer(self) -> str:
        """Return the root's last message, or why there is none; nothing if the whole conversation is no longer than
        that."""
        shown = [(place, each) for place, each in enumerate(self._timeline.shown) if agent_of(each) == "root"]
        asked = [place for place, each in shown if isinstance(each, MessageStep) and not each.sender]
        said = [(place, each) for place, each in shown if isinstance(each, TurnShown) and each.turn.text.strip()]
        if len(shown) < 3 or not said:
            return ""
        place, last = said[-1]
        failed = [
            words_of(each) for at, each in shown if at > place and isinstance(each, Remark) and each.kind == "failed"
        ]
        notes = [f'<p class="note">{self._prose.text(words)}</p>\n' for words in failed[-1:]]
        if later := [at for at in asked if at > place]:
            notes.append(f'<p class="note">What was <a href="#b{later[0]}">asked after it</a> has no answer.</p>\n')
        back = f'<p class="quiet"><a href="#b{place}">In the conversation</a>, {self._cards.time(last.turn.at)}</p>'
        return section("answer", "Answer", *notes, self._prose.markdown(last.turn.text, top=3), back)

    def summary(self) -> str:
        """Summarize the session in a line."""
        timeline = self._timeline
        took = seconds_between(timeline.first, timeline.last)
        parts = (
            when(timeline.first),
            f"took {duration(took)}" if took else "",
            count(sum(agent.turns for agent in timeline.agents.values()), "turn"),
            count(sum(agent.calls for agent in timeline.agents.values()), "tool call"),
            _usd(timeline.spent.whole),
        )
        return f'<p class="quiet">{" · ".join(filter(None, parts))}</p>\n'

    def facts(self, checked: VerificationSummary) -> str:
        timeline = self._timeline
        git = timeline.environment.get("git_commit")
        dirty = ", with changes not committed" if timeline.environment.get("git_dirty") else ""
        rows = (
            ("session", timeline.session),
            ("directory", timeline.cwd),
            ("from", when(timeline.first)),
            ("to", when(timeline.last)),
            ("models", ", ".join(dict.fromkeys(model for agent in timeline.agents.values() for model in agent.models))),
            ("git commit", f"{git}{dirty}" if git else ""),
            ("sagent", str(timeline.environment.get("sagent", ""))),
            ("head", timeline.agents["root"].log.head if "root" in timeline.agents else ""),
            ("verified", checked.summary),
        )
        shown = "".join(f"<dt>{name}</dt><dd>{self._prose.text(value)}</dd>\n" for name, value in rows if value)
        return section("facts", "Facts", f'<dl class="facts">\n{shown}</dl>\n')

    def _warnings(self, checked: VerificationSummary) -> str:
        notes: list[str] = []
        if self._redaction.keep:
            notes.append("It was not searched for secrets.")
        elif self._redaction.count:
            notes.append(
                f"{count(self._redaction.count, 'secret')} taken out of what is shown here, recognized by their "
                "form: there may be others."
            )
        if self._cards.images and not self._redaction.keep:
            notes.append(f"Pictures were not searched for secrets: {count(self._cards.images, 'image')}.")
        if self._prose.left_out:
            notes.append(f"{count(self._prose.left_out, 'text')} cut, to keep the page small.")
        if self._timeline.damaged:
            notes.append(
                f"{count(len(self._timeline.damaged), 'entry', 'entries')} could not be read and are left out."
            )
        if checked.problems:
            notes.append('The session does not verify: see <a href="#audit">Audit</a>.')
        return "".join(f'<p class="note">{words}</p>\n' for words in notes)

    def costs(self) -> str:
        """Show the cost by role, and by model and agent if there are several, so that no table repeats another."""
        spent = self._timeline.spent
        kinds = (("role", spent.by_role), ("model", spent.by_model), ("agent", spent.by_agent))
        shown = [(what, sums) for what, sums in kinds if len(sums) > 1] or [("role", spent.by_role)]
        return section("cost", "Cost", *(self._table(what, sums) for what, sums in shown if sums))

    def _table(self, grouping: str, sums: Mapping[str, Sum]) -> str:
        most = max((each.usd for each in sums.values()), default=Decimal(0)) or Decimal(1)
        rows: list[Sequence[str]] = []
        for name, each in sorted(sums.items(), key=lambda item: -item[1].usd):
            usage = each.usage
            written = usage.cache_write + usage.cache_write_1h
            figures = (each.charges, usage.input, usage.cache_read, written, usage.output)
            cost = f"{_usd(each)}{_bar(float(each.usd / most))}"
            rows.append((self._who(grouping, name), *(f"{figure:,}" for figure in figures), cost))
        heads = (grouping, "calls", "input", "cache read", "cache written", "output", "cost")
        return table(heads, rows, f"Cost by {grouping}", f"By {grouping}", "stack")

    def _who(self, grouping: str, name: str) -> str:
        """Return a name; an agent's with its own part marked."""
        shown = self._prose.text(name)
        return f'<a href="#conversation" data-agent="{shown}">{shown}</a>' if grouping == "agent" else shown

    def tool_calls(self) -> str:
        heads = ("tool", "calls", "failed", "denied")
        rows = [(self._prose.text(name), *(str(counts[head]) for head in heads[1:]))
                for name, counts in sorted(self._timeline.tools.items())]  # fmt: skip
        return section("tools_used", "Tools", table(heads, rows, "Calls by tool") if rows else "")

    def consultations(self) -> str:
        """Render the table of consultations, with links to the cards."""
        cells = [
            (f'<a href="#b{place}">{self._prose.text(advisor_of(each))}</a>', self._prose.text(each.agent),
             self._cards.time(each.at), self._prose.text(verdict_of(each)))
            for place, each in enumerate(self._timeline.shown) if isinstance(each, Consulted)
        ]  # fmt: skip
        heads = ("advisor", "asked by", "when", "verdict")
        return section("advice", "Advice", table(heads, cells, "Consultations") if cells else "")

    def audit(self, checked: VerificationSummary) -> str:
        timeline = self._timeline
        problems = (*checked.problems, *timeline.damaged)
        items = [f'<li class="bad">{self._prose.text(problem)}</li>\n' for problem in problems]
        items += [
            f'<li><a href="#b{place}">{self._prose.text(f"{turn.agent} · {call.name}")}</a>: '
            f"{self._prose.text(call.result)}</li>\n"
            for place, turn, call in calls_of(timeline)
            if call.state == "denied"
        ]
        saving = timeline.saving
        usd = "" if saving.usd is None else f", and ${saving.usd:.6f} by list prices"
        left = (
            f"{count(timeline.compactions, 'compaction')}; about {timeline.compacted:,} tokens left the context. "
            f"Saved, minus the cost of the summaries: {saving.tokens:,} tokens{usd}."
        )
        compacted = f"<p>{left}</p>\n" if timeline.compactions else ""
        listed = f"<ul>{''.join(items)}</ul>" if items else ""
        return section("audit", "Audit", f"<p>Verified: {self._prose.text(checked.summary)}</p>\n", listed, compacted)

    def tools(self) -> str:
        """Return the head of the conversation: search, and whose turns to show."""
        paths = [self._prose.text(path) for path in self._timeline.agents]
        options = "".join(f'<option value="{path}">{path}</option>' for path in paths)
        return (
            '<div id="tools" class="tools" role="search" hidden>'
            '<label for="words">Search</label><input id="words" type="search" autocomplete="off">'
            '<label for="agent">Agent</label><select id="agent"><option value="">all</option>'
            f'{options}</select><button id="unfold" type="button" aria-pressed="false">Open everything</button>'
            '<span id="count" role="status" class="quiet"></span></div>\n'
        )


_KEYS = (
    '<p class="keys quiet">Keys: <kbd>/</kbd> search, <kbd>j</kbd> and <kbd>k</kbd> next and previous, <kbd>o</kbd> '
    "open or close everything, <kbd>Esc</kbd> clear the search.</p>"
    '<p class="quiet">Written by sagent from the session\'s own log.</p>'
)


def _caps(timeline: Timeline) -> Sequence[int]:
    """Return the length to which texts must be cut to fit, and smaller ones to try."""
    texts: list[str] = []
    calls = [call for _, _, call in calls_of(timeline)]
    for each in timeline.shown:
        texts += texts_of(each)
    for call in calls:
        texts += (call.result, call.diff, json_dump(call.arguments))
    sizes = [(len(text), _weight(text)) for text in texts if text]
    room = MAX_PAGE_BYTES - _FRAME_BYTES * (len(timeline.shown) + len(calls))
    fitting = [cap for cap in CAPS_CHARS if sum(min(length, cap) * weight for length, weight in sizes) <= room]
    return fitting or CAPS_CHARS[-1:]


def _weight(text: str) -> float:
    """Estimate the bytes on a page for a character of a text, by its beginning."""
    sample = text[:1_000]
    return len(html.escape(valid_text(sample)).encode()) / len(sample)


def _usd(sums: Sum) -> str:
    if sums.unpriced and not sums.usd:
        return "price unknown"
    return f"{'≥ ' if sums.unpriced else ''}${sums.usd:.4f}"


def _bar(share: float) -> str:
    """Return a bar for a share of the maximum; the figure next to it has the same value."""
    drawn = f'<rect width="{max(100 * share, 1):.0f}" height="6"></rect>'
    return f'<svg class="bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">{drawn}</svg>'
