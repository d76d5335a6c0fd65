"""Spans and metrics of the agent's work, sent as the environment says."""

import os

from sagent import tools
from sagent.app.builder import AgentBuilder


async def add(builder: AgentBuilder) -> None:
    """Follow the agent. If packages are missing, emit a notice instead. Raises ConfigError."""
    try:
        from sagent.plugins.telemetry.export import open_telemetry
    except ImportError:
        from sagent.lib.installed import install_command
        from sagent.plugins.telemetry import PACKAGES

        builder.notices.append(f"Telemetry needs a package that is not installed: {install_command('otel', PACKAGES)}")
        return
    telemetry = await builder.stack.enter_async_context(open_telemetry(os.environ, builder.warn))
    for bash in builder.tools:
        if isinstance(bash, tools.Bash):
            bash.variables = telemetry.environment
    builder.started.append(lambda agent: builder.stack.callback(telemetry.watch(agent)))
