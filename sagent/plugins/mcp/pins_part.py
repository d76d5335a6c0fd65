"""The question about tools of MCP servers that are no longer what was approved."""

from sagent.app.builder import AgentBuilder
from sagent.plugins.mcp.pin_policy import PinPolicy


async def add(builder: AgentBuilder) -> None:
    """Put it around what judges calls; in mode full nothing is asked."""
    servers, policy = builder.servers, builder.policy
    assert servers is not None
    builder.judge = PinPolicy(builder.judge, servers.by_name, lambda: policy.mode == "full")
