"""Flowcharts in layers: each edge leads from a port of its own to a port of its own, by way of a track of its own."""

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sagent.plugins.diagrams.grid import Grid
from sagent.repl.view.lines import width_of


class Edge(NamedTuple):
    """An arrow between two nodes, with heads at its end and its beginning."""

    start: str
    end: str
    label: str = ""
    head: bool = True
    tail: bool = False
    dotted: bool = False


class Flowchart(NamedTuple):
    """Nodes by name, each with its label; drawn from the left to the right if `across`, else from the top."""

    nodes: Mapping[str, str]
    edges: Sequence[Edge]
    across: bool


class _Step(NamedTuple):
    """A part of an edge, from one layer to the next."""

    start: str
    end: str
    edge: Edge


def draw_flowchart(chart: Flowchart, width: int) -> Sequence[str] | None:
    """Return the rows of a chart; None if it is wider, or its edges cannot be told apart."""
    if any(edge.start == edge.end for edge in chart.edges):
        return None
    levels, edges = _levels(chart)
    layers, steps = _layers(chart, levels, edges)
    sizes = {name: _breadth(name, chart, steps) for layer in layers for name in layer}
    gap = 1 if chart.across else 3
    spans = [sum(sizes[name] for name in layer) + gap * (len(layer) - 1) for layer in layers]
    whole, places = max(spans), dict[str, int]()
    for layer, span in zip(layers, spans, strict=True):
        at = (whole - span) // 2
        for name in layer:
            places[name] = at
            at += sizes[name] + gap
    starts, ends = _ports(layers, steps, sizes, places)
    grid, at = Grid(), 0
    for number, layer in enumerate(layers):
        boxes = [name for name in layer if name in chart.nodes]
        depth = max((width_of(chart.nodes[name]) + 4 for name in boxes), default=1) if chart.across else 3
        for name in layer:
            _draw_node(grid, chart, name, (at, places[name]), (depth, sizes[name]))
        between = [step for step in steps if step.start in layer]
        ahead = _draw_steps(grid, chart, between, starts, ends, at + depth) if number + 1 < len(layers) else 0
        if ahead is None:
            return None
        at += depth + ahead
    rows = grid.rows()
    return rows if all(width_of(row) <= width for row in rows) else None


def _levels(chart: Flowchart) -> tuple[dict[str, int], list[Edge]]:
    """Return the layer of each node, and the edges, of which those that would close a circle are turned round."""
    following = {name: [edge for edge in chart.edges if edge.start == name] for name in chart.nodes}
    state, edges, order = dict[str, int](), list[Edge](), list[str]()
    for root in chart.nodes:
        waiting = [] if root in state else [(root, iter(following[root]))]
        state.setdefault(root, 1)
        while waiting:
            name, rest = waiting[-1]
            for edge in rest:
                if state.get(edge.end) == 1:
                    edges.append(edge._replace(start=edge.end, end=edge.start, head=edge.tail, tail=edge.head))
                    continue
                edges.append(edge)
                if edge.end not in state:
                    state[edge.end] = 1
                    waiting.append((edge.end, iter(following[edge.end])))
                    break
            else:
                state[name] = 2
                order.append(name)
                waiting.pop()
    levels = dict.fromkeys(chart.nodes, 0)
    for name in reversed(order):
        for edge in edges:
            if edge.start == name:
                levels[edge.end] = max(levels[edge.end], levels[name] + 1)
    return levels, edges


def _layers(
    chart: Flowchart, levels: Mapping[str, int], edges: Sequence[Edge]
) -> tuple[list[list[str]], Sequence[_Step]]:
    """Return the nodes by layer, with a place in each layer that a longer edge passes, and the edges step by step."""
    layers: list[list[str]] = [[] for _ in range(max(levels.values()) + 1)]
    for name in chart.nodes:
        layers[levels[name]].append(name)
    steps = list[_Step]()
    for number, edge in enumerate(edges):
        before = edge.start
        for level in range(levels[edge.start] + 1, levels[edge.end]):
            layers[level].append(passing := f"{number} {level}")  # no node's name has a blank
            steps.append(_Step(before, passing, edge))
            before = passing
        steps.append(_Step(before, edge.end, edge))
    for above, layer in itertools.pairwise(layers):  # below what they come from
        where = {name: number for number, name in enumerate(above)}
        weight = dict[str, float]()
        for name in layer:
            found = [where[step.start] for step in steps if step.end == name]
            weight[name] = sum(found) / len(found) if found else len(above)
        layer.sort(key=weight.__getitem__)
    return layers, steps


def _breadth(name: str, chart: Flowchart, steps: Sequence[_Step]) -> int:
    """Return how many columns a node takes, or rows if it is drawn across; an odd number, which has a middle."""
    coming = [step for step in steps if step.end == name]
    going = sum(step.start == name for step in steps)
    if name not in chart.nodes:
        return 1
    least = 2 * max(len(coming), going) + 1
    if not chart.across:
        labels = [width_of(step.edge.label) + 2 for step in coming]
        least = max(least, width_of(chart.nodes[name]) + 4, len(coming) * max(labels, default=0) + 2)
    return max(least, 3) | 1


def _ports(
    layers: Sequence[Sequence[str]], steps: Sequence[_Step], sizes: Mapping[str, int], places: Mapping[str, int]
) -> tuple[dict[_Step, int], dict[_Step, int]]:
    """Return where each step leaves its node, and where it arrives."""
    starts, ends = dict[_Step, int](), dict[_Step, int]()

    def middle(name: str) -> float:
        return places[name] + sizes[name] / 2

    for name in (name for layer in layers for name in layer):
        going = sorted((step for step in steps if step.start == name), key=lambda step: middle(step.end))
        coming = sorted((step for step in steps if step.end == name), key=lambda step: middle(step.start))
        for found, ports in ((going, starts), (coming, ends)):
            for number, step in enumerate(found):
                ports[step] = places[name] + sizes[name] * (2 * number + 1) // (2 * len(found))
    return starts, ends


def _draw_node(grid: Grid, chart: Flowchart, name: str, place: tuple[int, int], size: tuple[int, int]) -> None:
    """Draw a box with its label, or the line that passes a layer; places and sizes are along and across the flow."""
    if name not in chart.nodes:
        grid.line(_cell(chart, *place), _cell(chart, place[0] + size[0], place[1]))
        return
    row, column = _cell(chart, *place)
    height, width = _cell(chart, *size)
    grid.box(row, column, height, width)
    label = chart.nodes[name]
    grid.text(row + height // 2, column + (width - width_of(label)) // 2, label)


def _cell(chart: Flowchart, along: int, across: int) -> tuple[int, int]:
    """Return row and column."""
    return (across, along) if chart.across else (along, across)


def _draw_steps(
    grid: Grid,
    chart: Flowchart,
    steps: Sequence[_Step],
    starts: Mapping[_Step, int],
    ends: Mapping[_Step, int],
    at: int,
) -> int | None:
    """Draw the lines between two layers; return the room that they take, None if two would run into each other."""
    bent = _in_order([step for step in steps if starts[step] != ends[step]], starts, ends)
    if bent is None:
        return None
    tails = any(step.edge.tail and step.start == step.edge.start for step in steps)
    labels = [step.edge.label for step in steps if step.edge.label and step.end == step.edge.end]
    room = max(map(width_of, labels), default=-1) + 3 if chart.across else 1
    first = at + tails
    text_at = first + max(len(bent), 1)
    end = text_at + (room if labels else 0)
    for step in steps:
        leaves, arrives, edge = starts[step], ends[step], step.edge
        track = first + bent.index(step) if step in bent else first
        grid.line(_cell(chart, at - 1, leaves), _cell(chart, track, leaves), dotted=edge.dotted)
        grid.line(_cell(chart, track, leaves), _cell(chart, track, arrives), dotted=edge.dotted)
        last = step.end == edge.end
        grid.line(
            _cell(chart, track, arrives), _cell(chart, end + (not last or not edge.head), arrives), dotted=edge.dotted
        )
        if edge.label and last:
            row, column = _cell(chart, text_at, arrives)
            size = width_of(edge.label)
            text, back = (f" {edge.label} ", 0) if chart.across else (edge.label, size // 2)
            grid.text(row, column + (room - size - 2) // 2 - back if chart.across else column - back, text)
        if edge.head and last:
            grid.text(*_cell(chart, end, arrives), "▶" if chart.across else "▼")
        if edge.tail and step.start == edge.start:
            grid.text(*_cell(chart, at, leaves), "◀" if chart.across else "▲")
    return end + 1 - at


def _in_order(bent: Sequence[_Step], starts: Mapping[_Step, int], ends: Mapping[_Step, int]) -> "list[_Step] | None":
    """Return the order of tracks in which no line comes down where another still goes; None if there is none."""
    left, found = list(bent), list[_Step]()
    while left:
        free = [step for step in left if all(starts[other] != ends[step] for other in left if other is not step)]
        if not free:
            return None
        found.append(free[0])
        left.remove(free[0])
    return found
