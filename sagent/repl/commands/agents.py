"""Commands about the agents of the tree and their jobs."""

from collections.abc import Iterable

from sagent.agent import Agent
from sagent.errors import UsageError
from sagent.peer import JobStatus
from sagent.repl.command import command
from sagent.repl.desk import Desk
from sagent.repl.lines import Line, one_line


def _others(desk: Desk) -> list[tuple[str, str]]:
    return [(one.path, one.status().state) for one in desk.opened.agent.tree.living if one.path != "root"]


def _jobs(desk: Desk) -> list[tuple[str, str]]:
    return [(job.name, f"{job.tool} {job.what}") for _, job in _all_jobs(desk) if job.state == "running"]


def _all_jobs(desk: Desk) -> Iterable[tuple[Agent, JobStatus]]:
    return [(agent, job) for agent in desk.opened.agent.tree.living for job in agent.jobs()]


def _named(desk: Desk, name: str) -> Agent:
    """One agent. Raises UsageError naming those that live."""
    root = desk.opened.agent
    found = [root] if name == root.path else list(root.peers(name))
    if len(found) == 1:
        return found[0]
    living = ", ".join(one.path for one in root.tree.living if one.path != root.path) or "none besides the root"
    many = "may be several" if found else "is none"
    raise UsageError(f"{name!r} {many} of the living agents: {living}")


@command(name="agents")
async def list_agents(desk: Desk) -> None:
    """The agents of this session's tree: state, context, cost, jobs."""
    from sagent.repl.transcript import count, money

    rows: list[Line] = []
    for agent in desk.opened.agent.tree.living:
        now = agent.status()
        depth = "  " * now.path.count("/")
        jobs = f"  {len(now.jobs)} jobs" if now.jobs else ""
        told = f"  {now.state}  {now.model}  {count(now.context_tokens)} tok  {money(now.usd_tree)}{jobs}"
        rows.append((("class:news", f"  {depth}{now.path}"), ("class:dim", told)))
    desk.write(rows)


@command(complete=_others)
async def send(desk: Desk, agent: str, text: str) -> None:
    """Send a message to an agent of the tree."""
    found = _named(desk, agent)
    found.send(text)
    desk.say(f"Sent to {found.path}")


def _stoppable(desk: Desk) -> list[tuple[str, str]]:
    return [*_others(desk), *_jobs(desk)]


@command(complete=_stoppable)
async def stop(desk: Desk, name: str = "") -> None:
    """Stop an agent's turn, or a job, by name; without one the turn in progress."""
    root = desk.opened.agent
    if not name:
        root.interrupt()
        return
    for agent, job in _all_jobs(desk):
        if job.name == name and job.state == "running":
            await agent.cancel_job(name)
            desk.say(f"{name} was stopped")
            return
    found = _named(desk, name)
    found.interrupt()
    desk.say(f"{found.path} was interrupted")


@command(name="tasks")
async def list_tasks(desk: Desk) -> None:
    """Calls in the background, those that have ended included."""
    from sagent.repl.transcript import duration

    rows: list[Line] = []
    for agent, job in _all_jobs(desk):
        who = "" if agent.path == "root" else f"{agent.path} "
        style = {"running": "class:working", "done": "class:done"}.get(job.state, "class:failed")
        told = f"  {duration(job.seconds)}  {job.tool} {one_line(job.what)}"
        rows.append((("class:news", f"  {who}{job.name} "), (style, job.state), ("class:dim", told)))
    desk.write(rows or [(("class:dim", "  nothing in the background"),)])


@command(complete=_jobs)
async def detach(desk: Desk, job: str) -> None:
    """Let a job outlive this session, and say where its output goes."""
    for agent, one in _all_jobs(desk):
        if one.name == job:
            desk.say(agent.detach_job(job))
            return
    running = ", ".join(name for name, _ in _jobs(desk)) or "none"
    raise UsageError(f"There is no job {job!r}; running: {running}")
