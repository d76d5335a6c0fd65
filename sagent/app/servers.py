"""A session's MCP servers: opened with what they are given, watched, their tools held to what was approved; and the
agents elsewhere that it may ask.

Nothing of a bridge is loaded without a server, or an agent, in the settings.
"""

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from sagent.agent import Agent
from sagent.config import Settings
from sagent.messages import user
from sagent.policy import Policy
from sagent.policy.permissions import PermissionPolicy
from sagent.sandbox import Sandbox
from sagent.session.contents import ChargeEntry
from sagent.tool import Workspace

if TYPE_CHECKING:
    from sagent.bridges.a2a.remote import RemoteAgent
    from sagent.bridges.mcp import Servers
    from sagent.tools.ask import Answerer
    from sagent.usage import Charge


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


async def open_remotes(settings: Settings, notices: list[str], stack: AsyncExitStack) -> "tuple[RemoteAgent, ...]":
    """The agents of the settings, until the stack closes, without those that cannot be reached."""
    if not settings.a2a:
        return ()
    from importlib.util import find_spec

    if find_spec("a2a") is None:
        from sagent.lib.installed import install_command

        notices.append(f"Agents elsewhere need a package that is not installed: {install_command('a2a')}")
        return ()
    from sagent.bridges.a2a.remote import find_agents

    return await stack.enter_async_context(find_agents(settings.a2a, notices))


def bill_to(agent: Agent, remotes: "tuple[RemoteAgent, ...]") -> None:
    """Have the work of agents elsewhere in the ledger and the log, at a price that nobody knows."""

    def bill(charge: "Charge") -> None:
        agent.state.journal.record(ChargeEntry(charge))
        agent.ledger.restore((charge,))

    for remote in remotes:
        remote.bill = bill
