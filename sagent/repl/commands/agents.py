"""Commands about the agents of the tree and their jobs."""

from collections.abc import Iterable

from sagent.agent import Agent
from sagent.errors import UsageError
from sagent.peer import JobStatus
from sagent.repl.commands.command import command
from sagent.repl.commands.context import CommandContext
from sagent.repl.view.lines import Line, one_line


def _others(context: CommandContext) -> list[tuple[str, str]]:
    return [(one.path, one.status().state) for one in context.opened.agent.tree.living if one.path != "root"]


def _jobs(context: CommandContext) -> list[tuple[str, str]]:
    return [(job.name, f"{job.tool} {job.what}") for _, job in _all_jobs(context) if job.state == "running"]


def _all_jobs(context: CommandContext) -> Iterable[tuple[Agent, JobStatus]]:
    return [(agent, job) for agent in context.opened.agent.tree.living for job in agent.jobs()]


def _named(context: CommandContext, name: str) -> Agent:
    """One agent. Raises UsageError naming those that live."""
    root = context.opened.agent
    found = [root] if name == root.path else list(root.peers(name))
    if len(found) == 1:
        return found[0]
    living = ", ".join(one.path for one in root.tree.living if one.path != root.path) or "none besides the root"
    many = "may be several" if found else "is none"
    raise UsageError(f"{name!r} {many} of the living agents: {living}")


@command(name="agents")
async def list_agents(context: CommandContext) -> None:
    """The agents of this session's tree: state, context, cost, jobs."""
    from sagent.repl.view.transcript import count, money

    rows: list[Line] = []
    for agent in context.opened.agent.tree.living:
        now = agent.status()
        depth = "  " * now.path.count("/")
        jobs = f"  {len(now.jobs)} jobs" if now.jobs else ""
        told = f"  {now.state}  {now.model}  {count(now.context_tokens)} tok  {money(now.usd_tree)}{jobs}"
        rows.append((("class:news", f"  {depth}{now.path}"), ("class:dim", told)))
    context.write(rows)


@command(complete=_others)
async def send(context: CommandContext, agent: str, text: str) -> None:
    """Send a message to an agent of the tree."""
    found = _named(context, agent)
    found.send(text)
    context.say(f"Sent to {found.path}")


def _stoppable(context: CommandContext) -> list[tuple[str, str]]:
    return [*_others(context), *_jobs(context)]


@command(complete=_stoppable)
async def stop(context: CommandContext, name: str = "") -> None:
    """Stop an agent's turn, or a job, by name; without one the turn in progress."""
    root = context.opened.agent
    if not name:
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
    """Calls in the background, those that have ended included."""
    from sagent.repl.view.transcript import duration

    rows: list[Line] = []
    for agent, job in _all_jobs(context):
        who = "" if agent.path == "root" else f"{agent.path} "
        style = {"running": "class:working", "done": "class:done"}.get(job.state, "class:failed")
        told = f"  {duration(job.seconds)}  {job.tool} {one_line(job.what)}"
        rows.append((("class:news", f"  {who}{job.name} "), (style, job.state), ("class:dim", told)))
    context.write(rows or [(("class:dim", "  nothing in the background"),)])


@command(complete=_jobs)
async def detach(context: CommandContext, job: str) -> None:
    """Let a job outlive this session, and say where its output goes."""
    for agent, one in _all_jobs(context):
        if one.name == job:
            context.say(agent.detach_job(job))
            return
    running = ", ".join(name for name, _ in _jobs(context)) or "none"
    raise UsageError(f"There is no job {job!r}; running: {running}")
