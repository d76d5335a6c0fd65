"""The MCP servers of a session: opened with what they are given, and watched."""

from sagent.agent import Agent
from sagent.app.builder import AgentBuilder
from sagent.messages import user
from sagent.plugins.mcp import LOGINS, Host, Servers, confining


async def add(builder: AgentBuilder) -> None:
    """Open the servers of the settings until the session is closed, and offer their tools; the agent reads what changes
    there."""
    settings, workspace = builder.settings, builder.workspace
    servers = builder.servers = builder.servers or Servers()
    confine = confining(builder.sandbox, lambda: builder.policy.profile(workspace), settings.cwd)
    host = Host(confine, settings.state_dir / LOGINS, workspace.roots, builder.answer)
    await builder.stack.enter_async_context(servers.opened(settings.mcp, builder.notices, host))
    builder.tools += servers.tools

    def announce_to(agent: Agent) -> None:
        servers.announce_to(lambda text: agent.send(user(text, sender="mcp"), "next"))
        builder.stack.callback(servers.stop_announcing)

    builder.started.append(announce_to)
