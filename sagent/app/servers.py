"""A session's MCP servers: opened with what they are given, watched, their tools held to what was approved.

Nothing of the bridge is loaded without a server in the settings.
"""

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from sagent.agent import Agent
from sagent.config import Settings
from sagent.messages import user
from sagent.policy import Policy
from sagent.policy.permissions import PermissionPolicy
from sagent.sandbox import Sandbox
from sagent.tool import Workspace

if TYPE_CHECKING:
    from sagent.bridges.mcp import Servers
    from sagent.tools.ask import Answerer


def servers_of(settings: Settings) -> "Servers | None":
    """What will hold the servers of a session, for whoever shows them to a person; None where there are none."""
    if not settings.mcp:
        return None
    from sagent.bridges.mcp import Servers

    return Servers()


async def open_servers(
    settings: Settings,
    servers: "Servers | None",
    notices: list[str],
    stack: AsyncExitStack,
    workspace: Workspace,
    sandbox: Sandbox,
    answer: "Answerer | None",
) -> "Servers | None":
    """The servers of the settings, until the stack closes; None where there are none."""
    if not settings.mcp:
        return None
    from sagent.bridges.mcp import LOGINS, Host, Servers, confining

    profile = workspace.profile
    assert profile is not None
    confine = confining(sandbox, lambda: profile(workspace), settings.cwd)
    servers = servers or Servers()
    host = Host(confine, settings.state_dir / LOGINS, workspace.roots, answer)
    await stack.enter_async_context(servers.opened(settings.mcp, notices, host))
    return servers


def pinned(policy: Policy, servers: "Servers | None", permissions: PermissionPolicy) -> Policy:
    """The policy with a question about tools that are no longer what was approved; in mode full nothing is asked."""
    if servers is None:
        return policy
    from sagent.bridges.mcp.pin_policy import PinPolicy

    return PinPolicy(policy, servers.by_name, lambda: permissions.mode == "full")


def announce_to(agent: Agent, servers: "Servers | None", stack: AsyncExitStack) -> None:
    """Have the agent read what changes at its servers, for as long as the stack is open."""
    if servers is not None:
        servers.announce = lambda text: agent.send(user(text, sender="mcp"), "next")
        stack.callback(servers.stop_announcing)
