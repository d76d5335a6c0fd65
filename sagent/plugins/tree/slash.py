"""Commands about the agents of the tree and their jobs."""

from collections.abc import Iterable
from typing import Annotated

from sagent.errors import UsageError
from sagent.lib.figures import count, duration, money
from sagent.messages import user
from sagent.peer import JobStatus
from sagent.repl.commands.command import CommandContext, command
from sagent.repl.root import TreeAgent
from sagent.repl.terminal.picker import Option
from sagent.repl.view.lines import Span, one_line, table


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


@command(name="agents")
async def list_agents(context: CommandContext) -> None:
    """Show the agents of this session's tree."""
    rows: list[list[Span]] = []
    waits: list[str] = []
    for now in (agent.status() for agent in context.opened.agent.tree.living):
        waits += [f"{now.path}: {now.waits}"] if now.waits else []
        figures = [
            "waits for money" if now.waits else now.state,
            now.model,
            f"{count(now.context_tokens)} tok",
            money(now.usd_tree),
        ]
        figures += [f"{len(now.jobs)} jobs"] if now.jobs else []
        path = "  " * now.path.count("/") + now.path
        rows.append([("class:news", path), *(("class:dim", figure) for figure in figures)])
    context.write(table(rows))
    for words in waits:
        context.say(words)


@command(complete=lambda context: [*_others(context), ("root", "back")])
async def enter(context: CommandContext, agent: str = "") -> None:
    """Follow an agent's work, and talk to it.

    Your input goes to that agent, and Esc interrupts it; Esc again, or /enter root, goes back.
    """
    if not agent:
        options = [Option(one.path, one.path, one.status().state) for one in context.opened.agent.tree.living]
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
