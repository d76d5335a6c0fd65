"""The BackgroundTask tool: the state and output of background calls."""

from sagent.errors import ToolError, UsageError
from sagent.lib.json import JsonObject, as_str
from sagent.lib.text import count
from sagent.peer import Caller, JobStatus
from sagent.tool import Harmless, RunContext, ToolOutput, arguments_schema

MAX_WAIT_SECONDS = 3_600.0


class BackgroundTask(Harmless):
    """Lists, awaits, reads, stops and detaches jobs, which were judged at their start."""

    name = "BackgroundTask"
    quick = True
    description = (
        "Jobs: calls in the background. Any call may say background: true, or delay: seconds; one that runs long"
        " becomes a job too. Its result arrives later as a message: no need to ask. wait: until it ends or `seconds`"
        " are over; output: what it shows so far; detach: it outlives the session."
    )
    parameters = arguments_schema(
        "operation",
        operation={"type": "string", "enum": ["list", "wait", "output", "cancel", "detach"]},
        id={"type": "string", "description": "job:3"},
        seconds={"type": "number"},
    )

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Carry out an action on jobs. Raises ToolError for an unknown job."""
        if (caller := run.caller) is None:
            raise ToolError("There are no jobs here.")
        operation, name = as_str(arguments.get("operation")), as_str(arguments.get("id"))
        if operation == "list":
            lines = [_line(job) for job in caller.jobs()]
            return ToolOutput.of("\n".join(lines) or "There are no jobs.", summary=count(len(lines), "job"))
        if not name:
            known = ", ".join(job.name for job in caller.jobs()) or "none"
            raise ToolError(f"{operation} needs the id of a job. The jobs are: {known}.")
        try:
            text = await _do(caller, operation, name, arguments.get("seconds"))
            return ToolOutput.of(text, summary="" if operation == "output" else text.partition("\n")[0])
        except UsageError as error:
            raise ToolError(str(error)) from error


async def _do(caller: Caller, operation: str, name: str, seconds: object) -> str:
    match operation:
        case "wait":
            limit = seconds if isinstance(seconds, int | float) else MAX_WAIT_SECONDS
            return _line(await caller.wait_for_job(name, float(min(max(limit, 0.0), MAX_WAIT_SECONDS))))
        case "output":
            return caller.job_output(name) or "(nothing yet)"
        case "cancel":
            status = await caller.cancel_job(name)
            shown = caller.job_output(name).partition("\n")[2] if status.state == "cancelled" else ""
            return f"{_line(status)}\n{shown}".rstrip()
        case _:
            return await caller.detach_job(name)


def _line(job: JobStatus) -> str:
    return f"{job.name}: {job.tool} {job.what}, {job.state}, {job.seconds:g} s".replace(" ,", ",")
