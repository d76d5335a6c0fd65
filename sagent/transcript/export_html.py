"""A session as one page that needs nothing but itself."""

import base64
import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import assert_never

from sagent.lib.dataclass import dataclass
from sagent.lib.json import json_dump, valid_text
from sagent.lib.text import count
from sagent.session.stored import StoredMedia
from sagent.transcript.export_redaction import Redaction
from sagent.transcript.page import escape, page, section, table
from sagent.transcript.steps import Consulted, Remark, Said, Turn
from sagent.transcript.timeline import (
    Call,
    Member,
    Shown,
    Timeline,
    TurnShown,
    advisor_of,
    asked_of,
    calls_of,
    texts_of,
    verdict_of,
    words_of,
)
from sagent.usage import Sum

SIZE = 9_500_000  # bytes that a page is held to, by cutting long texts
MOST_MEDIA = 1_500_000  # bytes of images on a page
CAPS = (50_000, 20_000, 8_000, 4_000, 2_000, 1_000, 500, 250, 120)  # characters that a text may be cut to
_FRAME = 700  # bytes around a text, about
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")

Fetch = Callable[[str], bytes | None]


@dataclass(frozen=True, slots=True)
class Checked:
    """What `sagent verify` says of the session that is shown."""

    summary: str
    problems: Sequence[str] = ()


def write_page(timeline: Timeline, redaction: Redaction, checked: Checked, fetch: Fetch) -> bytes:
    """The page, in UTF-8. `fetch` brings a blob, None where it is lost."""
    found = redaction.count
    page = b""
    for cap in _caps(timeline):
        redaction.count = found
        page = _Page(timeline, redaction, fetch, cap).whole(checked).encode()
        if len(page) <= SIZE:
            break
    return page


class _Page:
    def __init__(self, timeline: Timeline, redaction: Redaction, fetch: Fetch, cap: int) -> None:
        self._timeline = timeline
        self._redaction = redaction
        self._fetch = fetch
        self._cap = cap
        self._media = 0
        self._left_out = 0
        self._shown_media = 0

    def whole(self, checked: Checked) -> str:
        shown = "".join(self.shown())
        parts = (self.costs(), self.agents(), self.consultations(), self.audit(checked))
        main = "".join((*parts, section("timeline", "Timeline", self.tools(), shown)))
        title = self._title()
        header = self.facts(checked)  # last: it says what was taken out of all the others
        script = Path(__file__).with_name("export_page.js").read_text("utf-8")
        return page(title, header, main, _KEYS, "timeline", script=script)

    def text(self, text: str) -> str:
        """A text of theirs, cut, without secrets, as text of a page."""
        cap = self._cap
        clean = self._redaction.text(text[: cap + 4_000])  # a secret at the cut is still whole
        if len(text) > cap:
            self._left_out += 1
            clean = f"{clean[:cap]}\n[... cut: {len(text)} characters in all, the rest is in the log ...]"
        return escape(clean)

    def _title(self) -> str:
        """Its name; what was taken out of it is counted where it was said."""
        before = self._redaction.count
        title = self.text(self._timeline.title) or self.text(self._timeline.session) or "A session"
        self._redaction.count = before
        return title

    def facts(self, checked: Checked) -> str:
        timeline = self._timeline
        git = timeline.environment.get("git_commit")
        dirty = ", with changes not committed" if timeline.environment.get("git_dirty") else ""
        rows = [
            ("session", timeline.session),
            ("directory", timeline.cwd),
            ("from", _when(timeline.first)),
            ("to", _when(timeline.last)),
            ("models", ", ".join(dict.fromkeys(model for each in timeline.agents.values() for model in each.models))),
            ("git commit", f"{git}{dirty}" if git else ""),
            ("sagent", str(timeline.environment.get("sagent", ""))),
            ("turns", str(sum(each.turns for each in timeline.agents.values()))),
            ("tool calls", str(sum(each.calls for each in timeline.agents.values()))),
            ("cost", _usd(timeline.spent.whole)),
            ("head", timeline.agents["root"].log.head if "root" in timeline.agents else ""),
            ("verified", checked.summary),
        ]
        shown = "".join(f"<dt>{name}</dt><dd>{self.text(value)}</dd>\n" for name, value in rows if value)
        return f'<dl class="facts">\n{shown}</dl>\n{self._warnings(checked)}'

    def _warnings(self, checked: Checked) -> str:
        notes: list[str] = []
        if self._redaction.keep:
            notes.append("Secrets were not looked for.")
        elif self._redaction.count:
            notes.append(
                f"{count(self._redaction.count, 'secret')} taken out of what is shown here, found by shape: there may "
                "be others."
            )
        if self._shown_media and not self._redaction.keep:
            notes.append(f"Pictures were not searched for secrets: {count(self._shown_media, 'image')}.")
        if self._left_out:
            notes.append(f"{count(self._left_out, 'text')} cut, to keep the page small.")
        if self._timeline.damaged:
            notes.append(
                f"{count(len(self._timeline.damaged), 'entry', 'entries')} could not be read and are left out."
            )
        if checked.problems:
            notes.append("The session does not verify: see Audit.")
        return "".join(f'<p class="note">{words}</p>\n' for words in notes)

    def costs(self) -> str:
        spent = self._timeline.spent
        if not spent.by_role:
            return ""
        kinds = (("role", spent.by_role), ("model", spent.by_model), ("agent", spent.by_agent))
        tables = (self._table(what, sums) for what, sums in kinds)
        return section("cost", "Cost", self._chart("role", spent.by_role), *tables)

    def _chart(self, what: str, sums: Mapping[str, Sum]) -> str:
        rows = sorted(sums.items(), key=lambda item: -item[1].usd)[:12]
        most = max((each.usd for _, each in rows), default=Decimal(0)) or Decimal(1)
        bars: list[str] = []
        for place, (name, each) in enumerate(rows):
            width = float(each.usd / most) * 300
            y = 8 + place * 26
            bars.append(
                f'<text x="0" y="{y + 14}">{self.text(name[:28])}</text>'
                f'<rect x="210" y="{y}" width="{max(width, 1):.1f}" height="18"></rect>'
                f'<text x="{216 + max(width, 1):.1f}" y="{y + 14}">{_usd(each)}</text>'
            )
        words = "; ".join(f"{name} {_usd(each)}" for name, each in rows)
        return (
            f'<svg class="chart" viewBox="0 0 640 {16 + 26 * len(rows)}" role="img" '
            f'aria-label="Cost by {what}: {self.text(words)}">{"".join(bars)}</svg>\n'
        )

    def _table(self, what: str, sums: Mapping[str, Sum]) -> str:
        rows = [
            (self.text(name), each.charges, each.usage.input, each.usage.cache_read,
             each.usage.cache_write + each.usage.cache_write_1h, each.usage.output, _usd(each))
            for name, each in sorted(sums.items(), key=lambda item: -item[1].usd)
        ]  # fmt: skip
        heads = (what, "calls", "input", "cache read", "cache written", "output", "cost")
        return table(heads, (tuple(map(str, row)) for row in rows), f"Cost by {what}", f"By {what}")

    def agents(self) -> str:
        timeline = self._timeline
        if not timeline.agents:
            return ""
        below: dict[str, list[Member]] = {}
        for path, member in timeline.agents.items():
            below.setdefault(path.rpartition("/")[0], []).append(member)
        tree = "".join(self._branch(member, below, 0) for member in below.get("", []))
        return section("agents", "Agents", f'<ul class="tree">{tree}</ul>\n')

    def _branch(self, member: Member, below: Mapping[str, list[Member]], depth: int) -> str:
        path = self.text(member.path)
        sums = self._timeline.spent.by_agent.get(member.path, Sum())
        parts = [count(member.turns, "turn"), count(member.calls, "call"), _usd(sums)]
        parts += [self.text(", ".join(member.models))] if member.models else []
        inside = below.get(member.path, ()) if depth < 50 else ()
        children = "".join(self._branch(child, below, depth + 1) for child in inside)
        inner = f"<ul>{children}</ul>" if children else ""
        return (
            f'<li><a href="#timeline" data-agent="{path}">{path}</a> '
            f'<span class="quiet">{" · ".join(parts)}</span>{inner}</li>\n'
        )

    def consultations(self) -> str:
        """What advisors said, with a way to where they said it."""
        rows = [(place, each) for place, each in enumerate(self._timeline.shown) if isinstance(each, Consulted)]
        if not rows:
            return ""
        cells = [
            (f'<a href="#b{place}">{self.text(advisor_of(each))}</a>', self.text(each.agent), _when(each.at),
             self.text(verdict_of(each)))
            for place, each in rows
        ]  # fmt: skip
        return section("advice", "Advice", table(("advisor", "asked by", "when", "verdict"), cells, "Consultations"))

    def audit(self, checked: Checked) -> str:
        timeline = self._timeline
        heads = ("tool", "calls", "failed", "denied")
        rows = [(self.text(name), *(str(counts[head]) for head in heads[1:]))
                for name, counts in sorted(timeline.tools.items())]  # fmt: skip
        items = "".join(
            f'<li class="bad">{self.text(problem)}</li>\n' for problem in (*checked.problems, *timeline.damaged)
        )
        items += "".join(
            f'<li><a href="#b{place}">{self.text(f"{turn.agent} · {call.name}")}</a>: {self.text(call.result)}</li>\n'
            for place, turn, call in calls_of(timeline)
            if call.state == "denied"
        )
        left = f"{count(timeline.compactions, 'compaction')}; about {timeline.compacted} tokens left the context."
        compacted = f"<p>{left}</p>\n" if timeline.compactions else ""
        tools = table(heads, rows, "Calls by tool") if rows else ""
        listed = f"<ul>{items}</ul>" if items else ""
        return section("audit", "Audit", f"<p>{self.text(checked.summary)}</p>\n", listed, compacted, tools)

    def tools(self) -> str:
        """The head of the timeline: search, and whose turns to show."""
        options = "".join(
            f'<option value="{self.text(path)}">{self.text(path)}</option>' for path in self._timeline.agents
        )
        return (
            '<div id="tools" class="tools" role="search" hidden>'
            '<label for="words">Search</label><input id="words" type="search" autocomplete="off">'
            '<label for="agent">Agent</label><select id="agent"><option value="">all</option>'
            f'{options}</select><button id="unfold" type="button" aria-pressed="false">Open everything</button>'
            '<span id="count" role="status" class="quiet"></span></div>\n'
        )

    def shown(self) -> Iterator[str]:
        for place, each in enumerate(self._timeline.shown):
            step = each.turn if isinstance(each, TurnShown) else each
            agent = self.text(step.agent)
            of_turn = self._turn_facts(each) if isinstance(each, TurnShown) else ()
            at = f'<time datetime="{html.escape(step.at)}">{_when(step.at)}</time>'
            facts = " · ".join(filter(None, (at, *of_turn)))
            yield (
                f'<article id="b{place}" class="{_CLASSES[type(step)]}" data-agent="{agent}" tabindex="-1" '
                f'aria-labelledby="h{place}"><h3 id="h{place}">{self._heading(each)}</h3>'
                f'<div class="quiet">{facts}</div>'
            )
            yield from self._content(each)
            yield "</article>\n"

    def _heading(self, shown: Shown) -> str:
        match shown:
            case Said(agent, _, sender):
                return f"{self.text(sender or 'person')} to {self.text(agent)}"
            case TurnShown(turn, number):
                return f"{self.text(turn.agent)} · turn {number}"
            case Consulted(agent):
                return f"{self.text(advisor_of(shown))} advises {self.text(agent)}: {self.text(verdict_of(shown))}"
            case Remark(agent, kind):
                return f"{self.text(agent)} · {self.text(kind)}"
            case _:
                assert_never(shown)

    def _turn_facts(self, shown: TurnShown) -> Iterator[str]:
        yield self.text(shown.turn.model)
        if shown.usd is not None:
            yield f"{shown.usd:.6f} USD"
        if shown.turn.stop not in ("", "end", "tool_use"):
            yield f'<span class="bad">{self.text(shown.turn.stop)}</span>'

    def _content(self, shown: Shown) -> Iterator[str]:
        match shown:
            case Said(_, text, media=media):
                yield from self._prose(text)
                yield from map(self._image, media)
            case TurnShown(turn, calls=calls):
                if turn.thinking:
                    inner = f'<div class="prose">{self.text(turn.thinking)}</div>'
                    yield f"<details><summary>Thinking</summary>{inner}</details>"
                yield from self._prose(turn.text)
                yield from map(self._image, turn.media)
                for call in calls:
                    yield from self._call(call)
            case Consulted(_, advice):
                if asked := asked_of(shown):
                    yield f'<p class="quiet">{self.text(asked)}</p>'
                yield from self._prose(advice.text)
            case Remark():
                yield from self._prose(words_of(shown))
            case _:
                assert_never(shown)

    def _prose(self, text: str) -> Iterator[str]:
        if text.strip():
            yield f'<div class="prose">{self.text(text)}</div>'

    def _call(self, call: Call) -> Iterator[str]:
        state = "" if call.state == "done" else call.state or "no result"
        mark = f' <span class="bad">{state}</span>' if state else ""
        took = f' <span class="quiet">{call.seconds:.1f} s</span>' if call.seconds >= 0.1 else ""
        yield f"<details{' open' if call.diff else ''}><summary><code>{self.text(call.name)}</code> "
        yield f"{self.text(_gist(call))}{mark}{took}</summary>"
        shown = {name: value for name, value in call.arguments.items() if not (call.diff and name in _IN_DIFF)}
        if shown:
            yield f"<pre>{self.text(json_dump(self._redaction.value(shown)))}</pre>"
        if call.diff:
            yield f"<pre>{''.join(self._diff(call.diff))}</pre>"
        if call.result:
            yield f"<pre>{self.text(call.result)}</pre>"
        yield from map(self._image, call.media)
        yield "</details>"

    def _diff(self, diff: str) -> Iterator[str]:
        for line in self.text(diff).split("\n"):
            match line[:1]:
                case "+":
                    yield f"<ins>{line}</ins>"
                case "-":
                    yield f"<del>{line}</del>"
                case _:
                    yield f"{line}\n"

    def _image(self, media: StoredMedia) -> str:
        """An image, while there is room for it."""
        kind, name = media
        data = self._fetch(name) if kind in _IMAGES else None
        if data is None or self._media + len(data) > MOST_MEDIA:
            return f'<p class="quiet">[{self.text(kind)}, blob {self.text(name)}]</p>'
        self._media += len(data)
        self._shown_media += 1
        source = f"data:{kind};base64,{base64.b64encode(data).decode()}"
        return f'<p><img src="{source}" alt="an image of the session, blob {self.text(name)}"></p>'


_KEYS = (
    '<p class="quiet">Keys: <kbd>/</kbd> search, <kbd>j</kbd> and <kbd>k</kbd> next and previous, <kbd>o</kbd> open or '
    "close everything, <kbd>Esc</kbd> clear the search. Written by sagent from the session's own log.</p>"
)
_CLASSES = {Said: "said", Turn: "turn", Consulted: "advice", Remark: "remark"}
_IN_DIFF = ("old_string", "new_string", "edits", "content")


def _caps(timeline: Timeline) -> Sequence[int]:
    """To how many characters texts may be cut so that they should all fit, and what to try if they do not."""
    texts: list[str] = []
    calls = [call for _, _, call in calls_of(timeline)]
    for each in timeline.shown:
        texts += texts_of(each)
    for call in calls:
        texts += (call.result, call.diff, json_dump(call.arguments))
    sizes = [(len(text), _weight(text)) for text in texts if text]
    room = SIZE - _FRAME * (len(timeline.shown) + len(calls))
    fitting = [cap for cap in CAPS if sum(min(length, cap) * weight for length, weight in sizes) <= room]
    return fitting or CAPS[-1:]


def _weight(text: str) -> float:
    """Bytes on a page for a character of a text, going by how it begins."""
    sample = text[:1_000]
    return len(html.escape(valid_text(sample)).encode()) / len(sample)


def _gist(call: Call) -> str:
    for name in ("command", "file_path", "path", "pattern", "url", "query", "task", "prompt", "description"):
        value = call.arguments.get(name)
        if isinstance(value, str) and value:
            line = value.strip().split("\n", 1)[0]
            return line if len(line) <= 160 else line[:159] + "…"
    return ""


def _when(at: str) -> str:
    return html.escape(at[:19].replace("T", " ") + " UTC" if at else "")


def _usd(sums: Sum) -> str:
    if sums.unpriced and not sums.usd:
        return "price unknown"
    return f"{'≥ ' if sums.unpriced else ''}{sums.usd:.4f} USD"
