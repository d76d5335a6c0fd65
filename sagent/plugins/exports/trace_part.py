"""The file of `--trace`, which is given the agent's events."""

from pathlib import Path

from sagent.app.builder import AgentBuilder
from sagent.plugins.exports import TRACE
from sagent.plugins.exports.trace_file import TraceFile


async def add(builder: AgentBuilder) -> None:
    """Write events to the file, which is closed in the end. Raises UsageError where it cannot be opened."""
    path = builder.settings.of(TRACE)
    assert isinstance(path, Path)
    trace = TraceFile(path, builder.warn)
    builder.stack.callback(trace.close)
    builder.started.append(lambda agent: agent.listen(trace.on_event))
