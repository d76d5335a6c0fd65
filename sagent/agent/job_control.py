"""What may be done with an agent's calls in the background. Each function raises UsageError for a job there is not."""

import asyncio
import time

from sagent.engine.jobs import Job, Jobs
from sagent.engine.state import AgentState
from sagent.errors import ToolError, UsageError
from sagent.messages import Text
from sagent.peer import JobStatus
from sagent.tool import ToolOutput


def output_of(jobs: Jobs, name: str) -> str:
    """A job's result, or the end of what it has shown so far."""
    job = _named(jobs, name)
    if job.output is None:
        return job.tail
    return "".join(part.text for part in job.output.content if isinstance(part, Text))


async def wait_for(state: AgentState, name: str, seconds: float | None) -> JobStatus:
    """How a job stands when it has ended, the time is over or a message has arrived."""
    job = _named(state.jobs, name)
    if not job.task.done():
        arrival = asyncio.create_task(state.inbox.arrival("now"))
        try:
            await asyncio.wait([job.task, arrival], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            arrival.cancel()
    return job.status()


async def cancel(jobs: Jobs, name: str) -> JobStatus:
    """Stop a job; the end of what it showed is kept."""
    job = _named(jobs, name)
    if not job.task.done():
        job.task.cancel()
        await asyncio.wait([job.task])
    return job.status()


def detach(state: AgentState, name: str) -> str:
    """Let a running job go, wake those who wait for it, and say where its output goes. Raises UsageError where its tool
    cannot."""
    job = _named(state.jobs, name)
    if job.state != "running" or job.ongoing.let_go is None:
        raise UsageError(f"{job.name} ({job.call.name}, {job.state}) cannot outlive this process.")
    try:
        where = job.ongoing.let_go()
    except ToolError as error:
        raise UsageError(f"{job.name} was not let go, and goes on as it was: {error}") from error
    text = f"{job.name} is detached and goes on by itself, also after this session: {where}"
    job.state, job.output, job.ended = "detached", ToolOutput.of(text, summary="detached"), time.monotonic()
    state.inbox.nudge("next")
    state.neighbours.wake_above()
    return text


def _named(jobs: Jobs, name: str) -> Job:
    if job := jobs.named(name):
        return job
    raise UsageError(f"There is no {name!r}. The jobs are: {', '.join(job.name for job in jobs.all()) or 'none'}.")
