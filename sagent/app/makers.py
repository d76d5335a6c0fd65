"""Makes those of the core's tools that need something of the agent they are for."""

from typing import TYPE_CHECKING

from sagent import tools
from sagent.app.builder import AgentBuilder, withheld
from sagent.context.places import places

if TYPE_CHECKING:
    from sagent.tool import Tool
    from sagent.tools.ask import AskUser


def bash(builder: AgentBuilder) -> tools.Bash:
    """Make Bash, which runs in the sandbox and hides keys."""
    keep = builder.settings.env_pass
    return tools.Bash(keep_keys=keep, withheld=withheld(builder.settings), sandbox=builder.sandbox)


def agent_spawn(builder: AgentBuilder) -> tools.AgentSpawn:
    """Make AgentSpawn, which knows the kinds of agents that files describe."""
    settings = builder.settings
    if not any(places("agents", settings.cwd, settings.config_dir)):
        return tools.AgentSpawn()
    from sagent.context.agents import find_agents

    return tools.AgentSpawn(find_agents(settings.cwd, settings.config_dir))


def ask_user(builder: AgentBuilder) -> "AskUser":
    """Make AskUser, which puts questions to whoever decides on plans."""
    from sagent.tools.ask import AskUser

    return AskUser(builder.answer)


def web_access(builder: AgentBuilder) -> "tools.WebAccess":
    """Make what the tools for the web share."""
    return tools.WebAccess((), builder.settings.state_dir / "web", builder.settings.web)


def web_search(builder: AgentBuilder) -> "Tool":
    return tools.WebSearch(builder.once(web_access))


def web_fetch(builder: AgentBuilder) -> "Tool":
    return tools.WebFetch(builder.once(web_access))


def paper_search(builder: AgentBuilder) -> "Tool":
    return tools.PaperSearch(builder.once(web_access))


def paper_details(builder: AgentBuilder) -> "Tool":
    return tools.PaperDetails(builder.once(web_access))


def paper_author(builder: AgentBuilder) -> "Tool":
    return tools.PaperAuthor(builder.once(web_access))


def paper_fetch(builder: AgentBuilder) -> "Tool":
    return tools.PaperFetch(builder.once(web_access))


def repo_map(builder: AgentBuilder) -> "Tool":
    return tools.RepoMap(builder.settings.state_dir / "maps")


def notebook(builder: AgentBuilder) -> "Tool":
    keep = builder.settings.env_pass
    return tools.Notebook(keep_keys=keep, withheld=withheld(builder.settings), sandbox=builder.sandbox)
