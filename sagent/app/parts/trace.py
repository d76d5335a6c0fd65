"""The file of `--trace`, which is given the agent's events."""

from sagent.app.builder import AgentBuilder
from sagent.transcript.file import TraceFile


async def add(builder: AgentBuilder) -> None:
    """Write events to the file, which is closed in the end. Raises UsageError where it cannot be opened."""
    assert builder.settings.trace is not None
    trace = TraceFile(builder.settings.trace, builder.warn)
    builder.stack.callback(trace.close)
    builder.started.append(lambda agent: agent.listen(trace.on_event))
