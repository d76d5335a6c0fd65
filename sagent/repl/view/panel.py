"""The activity panel above the input and the status line below it, as lines. Pure."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from decimal import Decimal
from typing import TypeAlias

from sagent.context.todo import State, Task
from sagent.events import Retrying
from sagent.lib.dataclass import dataclass
from sagent.lib.figures import bill, count, duration, money
from sagent.repl.view.calls import argument_line
from sagent.repl.view.lines import Line, Span, cut, cut_line, line_width, one_line, printable, wrap
from sagent.repl.view.view import ROOT, Child, Consulting, Running, View, child_of
from sagent.usage import Cost

MAX_TAIL_LINES = 5  # of a command's output
MAX_THOUGHT_LINES = 4
MAX_CHILDREN = 10
MAX_QUEUED = 5
MAX_TASK_LINES = 7  # on a screen that is not small
MIN_DOING_COLUMNS = 16  # for an agent's activity, before figures are left out
MIN_COLUMNS = 5  # for an argument or message
MIN_NAME_COLUMNS = 8  # for a model's name, before more is left out
_MODEL, _COST = "model", "cost"
_LEAVING = ("branch", "shares", "advisor", "jobs", "context", _COST, _MODEL, "vi", "mode")  # in order of removal
_SANDBOXED: Line = (("class:mode", "sandboxed"),)  # the usual state, which makes room for the cost
_STEPS: Mapping[State, tuple[str, str]] = {  # marks and styles of to-do items
    "pending": ("☐", "class:dim"),
    "in_progress": ("▸", "class:working"),
    "completed": ("☑", "class:done"),
}
_MARKS = {
    "working": ("◌", "class:working"),
    "asks": ("?", "class:ask"),
    "waits for money": ("◌", "class:ask"),
    "done": ("●", "class:done"),
    "stopped": ("✗", "class:failed"),
    "failed": ("✗", "class:failed"),
}
_FAILURES = {
    "rate_limit": "Rate limited",
    "overloaded": "Overloaded",
    "server": "Server error",
    "network": "No connection",
    "stalled": "No answer",
    "cut": "The reply broke off",
    "empty": "An empty reply",
}
_RANKS = ("asks", "waits for money", "working", "failed", "stopped", "done")


@dataclass(frozen=True, slots=True)
class Queued:
    """A message that was not read yet: sent, to be read before the next model call, or kept for the end of the turn."""

    text: str
    sent: bool
    to: str = ROOT


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of the status line. `context` and `window` are tokens; None if unknown."""

    model: str = ""
    effort: str = ""
    advisor: str = ""
    context: int = 0
    window: int | None = None
    cost: Cost | None = None
    jobs: int = 0
    mode: str = ""
    branch: str = ""
    place: str = ""  # of a session that does not run here
    changed: int = 0  # files changed since the last commit
    note: str = ""  # shown while there is no model
    sandboxed: bool | None = None
    vi: str = ""  # the mode of vi keys


Segment: TypeAlias = Callable[[Figures], Line]
"""A part of the status line; an empty line is left out."""


@dataclass(frozen=True, slots=True)
class PanelContext:
    """Facts for the panel that events lack: USD by agent from the ledger, because a call may be billed after its reply;
    agents that wait for the person, and those `short` of money; the agent that the person follows; and whether an open
    list has `taken` the keys."""

    spent: Mapping[str, Decimal] = field(default_factory=dict[str, Decimal])
    asking: Collection[str] = ()
    short: Collection[str] = ()
    near: str = ROOT
    taken: bool = False


def render_panel(
    view: View, queue: Sequence[Queued], at: float, width: int, height: int, around: PanelContext | None = None
) -> list[Line]:
    """Render the activities in at most `height` lines, shared between agents and everything else."""
    tail, thought = (MAX_TAIL_LINES, MAX_THOUGHT_LINES) if height > 12 else (2, 2)
    around = around or PanelContext()
    running = [call for call in view.running.values() if call.agent == ROOT or call.agent not in view.children]
    running = [call for call in running if child_of(call.agent, call.call) not in view.children]
    parts = [
        *(line for call in running for line in _running(call, at, width, tail)),
        *(line for call in view.shells for line in _running(call, at, width, tail, idle=view.since is None)),
        *(_waiting(wait, until - at, width) for wait, until in view.waiting.values()),
        *(line for one in view.consulting.values() for line in _consulting(one, at, width, tail)),
        *((("class:thinking", f"  {line}"),) for line in _tail(view.thinking, width - 2, thought)),
    ]
    queued = list(_queued(queue, width, idle=view.since is None))
    working = [_working(view, at, width, around)] if view.since is not None else []
    tasks = list(_tasks(view.tasks, width, MAX_TASK_LINES if height > 12 else 1)) if working else []
    room = max(height - len(queued) - len(working) - len(tasks), 0)
    agents = _children(view, at, width, around, max(room - min(len(parts), room // 3), 1))
    return [*agents, *parts[: max(room - len(agents), 0)], *tasks, *working, *queued][:height]


def _tasks(tasks: Sequence[Task], width: int, limit: int) -> Iterator[Line]:
    """Render the tasks while some are left: how many are done, then those near the step in progress."""
    done = sum(task.state == "completed" for task in tasks)
    if done == len(tasks):
        return
    now = next(at for state in ("in_progress", "pending") for at, task in enumerate(tasks) if task.state == state)
    head = f"{done} of {len(tasks)} done"
    if limit == 1:
        yield cut_line((("class:dim", f"  {head} "), *_task(tasks[now])), width)
        return
    rows = min(limit - 1, len(tasks))
    first = min(max(now - rows // 3, 0), len(tasks) - rows)
    yield cut_line((("class:dim", f"  {head}{'' if rows == len(tasks) else f', {rows} shown'}"),), width)
    for task in tasks[first : first + rows]:
        yield cut_line((("", "  "), *_task(task)), width)


def _task(task: Task) -> Line:
    mark, style = _STEPS[task.state]
    shown = "class:said" if task.state == "in_progress" else "class:dim"
    return (style, f"{mark} "), (shown, one_line(task.text))


def _working(view: View, at: float, width: int, around: PanelContext) -> Line:
    assert view.since is not None
    if ROOT in around.asking:
        doing = "Waiting for you"
    elif view.waiting:
        doing = "Waiting for the provider"
    elif view.consulting:
        doing = "Consulting"
    elif any(not call.job and call.agent == ROOT for call in view.running.values()):
        doing = "Running"
    elif view.thinking:
        doing = "Thinking"
    elif view.flow.pending or view.flow.begun:
        doing = "Writing"
    elif view.said and any(child.state == "working" for child in view.children.values()):
        doing = "Waiting for agents"
    elif view.said and view.jobs:
        doing = "Waiting for jobs"
    else:
        doing = "Working"
    waits_for = view.waits_for.get(ROOT) or view.waits_for.get("")
    doing = waits_for if waits_for and doing == "Working" else doing
    clock = "" if doing.endswith(" s") else f" {_clock(at - view.since)}"  # it may have a clock of its own
    line: Line = (("class:working", f"◌ {doing}"), ("class:dim", clock))
    for hint in () if around.taken else _hints(view, around.near):
        longer = (*line, ("class:dim", f" · {hint}"))
        line = longer if line_width(longer) <= width else line
    return cut_line(line, width)


def _hints(view: View, near: str) -> Iterator[str]:
    busy = [path for path, child in view.children.items() if child.state == "working"]
    if near != ROOT:
        yield f"Esc interrupts {near.rpartition('/')[2]}" if near in busy else "Esc goes back"
    else:
        yield "Esc interrupts all" if busy else "Esc interrupts"
    if busy:
        yield "↓ agents"


def _clock(seconds: float) -> str:
    """Return a running time that changes once a second."""
    return duration(max(10.0, float(int(seconds)))) if seconds >= 10 else f"{int(seconds)} s"


def _running(call: Running, at: float, width: int, tail: int, *, idle: bool = False) -> Iterator[Line]:
    who = "" if call.agent == ROOT else f"{call.agent} "
    job = f"{call.job} " if call.job else ""
    took = f" {_clock(at - call.since)}{' · Esc stops' if idle else ''}"
    room = width - len(who + job + call.call.name + took) - 4
    short = argument_line(call.call, room) if room >= MIN_COLUMNS else ""
    head: Line = (("class:working", "◌ "), ("class:news", who + job), ("class:tool", call.call.name))
    yield cut_line((*head, ("class:argument", f" {short}" if short else ""), ("class:dim", took)), width)
    lines = [line for line in printable(call.tail).rstrip("\n").split("\n") if line.strip()]
    for line in lines[-1 if call.job else -tail :]:
        yield (("class:dim", "  │ "), ("class:output", cut(line, width - 4)))


def _children(view: View, at: float, width: int, around: PanelContext, limit: int) -> list[Line]:
    """Return the tree in at most so many lines. If not all fit, agents that ask or work precede ended ones, and the
    rest is counted."""
    children = [
        replace(child, state=_state(child, around), doing=view.waits_for.get(child.path) or child.doing)
        if child.state == "working"
        else child
        for _, child in sorted(view.children.items())
    ]
    if (left := len(children) - min(limit, MAX_CHILDREN)) > 0:
        left += limit <= MAX_CHILDREN  # the line that counts them takes one
        ranked = sorted(children, key=lambda child: _RANKS.index(child.state))
        children = [child for child in children if child in ranked[:-left]]
    rows = [_row(child, at, around) for child in children]
    counted: Line = (("class:dim", f"  … {left} more agent{'s' if left > 1 else ''}"),)
    return [*_columns(rows, width), *([counted] if left > 0 else ())]


def _state(child: Child, around: PanelContext) -> str:
    if child.path in around.asking:
        return "asks"
    return "waits for money" if child.path in around.short else "working"


def _row(child: Child, at: float, around: PanelContext) -> tuple[Line, Sequence[str], str]:
    """Return an agent's name; its state, tokens, USD and clock; and its current activity."""
    indent, name = "  " * child.path.count("/"), child.path.rpartition("/")[2]
    mark, style = _MARKS[child.state]
    who = "class:chosen" if child.path == around.near else "class:news"
    clock = _clock(at - child.since) if child.state in ("asks", "waits for money", "working") else ""
    spent = around.spent.get(child.path) or child.usd
    tokens = f"{count(child.tokens)} tok" if child.tokens else ""  # a reply that was cut short reports no tokens
    usd = money(spent) if tokens or spent else ""
    return (("", indent), (style, f"{mark} "), (who, name)), (child.state, tokens, usd, clock), child.doing


def _columns(rows: Sequence[tuple[Line, Sequence[str], str]], width: int) -> Iterator[Line]:
    """Yield the rows, aligned. With little room the clock is left out first, then the tokens, then the state, which the
    mark shows too."""
    longest = max((line_width(who) for who, _, _ in rows), default=0)
    sizes = [max((len(row[1][number]) for row in rows), default=0) for number in range(4)]
    least = MIN_DOING_COLUMNS if any(doing for _, _, doing in rows) else 0
    shown = [number for number in range(4) if sizes[number]]
    for number in (3, 1, 0):
        if number in shown and longest + sum(sizes[each] + 2 for each in shown) + least > width:
            shown.remove(number)
    for who, figures, doing in rows:
        row = "".join(f"  {figures[each]:{'<' if not each else '>'}{sizes[each]}}" for each in shown)
        row = row if doing else row.rstrip()
        line: Line = (*who, ("class:dim", " " * (longest - line_width(who)) + row))
        yield cut_line((*line, ("class:argument", f"  {one_line(doing)}" if doing else "")), width)


def _waiting(wait: Retrying, left: float, width: int) -> Line:
    when = f"again in {left:.0f} s" if left >= 0.5 else "trying again"
    who = "" if wait.agent == ROOT else f"{wait.agent}: "
    status = re.search(r"\(HTTP (\d+)\)", wait.reason)
    what = _FAILURES.get(wait.kind, "The call failed") + (f" ({status[1]})" if status else "")
    rest = f" · Esc stops · attempt {wait.attempt + 1}: {one_line(wait.reason.partition(': ')[2] or wait.reason)}"
    return cut_line((("class:warning", f"… {who}{what}, {when}"), ("class:dim", rest)), width)


def _consulting(consultation: Consulting, at: float, width: int, tail: int) -> Iterator[Line]:
    who = "" if consultation.agent == ROOT else f" for {consultation.agent}"
    who_asked = f"{who}, {consultation.trigger} {_clock(at - consultation.since)}"
    yield cut_line((("class:advice", f"◆ {consultation.advisor}"), ("class:dim", who_asked)), width)
    for line in _tail(consultation.text, width - 4, tail):
        yield (("class:advice", "  │ "), ("class:thinking", line))


def _tail(text: str, width: int, limit: int) -> list[str]:
    """Return the last lines of a text that grows, folded."""
    lines = wrap([("", printable(text[-4 * width * limit :]).strip())], max(width, 8))
    return ["".join(part for _, part in line) for line in lines if line][-limit:]


def _queued(queue: Sequence[Queued], width: int, *, idle: bool) -> Iterator[Line]:
    for message in queue[:MAX_QUEUED]:
        kept = "not sent · Up takes it back" if idle else "when idle · Up edits"
        to = "" if message.to == ROOT else f" to {message.to.rpartition('/')[2]}"
        when = f"sent{to}, not read yet" if message.sent else kept
        room = width - len(when) - 6
        text, when = (cut(one_line(message.text), room), f"  {when}") if room >= MIN_COLUMNS else (message.text, "")
        yield cut_line((("class:mark", "▸ "), ("class:queued", one_line(text)), ("class:dim", when)), width)
    if len(queue) > MAX_QUEUED:
        yield (("class:dim", f"  … and {len(queue) - MAX_QUEUED} more"),)


# ----------------------------------------------------------------------------------------------------------------------
# The status line


def render_status(figures: Figures, width: int, segments: Mapping[str, Segment], parts: Sequence[str] = ()) -> Line:
    """Return the status line: all `segments`, or the named `parts` in their order. If they do not fit, the least
    important, or last named, are left out first, and the model's name is cut before the last ones."""
    shown = {name: show(figures) for name, show in segments.items() if not parts or name in parts}
    if figures.vi:
        shown = {"vi": (("class:mode", figures.vi.upper()),), **shown}
    found = {name: shown[name] for name in (("vi", *parts) if parts else shown) if shown.get(name)}
    own = [name for name in found if name not in _LEAVING]
    leaving = [name for name in ((*parts[::-1], "vi") if parts else (*own[::-1], *_LEAVING)) if name in found]
    while found and (over := sum(map(line_width, found.values())) + 3 * (len(found) - 1) - width) > 0:
        last = leaving[0]
        if last in (_MODEL, _COST) and (left := line_width(found.get(_MODEL, ())) - over) >= MIN_NAME_COLUMNS:
            found[_MODEL] = cut_line(found[_MODEL], left)
        elif last == _COST and found.get("mode", ())[2:] == _SANDBOXED:
            found["mode"] = found["mode"][:1]
        elif len(found) == 1:
            found[last] = cut_line(found[last], width)
        else:
            del found[last], leaving[:1]
    line: list[Span] = []
    for number, spans in enumerate(found.values()):
        line += [("class:dim", " │ ")] if number else []
        line += spans
    return tuple(line)


def show_model(figures: Figures) -> Line:
    """Return the model and its effort, or a note if there is none."""
    if figures.note:
        return (("class:status", figures.note),)
    if not figures.model:
        return ()
    effort: Line = (("class:dim", f" {figures.effort}"),) if figures.effort else ()
    return (("class:status", figures.model.partition("/")[2] or figures.model), *effort)


def show_advisor(figures: Figures) -> Line:
    """Return the advisors."""
    return (("class:advice", f"◆ {figures.advisor}"),) if figures.advisor else ()


def show_context(figures: Figures) -> Line:
    """Return how full the context is."""
    return _context(figures) if figures.context else ()


def show_cost(figures: Figures) -> Line:
    """Return the session's cost."""
    return () if figures.cost is None else (("class:status", cost_line(figures.cost)),)


def show_shares(figures: Figures) -> Line:
    """Return the cost by role."""
    return () if figures.cost is None else _shares(figures.cost)


def show_jobs(figures: Figures) -> Line:
    """Return how many jobs are running."""
    return (("class:working", f"{figures.jobs} job{'s' if figures.jobs > 1 else ''}"),) if figures.jobs else ()


def show_mode(figures: Figures) -> Line:
    """Return the permission mode, and the state of the sandbox."""
    return (("class:mode", figures.mode), *_held(figures)) if figures.mode else ()


def show_branch(figures: Figures) -> Line:
    """Return the checked-out branch, or the place where the session runs."""
    if figures.place:
        return (("class:dim", figures.place),)
    changed = f" ±{figures.changed}" if figures.changed else ""
    return (("class:dim", f"⎇ {figures.branch}{changed}"),) if figures.branch else ()


def _held(figures: Figures) -> Line:
    """Describe the sandbox, if it is known."""
    if figures.sandboxed is None:
        return ()
    return (("class:dim", " · "), _SANDBOXED[0] if figures.sandboxed else ("class:warning", "no sandbox"))


def _context(figures: Figures) -> Line:
    if not figures.window:
        return (("class:status", f"{count(figures.context)} tok"),)
    share = min(figures.context / figures.window, 1.0)
    style = "class:failed" if share > 0.9 else "class:warning" if share > 0.7 else "class:status"
    full = round(share * 8)
    return ((style, "▰" * full), ("class:dim", "▱" * (8 - full)), (style, f" {share:.0%}"))


def cost_line(cost: Cost) -> str:
    """Render the spending, and what it lacks."""
    return bill(cost.total, cost.unbilled, least=bool(cost.unpriced))


def _shares(cost: Cost) -> Line:
    """Render the spending by role, unless it is the first agent's executor alone: shares that add up to the shown
    total, and the share of the agents below."""
    below = sum((usd for path, usd in cost.by_agent.items() if path != ROOT), Decimal(0))
    parts = {"executor": cost.executor, "advisor": cost.advisor, "other": cost.other}
    parts = {name: usd for name, usd in parts.items() if usd}
    step = Decimal("0.0001") if cost.total < 1 else Decimal("0.01")
    shares = [f"{name} ${usd}" for name, usd in _rounded(cost.total, parts, step).items()] if len(parts) > 1 else []
    of_it = [f"{'of it ' if shares else ''}agents ${below.quantize(step)}"] if below else []
    return (("class:dim", ", ".join(filter(None, (" + ".join(shares), *of_it)))),) if shares or of_it else ()


def _rounded(total: Decimal, parts: Mapping[str, Decimal], step: Decimal) -> dict[str, Decimal]:
    """Return the parts rounded so that they add up to the rounded total: the largest takes the difference."""
    found = {name: usd.quantize(step) for name, usd in parts.items()}
    found[max(parts, key=lambda name: parts[name])] += total.quantize(step) - sum(found.values())
    return found


def short_advisors(named: str) -> str:
    """Shorten advisors for the status line, from "advisor=openai/gpt-5.5 (off), second=x/y" to "gpt-5.5 off, y"."""
    found: list[str] = []
    for one in named.split(", "):
        model = one.removesuffix(" (off)").partition("=")[2].partition(",")[0] or one
        found.append(f"{model.partition('/')[2] or model}{' off' if one.endswith(' (off)') else ''}")
    return ", ".join(found)
