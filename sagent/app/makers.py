"""Makers of the core tools that need parts of their agent."""

from typing import TYPE_CHECKING

from sagent import tools
from sagent.app.builder import AgentBuilder, withheld
from sagent.context.places import places

if TYPE_CHECKING:
    from sagent.tools.ask import AskUser


def bash(builder: AgentBuilder) -> tools.Bash:
    """Make Bash, which runs in the sandbox and hides keys."""
    keep = builder.settings.env_pass
    return tools.Bash(keep_keys=keep, withheld=withheld(builder.settings), sandbox=builder.sandbox)


def agent_spawn(builder: AgentBuilder) -> tools.AgentSpawn:
    """Make AgentSpawn, which knows the kinds of agents described in files."""
    settings = builder.settings
    if not any(places("agents", settings.cwd, settings.config_dir)):
        return tools.AgentSpawn()
    from sagent.context.agents import find_agents

    return tools.AgentSpawn(find_agents(settings.cwd, settings.config_dir))


def ask_user(builder: AgentBuilder) -> "AskUser":
    """Make AskUser, which asks the person who also decides on plans."""
    from sagent.tools.ask import AskUser

    return AskUser(builder.answer)
