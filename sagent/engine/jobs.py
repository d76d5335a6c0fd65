"""Background calls: they are answered at once with the name of a job, and their result arrives later as a message."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import field
from weakref import WeakKeyDictionary

from sagent.lib.dataclass import dataclass
from sagent.lib.text import main_argument, one_line
from sagent.messages import Message, Text, ToolCall, user
from sagent.peer import JobState, JobStatus
from sagent.session.contents import JobEntry
from sagent.tool import ToolOutput


@dataclass(slots=True)
class Ongoing:
    """A running call, whether it is a job or not: its latest output, and how to detach it if that is possible."""

    tail: str = ""
    detach: Callable[[], str] | None = None  # has it outlive this process; says where its output goes


@dataclass(slots=True)
class Job:
    """One call in the background."""

    name: str
    call: ToolCall
    task: asyncio.Task[None]
    ongoing: Ongoing
    state: JobState = "running"
    started: float = field(default_factory=time.monotonic)
    ended: float = 0.0
    output: ToolOutput | None = None

    @property
    def what(self) -> str:
        """The main argument of its call, in one line."""
        return one_line(main_argument(self.call.arguments), 80)

    def status(self) -> JobStatus:
        """Its current state."""
        seconds = (self.ended or time.monotonic()) - self.started
        return JobStatus(self.name, self.call.name, self.what, self.state, round(seconds, 1))

    def entry(self) -> JobEntry:
        """Its log entry: that it began, or how it ended."""
        return JobEntry(self.name, self.call.id, self.call.name, self.state)


class Jobs:
    """An agent's jobs, including those that have ended. A name is never used twice in a session."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._ongoing: WeakKeyDictionary[asyncio.Task[None], Ongoing] = WeakKeyDictionary()
        self.stopping = False  # all are ended, and nobody asked for that one by one
        self.last = 0  # number of the latest; a resumed session goes on from there

    def begin(self, call: ToolCall, task: asyncio.Task[None]) -> Job:
        """A call's task becomes a job."""
        self.last += 1
        job = Job(f"job:{self.last}", call, task, self.ongoing(task))
        self._jobs[job.name] = job
        return job

    def ongoing(self, task: asyncio.Task[None]) -> Ongoing:
        """The state of a running call, by its task."""
        return self._ongoing.setdefault(task, Ongoing())

    def of(self, task: asyncio.Task[object] | None) -> Job | None:
        """The job of a task."""
        return next((job for job in self._jobs.values() if job.task is task), None)

    def named(self, name: str) -> Job | None:
        """A job by "job:3" or "3"."""
        return self._jobs.get(name if name.startswith("job:") else f"job:{name}")

    def all(self) -> tuple[Job, ...]:
        """Every job, in the order in which they began."""
        return tuple(self._jobs.values())

    def running(self) -> tuple[Job, ...]:
        """Those that have not ended and were not detached."""
        return tuple(job for job in self._jobs.values() if job.state == "running")

    async def stop(self) -> None:
        """Cancel all running jobs; returns when they have ended. For detached ones, only the waiting ends."""
        self.stopping = True
        tasks = [job.task for job in self._jobs.values() if not job.task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.stopping = False


def result_message(job: Job) -> Message:
    """The message that brings a job's result."""
    output = job.output or ToolOutput(())
    seconds = job.ended - job.started
    how = {"done": "has ended", "failed": "has failed", "cancelled": "was cancelled"}.get(job.state, job.state)
    about = f" ({job.what})" if job.what else ""
    head = Text(f"{job.name}, the call of {job.call.name}{about}, {how} after {seconds:.1f} s. Its result:\n")
    return user("", head, *output.content, sender=job.name)
