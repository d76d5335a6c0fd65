"""Commands about the agents of the tree and their jobs."""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from sagent.errors import SagentError, UsageError
from sagent.lib.figures import count, duration, money
from sagent.lib.money import ZERO
from sagent.lib.text import cut
from sagent.messages import user
from sagent.peer import JobStatus, Status
from sagent.repl.commands.command import CommandContext, command
from sagent.repl.root import RootAgent, TreeAgent
from sagent.repl.terminal.picker import Option
from sagent.repl.view.lines import Line, Span, one_line, table
from sagent.session.contents import MessageEntry
from sagent.session.log import read_log
from sagent.session.names import log_file
from sagent.usage import Sum


def _others(context: CommandContext) -> list[tuple[str, str]]:
    return [(one.path, one.status().state) for one in context.opened.agent.tree.living if one.path != "root"]


def _jobs(context: CommandContext) -> list[tuple[str, str]]:
    return [(job.name, f"{job.tool} {job.what}") for _, job in _all_jobs(context) if job.state == "running"]


def _all_jobs(context: CommandContext) -> Iterable[tuple[TreeAgent, JobStatus]]:
    return [(agent, job) for agent in context.opened.agent.tree.living for job in agent.jobs()]


def _named(context: CommandContext, name: str) -> TreeAgent:
    """Return one agent. Raises UsageError with the names of all agents."""
    root = context.opened.agent
    found: list[TreeAgent] = [root] if name == root.path else list(root.peers(name))
    if len(found) == 1:
        return found[0]
    living = ", ".join(one.path for one in root.tree.living if one.path != root.path)
    if not living:
        raise UsageError(f"There is no agent {name!r}: only root is running.")
    wrong = f"{name!r} fits more than one agent" if found else f"There is no agent {name!r} now"
    raise UsageError(f"{wrong}; there are: {living}")


@command(
    name="agents",
    complete=lambda context: [
        ("cost", "the dearest first"),
        ("state", "those that wait or work first"),
        ("report", "who did what for how much"),
        *_others(context),
    ],
)
async def list_agents(context: CommandContext, text: Annotated[str, "cost|state|report|words"] = "") -> None:
    """Show the agents of this session's tree.

    Of many, those that wait or work come first. Words choose the agents that have them in their path, model or state;
    report also names those that have ended, with their tasks and what each cost.
    """
    if text == "report":
        context.write(report_lines(context.opened.agent))
        return
    every = [agent.status() for agent in context.opened.agent.tree.living]
    order = text if text in ("cost", "state") else ""
    words = [] if order else text.lower().split()
    found = [now for now in every if all(word in f"{now.path} {now.model} {_state(now)}".lower() for word in words)]
    if words and not found:
        raise UsageError(f"None of the {len(every)} agents has {text!r} in its path, model or state.")
    many = len(found) > MAX_LISTED and not words
    if order == "cost":
        found.sort(key=lambda now: -now.usd)
    elif order == "state" or many:
        found.sort(key=lambda now: (_STATES.index(_state(now)), -now.usd))
    shown = found[:MAX_LISTED]
    if len(every) > len(shown) or many or words:
        context.write([(("class:news", f"  {_summary(every)}"),)])
    context.write(table(_row(now, indent=not (order or many)) for now in shown))
    if len(found) > len(shown):
        context.say(f"{len(found) - len(shown)} more: /agents WORDS, /agents cost, /agents state, /agents report")
    for now in shown:
        if now.waits:
            context.say(f"{now.path}: {now.waits}")


MAX_LISTED = 40  # agents
_STATES = ("waits for money", "working", "idle", "ended")


def _state(now: Status) -> str:
    return "waits for money" if now.waits else now.state


def _summary(every: Sequence[Status]) -> str:
    """Return how many agents there are, in which states, and what they cost."""
    states = Counter(map(_state, every))
    counts = ", ".join(f"{states[state]} {state}" for state in _STATES if states[state])
    return f"{len(every)} agents: {counts}; {money(sum((now.usd for now in every), ZERO))}"


def _row(now: Status, *, indent: bool) -> list[Span]:
    cost = money(now.usd_tree if indent else now.usd)
    figures = [_state(now), now.model, f"{count(now.context_tokens)} tok", cost]
    figures += [f"{len(now.jobs)} jobs"] if now.jobs else []
    path = "  " * now.path.count("/") * indent + now.path
    return [("class:news", path), *(("class:dim", figure) for figure in figures)]


def report_lines(root: RootAgent) -> list[Line]:
    """Return who did what for how much, the dearest first: also agents that have ended."""
    totals, living = root.ledger.totals(), {agent.path: agent.status() for agent in root.tree.living}
    paths = sorted({*totals.by_agent, *living}, key=lambda path: (-totals.by_agent.get(path, Sum()).usd, path))
    rows: list[list[Span]] = []
    for path in paths:
        spent = totals.by_agent.get(path, Sum())
        state = _state(living[path]) if path in living else "ended"
        figures = [state, f"{spent.charges} call{'s' * (spent.charges != 1)}", f"{count(spent.usage.total_input)} in",
                   f"{count(spent.usage.output)} out", f"{'≥ ' if spent.unpriced else ''}{money(spent.usd)}",
                   cut(one_line(_task(root, path)), MAX_TASK_CHARS)]  # fmt: skip
        rows.append([("class:news", path), *(("class:dim", figure) for figure in figures)])
    whole = totals.whole
    end = f"  {len(paths)} agents, {whole.charges} calls: {'≥ ' if whole.unpriced else ''}{money(whole.usd)}"
    return [*table(rows, right=(2, 3, 4, 5)), (("class:news", end),)]


MAX_TASK_CHARS = 60
_TASK = "\n\nYour task:\n"  # what a child's first message has before its task


def _task(root: RootAgent, path: str) -> str:
    """Return an agent's task: its first message in its log or, if nothing is saved, in its conversation."""
    said = ""
    with suppress(OSError, SagentError):
        if root.log.path:
            entries = (entry.content for entry in read_log(log_file(Path(root.log.path), path)))
            said = next((each.message.text for each in entries if isinstance(each, MessageEntry)), "")
        elif (agent := root.tree.get(path)) is not None and agent.messages:
            said = agent.messages[0].content
    return said.partition(_TASK)[2] or said


@command(complete=lambda context: [*_others(context), ("root", "back")])
async def enter(context: CommandContext, agent: str = "") -> None:
    """Follow an agent's work, and talk to it.

    Your input goes to that agent, and Esc interrupts it; Esc again, or /enter root, goes back.
    """
    if not agent:
        known = sorted(
            (one.status() for one in context.opened.agent.tree.living), key=lambda now: _STATES.index(_state(now))
        )
        options = [Option(now.path, now.path, f"{_state(now)} {money(now.usd)}") for now in known]
        agent = await context.pick("Which agent?", options) or ""
    if agent:
        context.enter(_named(context, agent).path)


@command(complete=_others)
async def send(context: CommandContext, agent: str, text: Annotated[str, "message"]) -> None:
    """Send a message to an agent."""
    found = _named(context, agent)
    found.send(user(text))
    context.say(f"Sent to {found.path}")


@command(complete=lambda context: [*_others(context), *_jobs(context)])
async def stop(context: CommandContext, name: str = "") -> None:
    """Stop the turn, an agent or a job.

    Without a name, it stops the turn in progress.
    """
    root = context.opened.agent
    if not name:
        if not root.running:
            raise UsageError("No turn is in progress; /tasks lists what runs in the background.")
        root.interrupt()
        return
    for agent, job in _all_jobs(context):
        if job.name == name and job.state == "running":
            await agent.cancel_job(name)
            context.say(f"{name} was stopped")
            return
    found = _named(context, name)
    found.interrupt()
    context.say(f"{found.path} was interrupted")


@command(name="tasks")
async def list_tasks(context: CommandContext) -> None:
    """List the calls in the background.

    Ended ones are included.
    """
    rows: list[list[Span]] = []
    for agent, job in _all_jobs(context):
        who = "" if agent.path == "root" else f"{agent.path} "
        style = {"running": "class:working", "done": "class:done"}.get(job.state, "class:failed")
        what = ("class:dim", f"{job.tool} {one_line(job.what)}")
        rows.append(
            [("class:news", f"{who}{job.name}"), (style, job.state), ("class:dim", duration(job.seconds)), what]
        )
    context.write(table(rows or [[("class:dim", "no background jobs")]]))


@command(complete=_jobs, here=True)
async def detach(context: CommandContext, job: str) -> None:
    """Let a background job continue after this session.

    It prints the path of the output.
    """
    for agent, one in _all_jobs(context):
        if one.name == job:
            context.say(await agent.detach_job(job))
            return
    running = ", ".join(name for name, _ in _jobs(context)) or "none"
    raise UsageError(f"There is no job {job!r}; running: {running}")
