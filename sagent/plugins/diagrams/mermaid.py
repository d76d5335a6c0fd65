"""Mermaid's flowcharts and sequence diagrams (https://mermaid.js.org/syntax/flowchart.html, .../sequenceDiagram.html),
as far as they are small and simple; of any other, the source is shown."""

import re
from collections.abc import Sequence

from sagent.plugins.diagrams.flowchart import Edge, Flowchart, draw_flowchart
from sagent.plugins.diagrams.sequence import Message, draw_sequence
from sagent.repl.view.lines import is_agreed, printable

MAX_CHARS, MAX_LABEL_CHARS = 4_000, 60
MAX_NODES, MAX_EDGES, MAX_PARTICIPANTS, MAX_MESSAGES = 20, 30, 8, 30
_IGNORED = re.compile(r"%%|(?:classDef|class|style|linkStyle|click|title|accTitle|accDescr|autonumber)\b")
_HEAD = re.compile(r"(?:graph|flowchart)[ \t]+(TD|TB|LR)[ \t]*(?:;(.*))?$")
_SHAPES = (("([", "])"), ("[[", "]]"), ("[(", ")]"), ("((", "))"), ("{{", "}}"), ("[", "]"), ("(", ")"), ("{", "}"))
_ID = re.compile(r"[\w.]+(?:-[\w.]+)*")  # no arrow
_ARROW = re.compile(
    r"(?P<back><)?(?:--[ \t]+(?P<inside>[^-|<>\s](?:[^-|<>]|-(?!-))*?)[ \t]+--+(?P<head1>>)?"
    r"|(?P<line>--+|==+|-\.+-)(?P<head2>>)?)"
    r"(?:[ \t]*\|(?P<label>[^|]*)\|)?"
)
_PARTICIPANT = re.compile(r"(?:participant|actor)[ \t]+(\S+)(?:[ \t]+as[ \t]+(.+))?$")
_MESSAGE = re.compile(r"([^\s:<>+-]+)[ \t]*(--?)(>>|>|x|\))[ \t]*[+-]?[ \t]*([^\s:<>+-]+)[ \t]*:[ \t]*(.+)$")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)


def draw(source: str, width: int) -> Sequence[str] | None:
    """Return the rows of a diagram; None if it is not drawn, or does not fit the width."""
    if len(source) > MAX_CHARS:
        return None
    lines = [line.strip() for line in source.split("\n")]
    lines = [line for line in lines if line and not _IGNORED.match(line)]
    try:
        if lines and (head := _HEAD.match(lines[0])):
            chart = _flowchart([head[2] or "", *lines[1:]], across=head[1] == "LR")
            return draw_flowchart(chart, width) if chart.nodes else None
        if lines and lines[0] == "sequenceDiagram":
            return draw_sequence(*_sequence(lines[1:]), width)
    except NotDrawnError:
        pass
    return None


class NotDrawnError(ValueError):
    """The diagram has something that is not drawn."""


def _label(text: str) -> str:
    """Return a label as it is drawn."""
    text = " ".join(_BREAK.sub(" ", text.strip()).strip('"').split())
    if not text or len(text) > MAX_LABEL_CHARS or printable(text) != text or not is_agreed((("", text),)):
        raise NotDrawnError
    return text


def _flowchart(lines: Sequence[str], *, across: bool) -> Flowchart:
    nodes, edges = dict[str, str](), list[Edge]()
    for statement in (part.strip() for line in lines for part in _statements(line)):
        at, before, arrow = 0, list[str](), None
        while True:
            group, at = _group(statement, at, nodes)
            if arrow is not None:
                text = arrow["inside"] or arrow["label"] or ""
                label, dotted = _label(text) if text.strip() else "", "." in (arrow["line"] or "")
                ahead = bool(arrow["head1"] or arrow["head2"])
                edges += (Edge(a, b, label, ahead, bool(arrow["back"]), dotted) for a in before for b in group)
            if at == len(statement):
                break
            if (arrow := _ARROW.match(statement, at)) is None:
                raise NotDrawnError
            before, at = group, _skip(statement, arrow.end())
        if len(nodes) > MAX_NODES or len(edges) > MAX_EDGES:
            raise NotDrawnError
    return Flowchart(nodes, edges, across)


def _statements(line: str) -> list[str]:
    return [part for part in line.split(";") if part.strip()] if '"' not in line else [line.rstrip(";")]


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t":
        at += 1
    return at


def _group(text: str, at: int, nodes: dict[str, str]) -> tuple[list[str], int]:
    """Read nodes that are joined by &; return their names and where the next thing begins."""
    found = list[str]()
    while True:
        if (name := _ID.match(text, at)) is None or name[0] in ("subgraph", "end", "direction"):
            raise NotDrawnError
        at = name.end()
        for opens, closes in _SHAPES:
            if text.startswith(opens, at):
                quoted = text.startswith(f'{opens}"', at)
                end = text.find(f'"{closes}' if quoted else closes, at + len(opens) + quoted)
                if end < 0:
                    raise NotDrawnError
                inside = text[at + len(opens) + quoted : end]
                if not quoted and re.search(r'[\[\](){}|"]', inside):
                    raise NotDrawnError
                nodes[name[0]] = _label(inside)
                at = end + len(closes) + quoted
                break
        nodes.setdefault(name[0], _label(name[0]))
        found.append(name[0])
        at = _skip(text, at)
        if not text.startswith("&", at):
            return found, at
        at = _skip(text, at + 1)


def _sequence(lines: Sequence[str]) -> tuple[dict[str, str], list[Message]]:
    names, messages = dict[str, str](), list[Message]()
    for line in lines:
        if re.match(r"(?:de)?activate\b", line):
            continue
        if match := _PARTICIPANT.match(line):
            names[match[1]] = _label(match[2] or match[1])
        elif said := _MESSAGE.match(line):
            for name in (said[1], said[4]):
                names.setdefault(name, _label(name))
            messages.append(Message(said[1], said[4], _label(said[5]), said[2] == "--", said[3] != ">"))
        else:
            raise NotDrawnError
        if len(names) > MAX_PARTICIPANTS or len(messages) > MAX_MESSAGES:
            raise NotDrawnError
    if not messages:
        raise NotDrawnError
    return names, messages
