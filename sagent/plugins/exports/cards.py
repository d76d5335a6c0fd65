"""Cards of a page with a session's messages and calls, in order, with each child's inside its own."""

import base64
import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import starmap
from typing import assert_never

from sagent.lib.figures import duration, money
from sagent.lib.json import as_object, json_dump
from sagent.lib.text import MAIN_ARGUMENTS, count, cut
from sagent.plugins.exports.page import escape
from sagent.plugins.exports.prose import Prose
from sagent.plugins.exports.steps import Consulted, MessageStep, Remark
from sagent.plugins.exports.timeline import Call, Shown, Timeline, TurnShown, advisor_of, asked_of, verdict_of, words_of
from sagent.plugins.exports.times import seconds_between
from sagent.repl.view.diff import diff_rows
from sagent.repl.view.lines import Line, Span
from sagent.session.contents import StoredMedia
from sagent.transcript.redaction import Redaction

MAX_MEDIA_BYTES = 1_500_000  # of images on a page
MAX_OPEN_LINES = 40  # of a change to show unfolded
_DEEPEST = 20  # children within children
_MAX_HEADING_CHARS = 160  # characters of a call in its heading
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_VERBS = {"AgentSend": "Wrote to", "AgentSpawn": "Asked an agent", "AskUser": "Asked the person", "Bash": "Ran",
          "Edit": "Edited", "ExitPlan": "Proposed a plan", "Glob": "Looked for", "Grep": "Searched for",
          "List": "Listed", "Read": "Read", "TodoWrite": "Updated the to-do list", "Write": "Wrote"}  # fmt: skip
_STOPS = {"max_tokens": "cut at its length limit", "refusal": "refused", "content_filter": "stopped by a filter",
          "context_overflow": "cut where the context was full"}  # fmt: skip
_IN_DIFF = ("old_string", "new_string", "edits", "content")

_CLASSES = {"code.word": "k", "code.string": "s", "code.comment": "c", "code.number": "n", "word-added": "w",
            "word-removed": "w"}  # fmt: skip

Fetch = Callable[[str], bytes | None]


class Cards:
    """The cards of one session; `images` counts their pictures."""

    def __init__(self, timeline: Timeline, redaction: Redaction, prose: Prose, fetch: Fetch) -> None:
        self.images = 0
        self._timeline = timeline
        self._redaction = redaction
        self._prose = prose
        self._fetch = fetch
        self._media = 0
        self._models: dict[str, str] = {}
        self._cards: dict[str, list[tuple[int, Shown]]] = {}
        for place, each in enumerate(timeline.shown):
            self._cards.setdefault(agent_of(each), []).append((place, each))

    def all(self) -> Iterator[str]:
        """Yield the root's cards, with each child's at its start; at the end children with an unknown start."""
        yield from self._of("root", 0)
        while self._cards:
            yield from self._child(next(iter(self._cards)), 1)

    def _of(self, agent: str, depth: int) -> Iterator[str]:
        for place, each in self._cards.pop(agent, ()):
            born = dict(each.details).get("agent", "") if isinstance(each, Remark) and each.kind == "spawned" else ""
            if born in self._cards and depth < _DEEPEST:
                yield from self._child(born, depth + 1)
            else:
                yield from self._card(place, each)

    def _child(self, path: str, depth: int) -> Iterator[str]:
        """Yield a child's cards, folded under its result."""
        member = self._timeline.agents.get(path)
        facts = [", ".join(member.models), count(member.turns, "turn"), count(member.calls, "call")] if member else []
        if member and (took := seconds_between(member.log.first, member.log.last)) is not None:
            facts.append(duration(took))
        if path in self._timeline.spent.by_agent:
            facts.append(money(self._timeline.spent.by_agent[path].usd))
        words = self._prose.text(" · ".join(filter(None, facts)))
        name = self._prose.text(path.removeprefix("root/"))
        yield f'<details class="child"><summary><strong>{name}</strong> <span class="quiet">{words}</span></summary>\n'
        yield from self._of(path, depth)
        yield "</details>\n"

    def _card(self, place: int, shown: Shown) -> Iterator[str]:
        agent = self._prose.text(agent_of(shown))
        start = f'<article id="b{place}" data-agent="{agent}" tabindex="-1" aria-labelledby="h{place}" class='
        kind, title, *facts = self._head(shown)
        at = shown.turn.at if isinstance(shown, TurnShown) else shown.at
        if isinstance(shown, Remark):
            yield f'{start}"remark"><p id="h{place}">{self.time(at)} {title}</p></article>\n'
            return
        head = " · ".join(filter(None, (self.time(at), *facts)))
        yield f'{start}"{kind}"><div class="head"><h3 id="h{place}">{title}</h3> '
        yield f'<span class="quiet">{head}</span></div>\n'
        yield from self.content(shown)
        yield "</article>\n"

    def _head(self, shown: Shown) -> Sequence[str]:
        """Return the kind of a card, its title, and facts about it."""
        text = self._prose.text
        agent = agent_of(shown)
        who = "" if agent == "root" else f" to {_name(agent)}"
        match shown:
            case MessageStep(_, _, sender):
                return "said" if not sender else "told", text((_name(sender) or "Person") + who)
            case TurnShown(turn, number, usd=usd):
                before, self._models[agent] = self._models.get(agent), turn.model
                model = "" if before == turn.model else text(turn.model)
                stop = _STOPS.get(turn.stop, "" if turn.stop in ("end", "tool_use") else turn.stop)
                wrong = f'<span class="bad">{text(stop)}</span>' if stop else ""
                title = f"Turn {number}" if agent == "root" else f"{_name(agent)}, turn {number}"
                return "turn", text(title), model, money(usd) if usd is not None else "", wrong
            case Consulted():
                return "advice", text(f"{advisor_of(shown)} advises{who[3:]}: {verdict_of(shown)}")
            case Remark():
                return "remark", text(words_of(shown))
            case _:
                assert_never(shown)

    def content(self, shown: MessageStep | TurnShown | Consulted) -> Iterator[str]:
        """Yield the body of a card."""
        prose = self._prose
        match shown:
            case MessageStep(_, text, sender, media=media):
                yield prose.asked(text) if not sender.startswith("job:") else _pre(prose.text(text))
                yield from map(self._image, media)
            case TurnShown(turn, calls=calls):
                if turn.thinking:
                    inside = prose.markdown(turn.thinking)
                    yield f'<details class="thinking"><summary>Thinking</summary>{inside}</details>\n'
                if turn.text.strip():
                    yield prose.markdown(turn.text)
                yield from map(self._image, turn.media)
                for call in calls:
                    yield from self.call(call)
            case Consulted(_, advice):
                if asked := asked_of(shown):
                    yield f'<p class="quiet">{prose.text(asked)}</p>'
                yield prose.markdown(advice.text)
            case _:
                assert_never(shown)

    def call(self, call: Call) -> Iterator[str]:
        """Yield a tool call and its result, folded."""
        prose = self._prose
        arguments = as_object(self._redaction.value(dict(call.arguments)))
        gist = next((name for name in MAIN_ARGUMENTS if str(arguments.get(name, "")).strip()), "")
        whole = str(arguments.get(gist, "")).strip()
        line = prose.text(_first(whole))
        line = f"<code>{line}</code>" if line and gist not in ("question", "task", "prompt") else line
        known = call.state in ("done", "failed")
        verb = _VERBS.get(call.name, f"Called {call.name}") if known else call.name
        marks = [f'<span class="bad">{call.state or "no result"}</span>'] if call.state != "done" else []
        diff = call.diff.split("\n") if call.diff else []
        for sign, name in (("+", "add"), ("-", "del")):
            if changed := sum(row.startswith(sign) for row in diff):
                marks.append(f'<span class="{name}">{sign.replace("-", "−")}{changed}</span>')
        marks += [f'<span class="quiet">{duration(call.seconds)}</span>'] if call.seconds >= 0.1 else []
        opened = " open" if 0 < len(diff) <= MAX_OPEN_LINES else ""
        yield f'<details class="call"{opened}><summary><span class="verb">{prose.text(verb)}</span> {line} '
        yield f"{' '.join(marks)}</summary>"
        hidden = {*(_IN_DIFF if diff else ()), *((gist,) if whole == _first(whole) else ())}
        yield self._arguments({name: value for name, value in arguments.items() if name not in hidden})
        if diff:
            yield changes(prose.clean(call.diff), whole)
        if call.result:
            suffix = whole.rpartition(".")[2]
            said = _pre(prose.numbered(call.result, suffix) if call.name == "Read" else prose.text(call.result))
            folded = f'<details><summary class="quiet">What the model read</summary>{said}</details>'
            yield folded if diff and call.state == "done" else said  # it repeats the change
        yield from map(self._image, call.media)
        yield "</details>\n"

    def _arguments(self, arguments: Mapping[str, object]) -> str:
        rows: list[str] = []
        for name, value in arguments.items():
            text = value if isinstance(value, str) else json_dump(value)
            shown = self._prose.code(text, "bash") if name == "command" else self._prose.text(text)
            rows.append(f"<dt>{self._prose.text(name)}</dt><dd>{_pre(shown) if chr(10) in text else shown}</dd>")
        return f'<dl class="facts">{"".join(rows)}</dl>' if rows else ""

    def _image(self, media: StoredMedia) -> str:
        """Return an image, while there is room."""
        kind, name = media
        data = self._fetch(name) if kind in _IMAGES else None
        if data is None or self._media + len(data) > MAX_MEDIA_BYTES:
            return f'<p class="quiet">[{self._prose.text(kind)}, blob {self._prose.text(name)}]</p>'
        self._media += len(data)
        self.images += 1
        source = f"data:{kind};base64,{base64.b64encode(data).decode()}"
        return f'<p><img src="{source}" alt="an image of the session, blob {self._prose.text(name)}"></p>'

    def time(self, at: str) -> str:
        """Format the time since the start of the session."""
        since = seconds_between(self._timeline.first, at)
        if since is None:
            return ""
        minutes, seconds = divmod(int(since), 60)
        hours, minutes = divmod(minutes, 60)
        shown = f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
        return f'<time datetime="{html.escape(at)}" title="{when(at)}">{shown}</time>'


def agent_of(shown: Shown) -> str:
    return shown.turn.agent if isinstance(shown, TurnShown) else shown.agent


def when(at: str) -> str:
    """Format a time of the log for a person."""
    return html.escape(at[:19].replace("T", " ") + " UTC" if at else "")


def _name(path: str) -> str:
    return path.removeprefix("root/")


def _first(text: str) -> str:
    """Return its first line, cut."""
    return cut(text.split("\n", 1)[0], _MAX_HEADING_CHARS)


def _pre(inside: str, kind: str = "") -> str:
    return f'<pre class="{kind}">{inside}</pre>' if kind else f"<pre>{inside}</pre>"


def changes(diff: str, path: str) -> str:
    """Return a clean diff of a file as the terminal shows it."""
    return _pre("".join(starmap(_changed, diff_rows(diff, str, path))), "diff")


def _changed(sign: str, number: int, line: Line) -> str:
    text = "".join(map(_span, line))
    tag = {"+": "ins", "-": "del"}.get(sign, "span")
    return f'<{tag} data-line="{number}">{sign}{text}</{tag}>' if sign else f'<span class="at">{text}</span>'


def _span(span: Span) -> str:
    style, text = span
    names = " ".join(name for word in style.split() if (name := _CLASSES.get(word.removeprefix("class:"))))
    return f'<span class="{names}">{escape(text)}</span>' if names else escape(text)
