"""The MCP servers of a session, as parts of its agent: opened, watched, and questioned when their tools differ from the
approved ones."""

from collections.abc import Mapping

from sagent.agent import Agent
from sagent.app.builder import AgentBuilder
from sagent.messages import user
from sagent.plugins.mcp.host import Host
from sagent.plugins.mcp.pin_policy import PinPolicy
from sagent.plugins.mcp.server import McpServer
from sagent.plugins.mcp.servers import LOGINS, Servers, confining
from sagent.plugins.mcp.table import servers_of


async def add(builder: AgentBuilder) -> None:
    """Open the servers in the settings, and those of an editor, until the session is closed, and offer their tools; the
    agent reads about changes, and the person gets their prompts and resources."""
    settings, workspace, servers = builder.settings, builder.workspace, Servers()
    builder.sources.append(servers)
    builder.surface.sources.append(servers)
    confine = confining(builder.sandbox, lambda: builder.policy.profile(workspace), settings.cwd)
    host = Host(confine, settings.state_dir / LOGINS, workspace.roots, builder.answer)
    await builder.stack.enter_async_context(servers.opened(_wanted(builder), builder.notices, host))
    builder.tools += servers.tools

    def announce_to(agent: Agent) -> None:
        servers.announce_to(lambda text: agent.send(user(text, sender="mcp"), "next"))
        builder.stack.callback(servers.stop_announcing)

    builder.started.append(announce_to)


def _wanted(builder: AgentBuilder) -> Mapping[str, McpServer]:
    """Return the servers in the settings and those of an editor, each with the needs in settings for its name."""
    own = servers_of(builder.settings)
    brought = {
        name: McpServer(one.command, one.args, one.env, one.url, one.headers, needs=own.get(name, McpServer()).needs)
        for name, one in builder.surface.brought.items()
    }
    return {**own, **brought}


async def ask_about_changes(builder: AgentBuilder) -> None:
    """Add the question about changed tools to the policy; mode full asks nothing."""
    servers, policy = next(source for source in builder.sources if isinstance(source, Servers)), builder.policy
    builder.judge = PinPolicy(builder.judge, servers.by_name, lambda: policy.mode == "full")
