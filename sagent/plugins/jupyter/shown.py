"""Results and costs as HTML for a notebook. Texts of models and tools are never markup, and load and run nothing."""

from collections.abc import Iterator, Mapping
from decimal import Decimal

from sagent.agent import Agent
from sagent.errors import SessionCorrupt
from sagent.events import Result
from sagent.lib.figures import bill, count, duration, money
from sagent.lib.json import json_dump
from sagent.lib.text import count as counted
from sagent.plugins.exports.cards import Cards
from sagent.plugins.exports.entries import LogReader
from sagent.plugins.exports.prose import Prose
from sagent.plugins.exports.steps import Step
from sagent.plugins.exports.timeline import Timeline, TurnShown, timeline_of
from sagent.transcript.redaction import Redaction
from sagent.usage import Cost

MAX_TEXT_CHARS = 60_000  # of one text
STYLE = """
.sagent { --line: #8884; --add: #2da44e30; --del: #cf222e30; line-height: 1.5; max-width: 60rem; }
.sagent pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #8881; padding: .5em .7em; }
.sagent details { margin: .3em 0; } .sagent summary { cursor: pointer; }
.sagent details.call[open] { border-left: 2px solid var(--line); padding-left: .8em; }
.sagent .verb { font-weight: 600; } .sagent .quiet { opacity: .7; font-size: .9em; }
.sagent .bad { color: #cf222e; font-weight: 600; }
.sagent pre.diff > * { display: block; text-decoration: none; }
.sagent pre.diff ins { background: var(--add); } .sagent pre.diff del { background: var(--del); }
.sagent dl.facts { display: grid; grid-template-columns: max-content 1fr; gap: .2em 1em; }
.sagent td { text-align: right; } .sagent td:first-child { text-align: left; }
"""


def result_html(result: Result, agent: Agent[object] | None) -> str:
    """Return a result: its calls and changes, if its agent is known, its answer, data, failure and cost."""
    return f'<div class="sagent"><style>{STYLE}</style>{"".join(_parts(result, agent))}</div>'


def cost_html(cost: Cost) -> str:
    """Return a table of a cost by role and model."""
    prose = _prose()
    rows = [*_rows(prose, cost.by_role), *_rows(prose, cost.by_model), *_rows(prose, cost.by_agent)]
    total = f"<tr><td>total</td><td>{bill(cost.total, cost.unbilled, least=bool(cost.unpriced))}</td></tr>"
    return f'<div class="sagent"><style>{STYLE}</style><table>{"".join(rows)}{total}</table></div>'


def cost_line(result: Result) -> str:
    """Return what a run cost and took, in one line."""
    priced = f"{'≥' * bool(result.cost.unpriced)}{money(result.run_usd)}"
    tokens = f"{count(result.usage.total_input)} tokens in, {count(result.usage.output)} out"
    return " · ".join((priced, counted(result.turns, "turn"), duration(result.duration), tokens, result.model))


def _parts(result: Result, agent: Agent[object] | None) -> Iterator[str]:
    prose = _prose()
    if agent is not None:
        yield from _calls(result, agent, prose)
    yield prose.markdown(result.content) if result.content.strip() else ""
    if result.data is not None:
        yield f"<pre>{prose.text(_data(result.data))}</pre>"
    if result.error is not None:
        yield f'<p class="bad">{prose.text(f"{result.error.kind}: {result.error.message}")}</p>'
    for denial in result.denials:
        yield f'<p class="bad">{prose.text(f"{denial.tool} was not allowed: {denial.reason}")}</p>'
    yield f'<p class="quiet">{prose.text(cost_line(result))}</p>'


def _calls(result: Result, agent: Agent[object], prose: Prose) -> Iterator[str]:
    """Yield the calls of a run, and what was said before the last reply."""

    def fetch(name: str) -> bytes | None:
        try:
            return agent.log.blobs.get(name)
        except SessionCorrupt:
            return None

    own = [each for each in timeline_of(_steps(result, agent)).shown if isinstance(each, TurnShown)]
    cards = Cards(Timeline(), Redaction(), prose, fetch)
    turns = own[max(len(own) - result.turns, 0) :]
    for turn in turns:
        yield from (
            f"<p>{prose.text(turn.turn.text)}</p>" for _ in range(turn is not turns[-1] and bool(turn.turn.text))
        )
        for call in turn.calls:
            yield from cards.call(call)


def _steps(result: Result, agent: Agent[object]) -> Iterator[Step]:
    """Yield the steps of an agent's log up to the end of a run."""
    reader = LogReader(agent.path)
    for entry in agent.log.entries():
        try:
            yield from reader.read(entry)
        except SessionCorrupt:
            continue
        if entry.id == result.head:
            return


def _rows(prose: Prose, usd: Mapping[str, Decimal]) -> Iterator[str]:
    for name, amount in usd.items():
        yield f"<tr><td>{prose.text(name)}</td><td>{money(amount)}</td></tr>"


def _data(data: object) -> str:
    try:
        return json_dump(data)
    except (TypeError, ValueError):
        return repr(data)


def _prose() -> Prose:
    return Prose(Redaction(), MAX_TEXT_CHARS)
